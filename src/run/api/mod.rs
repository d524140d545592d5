//! Calls of an OpenAI-compatible API: build the request, queue, send, decode, fold, judge, try again.
//!
//! In: an [`ApiEngine`] (one provider object) and one call. Out: a [`crate::run::Run`], as of a CLI: the same events, the same retries, the same
//! records.

mod attempt;
mod engine;
pub mod probe;
mod start;

pub use engine::ApiEngine;
