//! Who sees a decoder's lines beside its events.
//!
//! In: each line as it was printed, with the events it led to. For a reader that needs what no event has (a line's own time, whose
//! subagent printed it) and must not decode the output a second time.

use std::fmt;

use super::lines::Line;
use crate::event::Event;

/// Sees the lines of one output go by (`Decoder::set_observer`). Called while the output is decoded, so it must not wait.
pub trait LineObserver: fmt::Debug + Send + Sync {
    /// The next line, and the events that came with it: some of them may be about lines before it.
    fn line(&self, line: &Line<'_>, events: &[Event]);

    /// The output is over; `events` belong to no line. `plain_text` and `diagnostics` are the decoder's, of all of it.
    fn end(&self, events: &[Event], plain_text: Option<String>, diagnostics: &[String]);
}
