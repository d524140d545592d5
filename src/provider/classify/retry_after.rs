//! Reads from a provider's text how long to wait before the next attempt.
//!
//! In: the text of an error channel, and the current time. Out: [`RetryAfter`]. Durations (`try again in 1h 30m`, `retryDelay:
//! "34s"`, `Retry-After: 30`) are read here, points in time (`resets 3pm (UTC)`, an epoch, an HTTP date) in `moment`.

use std::sync::LazyLock;

use regex::Regex;

use super::moment;

/// The wait after a rate limit that names none, ms (CLI-ADAPTER-PROTOCOL, "Retry-After Extraction").
pub const DEFAULT_MS: u64 = 1000;

/// The longest wait, ms: 32 days. The longest limit there is lasts a month; more is a misreading.
pub const MAX_MS: u64 = 32 * 24 * 60 * 60 * 1000;

/// A wait that a provider asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter {
    /// The wait from now, ms; at most `MAX_MS`, and 0 if the time has passed.
    pub after_ms: u64,
    /// The end of the wait, ms since the epoch, if the text names a point in time instead of a duration.
    pub resets_at: Option<u64>,
}

impl RetryAfter {
    /// The wait until `resets_at`.
    pub(super) fn until(resets_at: u64, now_ms: u64) -> Self {
        RetryAfter {
            after_ms: resets_at.saturating_sub(now_ms).min(MAX_MS),
            resets_at: Some(resets_at),
        }
    }
}

/// Words that a duration or a bare number of seconds follows. The unit may be part of the name (`retry_after_ms`).
const ANCHOR: &str = r#"(?ix)
    (?: \b(?:retry(?:ing)?[\s_-]*(?:after|in|delay)
          | (?:try|tried|again)(?:ing)?(?:\s+(?:it\s+)?again)?\s+(?:in|after)
          | (?:please\s+)?wait(?:ing)?(?:\s+for)?
          | resets?[\s_-]*(?:in|after)
          | available(?:\s+again)?\s+in
          | back[\s-]?off(?:\s+for)?) )
    [\s_-]* (ms\b | millis(?:econds)?\b | s\b | secs?\b | seconds?\b)?
    ["']? \s* [:=]? \s* ["']? \s*
    (?: about\s+ | around\s+ | approximately\s+ | at\s+least\s+ | another\s+ | up\s+to\s+ | ~\s* )?"#;

/// A number and its unit, which may be missing.
const AMOUNT: &str = r"(?ix) ^ (?: \s* (?:,|and\b)? \s* )
    (\d{1,15}(?:\.\d{1,9})?)
    [\s-]* ( milliseconds?\b | millis\b | msecs?\b | ms\b | seconds?\b | secs?\b | s\b | minutes?\b | mins?\b | hours?\b | hrs?\b
       | days?\b | weeks?\b | [mhdw]\b | [mhd](?:\d) )?";

static ANCHORS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ANCHOR).ok());
static AMOUNTS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(AMOUNT).ok());

/// The wait that `text` asks for, if the local time zone is unknown: see [`retry_after_in`].
pub fn retry_after(text: &str, now_ms: u64) -> Option<RetryAfter> {
    retry_after_in(text, now_ms, None)
}

/// The wait that `text` asks for. A wall-clock time (`resets 3pm (UTC)`) means the next such time after `now_ms`. A time without a
/// zone is local, and counts only if `local_offset_min` (minutes east of UTC) is known.
pub fn retry_after_in(text: &str, now_ms: u64, local_offset_min: Option<i32>) -> Option<RetryAfter> {
    let moment = || moment::find(text, now_ms, local_offset_min).map(|resets_at| RetryAfter::until(resets_at, now_ms));
    moment::epoch(text, now_ms)
        .map(|resets_at| RetryAfter::until(resets_at, now_ms))
        .or_else(|| duration_in(text))
        .or_else(moment)
}

/// The first duration in `text` that stands behind an anchor, or that is the whole text.
fn duration_in(text: &str) -> Option<RetryAfter> {
    let anchors = ANCHORS.as_ref()?;
    let ms = anchors
        .captures_iter(text)
        .find_map(|c| {
            let rest = &text[c.get(0)?.end()..];
            duration(rest, c.get(1).map(|unit| unit.as_str()))
        })
        .or_else(|| whole_duration(text))?;
    Some(RetryAfter {
        after_ms: ms,
        resets_at: None,
    })
}

/// The duration of a text that holds nothing else, like `1h 30m`. A bare number is no duration here.
fn whole_duration(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('.');
    let ends_in_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let (ms, rest) = amounts(text, None)?;
    (ends_in_unit && rest.is_empty()).then_some(ms)
}

/// The duration at the start of `text`. `unit` is the unit of a number without one; seconds by default.
fn duration(text: &str, unit: Option<&str>) -> Option<u64> {
    amounts(text, unit).map(|(ms, _)| ms)
}

/// The sum of amounts like `1h 30m 5s` at the start of `text`, in ms, and the text behind them.
fn amounts<'t>(text: &'t str, default_unit: Option<&str>) -> Option<(u64, &'t str)> {
    let pattern = AMOUNTS.as_ref()?;
    let (mut rest, mut total) = (text, None::<f64>);
    while let Some(c) = pattern.captures(rest) {
        let (number, unit) = (c.get(1)?, c.get(2));
        let next = match unit {
            // In `1h30m` the pattern has taken a digit behind the unit, which belongs to the next amount.
            Some(u) if u.as_str().ends_with(|c: char| c.is_ascii_digit()) => &rest[u.end() - 1..],
            Some(u) => &rest[u.end()..],
            None => &rest[number.end()..],
        };
        if unit.is_none() && (total.is_some() || !stands_alone(next)) {
            break;
        }
        let scale = match (unit, default_unit) {
            (Some(u), _) => scale_of(u.as_str()),
            (None, Some(name)) => scale_of(name),
            (None, None) => 1000.0,
        };
        total = Some(total.unwrap_or(0.0) + number.as_str().parse::<f64>().ok()? * scale);
        rest = next;
        if unit.is_none() {
            break;
        }
    }
    let ms = total?.ceil();
    // The cast of a float that is too large saturates.
    Some(((ms as u64).min(MAX_MS), rest))
}

/// `true` if a number without a unit is the whole amount: `Retry-After: 30`, but not `retry after 3 attempts` or `3pm`.
fn stands_alone(after: &str) -> bool {
    let mut chars = after.chars();
    match chars.next() {
        None => true,
        Some(c) if c.is_whitespace() => {
            let word = after.trim_start().chars().next();
            after.starts_with(['\n', '\r']) || !word.is_some_and(|c| c.is_alphanumeric())
        }
        Some('.') | Some(':') | Some('-') | Some('/') => !chars.next().is_some_and(|c| c.is_ascii_digit()),
        Some(c) => !c.is_alphanumeric() && c != '%',
    }
}

/// The milliseconds of one unit.
fn scale_of(unit: &str) -> f64 {
    let unit = unit.trim_end_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase();
    const SECOND: f64 = 1000.0;
    match unit.as_str() {
        u if u.starts_with("ms") || u.starts_with("milli") => 1.0,
        u if u.starts_with('s') => SECOND,
        u if u.starts_with('m') => 60.0 * SECOND,
        u if u.starts_with('h') => 3600.0 * SECOND,
        u if u.starts_with('d') => 86_400.0 * SECOND,
        _ => 604_800.0 * SECOND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-21T21:00:00Z.
    const NOW: u64 = 1_795_294_800_000;
    const HOUR: u64 = 3_600_000;

    fn ms(text: &str) -> Option<u64> {
        retry_after(text, NOW).map(|r| r.after_ms)
    }

    #[test]
    fn durations() {
        let table = [
            // The examples of CLI-ADAPTER-PROTOCOL, "Retry-After Extraction".
            ("retry after 30 seconds", 30_000),
            ("retry after 100ms", 100),
            ("wait 5 seconds", 5_000),
            // The wordings of providers.
            ("Retry-After: 30", 30_000),
            ("retry-after: 120\r\n", 120_000),
            ("retry_after_ms: 1500", 1_500),
            ("Rate limit reached. Please try again in 20s. Visit", 20_000),
            ("Rate limit reached. Please try again in 1.5s.", 1_500),
            ("try again in 7m12s", 432_000),
            ("try again in 1h 30m", 5_400_000),
            ("try again in 1h30m5s", 5_405_000),
            ("try again in 3 days 4 hours 5 minutes", 273_900_000),
            ("Please wait for about 2 minutes", 120_000),
            ("please wait 1.5 seconds before", 1_500),
            (r#"{"retryDelay": "34s"}"#, 34_000),
            (r#"retryDelay "34s""#, 34_000),
            (r#""retryDelay":"34.074824224s""#, 34_075),
            ("retryDelayMs: 5516", 5_516),
            (
                "Resource exhausted\nSuggested retry after 2s.. Retrying after 5516ms...",
                2_000,
            ),
            ("Please retry in 6.5s.", 6_500),
            (r#"{"type":"usage_limit_reached","resets_in_seconds":3600}"#, HOUR),
            ("Your limit resets in 2 hours", 2 * HOUR),
            ("retry after 0", 0),
            ("1h 30m", 5_400_000),
            ("2 minutes", 120_000),
            ("1.5 seconds", 1_500),
        ];
        for (text, expected) in table {
            assert_eq!(ms(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn no_duration() {
        for text in [
            "",
            "rate limited",
            "retry after 3 attempts",
            "try again in a moment",
            "retryDelayMs: undefined",
            "took 429 ms",
            "30",
            "wait for 3 files",
            "resets after 50% of requests",
        ] {
            assert_eq!(ms(text), None, "{text:?}");
        }
    }

    #[test]
    fn absurd_waits_are_capped() {
        for text in [
            "retry after 999999999999999 weeks",
            "retry after 999999999999999",
            "wait 400 days",
        ] {
            assert_eq!(ms(text), Some(MAX_MS), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_at_any_time_gives_a_sane_wait(
            text in r"(?s)((?i)retry.after |try again (in|at) |resets (at )?|wait |\d{1,20}|[.:,|() ]|am|pm|UTC|GMT[+-]\d|Nov|Feb|h|m|s|ms|T|Z|-|\PC){0,30}",
            now in any::<u64>(),
            offset in proptest::option::of(any::<i32>()),
        ) {
            if let Some(found) = retry_after_in(&text, now, offset) {
                prop_assert!(found.after_ms <= MAX_MS);
                if let Some(resets_at) = found.resets_at {
                    prop_assert_eq!(found.after_ms, resets_at.saturating_sub(now).min(MAX_MS));
                }
            }
        }
    }
}
