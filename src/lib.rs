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

// Decisions about further attempts: an error and the time in, what to do out.
pub mod breaker;
pub mod retry;

// Pure layers: a thread as a prompt, output as events, events as a reply, a reply or the reason why not.
pub mod classify;
pub mod declare;
pub mod decode;
pub mod prompt;
pub mod provider;
pub mod toolcall;

pub mod api;
pub mod command;
pub mod fold;
pub mod judge;
pub mod output;
pub mod runlog;

// Effects: processes, exchanges with a CLI, whole runs.
pub mod process;
pub mod recorder;
pub mod replay;

pub mod conversation;

pub mod run;

pub mod health;

pub mod claude_code;

// What JavaScript sees.
pub mod binding;
