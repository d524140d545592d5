//! The kept session of a form whose sessions live for one call: there is none.

use super::choices::SessionChoices;
use crate::live::keep::{Idle, Keepable};

/// The session of a form whose sessions live for one call: no value exists, since none is kept.
#[derive(Debug)]
pub enum NoSession {}

impl Keepable for NoSession {
    type Setup = SessionChoices;

    fn pid(&self) -> u32 {
        match *self {}
    }

    async fn idle(&mut self) -> Idle {
        match *self {}
    }

    fn end(self) {
        match self {}
    }
}
