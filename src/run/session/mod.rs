//! Calls served by kept processes: one driver for all forms.
//!
//! In: a call, and the processes of its provider. Out: what the attempt came to, or that the next engine is to be asked.
//! [`drive`] is the driver; where its sessions come from, a [`source::Source`] says: [`processes`], one for each conversation, or
//! [`servers`], one for many, or for calls that it forgets ([`prompt_call`]). [`kept`] hides which of them it is.

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
