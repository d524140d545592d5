//! The orchestrator of calls: it renders, queues, starts, decodes, folds, judges and tries again.
//!
//! In: an [`Engine`] (one provider object) and the JSON of one call. Out: a [`Run`]: batches of events while it goes on, and its
//! end ([`Ended`]). Everything here happens on the runtime's threads.
//!
//! The [`ledger`] counts what budgets allow, in this process or in a shared file.
//!
//! `engine` begins a call of a CLI and `api` one of an API; both use `lifecycle`. `request` reads the call, `retry_loop` tries it until it ends, and once more if the reply does not fit, `cli` has its engines, and `attempt` drives the exchange of
//! any of them. A file uses only files that know less than it does.

mod admission;
pub mod api;
mod attempt;
mod auto;
mod base;
mod callbacks;
mod capabilities;
mod choices;
mod cli;
mod cli_attempt;
mod cli_request;
mod content;
mod engine;
pub mod exec;
pub mod id;
pub mod ledger;
mod lifecycle;
mod live_support;
mod log;
pub mod model;
mod places;
mod print;
mod programs;
pub mod record;
mod reply_check;
pub mod request;
mod retry_loop;
pub mod schemas;
mod session;
mod sink;
pub mod structured;
pub mod user_settings;
pub mod version_probe;

pub use auto::{EngineChoice, EngineUse};
pub use engine::Engine;
pub use lifecycle::{Ended, Run};
pub use log::{LogBatch, LogRecord};
