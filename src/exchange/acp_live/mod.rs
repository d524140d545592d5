//! Sessions of an agent of the Agent Client Protocol that are kept from call to call.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`setup::Setup`]. Out: the events of one turn after the other. A session is
//! sent the thread as one prompt, as the print form writes it, and then only what is new. The caller's tools are an MCP server of ours
//! ([`tools`]) that the session is told when it is opened; the agent's calls of them are held, and end a turn here while the agent's own goes
//! on. The results answer them. A thread that no session knows is written as a prompt again.
//!
//! The process, its protocol and how a prompt is answered are those of sessions that live for one call ([`super::acp_warm`]). A
//! [`session::KeptSession`] is a session that takes one turn ([`work`]) after the other. Measured with gemini 0.61.0, qwen 0.15.10 and
//! opencode 1.18.34: each takes MCP servers over HTTP, and asks for the tools before it answers `session/new`.

pub mod form;
pub mod session;
pub mod setup;
pub mod tools;
pub mod work;
