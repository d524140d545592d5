//! The orchestrator of calls: it renders, queues, starts, decodes, folds, judges and tries again.
//!
//! In: an [`Engine`] (one provider object) and the JSON of one call. Out: a [`Run`]: batches of events while it goes on, and its
//! end ([`Ended`]). Everything here happens on the runtime's threads.
//!
//! The [`ledger`] counts what budgets allow, in this process or in a shared file.
//!
//! `start` begins a call of a CLI and `api` one of an API; both use `lifecycle` and `call`. `request` reads the call, `retry_loop`
//! tries it until it ends, and once more if the reply does not fit, `cli` has its engines, and `attempt` drives the exchange of
//! any of them. A file uses only files that know less than it does.

mod admission;
pub mod api;
pub mod ask;
mod attempt;
mod auto;
mod base;
mod call;
mod callbacks;
mod capabilities;
mod choices;
mod cli;
mod cli_attempt;
mod cli_request;
mod clock;
mod content;
mod engine;
pub mod exec;
mod handle;
pub mod id;
pub mod ledger;
mod lifecycle;
mod live_support;
mod log;
pub mod model;
mod places;
mod prewarm;
mod print;
mod print_prompt;
mod programs;
mod queue;
mod quota;
pub mod read_once;
pub mod record;
mod reply_check;
pub mod request;
mod retry_loop;
pub mod schemas;
mod session;
mod sink;
mod start;
pub mod structured;
mod text_calls;
mod tool_choice;
pub mod user_settings;

pub use auto::{EngineChoice, EngineUse};
pub use engine::Engine;
pub use handle::{Ended, Run};
pub use log::{LogBatch, LogRecord};
