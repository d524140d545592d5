//! The live engine of opencode: one `opencode serve` for all conversations of a provider, over HTTP on the loopback interface.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`form::OpencodeSetup`]. Out: the events of one turn after the
//! other. An MCP server of ours declares the caller's tools ([`form`]), and nobody may run them: opencode asks for permission,
//! is answered `reject`, and ends its turn with the calls unexecuted ([`reader`]). Their results are written over the rejected
//! calls, and the next message continues from there: nothing is held open, for however long. A history that no session knows is
//! replayed natively ([`history`]).
//!
//! A [`service::OpencodeService`] is a ready server; a [`turn::OpencodeSession`] is one of its conversations, which takes one turn
//! after the other. All facts are those of OTHER-LIVE §1, measured with 1.18.34.

pub mod form;
pub mod history;
pub mod inbound;
pub mod reader;
pub mod server;
pub mod service;
pub mod turn;
pub mod wire;
