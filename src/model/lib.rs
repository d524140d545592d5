//! The vocabulary: plain data and decisions about numbers, without IO.
//!
//! Into this room comes what others have read: a thread of messages, an error's facts, an event of a run, a moment. Out of it come
//! the types that every other room speaks, in the JSON that JavaScript and the run log have, and three decisions that need nothing
//! else: whether a failure is tried again, whether a provider that keeps failing is called, and whether a budget is used up.

// Tests read recordings and write goldens.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod breaker;
pub mod budget;
pub mod error;
pub mod event;
pub mod listed_model;
pub mod message;
pub mod retry;
pub mod thread;
pub mod time;
