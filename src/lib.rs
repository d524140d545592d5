//! Coding-agent CLIs as model providers for TypeScript agents.
//!
//! ```text
//! messages ─prompt─▶ Prompt ─command─▶ CommandLine ─process─▶ bytes ─decode─▶ Event… ─fold─▶ Reply ─js─▶ AIMessage
//!                                                      ▲                                       │
//!                                                      └──────── results of tool calls ◀───────┘  (live sessions, agents)
//! ```
//!
//! A [`provider`] is data: a CLI's flags, its wire format, its error rules. [`run`] takes a thread through the line above, again
//! where that helps ([`retry`]), and is all that a model adapter needs. [`agent`] runs a model's tools, too; what it does next, the
//! [`executor`] says. OpenAI-compatible APIs ([`api`]) are asked without a process and answer in the same events.
//!
//! This file is the table of contents, the lowest layer first: a module uses only its own layer and those above it in this list
//! (`tests/integration/layers.rs` guards that), and the pure ones know neither tokio nor napi, neither processes nor files.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`message`] | the vocabulary of a thread: messages, tool calls, results, tools, token usage |
//! | [`time`] | moments as people and programs write them |
//! | [`error`] | the one error: categories with guidance, stable codes, what is known of the run |
//! | [`event`] | what happens in a run, in the order it happens |
//! | [`breaker`] | whether a provider that keeps failing is asked at all |
//! | [`budget`] | how much a provider may be used in a window of time |
//! | [`redact`] | secrets, taken out of everything that leaves |
//! | [`retry`] | when to try again, and how long to wait before |
//! | [`schema`] | JSON Schema: what a model's JSON is held against, and what is wrong with it |
//! | [`declare`] | the caller's tools as an API lets them be declared |
//! | [`decode`] | what a CLI prints, as events |
//! | [`prompt`] | a thread as a prompt |
//! | [`provider`] | the CLIs as data: program, flags, environment, wire format, options |
//! | [`toolcall`] | tool calls that a model wrote into its text |
//! | [`classify`] | why a run failed, from its error channels, exit and status |
//! | [`api`] | OpenAI-compatible requests, and their answers as events |
//! | [`command`] | provider, options and prompt as the command line to run |
//! | [`executor`] | what an agent's run does next, as a pure function |
//! | [`fold`] | a decoder's events into public events and one reply |
//! | [`judge`] | did it succeed: a reply, or the reason why not |
//! | [`output`] | what a CLI printed, read without running it |
//! | [`runlog`] | the run log's lines, and the page that shows them |
//! | [`process`] | running other programs, and leaving nothing behind |
//! | [`ledger`] | what was used of budgets, in this process or in a file of all |
//! | [`recorder`] | run logs on their way into a file |
//! | [`replay`] | run logs out of a file again |
//! | [`bridge`] | the caller's tools as an MCP server, for CLIs that call them in the middle of a run |
//! | [`exchange`] | exchanges with a provider: a process per answer, a session, or an HTTP request |
//! | [`run`] | the orchestrator: render, queue, start, decode, fold, judge, try again |
//! | [`health`] | what can be known of a provider before it is needed, and what to do about what is wrong |
//! | [`status`] | what goes on: in this process, and on this machine among processes of ours; what run logs say was used |
//! | [`agent`] | an agent's run: a model, its tools, and the executor between them |
//! | [`claude_code`] | claude itself at work in a workspace, for suites that compare agents |
//! | [`binding`] | what JavaScript sees: one-line entries over all of this |

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

// Pure still: what is made of those.
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

// What JavaScript sees.
pub mod binding;
