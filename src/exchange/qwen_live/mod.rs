//! qwen's live form: one process for a conversation, over `--input-format stream-json` (0.24.4; OTHER-LIVE 2.3).
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread), as the input with which a [`session::QwenSession`] begins
//! ([`input`]). Out: the decoder's events of one turn after the other. The caller's tools are an MCP server of the session's own
//! (`bridge`), so the model makes native calls. The CLI can't leave a call to anybody: it waits for the server's answer. So a
//! turn ends with the model's message, with the calls held ([`calls`]), and the next turn begins with their results. A
//! thread that does not fit a session begins another one, which reads the thread from a chat file of the CLI's own ([`chat`]). A
//! process can be started ahead of its first turn, for a setup that is known: it has answered the handshake then, and got the
//! tools.

pub mod calls;
pub mod chat;
pub mod form;
pub mod input;
pub mod session;
mod turn_end;
