//! Calls that one process of a CLI serves over the Agent Client Protocol (`--acp`, `agent stdio`), JSON-RPC on standard input and
//! output, without remembering any of them.
//!
//! Each call is a session of its own that is sent one prompt (the whole thread, as the print form renders it) and nothing more.
//! For a CLI that reads more into a prompt than there is, the thread is the history of the session instead, written before the
//! session is loaded. The answer is like print's: text, calls written in it, an error. [`server`] is the process, [`work`] one
//! call in it, [`wire`] the lines. Measured with gemini 0.61.0 and qwen 0.24.4 (OTHER-LIVE §2.4, §3), and grok 1.0.41 (NEW-CLIS
//! §2.3).
//!
//! The dozen fields that are needed are read and written here, with serde. The protocol's own crate brings its runtime and the
//! whole schema, which these agents leave in just the fields that matter (usage and errors are in `_meta` and `data`).

pub mod choices;
pub mod form;
pub mod no_session;
pub mod server;
pub mod wire;
pub mod work;
