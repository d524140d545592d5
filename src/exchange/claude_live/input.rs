//! The input of a claude turn.

use super::dialogue::NotNative;
use super::transcript::Transcript;

/// A user line, and the transcript that the process has to know before it, if there is one.
#[derive(Debug)]
pub struct ClaudeInput {
    /// The user line.
    pub line: String,
    /// The lines of the transcript, and the call in which it ends.
    pub transcript: Option<Transcript>,
    /// The reason for which the thread is told in words, if it could have been told natively otherwise.
    pub not_native: Option<NotNative>,
}

impl ClaudeInput {
    /// A user line for a process that knows what comes before it, or to which it tells everything.
    pub fn line(line: String) -> ClaudeInput {
        ClaudeInput {
            line,
            transcript: None,
            not_native: None,
        }
    }
}
