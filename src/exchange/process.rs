//! The end of a process, as the judge sees it.

use serde_json::json;

use super::{Ended, Evidence, StopReason};
use dfp_process::{End, Exit, ProcessLimits};
use dfp_provider::classify;
use dfp_provider::command::CommandLine;
use dfp_provider::judge::{ProcessEnd, ProcessEvidence};
use dfp_provider::same_flag;
use dfp_text::decode::Wire;

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
