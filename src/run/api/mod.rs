//! Calls of an OpenAI-compatible API: build the request, queue, send, decode, fold, judge, try again.
//!
//! In: an [`ApiEngine`] (one provider object) and one call. Out: a [`crate::Run`], with the same events, retries and records
//! as a CLI's.

mod attempt;
mod engine;
pub mod probe;

pub use engine::ApiEngine;
