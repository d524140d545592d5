//! What a verdict goes by: what is left of an exchange, and what is known beside it.

use std::time::Duration;

use crate::api::answer::Body;
use crate::classify::UserRule;
use crate::decode::Wire;
use crate::provider::Provider;
use crate::redact::Redactor;

/// Why an exchange was ended from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The caller wants it no more, or its provider was closed.
    Cancelled,
    /// The wall-clock limit passed.
    Timeout(Duration),
    /// Nothing came for this long.
    IdleTimeout(Duration),
    /// There was more output than this, bytes.
    OutputLimit(usize),
}

/// What is left of an exchange that is over.
#[derive(Debug)]
pub enum Evidence {
    /// Of one whose process is no more, or was to be.
    Process(ProcessEvidence),
    /// Of a turn of a process that goes on.
    Turn(TurnEvidence),
    Http(HttpEvidence),
}

impl Evidence {
    /// Why it was ended from here, if it was.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Evidence::Process(ProcessEvidence {
                end: ProcessEnd::Stopped(reason) | ProcessEnd::Interrupted(reason),
                ..
            })
            | Evidence::Http(HttpEvidence {
                end: HttpEnd::Stopped(reason),
                ..
            }) => Some(*reason),
            Evidence::Turn(turn) => turn.stopped,
            _ => None,
        }
    }
}

/// What is known of a process at its end.
#[derive(Debug)]
pub struct ProcessEvidence {
    /// What it was to print.
    pub wire: Wire,
    /// The flags it was started with.
    pub flags: Vec<String>,
    pub end: ProcessEnd,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal it died of.
    pub signal: Option<String>,
    /// Head and tail of standard error.
    pub stderr: String,
    /// Standard output where it held no event at all.
    pub plain: Option<String>,
    /// Standard output ends in the middle of a line.
    pub cut_short: bool,
    /// The bytes of the longest line that was dropped for its length: what it said is missing.
    pub dropped_line: Option<u64>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// The last bytes of standard output.
    pub stdout_tail: String,
    /// It was to call tools over a bridge, and has never asked for them.
    pub unreached: bool,
}

/// Why a process is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited by itself.
    Exited,
    /// It did not exit after its last word, or takes another turn. There is no exit code then.
    Lingered,
    /// It was ended from here.
    Stopped(StopReason),
    /// Its turn was ended from here; it goes on.
    Interrupted(StopReason),
}

/// What is known of a turn whose process takes the next one.
#[derive(Debug)]
pub struct TurnEvidence {
    pub wire: Wire,
    /// The flags it was started with.
    pub flags: Vec<String>,
    /// Why the turn was stopped from here, if it was.
    pub stopped: Option<StopReason>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// The last bytes of the turn's standard output.
    pub stdout_tail: String,
}

impl From<TurnEvidence> for ProcessEvidence {
    fn from(turn: TurnEvidence) -> Self {
        ProcessEvidence {
            wire: turn.wire,
            flags: turn.flags,
            end: turn.stopped.map_or(ProcessEnd::Lingered, ProcessEnd::Interrupted),
            exit_code: None,
            signal: None,
            stderr: String::new(),
            plain: None,
            cut_short: false,
            dropped_line: None,
            diagnostics: turn.diagnostics,
            stdout_tail: turn.stdout_tail,
            unreached: false,
        }
    }
}

/// What is known of a request at its end.
#[derive(Debug)]
pub struct HttpEvidence {
    /// Scheme, host and port of the API.
    pub origin: String,
    /// Why it is over.
    pub end: HttpEnd,
    /// The answer's status, if there was an answer.
    pub status: Option<u16>,
    /// What was odd about the answer.
    pub diagnostics: Vec<String>,
    /// What takes out what must not get out.
    pub redactor: Redactor,
}

/// Why a request is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpEnd {
    /// The body of a 2xx answer ended so.
    Answered(Body),
    Refused {
        status: u16,
        reason: String,
        /// The beginning of the body.
        body: String,
        /// When to come again, as a header says it (`retry-after: 7`).
        retry_after: Option<String>,
        /// Where a redirect leads, without the query.
        location: Option<String>,
    },
    /// No connection.
    Unreachable(ConnectError),
    /// The connection broke before the answer was there, or within it: why.
    Lost(String),
    /// It was ended from here.
    Stopped(StopReason),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody listens there.
    Refused,
    /// The name of the host leads nowhere.
    NoSuchHost,
    /// The other side could not prove who it is, or does not speak TLS: why.
    Tls(String),
    /// It took longer than this.
    Slow(Duration),
    /// The proxy did not let the request through: why.
    Proxy(String),
    Other(String),
}

/// What a verdict depends on beside the evidence.
#[derive(Debug)]
pub struct Context<'a> {
    pub provider: &'a str,
    /// What is known of the CLI.
    pub rules: CliRules<'a>,
    /// Now, ms since the epoch.
    pub now_ms: u64,
    /// Minutes by which local time is east of UTC, if known: CLIs tell when a limit ends in local time.
    pub local_offset_min: Option<i32>,
}

/// What the verdict on a CLI goes by; nothing for an API.
#[derive(Debug, Clone, Copy, Default)]
pub struct CliRules<'a> {
    /// Versions of the CLI that this package was measured with.
    pub versions: &'a [&'a str],
    /// What standard error says where a run is no success, whatever else it says.
    pub fatal_stderr: &'a [&'a str],
    /// What all of standard output is in text form where a run is no success.
    pub fatal_stdout: &'a [&'a str],
    /// Whether standard output in text form is where a failure is told.
    pub fails_on_stdout: bool,
    /// How a message begins that is the reason of a run that failed.
    pub error_message: Option<&'a str>,
    /// Error rules of the user's own.
    pub user_rules: &'a [UserRule],
    /// Whether the reply fits a schema is looked at behind the verdict: one without a value is no failure yet.
    pub output_is_checked: bool,
}

impl<'a> From<&'a Provider> for CliRules<'a> {
    fn from(provider: &'a Provider) -> Self {
        CliRules {
            versions: provider.about.versions,
            fatal_stderr: provider.fatal_stderr,
            fatal_stdout: provider.fatal_stdout,
            fails_on_stdout: provider.errors.channel.fails_on_stdout,
            error_message: provider.error_message,
            user_rules: provider.custom.as_ref().map_or(&[], |own| &own.error_rules),
            output_is_checked: false,
        }
    }
}
