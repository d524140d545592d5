//! The live engine: one claude process for a whole conversation, over the CLI's control protocol.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`Setup`](super::live::setup::Setup). Out: the decoder's
//! events of one turn after the other. An MCP server (`declare::mcp`), spoken over the CLI's standard streams ([`wire`],
//! [`super::control`]), declares the caller's tools, so the model makes native calls. A hook answers each call with `defer`,
//! which ends the turn with the calls pending and nothing run (CLI-FACTS 1b §7). Their results go back as native `tool_result`
//! blocks ([`super::user_line`]). A [`session::ClaudeSession`] is one process, which takes one
//! [turn](super::live::session) after the other. The [`Pool`](super::live::pool::Pool) of a provider keeps
//! sessions between the calls and finds the one that knows a thread's beginning.
//!
//! A thread that no session knows is read as a [`dialogue`], written as a [`transcript`] with what is [remembered](memory) of it, and
//! resumed by a new process. Only what no transcript can hold is told in words ([`turns`]).

pub mod changes;
pub mod dialogue;
pub mod form;
pub mod memory;
mod models;
pub mod process;
pub mod session;
pub mod transcript;
pub mod turns;
pub mod wire;
