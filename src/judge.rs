//! Did it succeed? A run's facts in, a [`Reply`] or a [`ProviderError`] out. Nothing else in the crate decides this.
//!
//! Success is: exit 0, no failure told, nothing fatal on standard error, and an outcome (a wire format's last word) that is
//! no error. Of claude that is subtype "success", `is_error` false and at least one turn (CLI-FACTS 1.1); of codex
//! `turn.completed`; of gemini `result` with status "success"; of opencode a last `step_finish` with a reason that ends a run.
//! qwen tells an API's error with exit 0 and "success": its decoder makes a failure of it. Output that is no JSON at all,
//! with exit 0, is taken as text; JSON that is no answer never is, nor is the beginning of a stream or an object. In the format
//! `text` an answer's end can't be told from a cut, so there the exit code decides alone.

use std::time::Duration;

use serde::de::IgnoredAny;

use crate::classify::{self, Evidence, UserRule, classify};
use crate::decode::{Plain, Wire, plain};
use crate::error::{Code, Partial, ProviderError, clip};
use crate::event::{Outcome, Reply};
use crate::fold::Folded;
use crate::provider::same_flag;

/// The flag of claude and qwen that asks for an answer by a schema.
const JSON_SCHEMA: &str = "--json-schema";

/// Why the process is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited by itself.
    Exited,
    /// Its turn is over and it is still there: a live session, or a CLI that did not exit after its last word. There is no exit
    /// code then.
    TurnOver,
    /// The wall-clock limit passed.
    TimedOut(Duration),
    /// Nothing came for this long.
    Idle(Duration),
    /// It printed more than this many bytes.
    TooMuch(usize),
}

/// All that is known of a run that has ended.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The provider's id.
    pub provider: &'a str,
    /// Versions of the CLI that this package was measured with.
    pub versions: &'a [&'a str],
    /// What standard error says where a run is no success, whatever else it says.
    pub fatal_stderr: &'a [&'a str],
    /// What all of standard output is in text form where a run is no success.
    pub fatal_stdout: &'a [&'a str],
    /// How a message begins that is the reason of a run that failed.
    pub error_message: Option<&'a str>,
    /// The flags it was given.
    pub flags: &'a [String],
    /// Error rules of the user's own.
    pub user_rules: &'a [UserRule],
    /// It was to call tools over a bridge, and has never asked for them.
    pub unreached: bool,
    /// What it was to print.
    pub wire: Wire,
    /// Why it ended.
    pub ending: Ending,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal it died of.
    pub signal: Option<&'a str>,
    /// Head and tail of standard error.
    pub stderr: &'a str,
    /// Standard output where it held no event at all.
    pub plain: Option<&'a str>,
    /// Standard output ends in the middle of a line.
    pub cut_short: bool,
    /// Lines that were no events.
    pub diagnostics: &'a [String],
    /// The last bytes of standard output.
    pub stdout_tail: &'a str,
    /// Now, ms since the epoch.
    pub now_ms: u64,
    /// Minutes by which local time is east of UTC, if known: CLIs tell when a limit ends in local time.
    pub local_offset_min: Option<i32>,
}

/// The verdict.
///
/// # Errors
/// Whatever made the run no success.
pub fn judge(facts: &Facts, folded: Folded) -> Result<Reply, Box<ProviderError>> {
    let error = match facts.ending {
        Ending::TimedOut(limit) => timed_out(facts, limit),
        Ending::Idle(limit) => idle(facts, limit),
        Ending::TooMuch(limit) => too_much(facts, limit),
        Ending::Exited | Ending::TurnOver => match failure(facts, &folded) {
            None if facts.unreached => unreached(facts),
            None => {
                let mut reply = folded.reply;
                reply.diagnostics.extend_from_slice(facts.diagnostics);
                return Ok(reply);
            }
            Some(error) => error,
        },
    };
    Err(Box::new(with_facts(error, facts, folded)))
}

/// Why a run that came to its own end is no success; `None` if it is one.
fn failure(facts: &Facts, folded: &Folded) -> Option<ProviderError> {
    let well = facts.ending == Ending::TurnOver || (facts.exit_code == Some(0) && facts.signal.is_none());
    let fatal = facts.fatal_stderr.iter().any(|words| facts.stderr.contains(words));
    if !well || fatal || folded.failure.is_some() {
        return Some(classified(facts, folded));
    }
    if facts.stdout_tail.trim().is_empty() {
        let reason = "the CLI ended with exit code 0 and printed nothing";
        return Some(advised(facts, Code::EmptyResponse, reason));
    }
    if let Some(text) = facts.plain {
        return failure_of_plain(facts, folded, text);
    }
    match &folded.outcome {
        Some(outcome) if outcome.num_turns == Some(0) => Some(intercepted(facts, outcome)),
        Some(outcome) if outcome.is_error || outcome.subtype.as_deref().is_some_and(|subtype| subtype != "success") => {
            Some(classified(facts, folded))
        }
        Some(outcome) => unstructured(facts, folded, outcome.structured),
        None if !facts.wire.tells_its_end() && !facts.cut_short => {
            let silent = folded.reply.content.is_empty() && folded.reply.tool_calls.is_empty();
            let reason = "the CLI ended with exit code 0 and its output holds no answer";
            silent.then(|| advised(facts, Code::EmptyResponse, reason))
        }
        None => Some(cut_short(facts)),
    }
}

/// The answer in `text`, all that was printed where `wire` was to be; `None` where it is none ([`judge`] says why).
pub fn text_answer<'a>(wire: Wire, fatal_stdout: &[&str], text: &'a str) -> Option<&'a str> {
    let text = text.trim_end();
    let fatal = wire == Wire::Text && fatal_stdout.contains(&text.trim());
    (!text.is_empty() && !fatal && plain(wire, text) == Plain::Text).then_some(text)
}

/// Why output without an event, of a run that ended well, is no answer; `None` if it is one.
fn failure_of_plain(facts: &Facts, folded: &Folded, text: &str) -> Option<ProviderError> {
    match plain(facts.wire, text) {
        Plain::Text if text_answer(facts.wire, facts.fatal_stdout, text).is_none() => Some(classified(facts, folded)),
        Plain::Text => unstructured(facts, folded, serde_json::from_str::<IgnoredAny>(text).is_ok()),
        Plain::Json(Some(failure)) => {
            let found = classify(&Evidence {
                failure: Some(&failure),
                ..evidence(facts, folded)
            });
            Some(found.into_error(facts.provider))
        }
        Plain::Json(None) => {
            let reason = "the CLI ended with exit code 0 and printed JSON that is no answer";
            Some(advised(facts, Code::MalformedResponse, reason))
        }
        Plain::Cut => Some(cut_short(facts)),
    }
}

/// A run that was to answer by a schema and did not: the CLI calls it a success all the same (claude 2.1.197 and 2.1.330,
/// recordings jsonschema-plain). Where it calls tools, its answer is still to come.
fn unstructured(facts: &Facts, folded: &Folded, structured: bool) -> Option<ProviderError> {
    let asked = matches!(facts.wire, Wire::ClaudeStream | Wire::ClaudeJson | Wire::Text)
        && facts.flags.iter().any(|flag| flag == JSON_SCHEMA);
    if !asked || structured || !folded.reply.tool_calls.is_empty() {
        return None;
    }
    let said = clip(folded.reply.content.trim(), 120);
    let reason = format!("the answer has no output that fits the schema of `{JSON_SCHEMA}`: {said}");
    Some(advised(facts, Code::MalformedResponse, reason))
}

fn cut_short(facts: &Facts) -> ProviderError {
    let reason = "the CLI's output ends before its result: it was cut short";
    advised(facts, Code::MalformedResponse, reason)
}

fn evidence<'a>(facts: &'a Facts, folded: &'a Folded) -> Evidence<'a> {
    // With exit code 0 standard output is an answer, and answers are no error channel.
    let is_error = |text: &&str| facts.exit_code != Some(0) || facts.fatal_stdout.contains(&text.trim());
    let said = folded.reply.content.as_str();
    let told = facts
        .error_message
        .filter(|mark| facts.exit_code != Some(0) && said.starts_with(mark));
    Evidence {
        provider: facts.provider,
        failure: folded.failure.as_ref(),
        outcome: folded.outcome.as_ref(),
        exit_code: facts.exit_code,
        signal: facts.signal,
        http_status: None,
        stdout_text: facts.plain.filter(is_error).or(told.map(|_| said)),
        answer_text: folded
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.text.as_deref())
            .or(Some(folded.reply.content.as_str())),
        stderr_text: Some(facts.stderr),
        resets_at: folded.limit_resets_at,
        user_rules: facts.user_rules,
        local_offset_min: facts.local_offset_min,
        now_ms: facts.now_ms,
    }
}

fn classified(facts: &Facts, folded: &Folded) -> ProviderError {
    let mut found = classify(&evidence(facts, folded));
    if found.code == Code::UnsupportedFlag
        && let Some(refused) = classify::unsupported_flag(facts.provider, facts.stderr)
        && let Some(ours) = facts.flags.iter().find(|flag| same_flag(flag, &refused))
    {
        found.reason = format!("unknown option {ours}");
    }
    if found.code == Code::UnsupportedFlag && !facts.versions.is_empty() {
        let versions = facts.versions.join(" and ");
        found.hint = found
            .hint
            .map(|hint| format!("{hint} (measured with {} {versions})", facts.provider));
    }
    found.into_error(facts.provider)
}

/// claude answers a slash command itself, with exit code 0 and no turn taken (CLI-FACTS 1.2).
fn intercepted(facts: &Facts, outcome: &Outcome) -> ProviderError {
    let said = outcome.text.as_deref().unwrap_or_default().trim();
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(" and answered: {}", clip(said, 120))
    };
    let reason = format!("the CLI took the prompt for a command of its own{said}; the model never saw it");
    advised(facts, Code::PromptIntercepted, reason)
}

/// claude answers all the same where a server of tools can't be reached (CLI-FACTS 1.7): an answer without them.
fn unreached(facts: &Facts) -> ProviderError {
    let reason = "the CLI answered without ever having asked for the tools it was to call";
    advised(facts, Code::CallbacksUnavailable, reason)
}

fn timed_out(facts: &Facts, limit: Duration) -> ProviderError {
    let reason = format!(
        "no answer within {} ms: the CLI and all it started were ended",
        limit.as_millis()
    );
    limited(facts, Code::Timeout, limit, reason)
}

fn idle(facts: &Facts, limit: Duration) -> ProviderError {
    let reason = format!(
        "the CLI printed nothing for {} ms and was ended with all it started",
        limit.as_millis()
    );
    limited(facts, Code::IdleTimeout, limit, reason)
}

fn too_much(facts: &Facts, limit: usize) -> ProviderError {
    let reason = format!("the CLI printed more than {limit} bytes, the limit of the option `maxBuffer`, and was ended");
    advised(facts, Code::OutputLimit, reason)
}

fn limited(facts: &Facts, code: Code, limit: Duration, reason: String) -> ProviderError {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ProviderError::new(facts.provider, code, reason).with_hint(classify::time_limit_hint(code, limit_ms))
}

fn advised(facts: &Facts, code: Code, reason: impl Into<String>) -> ProviderError {
    ProviderError::new(facts.provider, code, reason).with_hint(classify::hint(facts.provider, code))
}

fn with_facts(mut error: ProviderError, facts: &Facts, folded: Folded) -> ProviderError {
    let some = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
    error.exit_code = facts.exit_code;
    error.signal = facts.signal.map(str::to_owned);
    error.stderr_tail = some(facts.stderr);
    error.stdout_tail = some(facts.stdout_tail);
    error.usage.clone_from(&folded.usage);
    error.partial = Some(Partial {
        text: folded.text().into_owned(),
        events: folded.events,
        usage: folded.usage,
    });
    error
}

#[cfg(test)]
mod tests;
