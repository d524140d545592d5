//! The parts that the live forms share: threads compared by content, and sessions kept between calls.
//!
//! In: the messages of a call ([`thread::SessionThread`]), sessions whose turn is over. Out: the session that knows a thread's
//! beginning ([`pool::Pool`]), and the new part for it. Each form has its own kind of [`session::Session`] (a process, or a thread in a
//! process that serves many) and its own protocol: [`super::claude_live`], [`super::codex_live`], [`super::qwen_live`] and
//! others. One turn of a session is a [`turn::Turn`]; if the session
//! has a process of its own, [`session::read_turn`] reads it.

pub mod history;
pub mod kept;
pub mod pool;
pub mod session;
pub mod setup;
pub(crate) mod streams;
pub mod thread;
pub mod turn;
