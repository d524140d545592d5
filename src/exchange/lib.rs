//! Exchanges with a provider: here, the bytes of a process or a connection become events.
//!
//! [`mod@print`]: one process per call, the whole thread as one prompt. A kept process is a [`form`]: [`claude_live`] and
//! [`qwen_live`] have one for each conversation (claude's control protocol, qwen's stream-json input), [`codex_live`],
//! [`opencode_live`] and [`copilot_live`] one for all of them (JSON-RPC, HTTP), [`acp`] one agent for many. They share: the
//! thread, its setup, the pool of resting sessions and a turn ([`live`]), the process that serves many ([`mod@host`]), JSON-RPC over its
//! standard streams ([`rpc`]), claude's control lines and user lines ([`stream_json`]), and the [`installed`] CLI. [`http`]:
//! one HTTP request per call, or in a test a [`mod@script`] in its place. [`bridge`]: the caller's tools, served by MCP to a CLI that
//! calls them in the middle of a run. The driver (`run::attempt`) knows no more of them than [`Exchange`], and the judge no more of a
//! process than its start ([`Invocation`]) and its end ([`EndedProcess`]).

use std::ops::ControlFlow;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use dfp_model::error::ProviderError;
use dfp_model::event::{Event, Reply};
use dfp_process::{End, Exit, ProcessLimits};
use dfp_provider::command::CommandLine;
pub use dfp_provider::judge::{Evidence, StopReason};
use dfp_provider::judge::{ProcessEnd, ProcessEvidence};
use dfp_provider::{classify, same_flag};
use dfp_text::decode::Wire;
pub use dfp_text::fold::ProviderCallId;

pub mod acp;
pub mod bridge;
pub mod claude_live;
pub mod codex_live;
pub mod copilot_live;
pub mod form;
pub mod host;
pub mod http;
pub mod installed;
pub mod live;
pub mod opencode_live;
pub mod print;
pub mod qwen_live;
pub mod random;
pub mod rpc;
pub mod scratch;
pub mod script;
pub mod stream_json;

/// One request and its answer: the trait that a new kind of engine implements.
///
/// The driver calls [`next`](Exchange::next) until it breaks off or calls [`stop`](Exchange::stop), and then
/// [`finish`](Exchange::finish).
#[async_trait]
pub trait Exchange: Send {
    /// Returns whether the exchange keeps the call's limits (time, silence, output, cancelling) itself: its
    /// [`next`](Exchange::next) then ends in time. The driver keeps the limits of all others.
    fn keeps_limits(&self) -> bool {
        false
    }

    /// The id of its process, if it has one.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Returns whether it is certain that there is an exchange; nothing is reported before. A process that waited for a turn may
    /// be gone.
    fn has_begun(&self) -> bool {
        true
    }

    /// The time since the exchange began.
    fn elapsed(&self) -> Duration;

    /// The number of bytes that have come so far.
    fn received_bytes(&self) -> u64;

    /// Waits for something to come, and adds its meaning to `events`. Breaks off if nothing more will come.
    ///
    /// Cancel safe as far as the driver needs it: a `next` that is dropped before it is ready has lost no event that could still
    /// be reported, but an HTTP request may be without its connection then. Only `stop` may follow.
    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()>;

    /// Gives up the exchange, for `reason`. Takes effect at once or with [`finish`](Exchange::finish).
    fn stop(&mut self, reason: StopReason);

    /// Waits until nothing is left of the exchange except parts that can be used again. The result is judged.
    ///
    /// # Errors
    /// [`Unusable`]: the exchange can't be judged as an answer to the call.
    async fn finish(self: Box<Self>) -> Result<Box<Ended>, Unusable>;
}

/// The reason why there is no answer to judge: the exchange did not begin, or came to nothing.
#[derive(Debug)]
pub enum Unusable {
    /// The call was cancelled before the exchange began.
    Cancelled,
    /// The process that waited for a turn died before it got this one: another can take it.
    Vanished,
    /// No session waits for the turn, and the installed CLI has to be looked at before another is started: look again, then retry.
    NotLookedAt,
    /// The CLI serves the engine, but not this call, for this reason: another engine can make it.
    Left(&'static str),
    /// The CLI has refused a flag that the call can do without.
    FlagRefused(String),
    /// The CLI lacks a feature: another engine can make the call.
    Unsupported {
        /// The missing feature.
        reason: String,
        /// True if the CLI had answered the handshake, so that the model may have been asked already.
        may_have_asked: bool,
        /// The end of the process, if there is anything to tell of it.
        ended: Option<Box<Ended>>,
    },
    /// The call has failed.
    Failed(Box<ProviderError>),
}

impl Unusable {
    /// The CLI lacks a feature, as was found out before any model was asked.
    pub fn unsupported(reason: impl Into<String>) -> Unusable {
        Unusable::Unsupported {
            reason: reason.into(),
            may_have_asked: false,
            ended: None,
        }
    }
}

/// An exchange that is over.
pub struct Ended {
    /// The evidence that the exchange is judged by.
    pub evidence: Evidence,
    /// The time that its process took to start.
    pub spawn: Option<Duration>,
    /// When its process printed its first byte, if that is known better than by the waiting driver.
    pub first_byte: Option<Duration>,
    /// When the exchange was over.
    pub exit: Option<Duration>,
    /// Figures for the log that only exchanges of this kind have: an object.
    pub figures: Value,
    /// The optional flag that a CLI too old for it has refused before it did anything.
    pub refused_flag: Option<String>,
    /// The reason for which a CLI has refused the schema of the answer before it did anything.
    pub refused_schema: Option<String>,
    /// True if something was done that must not be done again.
    pub has_side_effects: bool,
    /// The work to be done when the verdict is known, before the last events go out.
    pub on_verdict: Option<OnVerdict>,
}

/// Returns reusable parts to the place where the next call finds them, or ends them. It gets the reply, if there is one, and the
/// ids of the reply's calls.
pub type OnVerdict = Box<dyn FnOnce(Option<(&Reply, &[ProviderCallId])>) + Send>;

impl Ended {
    /// Makes an end of which nothing is known but `evidence`.
    pub fn new(evidence: Evidence) -> Ended {
        Ended {
            evidence,
            spawn: None,
            first_byte: None,
            exit: None,
            figures: Value::Null,
            refused_flag: None,
            refused_schema: None,
            has_side_effects: false,
            on_verdict: None,
        }
    }
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Ended")
            .field("evidence", &self.evidence)
            .finish_non_exhaustive()
    }
}

/// The facts of a process's start by which its end is judged.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub provider: String,
    /// The wire format that it should print.
    pub wire: Wire,
    /// The names of its flags.
    pub flags: Vec<String>,
    /// The names of the flags that the run can do without.
    pub optional_flags: Vec<String>,
    /// True if it is told the schema of the call's answer.
    pub has_schema: bool,
    /// The launcher, and the name of the CLI behind it.
    pub launched: Option<(String, String)>,
}

/// A process that has exited.
#[derive(Debug, Clone)]
pub struct EndedProcess {
    pub exit: Exit,
    /// Standard output, if it held no event at all.
    pub plain: Option<String>,
    /// True if standard output ended in the middle of a line.
    pub cut_short: bool,
    /// The length in bytes of the longest line that was dropped for its length.
    pub dropped_line: Option<u64>,
    /// The lines that were no events.
    pub diagnostics: Vec<String>,
    /// The last bytes of standard output.
    pub stdout_tail: String,
}

impl Invocation {
    /// Describes the start of `line`, a command line of `provider`.
    pub fn of(provider: &str, line: &CommandLine) -> Invocation {
        Invocation {
            provider: provider.to_owned(),
            wire: line.wire,
            flags: line.all_flags(),
            optional_flags: line.optional_flags.clone(),
            has_schema: line.has_schema,
            launched: (line.launch.as_ref()).map(|launch| (launch.command.clone(), line.program.clone())),
        }
    }

    /// The end of the process that was started so, with these limits.
    pub fn ended(self, process: EndedProcess, limits: &ProcessLimits) -> Ended {
        let exit = process.exit;
        let refused_flag = self.refused_flag(&exit);
        let refused_schema = self.refused_schema(&exit);
        let stopped = match exit.end {
            End::Timeout => ProcessEnd::Stopped(StopReason::Timeout(limits.timeout.unwrap_or_default())),
            End::IdleTimeout => ProcessEnd::Stopped(StopReason::IdleTimeout(limits.idle_timeout.unwrap_or_default())),
            End::OutputLimit => ProcessEnd::Stopped(StopReason::OutputLimit(limits.max_stdout)),
            End::Cancelled | End::Closed => ProcessEnd::Stopped(StopReason::Cancelled),
            End::Exited => ProcessEnd::Exited,
            End::Lingered => ProcessEnd::Lingered,
        };
        Ended {
            spawn: Some(exit.timings.spawn),
            first_byte: exit.timings.first_byte,
            exit: Some(exit.timings.exit),
            figures: json!({"exitCode": exit.code, "signal": exit.signal, "stdoutBytes": exit.stdout_bytes,
                            "stderrBytes": exit.stderr_bytes}),
            refused_flag,
            refused_schema,
            ..Ended::new(Evidence::Process(ProcessEvidence {
                wire: self.wire,
                flags: self.flags,
                launched: self.launched,
                end: stopped,
                exit_code: exit.code,
                signal: exit.signal,
                stderr: exit.stderr,
                plain: process.plain,
                cut_short: process.cut_short,
                dropped_line: process.dropped_line,
                diagnostics: process.diagnostics,
                stdout_tail: process.stdout_tail,
                unreached: false,
            }))
        }
    }

    /// The reason for which the CLI has refused our schema before it did anything.
    fn refused_schema(&self, exit: &Exit) -> Option<String> {
        if !self.has_schema || did_something(exit) {
            return None;
        }
        classify::refused_schema(&self.provider, &exit.stderr)
    }

    /// The optional flag that a CLI too old for it has refused before it did anything.
    fn refused_flag(&self, exit: &Exit) -> Option<String> {
        if did_something(exit) {
            return None;
        }
        let refused = classify::unsupported_flag(&self.provider, &exit.stderr)?;
        let ours = self.optional_flags.iter().find(|name| same_flag(name, &refused))?;
        // If a word begins several flags, it is refused for all of them.
        Some(if ours.starts_with(&refused) {
            refused
        } else {
            ours.clone()
        })
    }
}

/// Returns whether a process may have done more than refuse its arguments.
fn did_something(exit: &Exit) -> bool {
    exit.code == Some(0) || exit.stdout_bytes > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_process::Timings;

    #[test]
    fn a_schema_is_refused_where_it_is_ours_and_nothing_was_done() {
        let refusal = "--json-schema is not a valid JSON Schema: strict mode: unknown keyword: \"x-a\"";
        let refused = |has_schema, code, stdout_bytes| {
            let invocation = Invocation {
                provider: "claude".to_owned(),
                wire: Wire::ClaudeStream,
                flags: vec!["--json-schema".to_owned()],
                optional_flags: vec!["--json-schema".to_owned()],
                has_schema,
                launched: None,
            };
            let exit = Exit {
                run_id: String::new(),
                pid: 1,
                end: End::Exited,
                code: Some(code),
                signal: None,
                stderr: format!("Error: {refusal}\n"),
                stderr_bytes: 1,
                stdout_bytes,
                stdout_bytes_at_end: stdout_bytes,
                timings: Timings::default(),
            };
            assert_eq!(invocation.refused_flag(&exit), None);
            invocation.refused_schema(&exit)
        };
        assert_eq!(refused(true, 1, 0).as_deref(), Some(refusal));
        for (has_schema, code, stdout_bytes) in [(false, 1, 0), (true, 0, 0), (true, 1, 1)] {
            assert_eq!(refused(has_schema, code, stdout_bytes), None);
        }
    }
}
