//! Calls served by kept processes: one driver for all forms.
//!
//! In: a call, and the processes of its provider. Out: the attempt's outcome, or that it is the next engine's turn. [`forms`] has the
//! list of forms. [`drive`](mod@drive) is the driver. The [`sessions`] of a form have processes of their own, which are
//! [tried](trial) once and started [ahead], or are those of [`servers`].

pub(super) mod ahead;
pub(super) mod drive;
pub(super) mod forms;
#[cfg(test)]
pub(crate) mod made_up;
pub(super) mod models;
mod servers;
pub(super) mod sessions;
mod trial;
