//! Calls served by kept processes: one driver for all forms.
//!
//! In: a call, and the processes of its provider. Out: the attempt's outcome, or that it is the next engine's turn. [`drive`] is
//! the driver. A [`source::Source`] has its sessions: [`processes`] with one for each conversation, or [`servers`] with one for
//! many, or for calls without memory ([`prompt_call`]). [`kept`] hides the difference.

pub(super) mod ahead;
pub(super) mod drive;
pub(super) mod hosts;
pub(super) mod kept;
mod places;
pub(super) mod pools;
pub(super) mod processes;
mod prompt_call;
pub(super) mod servers;
pub(super) mod source;
pub(super) mod trial;
pub(super) mod unready;
