//! Where a text comes from, and what stands in it for a secret.

/// Stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Where a text comes from, which decides what is taken out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// What a CLI, a server or the system says of a failure: rather too much is taken out than too little.
    Error,
    /// Anything else that is written into a file: what a model says may look like a key, so that only certain shapes count.
    Record,
    /// A model's answer: nothing but long values of the request itself, which no ordinary text holds.
    Answer,
}

impl Channel {
    /// The shortest value that is taken out, in bytes: `EMPTY` and `none` are what servers without keys are sent, and
    /// `lm-studio` or `not-needed` a model may say.
    pub(super) fn shortest_value(self) -> usize {
        match self {
            Channel::Error => 6,
            Channel::Record => 8,
            Channel::Answer => 16,
        }
    }
}
