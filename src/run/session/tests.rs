//! Tests with a made-up form, whose processes are never started.

#[cfg(unix)]
mod looks;
pub(crate) mod made_up;
