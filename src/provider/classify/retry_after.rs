//! Reads from a provider's text how long to wait before the next attempt.
//!
//! In: the text of an error channel, the current time and, if known, the local offset from UTC. Out: [`RetryAfter`]: of a duration (`try
//! again in 1h 30m`, `retryDelay: "34s"`, `Retry-After: 30`), or of a point in time (`resets 3pm (UTC)`, an epoch, an HTTP date).
//!
//! Only unambiguous points in time are resolved ([`find`]): an epoch, an ISO or HTTP date, and wall-clock times that are in UTC, at a
//! numeric offset, in a zone of the IANA database, or local with a known offset.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};

use dfp_model::LATEST_MS;

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
    let moment = || find(text, now_ms, local_offset_min).map(|resets_at| RetryAfter::until(resets_at, now_ms));
    epoch(text, now_ms)
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

const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;

/// A time of day that passed at most this long ago (ms) is today's, and means now.
const JUST_PAST: i64 = super::JUST_PAST_MS as i64;

/// The range of plausible times: from 40 days ago (a stale message) to 400 days ahead.
const PAST: i64 = 40 * DAY;
const FUTURE: i64 = 400 * DAY;

/// A time in seconds or milliseconds since the epoch, behind a word that makes it one.
const EPOCH: &str = r#"(?ix)
    (?: limit\s+reached \s* \| | \b(?:resets?|reset|retry|available)[\s_-]*(?:at|time|on|after) ["']? \s* [:=]? \s* ["']? )
    \s* (\d{10}|\d{13})(?:$|[^0-9])"#;

/// A date and time of ISO 8601, with or without a zone.
const ISO: &str = r"(?x) \b(\d{4})-(\d\d)-(\d\d) [Tt\x20] (\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)? \s* ([Zz]|UTC|GMT|[+-]\d\d:?\d\d)? ";

/// A date of RFC 9110, IMF-fixdate: `Wed, 21 Oct 2026 07:28:00 GMT`.
const HTTP: &str = r"(?ix) \b(\d{1,2})\x20([a-z]{3})\x20(\d{4})\x20(\d\d):(\d\d):(\d\d)\x20(?:GMT|UTC)\b";

/// A wall-clock time: `resets Nov 25, 3pm (UTC)`, `try again at 10:50 PM`, `try again at Nov 26th, 2026 10:50 PM`.
const CLOCK: &str = r"(?ix)
    \b(?: resets? (?:\s+(?:at|on))? | (?:try|tried)\s+(?:it\s+)?again \s+ (?:at|on|after) | available (?:\s+again)? \s+ (?:at|on|after) | until | retry \s+ at )
    \s+ (?: ([a-z]{3,9})\.? \s+ (\d{1,2})(?:st|nd|rd|th)? (?:, \s* (\d{4}))? ,? \s* (?:at\s+)? )?
    (?: (\d{1,2}) (?: :(\d\d) )? (?: :(\d\d) )? \s* ([ap]\.?m\b\.?)? )?
    \s* (?: \( ([^()]{1,40}) \) | ( (?:UTC|GMT) (?:[+-]\d{1,2}(?::?\d\d)?)? | Z ) \b )?";

struct MomentPatterns {
    epoch: Regex,
    iso: Regex,
    http: Regex,
    clock: Regex,
}

static PATTERNS: LazyLock<Option<MomentPatterns>> = LazyLock::new(|| {
    Some(MomentPatterns {
        epoch: Regex::new(EPOCH).ok()?,
        iso: Regex::new(ISO).ok()?,
        http: Regex::new(HTTP).ok()?,
        clock: Regex::new(CLOCK).ok()?,
    })
});

/// The time of a reset that is given in seconds or milliseconds since the epoch: `usage limit reached|1795300660`,
/// `"resets_at":1795300660`.
fn epoch(text: &str, now_ms: u64) -> Option<u64> {
    let found = PATTERNS.as_ref()?.epoch.captures(text)?;
    let digits = found.get(1)?.as_str();
    let number: i64 = digits.parse().ok()?;
    plausible(if digits.len() == 10 { number * 1000 } else { number }, clock(now_ms))
}

/// The first date or wall-clock time in `text`.
pub fn find(text: &str, now_ms: u64, local_offset_min: Option<i32>) -> Option<u64> {
    let patterns = PATTERNS.as_ref()?;
    let now = clock(now_ms);
    let local = local_offset_min
        .filter(|offset| offset.unsigned_abs() <= 18 * 60)
        .map(i64::from);
    let iso = || patterns.iso.captures(text).and_then(|c| iso_date(&c, local));
    let http = || patterns.http.captures(text).and_then(|c| http_date(&c));
    let clock = || {
        patterns
            .clock
            .captures_iter(text)
            .find_map(|c| wall_clock(&c, now, local))
    };
    http().or_else(iso).or_else(clock).and_then(|at| plausible(at, now))
}

fn clock(now_ms: u64) -> i64 {
    // The clock is limited, so that nothing below can overflow.
    i64::try_from(now_ms).map_or(LATEST_MS, |now| now.min(LATEST_MS))
}

fn plausible(at: i64, now: i64) -> Option<u64> {
    ((now - PAST)..=(now + FUTURE))
        .contains(&at)
        .then(|| u64::try_from(at).ok())
        .flatten()
}

fn iso_date(c: &Captures, local: Option<i64>) -> Option<i64> {
    let offset = match c.get(7).map(|z| z.as_str()) {
        Some(zone) => zone_offset(zone)?,
        None => local?,
    };
    let day = days(number(c, 1)?, number(c, 2)?, number(c, 3)?)?;
    let time = time_of_day(number(c, 4)?, number(c, 5)?, number(c, 6).unwrap_or(0))?;
    Some(day * DAY + time - offset * MINUTE)
}

fn http_date(c: &Captures) -> Option<i64> {
    let day = days(number(c, 3)?, month(c.get(2)?.as_str())?, number(c, 1)?)?;
    Some(day * DAY + time_of_day(number(c, 4)?, number(c, 5)?, number(c, 6)?)?)
}

/// The time of a match of [`CLOCK`]: a day, a time of day, or both, in a named zone or in local time. Without a day the next such
/// time is meant.
fn wall_clock(c: &Captures, now: i64, local: Option<i64>) -> Option<i64> {
    let zone = c.get(8).or_else(|| c.get(9)).map(|z| z.as_str());
    let zone = match zone {
        Some(zone) => Zone::read(zone)?,
        None => Zone::Fixed(local?),
    };
    let named_day = match c.get(1) {
        Some(name) => Some((month(name.as_str())?, number(c, 2)?)),
        None => None,
    };
    let time = match (number(c, 4), number(c, 5), c.get(7)) {
        // A text like `resets 30` names no time of day.
        (Some(_), None, None) => return None,
        (Some(hour), minute, half) => time_of_day(
            in_24_hours(hour, half.map(|h| h.as_str()))?,
            minute.unwrap_or(0),
            number(c, 6).unwrap_or(0),
        )?,
        (None, ..) if named_day.is_some() => 0,
        (None, ..) => return None,
    };
    let here = zone.here(now)?;
    let today = here.div_euclid(DAY);
    let at = match (named_day, number(c, 3)) {
        (None, _) => {
            let at = today * DAY + time;
            if at + JUST_PAST > here { at } else { at + DAY }
        }
        (Some((month, day)), Some(year)) => days(year, month, day)? * DAY + time,
        (Some((month, day)), None) => {
            let year = year_of(today);
            // 29 February may need the second year, and a day that has passed means next year's.
            [year, year + 1]
                .into_iter()
                .filter_map(|year| days(year, month, day))
                .map(|day| day * DAY + time)
                .find(|at| *at + JUST_PAST > here)?
        }
    };
    zone.utc(at)
}

/// The zone of a wall clock.
enum Zone {
    /// A fixed offset, in minutes east of UTC.
    Fixed(i64),
    /// A zone of the IANA database, whose offset changes.
    Named(TimeZone),
}

impl Zone {
    fn read(text: &str) -> Option<Zone> {
        // Abbreviations like CET are ambiguous, so only full names are looked up.
        let name = Some(text.trim()).filter(|name| name.contains('/'));
        let named = || TimeZone::get(name?).ok().filter(|zone| !zone.is_unknown());
        zone_offset(text).map(Zone::Fixed).or_else(|| named().map(Zone::Named))
    }

    /// The zone's wall-clock time at `now`, in milliseconds as if it were UTC.
    fn here(&self, now: i64) -> Option<i64> {
        match self {
            Zone::Fixed(offset) => Some(now + offset * MINUTE),
            Zone::Named(zone) => {
                let offset = zone.to_offset(Timestamp::from_millisecond(now).ok()?);
                Some(now + i64::from(offset.seconds()) * 1000)
            }
        }
    }

    /// The time at which the zone's wall clock shows `here`. A time that is skipped in spring is taken an hour later; of one that
    /// comes twice in autumn, the first is taken.
    fn utc(&self, here: i64) -> Option<i64> {
        match self {
            Zone::Fixed(offset) => Some(here - offset * MINUTE),
            Zone::Named(zone) => {
                let shown = Offset::UTC.to_datetime(Timestamp::from_millisecond(here).ok()?);
                Some(zone.to_timestamp(shown).ok()?.as_millisecond())
            }
        }
    }
}

fn number(c: &Captures, group: usize) -> Option<i64> {
    c.get(group)?.as_str().parse().ok()
}

fn in_24_hours(hour: i64, half: Option<&str>) -> Option<i64> {
    match half.map(|h| h.starts_with(['p', 'P'])) {
        None => Some(hour),
        Some(_) if !(1..=12).contains(&hour) => None,
        Some(afternoon) => Some(hour % 12 + if afternoon { 12 } else { 0 }),
    }
}

fn time_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    ((0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second))
        .then(|| ((hour * 60 + minute) * 60 + second) * 1000)
}

/// The offset in minutes east of UTC of `UTC`, `GMT`, `Z`, `UTC+2`, `GMT-05:30` or `+0200`; `None` for a named zone.
fn zone_offset(zone: &str) -> Option<i64> {
    let zone = zone.trim().to_ascii_uppercase();
    let rest = ["UTC", "GMT", "Z"]
        .iter()
        .find_map(|name| zone.strip_prefix(name))
        .unwrap_or(&zone);
    if rest.is_empty() {
        return Some(0);
    }
    let sign = match rest.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = rest[1..].chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: i64 = digits.parse().ok()?;
    let (hours, minutes) = if digits.len() <= 2 {
        (value, 0)
    } else {
        (value / 100, value % 100)
    };
    (hours <= 18 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// The number of a month by its English name, which may be shortened to three letters or more.
fn month(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let name = name.to_ascii_lowercase();
    let index = MONTHS
        .iter()
        .position(|m| m.starts_with(&name) || (name == "sept" && *m == "september"))?;
    (name.len() >= 3).then_some(index as i64 + 1)
}

/// The number of days from the epoch to a date of the Gregorian calendar, from 1970 to 9999.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = i16::try_from(year).ok().filter(|year| (1970..=9999).contains(year))?;
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some(date.duration_since(dfp_model::EPOCH.date()).as_hours() / 24)
}

/// The year of a day that is given in days since the epoch.
fn year_of(day: i64) -> i64 {
    let midnight = dfp_model::EPOCH.saturating_add(SignedDuration::from_millis(day.saturating_mul(DAY)));
    i64::from(midnight.year())
}
