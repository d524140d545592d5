//! Sessions of an agent of the Agent Client Protocol that are kept from call to call.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`setup::Setup`]. Out: the events of one turn after the
//! other. A session is sent the thread as one prompt, in the print form's shape, and then only new messages. The caller's tools
//! are an MCP server of ours ([`tools`]) of which the session is told when it is opened. The agent's calls of them are held: they
//! end a turn here while the agent's own turn goes on, and their results answer them. A thread that no session knows is written
//! as a prompt again.
//!
//! The process, its protocol and the way a prompt is answered are those of sessions that live for one call ([`super::acp_warm`]).
//! A [`session::KeptSession`] is a session that takes one turn ([`work`]) after the other. Measured with gemini 0.61.0, qwen
//! 0.15.10 and opencode 1.18.34: each takes MCP servers over HTTP, and asks for the tools before it answers `session/new`.

pub mod form;
pub mod session;
pub mod setup;
pub mod tools;
pub mod work;
