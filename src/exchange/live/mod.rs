//! What the live forms share: threads compared by content, and sessions kept between calls.
//!
//! In: the messages of a call ([`thread::SessionThread`]), sessions whose turn is over. Out: the session that knows a thread's beginning
//! ([`pool::Pool`]), and what is new to it. What a session is (a process, a thread of a process that serves many) and how it
//! is spoken to is each form's own: [`super::claude_live`], [`super::codex_live`],
//! [`super::qwen_live`]. One turn of it is a [`turn::Turn`]; where it is a process, the work of that is [`process_turn`]'s.

pub mod fingerprint;
pub mod history;
pub mod idle_task;
pub mod inbox;
pub mod keep;
pub mod pool;
pub mod process_turn;
pub mod prose;
pub mod setup;
mod spare;
pub(in crate::exchange) mod streams;
pub mod thread;
pub mod turn;
