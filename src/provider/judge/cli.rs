//! The reasons why a CLI's run or turn is no success. [`super::judge`] defines success.

use std::time::Duration;

use serde_json::Value;

use super::{Context, ProcessEnd, ProcessEvidence, StopReason};
use crate::classify::{self, FailureFacts, classify};
use crate::{same_flag, schema_flags};
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::event::{Outcome, Reply};
use dfp_text::decode::lines::MAX_LINE;
use dfp_text::decode::{Plain, Wire, plain};
use dfp_text::fold::Folded;

/// Everything that is known of a run that has ended.
#[derive(Clone, Copy)]
struct CliFacts<'a> {
    context: &'a Context<'a>,
    process: &'a ProcessEvidence,
}

/// The reason why the run is no success; `None` if it is one.
pub(super) fn failure(context: &Context, process: &ProcessEvidence, folded: &Folded) -> Option<ProviderError> {
    let facts = &CliFacts { context, process };
    match process.end {
        ProcessEnd::Stopped(StopReason::Timeout(limit)) | ProcessEnd::Interrupted(StopReason::Timeout(limit)) => {
            Some(timed_out(facts, limit))
        }
        ProcessEnd::Stopped(StopReason::IdleTimeout(limit))
        | ProcessEnd::Interrupted(StopReason::IdleTimeout(limit)) => Some(idle(facts, limit)),
        ProcessEnd::Stopped(StopReason::OutputLimit(limit))
        | ProcessEnd::Interrupted(StopReason::OutputLimit(limit)) => Some(too_much(facts, limit)),
        ProcessEnd::Exited
        | ProcessEnd::Lingered
        | ProcessEnd::Stopped(StopReason::Cancelled)
        | ProcessEnd::Interrupted(StopReason::Cancelled) => {
            failure_of_its_own(facts, folded).or_else(|| process.unreached.then(|| unreached(facts)))
        }
    }
}

/// The error of a launcher that has found no CLI to start: 127 is what shells, `env` and containers' runtimes exit with then, and other
/// launchers name it (bubblewrap 0.8.0: "bwrap: execvp claude: No such file or directory", exit code 1; docker 20.10: "… exec: \"claude\":
/// executable file not found in $PATH: unknown" as the only line of standard output, exit code 126).
fn missing_there(facts: &CliFacts) -> Option<ProviderError> {
    let process = facts.process;
    let (launcher, program) = process.launched.as_ref()?;
    let is_named = |line: &str| {
        let words = ["No such file or directory", "executable file not found in $PATH"];
        line.contains(program.as_str()) && words.iter().any(|words| line.contains(words))
    };
    let is_missing = match process.stdout_tail.trim() {
        "" => process.exit_code == Some(127) || process.stderr.lines().any(is_named),
        said => matches!(process.exit_code, Some(126 | 127)) && said.lines().count() == 1 && is_named(said),
    };
    if !is_missing {
        return None;
    }
    let reason = format!("{launcher} has found no program {program:?} to start on the other side");
    let hint = "install the CLI there, or set `cliPath` to its path there";
    Some(ProviderError::new(facts.context.provider, Code::CliNotFound, reason).with_hint(hint))
}

/// The reason why a run that ended by itself is no success; `None` if it is one.
fn failure_of_its_own(facts: &CliFacts, folded: &Folded) -> Option<ProviderError> {
    let well = facts.process.end == ProcessEnd::Lingered
        || (facts.process.exit_code == Some(0) && facts.process.signal.is_none());
    let fatal = facts
        .context
        .rules
        .fatal_stderr
        .iter()
        .any(|marker| facts.process.stderr.contains(marker));
    if !well && let Some(error) = missing_there(facts) {
        return Some(error);
    }
    if !well || fatal || folded.failure.is_some() {
        return Some(classified(facts, folded));
    }
    if let Some(bytes) = facts
        .process
        .dropped_line
        .filter(|_| !is_repeated(facts.process.wire, folded))
    {
        return Some(line_too_long(facts, bytes));
    }
    // A run with an outcome has printed that.
    if folded.outcome.is_none() && facts.process.stdout_tail.trim().is_empty() {
        let reason = "the CLI ended with exit code 0 and printed nothing";
        return Some(advised(facts, Code::EmptyResponse, reason));
    }
    if let Some(text) = facts.process.plain.as_deref() {
        return failure_of_plain(facts, folded, text);
    }
    match &folded.outcome {
        Some(outcome) if outcome.num_turns == Some(0) => Some(intercepted(facts, outcome)),
        Some(outcome) if outcome.is_error || outcome.subtype.as_deref().is_some_and(|subtype| subtype != "success") => {
            Some(classified(facts, folded))
        }
        Some(outcome) if ends_early(outcome) => Some(classified(facts, folded)),
        Some(outcome) if holds_nothing(facts.process.wire, outcome, folded) => {
            let reason = "the CLI ended with exit code 0 and its result holds no answer";
            Some(advised(facts, Code::MalformedResponse, reason))
        }
        Some(_) => unstructured(facts, folded),
        None if !facts.process.wire.tells_its_end() && !facts.process.cut_short => {
            let silent = folded.reply.content.is_empty() && folded.reply.tool_calls.is_empty();
            let reason = "the CLI ended with exit code 0 and its output holds no answer";
            silent.then(|| advised(facts, Code::EmptyResponse, reason))
        }
        None => Some(cut_short(facts)),
    }
}

/// `true` if the model stopped before its answer was complete although the CLI reports a success. Versions of claude that were not
/// measured may do that; qwen uses the same words.
fn ends_early(outcome: &Outcome) -> bool {
    let stop = outcome.stop_reason.as_deref();
    stop.is_some_and(|stop| matches!(stop, "max_tokens" | "refusal" | "model_context_window_exceeded"))
}

/// `true` if the outcome repeats the whole answer, so that earlier output may be missing.
fn is_repeated(wire: Wire, folded: &Folded) -> bool {
    let outcome = folded.outcome.as_ref().filter(|_| wire.repeats_the_answer());
    outcome.is_some_and(|outcome| {
        outcome.structured.is_some() || outcome.text.as_ref().is_some_and(|text| !text.is_empty())
    })
}

fn line_too_long(facts: &CliFacts, bytes: u64) -> ProviderError {
    let most = MAX_LINE >> 20;
    let reason = format!(
        "a line of the CLI's output has {bytes} bytes, and more than {most} MiB are not taken: the answer is not whole"
    );
    ProviderError::new(facts.context.provider, Code::OutputLimit, reason).with_hint("ask for less at once")
}

/// `true` if the model said nothing and the outcome has no answer either. The results of claude and qwen have a text, or a value in
/// its place.
fn holds_nothing(wire: Wire, outcome: &Outcome, folded: &Folded) -> bool {
    let Reply {
        content,
        tool_calls,
        invalid_tool_calls,
        ..
    } = &folded.reply;
    let is_silent = content.is_empty() && tool_calls.is_empty() && invalid_tool_calls.is_empty();
    wire.repeats_the_answer() && is_silent && outcome.text.is_none() && outcome.structured.is_none()
}

/// The answer in `text`, which is all that was printed in place of `wire`; `None` if it is no answer, for the reasons in
/// [`super::judge`].
pub fn text_answer<'a>(wire: Wire, fatal_stdout: &[&str], text: &'a str) -> Option<&'a str> {
    let text = text.trim_end();
    let fatal = wire == Wire::Text && fatal_stdout.contains(&text.trim());
    (!text.is_empty() && !fatal && plain(wire, text) == Plain::Text).then_some(text)
}

/// The part of the answer that a failed run printed in text form: standard output, unless that has the reason of the failure.
pub(super) fn half_answer<'a>(context: &Context, process: &'a ProcessEvidence) -> Option<&'a str> {
    let is_reason = context.rules.fails_on_stdout && process.stderr.trim().is_empty();
    let plain = process.plain.as_deref().filter(|_| !is_reason)?;
    text_answer(process.wire, context.rules.fatal_stdout, plain)
}

/// The reason why output without any event, of a run that ended well, is no answer; `None` if it is one.
fn failure_of_plain(facts: &CliFacts, folded: &Folded, text: &str) -> Option<ProviderError> {
    match plain(facts.process.wire, text) {
        Plain::Text if text_answer(facts.process.wire, facts.context.rules.fatal_stdout, text).is_none() => {
            Some(classified(facts, folded))
        }
        Plain::Text if facts.process.cut_short && facts.process.wire == Wire::Text => Some(cut_text(facts)),
        Plain::Text => unstructured(facts, folded),
        Plain::Json(Some(failure)) => {
            let found = classify(&FailureFacts {
                failure: Some(&failure),
                ..clues(facts, folded)
            });
            Some(found.into_error(facts.context.provider))
        }
        Plain::Json(None) => {
            let reason = "the CLI ended with exit code 0 and printed JSON that is not an answer";
            Some(advised(facts, Code::MalformedResponse, reason))
        }
        Plain::Cut => Some(cut_short(facts)),
    }
}

/// The flag by which the CLI was told a schema for its answer.
fn schema_flag(process: &ProcessEvidence) -> Option<&'static str> {
    schema_flags().find(|flag| process.flags.iter().any(|set| set == flag))
}

/// The answer of a run with a schema: the value beside the text, or the text itself if the format has no place for a value.
pub(super) fn structured(process: &ProcessEvidence, folded: &Folded) -> Option<Value> {
    let structured = folded.outcome.as_ref().and_then(|outcome| outcome.structured.clone());
    structured.or_else(|| {
        schema_flag(process).filter(|_| process.wire.structures_in_text())?;
        serde_json::from_str(&folded.reply.content).ok()
    })
}

/// The error for a run with a schema whose answer is no value. The CLI reports a success all the same (claude 2.1.197 and 2.1.330,
/// recordings jsonschema-plain). A reply with tool calls is none, because its answer is still to come.
fn unstructured(facts: &CliFacts, folded: &Folded) -> Option<ProviderError> {
    let flag = schema_flag(facts.process)?;
    let wire = facts.process.wire;
    let known = wire.repeats_the_answer() || wire.structures_in_text();
    let is_checked = facts.context.rules.output_is_checked;
    if !known || is_checked || !folded.reply.tool_calls.is_empty() || structured(facts.process, folded).is_some() {
        return None;
    }
    let answer = clip(folded.reply.content.trim(), 120);
    let reason = format!("the answer has no output that fits the schema of `{flag}`: {answer}");
    Some(advised(facts, Code::OutputInvalid, reason))
}

fn cut_short(facts: &CliFacts) -> ProviderError {
    let reason = "the CLI's output ends before its result: it was cut short";
    advised(facts, Code::MalformedResponse, reason)
}

/// The error for an answer in text form that may have been cut: a text has no end by which it is known to be complete.
fn cut_text(facts: &CliFacts) -> ProviderError {
    let reason = "the CLI's output may end before its answer does: as text it loses what does not fit into a pipe";
    let error = advised(facts, Code::MalformedResponse, reason);
    error.with_hint("use `outputFormat: \"stream-json\"`, which is known to be whole by its last event")
}

/// The evidence for [`classify`] from a run that failed.
fn clues<'a>(facts: &'a CliFacts, folded: &'a Folded) -> FailureFacts<'a> {
    // With exit code 0 standard output is an answer, and answers are no error channel. Nor is half an answer of a run with another
    // exit code.
    let rules = facts.context.rules;
    let is_error = |text: &&str| {
        (facts.process.exit_code != Some(0) && rules.fails_on_stdout) || rules.fatal_stdout.contains(&text.trim())
    };
    let answer = folded.reply.content.as_str();
    let mark = facts
        .context
        .rules
        .error_message
        .filter(|mark| facts.process.exit_code != Some(0) && answer.starts_with(mark));
    FailureFacts {
        provider: facts.context.provider,
        failure: folded.failure.as_ref(),
        outcome: folded.outcome.as_ref(),
        exit_code: facts.process.exit_code,
        signal: facts.process.signal.as_deref(),
        http_status: None,
        stdout_text: facts.process.plain.as_deref().filter(is_error).or(mark.map(|_| answer)),
        answer_text: folded
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.text.as_deref())
            .or(facts.process.plain.as_deref())
            .or(Some(folded.reply.content.as_str())),
        stderr_text: Some(&facts.process.stderr),
        resets_at: folded.limit_resets_at,
        user_rules: facts.context.rules.user_rules,
        local_offset_min: facts.context.local_offset_min,
        now_ms: facts.context.now_ms,
    }
}

/// The classified error. A refused flag is named as this package has set it, because parsers spell it in their own way.
fn classified(facts: &CliFacts, folded: &Folded) -> ProviderError {
    let mut found = classify(&clues(facts, folded));
    if found.code == Code::UnsupportedFlag
        && let Some(refused) = classify::unsupported_flag(facts.context.provider, &facts.process.stderr)
        && let Some(ours) = facts.process.flags.iter().find(|flag| same_flag(flag, &refused))
    {
        found.reason = format!("unknown option {ours}");
    }
    if found.code == Code::UnsupportedFlag && !facts.context.rules.versions.is_empty() {
        let versions = facts.context.rules.versions.join(" and ");
        found.hint = found
            .hint
            .map(|hint| format!("{hint} (measured with {} {versions})", facts.context.provider));
    }
    found.into_error(facts.context.provider)
}

/// claude answers a slash command itself, with exit code 0 and without a turn (CLI-FACTS 1.2).
fn intercepted(facts: &CliFacts, outcome: &Outcome) -> ProviderError {
    let answer = outcome.text.as_deref().unwrap_or_default().trim();
    let answer = if answer.is_empty() {
        String::new()
    } else {
        format!(" and answered: {}", clip(answer, 120))
    };
    let reason = format!("the CLI took the prompt for a command of its own{answer}; the model never saw it");
    advised(facts, Code::PromptIntercepted, reason)
}

/// If its MCP server can't be reached, claude answers without the tools (CLI-FACTS 1.7). That is an error here.
fn unreached(facts: &CliFacts) -> ProviderError {
    let reason = "the CLI answered without ever having asked for the tools it was to call";
    advised(facts, Code::CallbacksUnavailable, reason)
}

fn timed_out(facts: &CliFacts, limit: Duration) -> ProviderError {
    let reason = format!(
        "no answer within {} ms: {}",
        limit.as_millis(),
        what_ended(facts, "the CLI and all it started were ended")
    );
    limited(facts, Code::Timeout, limit, reason)
}

fn idle(facts: &CliFacts, limit: Duration) -> ProviderError {
    let reason = format!(
        "the CLI printed nothing for {} ms and {}",
        limit.as_millis(),
        what_ended(facts, "was ended with all it started")
    );
    limited(facts, Code::IdleTimeout, limit, reason)
}

fn too_much(facts: &CliFacts, limit: usize) -> ProviderError {
    let reason = format!(
        "the CLI printed more than {limit} bytes, the limit of the option `maxBuffer`, and {}",
        what_ended(facts, "was ended")
    );
    advised(facts, Code::OutputLimit, reason)
}

/// The words for what was done when a limit passed: the turn was interrupted, or `process` if the process was ended.
fn what_ended<'a>(facts: &CliFacts, process: &'a str) -> &'a str {
    match facts.process.end {
        ProcessEnd::Interrupted(_) => "its turn was interrupted",
        _ => process,
    }
}

fn limited(facts: &CliFacts, code: Code, limit: Duration, reason: String) -> ProviderError {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ProviderError::new(facts.context.provider, code, reason).with_hint(classify::time_limit_hint(code, limit_ms))
}

fn advised(facts: &CliFacts, code: Code, reason: impl Into<String>) -> ProviderError {
    ProviderError::new(facts.context.provider, code, reason).with_hint(classify::hint(facts.context.provider, code))
}
