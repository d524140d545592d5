//! A transcript that a process was started with, until its first turn is over.
//!
//! In: the process's lines. Out: whether the first turn may begin. Where the transcript ends in a deferred call, the CLI first reports
//! by itself that it can't go on with it (`tool_deferred_unavailable`), without any request. Only behind that, and behind the answer
//! to the handshake, may the user line come: sent earlier, one of ten was lost (CLAUDE-SESSIONS 1.3). Then the CLI asks the hook and
//! the tools' server for the result of that call, as if it ran it now (2.1.330, 2.1.332); 2.1.197 takes it from the line.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::thread_file::{Place, ThreadFile};
use super::transcript::DeferredCall;
use dfp_provider::claude::CLAUDE;
use dfp_provider::declare::mcp_server::{self, Message};

/// The ways in which the processes of a provider have been found to take a transcript.
#[derive(Debug, Default)]
pub struct Ways(AtomicU8);

impl Ways {
    /// The best way that has not failed; `None` if none is left, so that a thread must be told in words.
    pub fn best(&self) -> Option<Place> {
        match self.0.load(Ordering::Relaxed) {
            0 => Some(Place::Memory),
            1 => Some(Place::Disk),
            _ => None,
        }
    }

    /// Notes that a process could not read a transcript in `place`.
    fn failed(&self, place: Place) {
        self.0.fetch_max(place as u8 + 1, Ordering::Relaxed);
    }
}

/// The state of a resumed transcript.
#[derive(Debug)]
pub struct Resumed {
    file: Option<ThreadFile>,
    place: Place,
    ways: Arc<Ways>,
    deferred: Option<DeferredCall>,
    /// True if the CLI has reported that it can't go on with the deferred call.
    is_reported: bool,
    /// The user line that waits for that.
    line: Option<String>,
    has_begun: bool,
}

/// The meaning of a line for the beginning of the first turn.
#[derive(Debug, PartialEq, Eq)]
pub enum ResumedBeginning {
    /// The turn has begun, and the line belongs to it.
    Over,
    /// The line belongs to the resumption.
    Waits,
    /// The process could not read the transcript.
    Lost,
}

impl Resumed {
    /// A transcript in `file`, which is at `place`, and which ends in `deferred`, if it ends in a call.
    pub fn new(file: ThreadFile, place: Place, ways: Arc<Ways>, deferred: Option<DeferredCall>) -> Resumed {
        Resumed {
            file: Some(file),
            place,
            ways,
            has_begun: deferred.is_none(),
            deferred,
            is_reported: false,
            line: None,
        }
    }

    /// Notes the private folder of the process.
    pub fn file_is_in(&mut self, folder: &Path) {
        if let Some(file) = &mut self.file {
            file.is_in(folder);
        }
    }

    /// Notes that the process has read the transcript, which is taken away.
    pub fn is_read(&mut self) {
        self.file = None;
    }

    /// Returns whether a user line must wait.
    pub fn waits(&self) -> bool {
        !self.has_begun
    }

    /// Keeps the user line until it may be sent.
    pub fn hold(&mut self, line: String) {
        self.line = Some(line);
    }

    /// The user line, once it may be sent.
    pub fn line(&mut self) -> Option<String> {
        let line = self.line.take_if(|_| self.is_reported)?;
        self.has_begun = true;
        Some(line)
    }

    /// Forgets the user line, which nobody waits for any more.
    pub fn give_up(&mut self) {
        self.line = None;
    }

    /// The id of the deferred call.
    pub fn call(&self) -> Option<&str> {
        self.deferred.as_ref().map(|deferred| deferred.id.as_str())
    }

    /// The result of the deferred call, if `message` asks for it.
    pub fn outcome(&self, message: &Message) -> Option<&RawValue> {
        let deferred = self.deferred.as_ref()?;
        let asked = mcp_server::call_id(message, CLAUDE.mcp.call_id?)?;
        (asked == deferred.id).then_some(&*deferred.result)
    }

    /// Reads a line that is no control line.
    pub fn read(&mut self, line: &str, is_handshaken: bool) -> ResumedBeginning {
        if self.has_begun && is_handshaken {
            return ResumedBeginning::Over;
        }
        match stop_reason(line).as_deref() {
            Some("tool_deferred_unavailable") if !self.is_reported => {
                self.is_reported = true;
                ResumedBeginning::Waits
            }
            // Without the transcript the CLI gives up before the handshake.
            Some(_) if !is_handshaken => {
                self.ways.failed(self.place);
                ResumedBeginning::Lost
            }
            // A failure of its own.
            Some(_) => ResumedBeginning::Over,
            None if self.has_begun => ResumedBeginning::Over,
            None => ResumedBeginning::Waits,
        }
    }
}

/// Why a turn has stopped, if `line` is the CLI's report of its end; empty if the report doesn't say.
fn stop_reason(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct DeferredReport<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        stop_reason: Option<String>,
    }
    // Most lines are pieces of an answer: they are spared the parsing.
    if !line.contains("\"result\"") {
        return None;
    }
    let report: DeferredReport = serde_json::from_str(line).ok()?;
    (report.r#type == "result").then(|| report.stop_reason.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resumed(ways: &Arc<Ways>, deferred: Option<&str>) -> Resumed {
        let deferred = deferred.map(|id| DeferredCall {
            id: id.to_owned(),
            result: RawValue::from_string("{}".to_owned()).unwrap(),
        });
        Resumed {
            file: None,
            place: Place::Memory,
            ways: Arc::clone(ways),
            has_begun: deferred.is_none(),
            deferred,
            is_reported: false,
            line: None,
        }
    }

    fn result(stop_reason: &str) -> String {
        json!({"type": "result", "stop_reason": stop_reason, "is_error": true}).to_string()
    }

    const DEFERRED: &str = "tool_deferred_unavailable";

    #[test]
    fn the_line_waits_for_the_report_on_the_deferred_call() {
        let mut resumed = resumed(&Arc::default(), Some("t1"));
        assert!(resumed.waits());
        resumed.hold("line".to_owned());
        let started = json!({"type": "command_lifecycle", "state": "started"}).to_string();
        assert_eq!(resumed.read(&started, false), ResumedBeginning::Waits);
        assert_eq!(resumed.line(), None);
        assert_eq!(resumed.read(&result(DEFERRED), true), ResumedBeginning::Waits);
        assert_eq!(resumed.line().as_deref(), Some("line"));
        assert_eq!(resumed.line(), None);
        resumed.hold("late".to_owned());
        resumed.give_up();
        assert_eq!(resumed.line(), None);
        // What comes now is the turn's own, a second such report included.
        assert_eq!(resumed.read(&started, true), ResumedBeginning::Over);
        assert_eq!(resumed.read(&result(DEFERRED), true), ResumedBeginning::Over);
    }

    #[test]
    fn only_the_deferred_call_is_answered() {
        let resumed = resumed(&Arc::default(), Some("t1"));
        let asks = |id: &str| {
            let message = json!({"id": 2, "method": "tools/call", "params": {"name": "add", "_meta": {"claudecode/toolUseId": id}}});
            let message = message.to_string();
            resumed.outcome(&serde_json::from_str(&message).unwrap()).is_some()
        };
        assert!(asks("t1") && !asks("t2"));
    }

    #[test]
    fn a_transcript_that_is_not_found_is_told_in_the_next_way() {
        let ways = Arc::new(Ways::default());
        assert_eq!(ways.best(), Some(Place::Memory));
        let failure = json!({"type": "result", "subtype": "error_during_execution", "is_error": true}).to_string();
        assert_eq!(resumed(&ways, None).read(&failure, false), ResumedBeginning::Lost);
        assert_eq!(ways.best(), Some(Place::Disk));
        // A failure of the turn says nothing about the transcript.
        assert_eq!(resumed(&ways, None).read(&failure, true), ResumedBeginning::Over);
        assert_eq!(ways.best(), Some(Place::Disk));
        ways.failed(Place::Disk);
        assert_eq!(ways.best(), None);
    }
}
