//! Exchanges with a provider: bytes of a process become events here.
//!
//! `print`: one process per call, the whole thread as one prompt. `live`: one process per conversation, over claude's
//! control protocol, with native tool calls. `api`: one HTTP request per call.

pub mod api;
pub mod live;
pub mod print;
pub mod scratch;
