//! Tests of durations and points in time in texts of providers.

use proptest::prelude::*;

use super::*;

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
