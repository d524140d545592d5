//! Calls of OpenAI-compatible APIs, by chat completions.
//!
//! In: options ([`settings`]), a thread and tools. Out: the request's body ([`request`]), and of what comes back, events
//! ([`answer`], over [`sse`]) are judged in `judge`. The connection is elsewhere (`exchange::http`), and nothing in
//! here knows a vendor: what differs between servers is known from the answers themselves or by an option.

pub mod answer;
mod calls;
pub mod content;
pub mod failure;
pub mod request;
pub mod settings;
pub mod sse;

#[cfg(test)]
mod tests;

/// The provider's id if the options give none, and the name of its rules and hints.
pub const PROVIDER: &str = "openai";
