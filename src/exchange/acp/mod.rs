//! Agents that speak the Agent Client Protocol (`--acp`, `agent stdio`): JSON-RPC on standard input and output.
//!
//! One process of an agent ([`server`]) serves many sessions; [`wire`] is its lines, [`choices`] the model and the level of reasoning
//! that a session is given, and [`call`] one prompt in a session with its answer. Two forms are made of these ([`form`]):
//!
//! - [`form::KeptAgent`] remembers: a session takes one [`turn`] after the other. It is sent the thread as one prompt, in the print form's
//!   shape, and then only new messages. The caller's tools ([`turn::SessionTools`]) are an MCP server of ours of which the session is told when it is
//!   opened. The agent's calls of them are held: they end a turn here while the agent's own turn goes on, and their results answer
//!   them. A thread that no session knows is written as a prompt again. Measured with gemini 0.61.0, qwen 0.15.10 and opencode
//!   1.18.34: each takes MCP servers over HTTP, and asks for the tools before it answers `session/new`.
//! - [`form::WarmAgent`] remembers nothing: a session is opened for each call, sent one prompt (the whole thread, as the print form renders
//!   it) and closed. For a CLI that reads more into a prompt than there is, the thread is the history of the session instead,
//!   written before the session is loaded. The answer is like print's: text, calls written in it, an error. Measured with gemini
//!   0.61.0 and qwen 0.24.4 (OTHER-LIVE §2.4, §3), and grok 1.0.41 (NEW-CLIS §2.3).
//!
//! The dozen fields that are needed are read and written here, with serde. The protocol's own crate brings its runtime and the
//! whole schema, which these agents leave in just the fields that matter (usage and errors are in `_meta` and `data`).

pub mod call;
pub mod choices;
pub mod form;
pub mod server;
pub mod turn;
pub mod wire;
