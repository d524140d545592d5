//! The end of a run in the document's terms, and the output that it leaves.
//!
//! In: the provider's result or error, and times by two clocks. Out: exit code, status and errors, which always agree. That part is pure.
//!
//! In: bytes as the process prints them. Out: all of them in a file, the beginning and the end in memory as a text of bounded length, and
//! the first error of the file, if any.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::transcript::Denial;
use dfp_model::error::{Category, Code, ProviderError};
use dfp_model::iso;
use dfp_model::message::Usage;
use dfp_process::{HeadTail, Tee};

/// An error or a warning (the document's ErrorRecord).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// The text for people; never empty.
    pub message: String,
    /// The time when it was noticed, ISO 8601.
    pub timestamp: String,
    /// The code in upper case: one of the document's, or one of `ProviderErrorCode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Further facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
}

impl ErrorRecord {
    /// A record without further facts.
    pub fn new(code: &str, message: impl Into<String>, at_ms: u64) -> ErrorRecord {
        ErrorRecord {
            message: message.into(),
            timestamp: iso(at_ms),
            code: Some(code.to_owned()),
            context: None,
        }
    }

    /// The record of a provider's error.
    pub fn of(error: &ProviderError, at_ms: u64) -> ErrorRecord {
        let all = json!({
            "code": error.code,
            "category": error.category,
            "http_status": error.http_status,
            "retry_after_ms": error.retry_after_ms,
            "resets_at": error.resets_at.map(iso),
            "exit_code": error.exit_code,
            "signal": error.signal,
            "should_retry": error.should_retry,
        });
        let mut context = match all {
            Value::Object(context) => context,
            _ => Map::new(),
        };
        context.retain(|_, value| !value.is_null());
        ErrorRecord {
            context: Some(context),
            ..ErrorRecord::new(document_code(error.code), error.message.clone(), at_ms)
        }
    }
}

/// The document's code for output that was cut.
pub const OUTPUT_TRUNCATED: &str = "CLAUDE_OUTPUT_TRUNCATED";

/// The document's code for an error if there is one (ERROR_CODES), else the package's own code.
pub fn document_code(code: Code) -> &'static str {
    match (code, code.category()) {
        (Code::CliNotFound | Code::CliNotExecutable | Code::InterpreterNotFound, _) => "CLAUDE_CLI_NOT_FOUND",
        (Code::Timeout | Code::IdleTimeout, _) => "CLAUDE_TIMEOUT",
        (_, Category::Authentication) => "CLAUDE_AUTH_FAILED",
        (Code::Overloaded, _) | (_, Category::RateLimit | Category::Quota) => "CLAUDE_RATE_LIMIT",
        _ => code.as_str(),
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SuiteStatus {
    /// The CLI reports success.
    Success,
    Failed,
    /// The run took too long and was ended.
    Timeout,
}

/// Exit code and status of a run, which must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// 0 for a success, and only for that.
    pub exit_code: i32,
    /// The status, which agrees with `exit_code`.
    pub status: SuiteStatus,
    /// A time limit ended the run.
    pub timed_out: bool,
}

/// Exit code and status of a run that ended with this error; `None`: it ended with a reply.
pub fn verdict(error: Option<&ProviderError>) -> Verdict {
    let Some(error) = error else {
        return Verdict {
            exit_code: 0,
            status: SuiteStatus::Success,
            timed_out: false,
        };
    };
    let timed_out = matches!(error.code, Code::Timeout | Code::IdleTimeout);
    let own = error.exit_code.filter(|code| *code != 0);
    let exit_code = own.or_else(|| signal_code(error)).unwrap_or(match error.code {
        // The exit codes that shells and timeout(1) use.
        Code::CliNotFound => 127,
        Code::CliNotExecutable | Code::InterpreterNotFound => 126,
        Code::Timeout | Code::IdleTimeout => 124,
        // This includes a CLI that failed with exit code 0 (claude and SIGINT, CLI-FACTS 1.9).
        _ => 1,
    });
    Verdict {
        exit_code,
        status: if timed_out {
            SuiteStatus::Timeout
        } else {
            SuiteStatus::Failed
        },
        timed_out,
    }
}

/// The exit code of a process that a signal ended, as shells report it: 128 and the signal's number.
fn signal_code(error: &ProviderError) -> Option<i32> {
    let number = match error.signal.as_deref()? {
        "SIGHUP" => 1,
        "SIGINT" => 2,
        "SIGQUIT" => 3,
        "SIGILL" => 4,
        "SIGABRT" => 6,
        "SIGKILL" => 9,
        "SIGSEGV" => 11,
        "SIGPIPE" => 13,
        "SIGTERM" => 15,
        _ => return None,
    };
    Some(128 + number)
}

/// The files with copies of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactPaths {
    /// The path of the file with all of standard output.
    pub stdout: String,
    /// The path of the file with all of standard error.
    pub stderr: String,
    /// The path of the file with the events, one per line.
    pub events: String,
    /// The path of the log, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// The result of `execute`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionResult {
    /// 0 for a success, and only for that.
    pub exit_code: i32,
    /// The status, which agrees with `exit_code`.
    pub status: SuiteStatus,
    /// Standard output followed by standard error; at most 10 MiB of the first and 32 KiB of the second.
    pub output: String,
    pub errors: Vec<ErrorRecord>,
    /// Things to know that are no errors.
    pub warnings: Vec<ErrorRecord>,
    /// The time when the process was started, ISO 8601.
    pub started_at: String,
    /// The time when it had ended, ISO 8601.
    pub completed_at: String,
    /// The duration in ms, by a clock that never jumps.
    pub duration_ms: u64,
    /// A time limit ended the run.
    pub timed_out: bool,
    /// Some of the output is left out of `output`.
    pub truncated: bool,
    pub stderr: String,
    /// The signal that ended the CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The prompt that was sent.
    pub prompt: String,
    /// The last message of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The CLI's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// The CLI's id of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The tokens, as the CLI counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The cost in US dollars, as the CLI estimates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The number of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u32>,
    /// The calls that were not permitted.
    pub permission_denials: Vec<Denial>,
    /// The files with copies of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactPaths>,
}

/// The beginning of the line that stands in a captured text where output is left out (the document's marker).
const TRUNCATED: &str = "[OUTPUT TRUNCATED";

/// The bytes reserved for that line.
const MARKER: usize = 128;

/// The capture of one stream.
#[derive(Debug)]
pub struct OutputCapture(Mutex<CaptureState>);

/// The two ends of the stream in memory, the file with all of it, and the file's first error.
#[derive(Debug)]
struct CaptureState {
    ends: HeadTail,
    file: Option<File>,
    failed: Option<io::Error>,
}

/// The captured part of a stream.
#[derive(Debug)]
pub struct Captured {
    /// The text: the whole, or the two ends around one line that says how much is left out.
    pub text: String,
    /// The number of bytes that were printed.
    pub bytes: u64,
    /// `true` if some of the output is left out.
    pub truncated: bool,
    /// The reason why the file is incomplete, if it is.
    pub failed: Option<io::Error>,
}

impl OutputCapture {
    /// Keeps at most `limit` bytes in memory, a fifth of them from the beginning, and writes everything to `file`.
    pub fn new(limit: usize, file: Option<File>) -> OutputCapture {
        OutputCapture(Mutex::new(CaptureState {
            ends: ends_of(limit),
            file,
            failed: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, CaptureState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was captured, and keeps nothing.
    pub fn take(&self) -> Captured {
        let mut state = self.lock();
        let ends = std::mem::replace(&mut state.ends, ends_of(0));
        let flushed = state.file.take().map_or(Ok(()), |mut file| file.flush());
        Captured {
            truncated: !ends.is_whole(),
            bytes: ends.total(),
            text: text_of(&ends),
            failed: state.failed.take().or_else(|| flushed.err()),
        }
    }
}

impl Tee for OutputCapture {
    fn copy(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.ends.push(bytes);
        if let Some(Err(error)) = state.file.as_mut().map(|file| file.write_all(bytes)) {
            // After an error nothing more is written: a missing end is better than a hole in the middle.
            state.file = None;
            state.failed = Some(error);
        }
    }
}

/// The share of `limit` bytes for the beginning, and for the end.
fn shares(limit: usize) -> (usize, usize) {
    let head = limit / 5;
    (head, limit - head)
}

fn ends_of(limit: usize) -> HeadTail {
    let (head, tail) = shares(limit);
    HeadTail::new(head, tail)
}

/// `true` if the byte `at` of `total` is left out when `limit` bytes are kept.
pub fn is_left_out(at: u64, total: u64, limit: usize) -> bool {
    let (head, tail) = shares(limit);
    total > limit as u64 && at >= head as u64 && at < total - tail as u64
}

/// The captured bytes as text. The cut is made between lines if possible, because half a line can't be read.
fn text_of(kept: &HeadTail) -> String {
    let (mut head, mut tail) = kept.ends();
    if kept.is_whole() {
        head.append(&mut tail);
        return into_text(head);
    }
    head.truncate(memchr::memrchr(b'\n', &head).map_or(head.len(), |end| end + 1));
    let spare = tail.len().min(MARKER);
    let begin = memchr::memchr(b'\n', &tail[spare..]).map_or(spare, |at| spare + at + 1);
    // A last line without its beginning is better than nothing.
    tail.drain(..if begin < tail.len() { begin } else { spare });
    let total = kept.total();
    let left_out = total - (head.len() + tail.len()) as u64;
    let mut text = into_text(head);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{TRUNCATED}: {left_out} of {total} bytes left out]\n"));
    text.push_str(&into_text(tail));
    text
}

fn is_marker(line: &str) -> bool {
    line.starts_with(TRUNCATED)
}

/// `true` if some of `text` is left out.
pub fn has_marker(text: &str) -> bool {
    text.lines().any(is_marker)
}

/// The lines of `text` with their line ends, without the line that marks the cut.
pub fn kept_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter(|line| !is_marker(line))
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use proptest::prelude::*;

    use super::*;

    fn any_error() -> impl Strategy<Value = Option<ProviderError>> {
        let signals = prop::sample::select(vec![None, Some("SIGKILL"), Some("SIGTERM"), Some("SIG34")]);
        let error = (prop::sample::select(Code::ALL), prop::option::of(any::<i32>()), signals).prop_map(
            |(code, exit_code, signal)| ProviderError {
                exit_code,
                signal: signal.map(str::to_owned),
                ..ProviderError::new("claude", code, "reason")
            },
        );
        prop::option::weighted(0.8, error)
    }

    proptest! {
        /// The rules of ExecutionMetadata in CLAUDE-CODE-ADAPTER-DATA-MODEL.
        #[test]
        fn the_facts_agree(error in any_error()) {
            let found = verdict(error.as_ref());
            prop_assert_eq!(found.status == SuiteStatus::Timeout, found.timed_out);
            prop_assert_eq!(found.status == SuiteStatus::Success, found.exit_code == 0);
            prop_assert_eq!(found.status == SuiteStatus::Success, error.is_none());
        }

        #[test]
        fn codes_are_upper_snake_case(code in prop::sample::select(Code::ALL)) {
            let name = document_code(code);
            prop_assert!(name.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{}", name);
        }
    }

    #[test]
    fn exit_codes_are_as_shells_have_them() {
        let code = |code, exit_code, signal: Option<&str>| {
            let error = ProviderError {
                exit_code,
                signal: signal.map(str::to_owned),
                ..ProviderError::new("claude", code, "reason")
            };
            verdict(Some(&error)).exit_code
        };
        assert_eq!(code(Code::CliNotFound, None, None), 127);
        assert_eq!(code(Code::CliNotExecutable, None, None), 126);
        assert_eq!(code(Code::Timeout, Some(0), None), 124);
        assert_eq!(code(Code::Timeout, Some(143), None), 143);
        assert_eq!(code(Code::Crashed, None, Some("SIGKILL")), 137);
        assert_eq!(code(Code::Unknown, Some(0), None), 1);
        assert_eq!(code(Code::Unknown, Some(3), None), 3);
    }

    #[test]
    fn the_documents_codes() {
        for (ours, theirs) in [
            (Code::CliNotFound, "CLAUDE_CLI_NOT_FOUND"),
            (Code::NotLoggedIn, "CLAUDE_AUTH_FAILED"),
            (Code::InvalidApiKey, "CLAUDE_AUTH_FAILED"),
            (Code::Timeout, "CLAUDE_TIMEOUT"),
            (Code::RateLimited, "CLAUDE_RATE_LIMIT"),
            (Code::UsageLimit, "CLAUDE_RATE_LIMIT"),
            (Code::ClaudeInvalidConfig, "CLAUDE_INVALID_CONFIG"),
            (Code::ServerError, "SERVER_ERROR"),
        ] {
            assert_eq!(document_code(ours), theirs);
        }
    }

    fn kept(limit: usize, pieces: &[&[u8]]) -> Captured {
        let capture = OutputCapture::new(limit, None);
        pieces.iter().for_each(|piece| capture.copy(piece));
        capture.take()
    }

    #[test]
    fn what_fits_is_whole() {
        let found = kept(10, &[b"12345", b"67890"]);
        assert_eq!(
            (found.text.as_str(), found.bytes, found.truncated),
            ("1234567890", 10, false)
        );
    }

    #[test]
    fn what_does_not_is_cut_between_lines_and_says_so() {
        let lines: String = (0..1000).map(|n| format!("line {n:03}\n")).collect();
        let found = kept(1000, &[lines.as_bytes()]);
        let (head, tail) = found
            .text
            .split_once("[OUTPUT TRUNCATED: 8136 of 9000 bytes left out]\n")
            .unwrap();
        assert!(found.truncated && found.text.len() <= 1000);
        assert!(lines.starts_with(head) && head.ends_with("line 021\n"));
        assert!(lines.ends_with(tail) && tail.starts_with("line 9"));
    }

    #[test]
    fn one_endless_line_keeps_both_its_ends() {
        let found = kept(1000, &[&b"a".repeat(5000), b"z\n"]);
        assert_eq!(found.text.lines().count(), 3, "{}", found.text);
        assert!(found.text.starts_with("aaa") && found.text.ends_with("az\n"));
    }

    #[test]
    fn the_file_has_everything() {
        let mut file = tempfile::tempfile().unwrap();
        let capture = OutputCapture::new(10, Some(file.try_clone().unwrap()));
        (0..100).for_each(|_| capture.copy(b"0123456789"));
        assert!(capture.take().failed.is_none());
        let mut written = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut written).unwrap();
        assert_eq!(written, "0123456789".repeat(100));
    }

    #[test]
    fn a_file_that_fails_is_reported_and_stops_nothing() {
        let readonly = File::open(std::env::current_exe().unwrap()).unwrap();
        let capture = OutputCapture::new(100, Some(readonly));
        capture.copy(b"one");
        capture.copy(b"two");
        let found = capture.take();
        assert_eq!((found.text.as_str(), found.failed.is_some()), ("onetwo", true));
    }

    proptest! {
        /// The text doesn't depend on how the bytes arrive, is not longer than the limit, and has the very beginning and end.
        #[test]
        fn pieces_don_t_matter(line in "[a-z ]{0,40}", count in 0_usize..200, size in 1_usize..300, limit in 400_usize..3000) {
            let all = format!("{line}\n").repeat(count);
            let whole = kept(limit, &[all.as_bytes()]);
            let pieces: Vec<&[u8]> = all.as_bytes().chunks(size).collect();
            let cut = kept(limit, &pieces);
            prop_assert_eq!(&whole.text, &cut.text);
            prop_assert!(whole.text.len() <= limit);
            prop_assert_eq!(whole.truncated, all.len() > limit);
            prop_assert_eq!(whole.text.matches(TRUNCATED).count(), usize::from(whole.truncated));
            prop_assert!(whole.text.ends_with(&all[all.len().saturating_sub(line.len() + 1)..]));
        }
    }
}
