//! Coding-agent CLIs as model providers for TypeScript agents.
//!
//! ```text
//! messages ─prompt─▶ Prompt ─command─▶ CommandLine ─process─▶ bytes ─decode─▶ Event… ─fold─▶ Reply ─js─▶ AIMessage
//!                                                      ▲                                       │
//!                                                      └──────── results of tool calls ◀───────┘  (live sessions, agents)
//! ```
//!
//! A [`provider`] is data: a CLI's flags, its wire format, its error rules. [`run`] takes a thread through the line above,
//! again if that helps ([`retry`]), and is all that a model adapter needs. [`agent`] also runs a model's tools; the
//! [`executor`] decides what it does next. OpenAI-compatible APIs ([`api`]) need no process and answer in the same events.
//!
//! This crate is the addon: [`binding`] is its own, all else is in the rooms below `src`, each a crate whose `lib.rs` says what flows in
//! and out. Tests, benches and fuzzing see their modules under the names that stand here; `docs/architecture.md` has the picture.
//!
//! | room | modules |
//! | --- | --- |
//! | model | [`message`], [`thread`], [`event`], [`error`], [`budget`], [`retry`] |
//! | text | [`prompt`], [`decode`], [`toolcall`], [`fold`], [`schema`], [`redact`] |
//! | provider | [`provider`], [`command`], [`declare`], [`api`], [`classify`], [`judge`], [`output`] |
//! | process | [`process`] |
//! | exchange | [`exchange`], [`bridge`] |
//! | record | [`recorder`], [`replay`], [`runlog`], [`checkpoint`] |
//! | run | [`run`], [`ledger`] |
//! | health | [`health`], [`status`] |
//! | agent | [`agent`], [`executor`], [`claude_code`] |

pub use dfp_agent as agent;
pub use dfp_agent::{claude_code, executor};
pub use dfp_exchange as exchange;
pub use dfp_exchange::bridge;
pub use dfp_health as health;
pub use dfp_health::status;
pub use dfp_model::{budget, error, event, message, retry, thread};
pub use dfp_process as process;
pub use dfp_provider as provider;
pub use dfp_provider::{api, classify, command, declare, judge, output};
pub use dfp_record::{checkpoint, recorder, replay, runlog};
pub use dfp_run as run;
pub use dfp_run::ledger;
pub use dfp_text::{decode, fold, prompt, redact, schema, toolcall};

pub mod binding;
