//! Finds points in time in prose, as milliseconds since the epoch.
//!
//! In: text, the current time and, if known, the local offset from UTC. Out: the point in time. Only unambiguous forms are
//! resolved: an epoch, an ISO or HTTP date, and wall-clock times that are in UTC, at a numeric offset, in a zone of the IANA
//! database, or local with a known offset.

use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};

use dfp_model::time::{self, LATEST_MS};

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
pub fn epoch(text: &str, now_ms: u64) -> Option<u64> {
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
    Some(date.duration_since(time::EPOCH.date()).as_hours() / 24)
}

/// The year of a day that is given in days since the epoch.
fn year_of(day: i64) -> i64 {
    let midnight = time::EPOCH.saturating_add(SignedDuration::from_millis(day.saturating_mul(DAY)));
    i64::from(midnight.year())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-21T21:00:00Z.
    const NOW: u64 = 1_795_294_800_000;

    fn utc(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> Option<u64> {
        let at = days(year, month, day)? * DAY + time_of_day(hour, minute, 0)?;
        u64::try_from(at).ok()
    }

    #[test]
    fn moments_that_are_certain() {
        let table = [
            (
                "You've hit your session limit · resets 10:37pm (UTC)",
                utc(2026, 11, 21, 22, 37),
            ),
            (
                "You've hit your 5-hour limit · resets 12:15am (UTC)",
                utc(2026, 11, 22, 0, 15),
            ),
            ("resets 3pm (UTC)", utc(2026, 11, 22, 15, 0)),
            // A time that passed less than ten minutes ago means now, an earlier one the next day.
            ("resets 9pm (UTC)", utc(2026, 11, 21, 21, 0)),
            ("resets 8:51pm (UTC)", utc(2026, 11, 21, 20, 51)),
            ("resets 8:50pm (UTC)", utc(2026, 11, 22, 20, 50)),
            ("resets Nov 21, 8:59pm (UTC)", utc(2026, 11, 21, 20, 59)),
            ("resets at 12pm (GMT)", utc(2026, 11, 22, 12, 0)),
            (
                "You've hit your weekly limit · resets Nov 25, 3pm (UTC)",
                utc(2026, 11, 25, 15, 0),
            ),
            ("resets Nov 25 at 3:30 PM UTC", utc(2026, 11, 25, 15, 30)),
            ("resets January 2nd, 15:04 (UTC)", utc(2027, 1, 2, 15, 4)),
            ("resets Feb 3 (UTC)", utc(2027, 2, 3, 0, 0)),
            ("resets Nov 22, 1am (UTC+2)", utc(2026, 11, 21, 23, 0)),
            ("resets 3pm (GMT-05:30)", utc(2026, 11, 22, 20, 30)),
            ("try again at Nov 26th, 2026 10:50 PM (UTC)", utc(2026, 11, 26, 22, 50)),
            ("resets at 2026-11-25T15:00:00Z", utc(2026, 11, 25, 15, 0)),
            ("available again at 2026-11-25 15:00:00+01:00", utc(2026, 11, 25, 14, 0)),
            ("Retry-After: Sat, 21 Nov 2026 21:28:00 GMT", utc(2026, 11, 21, 21, 28)),
        ];
        for (text, expected) in table {
            assert!(expected.is_some());
            assert_eq!(find(text, NOW, None), expected, "{text:?}");
        }
    }

    /// Cairo is three hours east of UTC from the last Friday of April to the last Thursday of October, and two hours else. Los
    /// Angeles skips 2 to 3 o'clock on 8 March 2026, and has 1 to 2 o'clock twice on 1 November.
    #[test]
    fn moments_in_a_named_zone() {
        let table = [
            (
                (2026, 11, 22, 12, 0),
                "resets 8pm (Africa/Cairo)",
                (2026, 11, 22, 18, 0),
            ),
            ((2026, 7, 1, 12, 0), "resets 8pm (Africa/Cairo)", (2026, 7, 1, 17, 0)),
            ((2026, 7, 1, 18, 0), "resets 8pm (Africa/Cairo)", (2026, 7, 2, 17, 0)),
            (
                (2026, 10, 29, 12, 0),
                "resets Nov 1, 8pm (africa/cairo)",
                (2026, 11, 1, 18, 0),
            ),
            (
                (2026, 3, 8, 7, 0),
                "resets 2:30am (America/Los_Angeles)",
                (2026, 3, 8, 10, 30),
            ),
            (
                (2026, 11, 1, 7, 0),
                "resets 1:30am (America/Los_Angeles)",
                (2026, 11, 1, 8, 30),
            ),
        ];
        for ((year, month, day, hour, minute), text, (y, m, d, h, min)) in table {
            let now = utc(year, month, day, hour, minute).unwrap();
            assert_eq!(find(text, now, Some(0)), utc(y, m, d, h, min), "{text:?} at {now}");
        }
    }

    #[test]
    fn moments_that_are_not() {
        for text in [
            "You've hit your usage limit. try again at 10:50 PM.",
            "resets 3pm (America/Nowhere)",
            "resets 3pm (Etc/Unknown)",
            "resets 3pm (../etc/localtime)",
            "resets 3pm (CET)",
            "resets 30",
            "resets 13pm (UTC)",
            "resets 25:00 (UTC)",
            "resets Feb 30, 3pm (UTC)",
            "resets at 2019-11-25T15:00:00Z",
            "resets soon",
            "until (UTC)",
        ] {
            assert_eq!(find(text, NOW, None), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_without_zone_is_local() {
        let text = "You’ve hit your usage limit. To get more access now, or try again at 10:50 PM.";
        assert_eq!(find(text, NOW, Some(60)), utc(2026, 11, 21, 21, 50));
        assert_eq!(find(text, NOW, Some(-480)), utc(2026, 11, 22, 6, 50));
        for beyond_every_zone in [1081, -1081, i32::MAX, i32::MIN] {
            assert_eq!(find(text, NOW, Some(beyond_every_zone)), None);
        }
        assert_eq!(find(text, NOW, Some(i32::MAX)), None);
    }

    #[test]
    fn epochs() {
        assert_eq!(
            epoch("Claude AI usage limit reached|1795300660", NOW),
            Some(1_795_300_660_000)
        );
        assert_eq!(epoch(r#"{"resets_at":1795300660}"#, NOW), Some(1_795_300_660_000));
        assert_eq!(epoch(r#""resetsAt": 1795300660000,"#, NOW), Some(1_795_300_660_000));
        assert_eq!(epoch("usage limit reached|1234567890", NOW), None, "years ago");
        assert_eq!(epoch("order 1795300660", NOW), None);
    }

    proptest! {
        #[test]
        fn days_count_up_by_one(day in 0i64..2_932_896) {
            let year = year_of(day);
            let first = days(year, 1, 1);
            prop_assert!(first.is_some_and(|f| f <= day));
            prop_assert!(days(year + 1, 1, 1).is_none_or(|f| f > day));
            let leap = days(year, 2, 29).is_some();
            prop_assert_eq!(days(year, 12, 31), first.map(|f| f + 364 + i64::from(leap)));
        }
    }
}
