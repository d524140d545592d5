//! The orchestrator of calls: it renders, queues, starts, decodes, folds, judges and tries again.
//!
//! In: a [`CliProvider`] (one provider object) and the JSON of one call. Out: a [`Run`]: batches of events while it goes on, and its
//! end ([`Ended`]). Everything here happens on the runtime's threads.
//!
//! The [`ledger`] counts what budgets allow, in this process or in a shared file.
//!
//! `cli_provider` begins a call of a CLI and `api` one of an API; both use `lifecycle`. `request` reads the call, `retry_loop` tries it until it
//! ends, and once more if the reply does not fit, `cli_attempt` asks the engines of the call, and `attempt` drives the exchange of any of
//! them. [`commands`] run beside the calls.

pub mod api;
mod attempt;
mod auto;
mod capabilities;
mod choices;
mod cli_attempt;
mod cli_base;
mod cli_provider;
mod cli_request;
pub mod commands;
pub mod ledger;
mod lifecycle;
mod print;
mod programs;
pub mod record;
mod reply_check;
pub mod request;
mod retry_loop;
mod session;
pub mod structured;
pub mod user_settings;

pub use auto::{EngineChoice, EngineUse};
pub use cli_provider::CliProvider;
pub use lifecycle::{CallDelivery, Ended, Model, ProviderObject, Run, Work, next_id};
pub use record::{LogBatch, LogRecord};
