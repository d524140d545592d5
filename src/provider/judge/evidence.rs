//! The evidence for a verdict: the end of an exchange, and facts about its provider.

use std::time::Duration;

use crate::Provider;
use crate::api::answer::Body;
use crate::classify::UserRule;
use dfp_text::decode::Wire;
use dfp_text::redact::Redactor;

/// The reason why this package ended an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The caller cancelled it, or its provider was closed.
    Cancelled,
    /// The time limit passed.
    Timeout(Duration),
    /// Nothing arrived for this long.
    IdleTimeout(Duration),
    /// The output was longer than this, bytes.
    OutputLimit(usize),
}

/// The end of an exchange.
#[derive(Debug)]
pub enum Evidence {
    /// The end of an exchange whose process has ended, or was to end.
    Process(ProcessEvidence),
    /// The end of a turn whose process goes on.
    Turn(TurnEvidence),
    Http(HttpEvidence),
}

impl Evidence {
    /// The reason why this package ended the exchange; `None` if it ended by itself.
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

/// The end of a process.
#[derive(Debug)]
pub struct ProcessEvidence {
    /// The format that it was to print.
    pub wire: Wire,
    /// The flags it was started with.
    pub flags: Vec<String>,
    /// The launcher and the name of the CLI behind it.
    pub launched: Option<(String, String)>,
    pub end: ProcessEnd,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// The head and tail of standard error.
    pub stderr: String,
    /// Standard output, if it had no event at all.
    pub plain: Option<String>,
    /// Standard output ends in the middle of a line.
    pub cut_short: bool,
    /// The bytes of the longest line that was too long to be read, so that its event is missing.
    pub dropped_line: Option<u64>,
    /// Lines that were no events.
    pub diagnostics: Vec<String>,
    /// The last bytes of standard output.
    pub stdout_tail: String,
    /// The CLI was to call tools over a bridge, and has never asked for them.
    pub unreached: bool,
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// The process exited by itself.
    Exited,
    /// The process did not exit after its last event, or takes another turn. There is no exit code then.
    Lingered,
    /// This package ended the process.
    Stopped(StopReason),
    /// This package interrupted its turn; the process goes on.
    Interrupted(StopReason),
}

/// The end of a turn whose process takes the next one.
#[derive(Debug)]
pub struct TurnEvidence {
    pub wire: Wire,
    /// The flags the process was started with.
    pub flags: Vec<String>,
    /// The reason why this package stopped the turn; `None` if it ended by itself.
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
            launched: None,
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

/// The end of a request.
#[derive(Debug)]
pub struct HttpEvidence {
    /// The scheme, host and port of the API.
    pub origin: String,
    /// The way in which the request ended.
    pub end: HttpEnd,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// Oddities of the response.
    pub diagnostics: Vec<String>,
    /// The redactor of secrets.
    pub redactor: Redactor,
}

/// The way in which a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpEnd {
    /// A 2xx response was read; its body ended in this way.
    Answered(Body),
    Refused {
        status: u16,
        reason: String,
        /// The beginning of the body.
        body: String,
        /// The header that tells when to try again (`retry-after: 7`).
        retry_after: Option<String>,
        /// The target of a redirect, without the query.
        location: Option<String>,
    },
    /// There was no connection.
    Unreachable(ConnectError),
    /// The connection broke before the response, or within it; the text is the reason.
    Lost(String),
    /// This package ended the request.
    Stopped(StopReason),
}

/// The reason why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody listens at the port.
    Refused,
    /// The name of the host can't be resolved.
    NoSuchHost,
    /// The other side could not prove its identity, or doesn't speak TLS; the text is the reason.
    Tls(String),
    /// Connecting took longer than this.
    Slow(Duration),
    /// The proxy did not let the request through; the text is the reason.
    Proxy(String),
    Other(String),
}

/// The facts on which a verdict depends besides the evidence.
#[derive(Debug)]
pub struct Context<'a> {
    pub provider: &'a str,
    /// The rules for the CLI.
    pub rules: CliRules<'a>,
    /// The current time, ms since the epoch.
    pub now_ms: u64,
    /// Minutes by which local time is east of UTC, if known: CLIs name the end of a limit in local time.
    pub local_offset_min: Option<i32>,
}

/// The rules by which a CLI's end is judged; empty for an API.
#[derive(Debug, Clone, Copy, Default)]
pub struct CliRules<'a> {
    /// The versions of the CLI with which this package was measured.
    pub versions: &'a [&'a str],
    /// Texts on standard error that make a run a failure, whatever else it printed.
    pub fatal_stderr: &'a [&'a str],
    /// Texts that make a run in text form a failure if they are all of standard output.
    pub fatal_stdout: &'a [&'a str],
    /// In text form, failures are reported on standard output.
    pub fails_on_stdout: bool,
    /// The beginning of a message that is the reason of a failed run.
    pub error_message: Option<&'a str>,
    /// The user's own error rules.
    pub user_rules: &'a [UserRule],
    /// The reply is checked by its schema after the verdict, so a reply without a value is no failure yet.
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
