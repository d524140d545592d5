//! Coding-agent CLIs as model providers for TypeScript agents.
//!
//! ```text
//! messages ─prompt─▶ Prompt ─command─▶ CommandLine ─process─▶ bytes ─decode─▶ Event… ─fold─▶ Reply ─js─▶ AIMessage
//! ```
//!
//! This file is the table of contents. Modules are listed so that every edge points up the list: a module uses only
//! those above it (`tests/layers.rs` guards that), the pure ones know neither tokio nor napi.

// Vocabulary: plain data, no IO.
pub mod error;
pub mod event;
pub mod message;

// Pure layers over it.
pub mod classify;
pub mod decode;
