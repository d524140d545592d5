//! The source of a text, and the replacement for a secret in it.

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// The source of a text, which decides what is redacted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A failure message of a CLI, a server or the system: here too much is redacted rather than too little.
    Error,
    /// Any other text that is written into a file: the model's text may look like a key, so only certain shapes count.
    Record,
    /// A model's answer: only long values of the request itself are redacted, which no ordinary text contains.
    Answer,
}

impl Channel {
    /// The length of the shortest value that is redacted, bytes. Servers without keys are sent `EMPTY` or `none`, and a model
    /// may well say `lm-studio` or `not-needed`.
    pub(super) fn shortest_value(self) -> usize {
        match self {
            Channel::Error => 6,
            Channel::Record => 8,
            Channel::Answer => 16,
        }
    }
}
