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
//! This file is the table of contents, the lowest layer first: a module uses only its own layer and those above it in this list
//! (`tests/integration/layers.rs` guards that). The pure ones know neither tokio nor napi, neither processes nor files.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`message`] | defines the vocabulary of a thread: messages, tool calls, results, tools, token usage |
//! | [`time`] | writes moments for people and programs |
//! | [`error`] | defines the one error: categories with guidance, stable codes, the facts of the run |
//! | [`event`] | defines the events of a run, and the reply they fold into |
//! | [`breaker`] | decides whether a provider that keeps failing is called at all |
//! | [`budget`] | limits the use of a provider in a window of time |
//! | [`redact`] | removes secrets from everything that leaves |
//! | [`retry`] | decides when to try again, and how long to wait before |
//! | [`schema`] | checks a model's JSON against a JSON Schema, and words the mistakes |
//! | [`declare`] | turns the caller's tools into declarations that an API accepts |
//! | [`decode`] | decodes a CLI's output to events |
//! | [`prompt`] | renders a thread as a prompt |
//! | [`provider`] | describes the CLIs as data: program, flags, environment, wire format, options |
//! | [`toolcall`] | finds tool calls that a model wrote into its text |
//! | [`classify`] | finds why a run failed, from its error channels, exit and status |
//! | [`api`] | makes OpenAI-compatible requests, and decodes their answers to events |
//! | [`command`] | turns provider, options and prompt into the command line to run |
//! | [`executor`] | decides what an agent's run does next, as a pure function |
//! | [`fold`] | folds a decoder's events into public events and one reply |
//! | [`judge`] | decides whether an exchange succeeded: a reply, or the reason why not |
//! | [`output`] | reads a CLI's recorded output without running the CLI |
//! | [`runlog`] | defines the lines of a run log, and the page that shows them |
//! | [`process`] | runs other programs, and leaves nothing behind |
//! | [`ledger`] | counts the use of budgets, in this process or in a shared file |
//! | [`recorder`] | writes run logs to files |
//! | [`replay`] | reads run logs from files |
//! | [`bridge`] | serves the caller's tools by MCP, for CLIs that call them in the middle of a run |
//! | [`exchange`] | carries out exchanges with a provider: a process per answer, a session, or an HTTP request |
//! | [`run`] | orchestrates a call: render, queue, start, decode, fold, judge, try again |
//! | [`health`] | checks a provider before it is needed, and says how to repair it |
//! | [`status`] | shows the activity of this process and of others of ours on this machine, and the usage in run logs |
//! | [`agent`] | runs an agent: a model, its tools, and the executor between them |
//! | [`claude_code`] | runs claude itself in a workspace, for suites that compare agents |
//! | [`binding`] | exposes all of this to JavaScript in one-line entries |

// Vocabulary: plain data, no IO.
pub mod message;
pub mod thread;
pub mod time;

pub mod error;
pub mod event;

// Pure layers: decisions about further attempts; a thread as a prompt, output as events, providers as data.
pub mod breaker;
pub mod budget;
pub mod classify;
pub mod declare;
pub mod decode;
pub mod prompt;
pub mod provider;
pub mod redact;
pub mod retry;
pub mod schema;
pub mod toolcall;

// Pure layers that are built of those.
pub mod api;
pub mod command;
pub mod executor;
pub mod fold;
pub mod judge;
pub mod output;
pub mod runlog;

// Effects: processes and files, exchanges, whole runs.
pub mod checkpoint;
pub mod ledger;
pub mod process;
pub mod recorder;
pub mod replay;

pub mod bridge;
pub mod exchange;

pub mod run;

pub mod health;
pub mod status;

pub mod agent;
pub mod claude_code;

// The entries for JavaScript.
pub mod binding;
