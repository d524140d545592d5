//! Makes foreign text and figures fit to be shown: no character of them can control a terminal or reverse a line.

use std::fmt::Write;

use serde_json::Value;

pub(super) use dfp_model::message::json_value as json;
use dfp_model::time::iso;
use dfp_text::decode::ansi::strip_ansi;
use dfp_text::redact::is_invisible;

/// `text` without terminal sequences, and with other invisible characters made visible. Line feeds and tabs stay.
pub(super) fn visible(text: &str) -> String {
    let plain = strip_ansi(text);
    let mut shown = String::with_capacity(plain.len());
    let mut chars = plain.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' => shown.push(char),
            // Unicode has a picture for each control character, in the same order.
            '\0'..='\x1F' => shown.extend(char::from_u32(0x2400 + u32::from(char))),
            '\x7F' => shown.push('␡'),
            char if is_hidden(char) => {
                let _ = write!(shown, "‹U+{:04X}›", u32::from(char));
            }
            char => shown.push(char),
        }
    }
    shown
}

/// Like [`visible`], on one line.
pub(super) fn one_line(text: &str) -> String {
    visible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `true` for control characters, and for those that change the direction of text or have no width.
fn is_hidden(char: char) -> bool {
    // Joiners have no width, but belong to emoji and to Persian words.
    let joins = matches!(char, '\u{200C}' | '\u{200D}');
    is_invisible(char) && !joins || matches!(char, '\u{80}'..='\u{9F}' | '\u{2028}' | '\u{2029}')
}

/// A duration: 812 → `812 ms`, 2310 → `2.3 s`, 65000 → `1 min 05 s`.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        // The range ends where rounding would make `60.0 s`.
        1_000..59_950 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => {
            let seconds = ms.saturating_add(500) / 1_000;
            match seconds / 60 {
                minutes @ 0..60 => format!("{minutes} min {:02} s", seconds % 60),
                minutes => format!("{} h {:02} min", minutes / 60, minutes % 60),
            }
        }
    }
}

/// An offset in seconds, of even width: 1204 → `+1.204`.
pub(super) fn offset(ms: u64) -> String {
    format!("+{}.{:03}", ms / 1_000, ms % 1_000)
}

/// A number with thousands separators: 1234567 → `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A share from 0 to 1 in per cent: `91 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// An amount of US dollars, with more digits if it is small: `$0.0042`, `$1.50`.
pub(super) fn dollars(amount: f64) -> String {
    if amount.abs() < 0.1 {
        format!("${amount:.4}")
    } else {
        format!("${amount:.2}")
    }
}

/// ms since the epoch as `2026-01-31 23:59:59 UTC`.
pub(super) fn date(ms: u64) -> String {
    let iso = iso(ms);
    format!("{} {} UTC", &iso[..10], &iso[11..19])
}

/// The string in `value`; `None` if it is something else.
pub(super) fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The elements of an array; none for any other value.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text of a value: of a string, of blocks of text, or else its JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => pretty(other),
    }
}

/// Indented JSON.
pub(super) fn pretty(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// The ms since the epoch of a time as `2026-01-31T23:59:59.123Z`, the form in normalised logs.
pub(super) fn moment(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, between: char| -> Option<[u64; 3]> {
        let parts: Vec<u64> = text
            .split(between)
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month @ 1..=12, day @ 1..=31] = numbers(date, '-')? else {
        return None;
    };
    let [hour @ 0..24, minute @ 0..60, second @ 0..=60] = numbers(clock, ':')? else {
        return None;
    };
    let ms: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    // The reverse of `date`'s calculation: years begin in March.
    let year = (1970..10_000).contains(&year).then_some(year)? - u64::from(month <= 2);
    let shifted_month = (month + 9) % 12;
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + of_year;
    let seconds = (days.checked_sub(719_468)? * 24 + hour) * 3_600 + minute * 60 + second;
    Some(seconds * 1_000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal_or_turns_the_line() {
        assert_eq!(
            visible("a\u{1b}[31mred\u{1b}[0m\u{7}\r\nb\tc\rd\u{7f}"),
            "ared␇\nb\tc␍d␡"
        );
        assert_eq!(
            visible("evil\u{202e}txt.exe \u{85}\u{200b}"),
            "evil‹U+202E›txt.exe ‹U+0085›‹U+200B›"
        );
        assert_eq!(visible("👩\u{200d}💻 ﷽ é"), "👩\u{200d}💻 ﷽ é");
        assert_eq!(one_line(" a\n\n b\t c"), "a b c");
    }

    #[test]
    fn figures_for_people() {
        let durations = [0, 999, 1_000, 59_949, 59_950, 65_400, 3_599_600, 7_260_000].map(duration);
        assert_eq!(
            durations,
            [
                "0 ms",
                "999 ms",
                "1.0 s",
                "59.9 s",
                "1 min 00 s",
                "1 min 05 s",
                "1 h 00 min",
                "2 h 01 min"
            ]
        );
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0.0, 0.00421, 0.1, 12.345].map(dollars),
            ["$0.0000", "$0.0042", "$0.10", "$12.35"]
        );
        assert_eq!(offset(61_042), "+61.042");
    }

    #[test]
    fn dates_as_the_calendar_has_them() {
        for (ms, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_767_225_599_000, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(ms), expected);
            let iso = expected.replace(" UTC", ".007Z").replace(' ', "T");
            assert_eq!(moment(&iso), Some(ms / 1_000 * 1_000 + 7));
        }
        for text in [
            "",
            "2026-01-31",
            "2026-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-01-31T00:00:00+01:00",
            "é",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_not() {
        assert_eq!(
            json(r#"{"a":"\ud83e\udd80 \ud800 \\ud800 \"\udc00","b":[1]}"#),
            serde_json::json!({"a": "🦀 \u{FFFD} \\ud800 \"\u{FFFD}", "b": [1]})
        );
        assert_eq!(json("{\"a\":\"\\"), Value::Null);
    }
}
