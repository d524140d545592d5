//! A claude process beside its turns: the transcript that it is started with, its readiness, and the socket that it leaves behind.
//!
//! [`ThreadFile`] is the file of a transcript. In: the lines, and the process's command line. Out: the command line with `--resume`. On
//! Linux the lines are in memory alone: the name in the private folder is a link to them, and they are gone with the last descriptor.
//! Elsewhere they are a private file. Either is taken away when the CLI has answered: it reads its transcript once, at the start (2.1.197
//! to 2.1.332).
//!
//! [`Resumed`] reads the process's lines until the first turn is over. Where the transcript ends in a deferred call, the CLI first reports
//! by itself that it can't go on with it (`tool_deferred_unavailable`), without any request. Only behind that, and behind the answer
//! to the handshake, may the user line come: sent earlier, one of ten was lost (CLAUDE-SESSIONS 1.3). Then the CLI asks the hook and
//! the tools' server for the result of that call, as if it ran it now (2.1.330, 2.1.332); 2.1.197 takes it from the line.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::transcript::DeferredCall;
use crate::live::session::Handshake;
use dfp_provider::claude::CLAUDE;
use dfp_provider::command::{Arg, CommandLine};
use dfp_provider::declare::mcp::{self, Message};

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
        let asked = mcp::call_id(message, CLAUDE.mcp.call_id?)?;
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

/// The name in the private folder. The CLI takes a path only if it ends like this.
const NAME: &str = "thread.jsonl";

/// The place of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Memory,
    Disk,
}

/// A file that has no name, with `lines` in it.
#[cfg(target_os = "linux")]
fn in_memory(lines: &str) -> std::io::Result<std::fs::File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::Write;
    let mut memory = std::fs::File::from(memfd_create("thread", MemfdFlags::CLOEXEC)?);
    memory.write_all(lines.as_bytes())?;
    Ok(memory)
}

/// A transcript that a process is to read. It is taken away on drop.
#[derive(Debug)]
pub struct ThreadFile {
    #[cfg(target_os = "linux")]
    _memory: Option<std::fs::File>,
    disk: Option<PathBuf>,
}

impl ThreadFile {
    /// Has the process of `line` resume `lines`, which are at `place`, or on disk where the system has no such memory.
    pub fn attach(line: &mut CommandLine, lines: &str, place: Place) -> ThreadFile {
        line.args.push(Arg::Text("--resume".to_owned()));
        line.args.push(Arg::File(NAME));
        #[cfg(target_os = "linux")]
        if place == Place::Memory
            && let Ok(memory) = in_memory(lines)
        {
            use std::os::fd::AsRawFd;
            // The process doesn't inherit the descriptor, so it is named as this process's.
            let target = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
            line.links.push(dfp_provider::command::PrivateLink {
                name: NAME.to_owned(),
                target: target.into(),
            });
            return ThreadFile {
                _memory: Some(memory),
                disk: None,
            };
        }
        let _ = place;
        line.files.push(dfp_provider::command::PrivateFile {
            name: NAME,
            content: lines.to_owned(),
        });
        ThreadFile {
            #[cfg(target_os = "linux")]
            _memory: None,
            disk: Some(PathBuf::from(NAME)),
        }
    }

    /// Notes the private folder in which the file is.
    fn is_in(&mut self, folder: &std::path::Path) {
        self.disk = self.disk.take().map(|name| folder.join(name));
    }
}

impl Drop for ThreadFile {
    fn drop(&mut self) {
        // A file that can't be removed here goes with the private folder.
        if let Some(path) = self.disk.take().filter(|path| path.is_absolute()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

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

/// The socket of the process `pid` that `line` of its output names, if the path is one that the CLI gives its sockets.
pub fn socket_named_in(line: &str, pid: u32) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Init {
        messaging_socket_path: PathBuf,
    }
    // Most lines are pieces of an answer: they are spared the parsing.
    if !line.contains("\"messaging_socket_path\"") {
        return None;
    }
    let init: Init = serde_json::from_str(line).ok()?;
    Some(init.messaging_socket_path).filter(|path| is_socket_of(path, pid))
}

/// Returns whether `path` can only be the CLI's socket: it will be removed.
fn is_socket_of(path: &Path, pid: u32) -> bool {
    let named = path
        .file_name()
        .is_some_and(|name| name == format!("{pid}.sock").as_str());
    path.is_absolute() && named && path.parent().is_some_and(|folder| folder.ends_with("cc-socks"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scratch::Scratch;
    use dfp_provider::claude::CLAUDE;
    use dfp_provider::command::{self, Mode};
    use dfp_provider::options::Options;

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

    /// The private folder of a process that resumes `lines`, and the file.
    fn attached(place: Place) -> (Scratch, ThreadFile, PathBuf) {
        let options = Options::parse(&CLAUDE, "{}").unwrap();
        let mut line = command::build(&CLAUDE, &options, Mode::Live, false, &command::Installed::default()).unwrap();
        let mut file = ThreadFile::attach(&mut line, "{}\n", place);
        let scratch = Scratch::for_line(&line, u64::MAX - 7).unwrap().unwrap();
        file.is_in(&scratch.path());
        let path = scratch.file(NAME);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
        (scratch, file, path)
    }

    #[test]
    fn the_lines_can_be_read_until_they_are_taken_away() {
        for place in [Place::Memory, Place::Disk] {
            let (_scratch, file, path) = attached(place);
            drop(file);
            assert!(std::fs::read_to_string(path).is_err(), "{place:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_of_them_is_on_disk() {
        let (_scratch, _file, path) = attached(Place::Memory);
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert!(found.is_symlink());
        assert!(std::fs::read_link(path).unwrap().starts_with("/proc"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_the_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (_scratch, _file, path) = attached(Place::Disk);
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.is_file(), found.permissions().mode() & 0o777), (true, 0o600));
    }

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

    #[test]
    fn only_the_clis_own_socket_is_removed() {
        for (path, expected) in [
            ("/tmp/cc-socks/17.sock", cfg!(unix)),
            ("/tmp/cc-socks/18.sock", false),
            ("/tmp/17.sock", false),
            ("cc-socks/17.sock", false),
            ("/home/user/cc-socks/17.sock/..", false),
        ] {
            let line = format!("{{\"messaging_socket_path\":\"{path}\"}}");
            let named = socket_named_in(&line, 17);
            assert_eq!(named, expected.then(|| PathBuf::from(path)), "{path}");
        }
    }
}
