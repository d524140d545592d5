//! Calls of OpenAI-compatible APIs, by chat completions.
//!
//! In: options ([`settings`]), a thread and tools. Out: the request's body ([`request`]), and the events of the response
//! ([`answer`], over [`sse`]), which `judge` judges. `exchange::http` makes the connection. No code here knows a vendor: servers
//! are distinguished by their answers, or by an option.

pub mod answer;
mod calls;
pub mod other_answers;
pub mod request;
pub mod settings;
pub mod sse;

#[cfg(test)]
mod tests;

/// The provider's id if the options give none, and the name of its rules and hints.
pub const PROVIDER: &str = "openai";
