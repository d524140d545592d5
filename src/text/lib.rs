//! Text in both directions: a thread as a prompt, and an output as events, tool calls and a reply.
//!
//! Into this room come messages and the bytes that a program or a server wrote; out of it come prompts ([`prompt`]), events
//! ([`decode`]), calls that a model wrote into its text ([`toolcall`]), the one reply that events come to ([`fold`]), mistakes in a
//! model's JSON ([`schema`]) and texts without secrets ([`redact`]). All of it is pure: no process, no file, no clock, no runtime.

// Tests read recordings and write goldens.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod decode;
pub mod fold;
pub mod prompt;
pub mod redact;
pub mod toolcall;

pub use dfp_schema as schema;
