//! The readiness of a process that was started ahead: whether it has started, and whether it knows its setup.

use tokio::time::Instant;

use crate::live::session::Handshake;

/// The progress of the requests that a process is sent ahead of its first turn.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// The time when it was asked for its version.
    pub asked: Option<Instant>,
    /// True if it has answered that, with or without a version.
    pub answered: bool,
    /// The version that it has reported.
    pub version: Option<String>,
    /// True if the CLI has spoken to the server of the tools. 2.1.330 does so with the handshake, 2.1.197 with its first turn.
    pub server_asked: bool,
    /// True if it has got the tools.
    pub tools_listed: bool,
    /// True if its completeness was reported.
    pub reported: bool,
}

impl Readiness {
    /// Returns whether a turn would find a process that has started and knows all that it asks for ahead of one.
    pub fn is_complete(&self, handshake: Handshake) -> bool {
        (self.asked.is_none() || self.answered)
            && match handshake {
                Handshake::Unasked => self.answered,
                Handshake::Asked(_) => false,
                Handshake::Done => !self.server_asked || self.tools_listed,
            }
    }

    /// The time since which an answer is due; `None` if none is.
    pub fn asked_at(&self, handshake: Handshake) -> Option<Instant> {
        match handshake {
            Handshake::Asked(asked) => Some(asked),
            _ => self.asked.filter(|_| !self.answered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_it_has_answered_and_knows_the_tools() {
        let now = Instant::now();
        let unasked = Readiness::default();
        assert!(!unasked.is_complete(Handshake::Unasked) && !unasked.is_complete(Handshake::Asked(now)));
        assert!(unasked.is_complete(Handshake::Done));

        let started = Readiness {
            asked: Some(now),
            answered: true,
            ..Readiness::default()
        };
        assert!(started.is_complete(Handshake::Unasked) && !started.is_complete(Handshake::Asked(now)));
        assert_eq!(started.asked_at(Handshake::Unasked), None);
        assert_eq!(started.asked_at(Handshake::Asked(now)), Some(now));

        let mut lists = Readiness {
            server_asked: true,
            ..Readiness::default()
        };
        assert!(!lists.is_complete(Handshake::Done));
        lists.tools_listed = true;
        assert!(lists.is_complete(Handshake::Done));
    }
}
