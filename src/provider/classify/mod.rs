//! Decides why a run failed, and what to do about it.
//!
//! In: [`FailureFacts`], everything that is known of a failed run: the provider's fields, exit code, signal, standard error; or a text of
//! another runner's program, with its context as JSON ([`classify_with_context`]: the function `classifyError`). Out: a
//! [`Classification`]: the stable code, its category, the provider's own reason, a hint, and when to try again.
//!
//! Rules are data (`provider/<id>/`, `rules.rs`). Fields are believed first, then exit codes and signals that have a meaning, then text, and
//! only the text of error channels. Pure: the time is passed in.

mod channel;
mod retry_after;
mod rules;
#[cfg(test)]
mod tests;

use channel::ErrorText;
pub use channel::{refused_schema, unsupported_flag};
pub use retry_after::{DEFAULT_MS as DEFAULT_RETRY_AFTER_MS, RetryAfter, retry_after, retry_after_in};
use rules::ProviderRules;
pub use rules::{
    IN_ARCHIVE, NO_TEMPORARY_FOLDER, OLD_NODE, OUT_OF_REACH, SKIPPED_FOLDER, TILDE, general_hint, hint, reinstall,
    time_limit_hint,
};

pub use crate::errors::UserRule;
use crate::errors::{Facts, Pass, Rule, first_user_rule, snake, spaced};
use crate::options::{self, Kind, OptionSpec};
use dfp_model::error::{Category, Code, ProviderError};
use dfp_model::event::{Failure, Outcome};

/// A limit that ended at most this long ago (ms) counts as ending now: clocks differ, and a time of day has whole minutes only.
const JUST_PAST_MS: u64 = 10 * 60_000;

/// A quota that is renewed within this time (ms) is a rate limit. gemini 0.61.0 draws the same line for its own retries.
const SOON_MS: u64 = 5 * 60_000;

/// Everything that is known of a failed run. All fields but the provider may be missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailureFacts<'a> {
    /// The provider's id, for example `claude`; empty if unknown: then the wordings of all CLIs are tried.
    pub provider: &'a str,
    /// The failure that the provider reports in fields.
    pub failure: Option<&'a Failure>,
    /// The outcome that the provider reports for the run.
    pub outcome: Option<&'a Outcome>,
    /// The CLI's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended the CLI, for example `SIGKILL`. Signals sent by this package are left out: time limits and aborts are
    /// known before.
    pub signal: Option<&'a str>,
    /// The HTTP status of the API's answer, from a field.
    pub http_status: Option<u16>,
    /// Standard output, if it is an error channel (claude, text form, exit code 1). It counts only if standard error is empty.
    pub stdout_text: Option<&'a str>,
    /// The answer that the failed run printed all the same. Only the user's own rules look at it, and no reason quotes it.
    pub answer_text: Option<&'a str>,
    /// Standard error: all of it, or its head and tail.
    pub stderr_text: Option<&'a str>,
    /// The time when a limit ends, ms since the epoch, from a field of another event (claude: `rate_limit_event`).
    pub resets_at: Option<u64>,
    /// The user's own rules, which are tried before all others on the text of error channels.
    pub user_rules: &'a [UserRule],
    /// Minutes by which local time is east of UTC. Codex names local times (`try again at 10:50 PM`), which can't be resolved
    /// without the offset.
    pub local_offset_min: Option<i32>,
    /// The current time, ms since the epoch.
    pub now_ms: u64,
}

/// The facts that accompany a text for [`classify_text`].
#[derive(Debug, Clone, Copy, Default)]
pub struct TextFacts<'a> {
    /// The provider's id; empty if unknown.
    pub provider: &'a str,
    /// The exit code.
    pub exit_code: Option<i32>,
    /// The signal, for example `SIGTERM`.
    pub signal: Option<&'a str>,
    /// The HTTP status.
    pub http_status: Option<u16>,
    /// Minutes by which local time is east of UTC, if known.
    pub local_offset_min: Option<i32>,
}

/// The reason why a run failed, and the advice for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// The stable code.
    pub code: Code,
    /// The code's category, which decides whether the call is tried again.
    pub category: Category,
    /// The reason, in the provider's words if it gave any: one line without escape sequences or secrets.
    pub reason: String,
    /// The advice.
    pub hint: Option<String>,
    /// The wait before another attempt, ms. A rate limit always has one.
    pub retry_after_ms: Option<u64>,
    /// The time when the limit ends, ms since the epoch.
    pub resets_at: Option<u64>,
    /// The HTTP status of the API's answer, from a field or from the text.
    pub http_status: Option<u16>,
    /// The exit code, unchanged.
    pub exit_code: Option<i32>,
    /// The signal, unchanged.
    pub signal: Option<String>,
}

impl Classification {
    /// The error to throw. Its message is the reason followed by the hint.
    pub fn into_error(self, provider: &str) -> ProviderError {
        let error = ProviderError::new(provider, self.code, self.reason);
        let mut error = match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        };
        error.retry_after_ms = self.retry_after_ms;
        error.resets_at = self.resets_at;
        error.http_status = self.http_status;
        error.exit_code = self.exit_code;
        error.signal = self.signal;
        error
    }
}

/// Decides why a run failed. Only for runs that did fail: there is no answer for a success.
pub fn classify(evidence: &FailureFacts) -> Classification {
    Case::new(evidence).verdict()
}

/// Decides what an error text of another program means. All of the text is taken for an error channel. `SIGTERM` and `SIGKILL` are
/// time-outs here, as in CLI-ADAPTER-PROTOCOL, because a caller's own runner uses them to end programs that take too long.
pub fn classify_text(text: &str, context: &TextFacts, now_ms: u64) -> Classification {
    let evidence = FailureFacts {
        provider: context.provider,
        exit_code: context.exit_code,
        http_status: context.http_status,
        local_offset_min: context.local_offset_min,
        now_ms,
        ..FailureFacts::default()
    };
    let mut case = Case::new(&evidence);
    // A text of nothing but noise is shown as the reason, but no rule sees it.
    let channel_text = channel::stderr(text);
    let noise = channel_text.is_empty().then(|| channel::message(text).reason);
    match context.signal {
        // The signal comes after the text, because a message is the stronger evidence.
        Some(signal @ ("SIGTERM" | "SIGKILL")) => {
            case.channels = vec![channel_text, channel::message(&format!("ended by {signal}"))]
        }
        other => {
            case.evidence.signal = other;
            case.channels = vec![channel_text];
        }
    }
    case.channels.retain(|channel_text| !channel_text.is_empty());
    let mut found = case.verdict();
    found.signal = context.signal.map(str::to_owned);
    if let Some(noise) = noise.filter(|noise| !noise.is_empty())
        && found.code == Code::Unknown
    {
        found.reason = noise;
    }
    found
}

/// A failed run while it is classified.
struct Case<'a> {
    evidence: FailureFacts<'a>,
    /// The texts of error channels, the most trusted first, without empty ones.
    channels: Vec<ErrorText>,
}

/// The rule that decided, and the code after refinement.
struct Verdict {
    rule: Option<&'static Rule>,
    code: Code,
    user_hint: Option<String>,
    http_status: Option<u16>,
}

impl<'a> Case<'a> {
    fn new(evidence: &FailureFacts<'a>) -> Self {
        let failure = evidence.failure.map(|f| channel::message(&f.message));
        let outcome = evidence
            .outcome
            .filter(|o| o.is_error)
            .and_then(|o| o.text.as_deref())
            .map(channel::message);
        let stderr = evidence
            .stderr_text
            .map(channel::stderr)
            .filter(|text| !text.is_empty());
        // If standard error has a reason, standard output is only the beginning of an answer.
        let stdout = evidence.stdout_text.filter(|_| stderr.is_none()).map(channel::message);
        Case {
            evidence: *evidence,
            channels: [failure, outcome, stderr, stdout]
                .into_iter()
                .flatten()
                .filter(|text| !text.is_empty())
                .collect(),
        }
    }

    /// The complete classification.
    fn verdict(&self) -> Classification {
        let found = self.find();
        let reason = self.reason(&found);
        let (retry_after_ms, resets_at) = self.when(found.code);
        let hint = found
            .user_hint
            .or_else(|| Some(found.rule.filter(|r| r.code == found.code)?.hint?.to_owned()))
            .unwrap_or_else(|| hint(self.evidence.provider, found.code).to_owned());
        Classification {
            code: found.code,
            category: found.code.category(),
            reason,
            hint: Some(hint),
            retry_after_ms,
            resets_at,
            http_status: found.http_status,
            exit_code: self.evidence.exit_code,
            signal: self.evidence.signal.map(str::to_owned),
        }
    }

    /// Tries the evidence in the order in which it is believed.
    fn find(&self) -> Verdict {
        let mut facts = self.facts();
        let everything = facts.clone();
        let printed = self
            .evidence
            .answer_text
            .filter(|_| !self.evidence.user_rules.is_empty());
        let told = format!("{}\n{}", everything.text, spaced(printed.unwrap_or_default()));
        if let Some((code, hint)) = first_user_rule(self.evidence.user_rules, &told) {
            return Verdict {
                rule: None,
                code,
                user_hint: hint,
                http_status: facts.status,
            };
        }
        let rule = self
            .full_context(&mut facts)
            .or_else(|| self.first(Pass::Structure, &facts))
            .or_else(|| self.first(Pass::Exit, &everything))
            .or_else(|| {
                let (rule, refined) = self.channels.iter().find_map(|text| self.of_text(text, &facts))?;
                facts = refined;
                Some(rule)
            })
            .or_else(|| self.first(Pass::Last, &everything));
        let base = rule.map_or_else(|| self.without_rule(), |r| r.code);
        facts.is = Some(base);
        // A provider's own rules know its wordings. Only codes of the common rules are refined by text.
        let is_final = rule.is_none_or(|rule| !rules::TABLE.owns(rule));
        let finer = rules::FINER.first(Pass::Structure, &facts).filter(|_| !is_final);
        Verdict {
            code: finer.map_or(base, |f| f.code),
            rule,
            user_hint: None,
            http_status: facts.status,
        }
    }

    /// The rule for a thread that is longer than the model's context, found by a field or a sentence in any channel.
    fn full_context(&self, facts: &mut Facts) -> Option<&'static Rule> {
        let kinds = self.channels.iter().flat_map(|channel| channel.kinds.iter().cloned());
        let all = Facts {
            kinds: facts.kinds.iter().cloned().chain(kinds).collect(),
            ..facts.clone()
        };
        let table = &rules::FULL;
        let rule = table
            .first(Pass::Structure, &all)
            .or_else(|| table.first(Pass::Text, &all))?;
        let told = |channel: &ErrorText| channel.status.or_else(|| channel::status_in(&channel.text));
        facts.status = facts.status.or_else(|| self.channels.iter().find_map(told));
        Some(rule)
    }

    /// `true` if a wait of minutes at most is asked for. APIs name seconds for a daily quota, too, which is not renewed by then.
    fn is_soon(&self, kinds: &[String], text: &str) -> bool {
        let wait = self.asked_wait().map(|wait| wait.after_ms);
        let daily = || kinds.iter().any(|kind| kind.contains("per_day")) || names_a_day(text);
        wait.is_some_and(|ms| ms <= SOON_MS) && !daily()
    }

    /// The wait that a field or a text asks for.
    fn asked_wait(&self) -> Option<RetryAfter> {
        let field = self.evidence.failure.and_then(|failure| failure.retry_after_ms);
        let field = field.map(|after_ms| RetryAfter {
            after_ms,
            resets_at: None,
        });
        field.or_else(|| {
            self.channels
                .iter()
                .find_map(|channel| retry_after_in(&channel.text, self.evidence.now_ms, self.evidence.local_offset_min))
        })
    }

    /// The rule for the text of one channel, and the facts it was found with. The provider's own messages come first, then
    /// everything that is as good as a field (a JSON body, a status in prose), then the patterns for every provider.
    fn of_text(&self, channel: &ErrorText, facts: &Facts) -> Option<(&'static Rule, Facts)> {
        let mut facts = facts.clone();
        facts.text = spaced(&channel.text);
        facts.status = facts
            .status
            .or(channel.status)
            .or_else(|| channel::status_in(&channel.text));
        if let Some(rule) = self.of_provider(Pass::Text, &facts) {
            return Some((rule, facts));
        }
        facts.kinds.extend(channel.kinds.iter().cloned());
        let rule = self
            .first(Pass::Structure, &facts)
            .or_else(|| rules::TABLE.first(Pass::Text, &facts))?;
        Some((rule, facts))
    }

    fn first(&self, pass: Pass, facts: &Facts) -> Option<&'static Rule> {
        self.of_provider(pass, facts)
            .or_else(|| rules::TABLE.first(pass, facts))
    }

    /// The first rule of the provider's own table that holds; if the provider is unknown, of all tables.
    fn of_provider(&self, pass: Pass, facts: &Facts) -> Option<&'static Rule> {
        let ask = |known: &'static ProviderRules| known.table.first(pass, facts);
        match self.evidence.provider {
            "" if pass == Pass::Text => rules::ALL.iter().find_map(ask),
            provider => rules::of(provider).and_then(ask),
        }
    }

    /// The facts from fields, exit code and signal.
    fn facts(&self) -> Facts {
        let FailureFacts { failure, outcome, .. } = self.evidence;
        let provider = self.evidence.provider;
        // A JSON body in the failure's own message counts as fields of the failure.
        let body = failure.and(self.channels.first());
        let kind = failure.and_then(|f| f.kind.as_deref()).map(snake);
        let exit = self.evidence.exit_code;
        let status = failure
            .and_then(|f| f.http_status)
            .or(self.evidence.http_status)
            .or(body.and_then(|b| b.status));
        let kinds: Vec<String> = kind
            .iter()
            .cloned()
            .chain(
                failure
                    .into_iter()
                    .flat_map(|f| f.more_kinds.iter().map(|kind| snake(kind))),
            )
            .chain(body.into_iter().flat_map(|b| b.kinds.iter().cloned()))
            .collect();
        let text = spaced(
            &self
                .channels
                .iter()
                .map(|channel| channel.text.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
        );
        Facts {
            soon: self.is_soon(&kinds, &text),
            kinds,
            status: status.or_else(|| exit.and_then(|code| rules::status_of_exit(provider, code))),
            terminal: failure.and_then(|f| f.terminal_reason.clone()),
            subtype: outcome
                .and_then(|o| o.subtype.clone())
                .or_else(|| kind.clone().filter(|k| k.starts_with("error_"))),
            stop: outcome.and_then(|o| o.stop_reason.clone()),
            no_turns: outcome.is_some_and(|o| o.num_turns == Some(0)),
            exit,
            signal: self.evidence.signal.map(str::to_owned),
            plan_limit: failure.is_some_and(|f| f.limit_type.is_some()),
            no_plan: failure.is_some_and(|f| f.no_plan),
            is: None,
            text,
        }
    }

    /// The code if no rule holds.
    fn without_rule(&self) -> Code {
        let ended_well = self.evidence.exit_code == Some(0) && self.evidence.failure.is_none();
        if ended_well && self.channels.is_empty() {
            Code::EmptyResponse
        } else {
            Code::Unknown
        }
    }

    /// The reason for people: the rule's own words, or else the provider's message.
    fn reason(&self, found: &Verdict) -> String {
        let message = self
            .channels
            .iter()
            .map(|channel| channel.reason.as_str())
            .find(|reason| !reason.is_empty());
        let ours = found.rule.and_then(|rule| rule.say);
        match (ours, message) {
            // A message that the provider printed before it died is helpful, a diagnostic that it prints as such is not.
            (Some(ours), Some(message)) if self.ended_by_exit(found) => format!("{ours}: {message}"),
            (Some(ours), _) => ours.to_owned(),
            (None, Some(_)) if found.code == Code::UnsupportedFlag => self.refused_flag(message),
            (None, Some(message)) => message.to_owned(),
            (None, None) => self.without_message(found.code),
        }
    }

    fn ended_by_exit(&self, found: &Verdict) -> bool {
        found.rule.is_some_and(|rule| rule.pass() == Pass::Exit)
    }

    /// The reason for a refused flag. It names the flag only, because the rest of the sentence may quote a prompt.
    fn refused_flag(&self, message: Option<&str>) -> String {
        self.channels
            .iter()
            .find_map(|channel| unsupported_flag(self.evidence.provider, &channel.text))
            .map_or_else(
                || message.unwrap_or_default().to_owned(),
                |flag| format!("unknown option {flag}"),
            )
    }

    /// The reason for a run of which nothing printed a message.
    fn without_message(&self, code: Code) -> String {
        match (self.evidence.signal, self.evidence.exit_code, self.evidence.http_status) {
            (Some(signal), ..) => format!("ended by {signal}"),
            (_, _, Some(status)) => format!("HTTP status {status}"),
            (_, Some(0), _) if code == Code::EmptyResponse => "ended well, but said nothing".to_owned(),
            (_, Some(exit), _) => match self.evidence.answer_text.map(str::trim) {
                Some(answer) if !answer.is_empty() => {
                    format!("exited with code {exit} after it printed an answer, and gave no reason")
                }
                _ => format!("exited with code {exit} and said nothing"),
            },
            _ => "failed and gave no reason".to_owned(),
        }
    }

    /// The wait before another attempt in ms, and the time when the limit ends, ms since the epoch.
    fn when(&self, code: Code) -> (Option<u64>, Option<u64>) {
        let now = self.evidence.now_ms;
        let category = code.category();
        let is_limit = matches!(category, Category::Quota | Category::RateLimit);
        if !is_limit && !category.should_retry() {
            return (None, None);
        }
        let field = self
            .evidence
            .failure
            .and_then(|f| f.resets_at)
            .or(self.evidence.resets_at)
            .filter(|at| is_limit && at.saturating_add(JUST_PAST_MS) > now)
            .map(|at| RetryAfter::until(at, now));
        let found = field.or_else(|| self.asked_wait());
        match found {
            Some(wait) => {
                let ends = wait
                    .resets_at
                    .or((category == Category::Quota).then_some(now.saturating_add(wait.after_ms)));
                (Some(wait.after_ms), ends.filter(|_| is_limit))
            }
            None => (
                (category == Category::RateLimit).then_some(DEFAULT_RETRY_AFTER_MS),
                None,
            ),
        }
    }
}

/// `true` if a text is about a daily quota, as Google's `quotaId` can be (`GenerateRequestsPerDayPerProjectPerModel`).
fn names_a_day(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["per day", "per_day", "daily"].iter().any(|word| text.contains(word))
}

/// The options of a context.
const CONTEXT: &[OptionSpec] = &[
    OptionSpec {
        name: "provider",
        kind: Kind::Text,
    },
    OptionSpec {
        name: "exitCode",
        kind: Kind::ExitCode,
    },
    OptionSpec {
        name: "signal",
        kind: Kind::Text,
    },
    OptionSpec {
        name: "httpStatus",
        kind: Kind::Whole(100, 599),
    },
];

/// The error that a provider would have thrown for `text`.
///
/// # Errors
/// `INVALID_OPTION`, naming the field of the context, its value and what is allowed.
pub fn classify_with_context(
    text: &str,
    context_json: &str,
    now_ms: u64,
    local_offset_min: Option<i32>,
) -> Result<ProviderError, Box<ProviderError>> {
    let fields = options::checked_within("", CONTEXT, context_json, "context.")?;
    let text_of = |name: &str| fields.get(name).and_then(|value| value.as_str());
    let context = TextFacts {
        provider: text_of("provider").unwrap_or_default(),
        exit_code: options::exit_code_of(&fields, "exitCode"),
        signal: text_of("signal"),
        http_status: options::number(&fields, "httpStatus").and_then(|status| u16::try_from(status).ok()),
        local_offset_min,
    };
    Ok(classify_text(text, &context, now_ms).into_error(context.provider))
}
