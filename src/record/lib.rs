//! What happened, on disk: run logs, their pages, and checkpoints.
//!
//! Into this room come the events of runs and the answers that an agent keeps; out of it come files ([`recorder`], [`checkpoint`]),
//! what they hold when they are read again ([`replay`]), and the page that shows a run ([`runlog`]).

pub mod checkpoint;
pub mod folder;
pub mod recorder;
pub mod replay;
pub mod runlog;
