//! The live engine of codex: one `codex app-server` for all conversations of a provider, over its JSON-RPC on standard streams.
//!
//! In: a [`SessionThread`](super::live::thread::SessionThread) and a [`settings::CodexSetup`]. Out: the events of one turn after the
//! other. The caller's tools are codex's dynamic tools ([`tools`]): codex asks for their results ([`wire`]) and waits, which ends
//! a reply here with its calls pending and nothing run. The results answer those requests. A history that no thread knows is
//! injected as the API's own items ([`items`]), with the model's reasoning if it is known ([`recall`]); one whose last reply is known is
//! resumed under its id ([`rollout`]).
//!
//! A [`service::CodexService`] is a ready server ([`launch`]): in a home of links, started without npm's script in between, with a
//! model catalog that leaves tools and history alone. A [`turn::CodexSession`] has one of its
//! [threads](conversation), and takes one turn after the other; a [`reader::CodexTurnReader`] makes events from the server's messages.
//! All facts are those of CODEX-LIVE, measured with 0.150.0 and 0.169.0.

pub mod conversation;
pub mod form;
pub mod inbound;
pub mod items;
pub mod launch;
pub mod reader;
pub mod recall;
pub mod rollout;
pub mod service;
pub mod settings;
pub mod tools;
pub mod turn;
pub mod wire;
