//! The live engine of copilot: one `copilot --headless --stdio` for all conversations of a provider, over its JSON-RPC on
//! standard streams.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`form::CopilotSetup`]. Out: the events of one turn after the
//! other. A thread becomes the history of a session ([`history`]), a file in a tree that this process serves over the same pipe
//! ([`files`]): nothing is on the disk, and nothing of it is a prompt, before which copilot would put a date. The caller's tools
//! are the session's only ones: the server asks for their results and waits, which ends a reply here with its calls pending and
//! nothing run. The results answer those requests. A session whose answer has no calls is over: the next call replays its thread,
//! which takes a tenth of a second.
//!
//! A [`service::CopilotService`] is a ready server; a [`turn::CopilotSession`] one of its sessions, which takes one turn
//! after the other while its calls wait; a [`reader::CopilotTurnReader`] makes the events of a reply from the server's events
//! ([`inbound`]). All facts are those of NEW-CLIS 1, measured with 1.0.102.

pub mod files;
pub mod form;
pub mod history;
pub mod inbound;
pub mod reader;
pub mod service;
pub mod turn;
pub mod wire;
