//! An observer of a decoder's lines, beside its events.
//!
//! In: each line as it was printed, with the events it led to. For readers that need what no event has (a line's own time, the
//! subagent that printed it) and must not decode the output a second time.

use std::fmt;

use super::lines::Line;
use dfp_model::event::Event;

/// An observer of the lines of one output (`Decoder::set_observer`). It is called while the output is decoded, so it must not
/// wait.
pub trait LineObserver: fmt::Debug + Send + Sync {
    /// Takes the next line, and the events that came with it; some of them may be about earlier lines.
    fn line(&self, line: &Line<'_>, events: &[Event]);

    /// Takes the end of the output; `events` belong to no line. `plain_text` and `diagnostics` are the decoder's, about the
    /// whole output.
    fn end(&self, events: &[Event], plain_text: Option<String>, diagnostics: &[String]);
}
