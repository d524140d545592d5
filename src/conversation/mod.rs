//! Exchanges with a provider: bytes of a process become events here.
//!
//! `print`: one process per call, the whole thread as one prompt.

pub mod print;
pub mod scratch;
