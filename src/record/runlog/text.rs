//! Renders a timeline as text for a terminal: a head line per run, then a line per item with its text underneath.
//!
//! Colours are optional, and the text says the same without them. Foreign text and figures are made fit to be shown, here and in a page: no
//! character of them can control a terminal or reverse a line.

use std::fmt::Write;

use serde_json::Value;

use super::timeline::{CallResult, Item, Kind, RunView, Timeline, Tokens};
use dfp_model::iso;
pub(super) use dfp_model::message::json_value as json;
use dfp_text::decode::lines::strip_ansi;
use dfp_text::redact::is_invisible;

/// The most lines of a long text, unless all of it is asked for.
const LINES: usize = 12;
/// Nested runs are indented by up to this many levels.
const DEEPEST: usize = 10;
/// The most characters of a call's arguments.
const ARGS: usize = 400;

/// The style in which a timeline is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    pub colour: bool,
    /// Long arguments and results are written whole.
    pub full: bool,
}

/// The colour or weight of a piece of text.
#[derive(Clone, Copy)]
enum Ink {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Renders `timeline`. Each line ends with a line feed.
pub fn render(timeline: &Timeline, style: Style) -> String {
    let mut page = TextPage {
        text: String::new(),
        style,
    };
    for (index, run) in timeline.runs.iter().enumerate() {
        if index > 0 {
            page.text.push('\n');
        }
        let from = page.text.len();
        page.run(run);
        page.indent(from, run.depth);
    }
    for problem in &timeline.problems {
        page.text.push('\n');
        page.put(
            Ink::Yellow,
            &format!("line {}: {}", problem.line, one_line(&problem.message)),
        );
    }
    if !timeline.problems.is_empty() {
        page.text.push('\n');
    }
    page.text
}

/// A run's figures in a few words: `replied in 2.3 s · 1,234 in, 56 out · $0.0042`.
pub(super) fn figures(run: &RunView) -> Vec<String> {
    let took = duration(run.duration_ms);
    let mut parts = vec![match run.outcome.as_str() {
        "unknown" => format!("unfinished after {took}"),
        "replied" => format!("replied in {took}"),
        other => format!("{} after {took}", one_line(other)),
    }];
    if let Some(input) = run.input_tokens {
        let about = if run.tokens_estimated { "about " } else { "" };
        let output = count(run.output_tokens.unwrap_or_default());
        let cached = run.tokens.and_then(Tokens::cache_hit);
        let cached = cached.map_or_else(String::new, |share| format!(" ({share} cached)"));
        parts.push(format!("{about}{} tokens in{cached}, {output} out", count(input)));
    }
    parts.extend(run.cost_usd.map(dollars));
    let calls = run.items.iter().filter(|item| item.kind == Kind::ToolCall).count();
    match calls {
        0 => {}
        1 => parts.push("1 tool call".to_owned()),
        calls => parts.push(format!("{calls} tool calls")),
    }
    let errors = run.items.iter().filter(|item| item.failed()).count();
    match errors {
        0 => {}
        1 => parts.push("1 error".to_owned()),
        errors => parts.push(format!("{errors} errors")),
    }
    parts
}

/// The text so far, and the style in which it is written.
struct TextPage {
    text: String,
    style: Style,
}

impl TextPage {
    /// Writes `text`, in colour if that is wanted.
    fn put(&mut self, ink: Ink, text: &str) {
        let code = match ink {
            Ink::Plain => 0,
            Ink::Bold => 1,
            Ink::Dim => 2,
            Ink::Red => 31,
            Ink::Green => 32,
            Ink::Yellow => 33,
            Ink::Cyan => 36,
        };
        if self.style.colour && code != 0 && !text.is_empty() {
            let _ = write!(self.text, "\u{1b}[{code}m{text}\u{1b}[0m");
        } else {
            self.text.push_str(text);
        }
    }

    /// Indents everything that was written since `from`, because it is part of what stands above it.
    fn indent(&mut self, from: usize, depth: usize) {
        if depth == 0 {
            return;
        }
        let margin = "  ".repeat(depth.min(DEEPEST));
        let lines = self.text.split_off(from);
        for line in lines.split_inclusive('\n') {
            self.text.push_str(&margin);
            self.text.push_str(line);
        }
    }

    /// Writes the head of a run and its items.
    fn run(&mut self, run: &RunView) {
        if let Some(role) = &run.role {
            self.put(Ink::Bold, &one_line(role));
            self.text.push_str("  ");
        }
        self.put(Ink::Bold, &one_line(&run.provider));
        self.text.push_str("  ");
        self.text.push_str(&one_line(&run.run_id));
        if let Some(parent) = &run.parent_run_id {
            self.put(Ink::Dim, &format!("  (of {})", one_line(parent)));
        }
        self.put(Ink::Dim, &format!("  {}", date(run.started_at)));
        self.text.push('\n');
        let ink = match run.outcome.as_str() {
            "replied" => Ink::Green,
            "failed" => Ink::Red,
            _ => Ink::Yellow,
        };
        self.put(ink, &figures(run).join(" · "));
        self.text.push('\n');
        let model = run.model.as_ref().map(|model| format!("model: {}", one_line(model)));
        let facts = run.facts.iter().map(|fact| format!("{}: {}", fact.name, fact.value));
        let about: Vec<String> = model.into_iter().chain(facts).collect();
        if !about.is_empty() {
            self.put(Ink::Dim, &about.join(", "));
            self.text.push('\n');
        }
        let offsets = run.items.iter().map(|item| offset(item.t).len());
        let width = offsets.max().unwrap_or_default();
        for item in &run.items {
            self.item(item, width);
        }
    }

    /// Writes an item: its line, and its texts underneath. `width` is that of the column of offsets.
    fn item(&mut self, item: &Item, width: usize) {
        let (label, ink) = label(item.kind);
        let head = format!("{:>width$}  ", offset(item.t));
        self.put(Ink::Dim, &head);
        let ink = if item.failed() { Ink::Red } else { ink };
        self.put(ink, label);
        let _ = write!(self.text, "{:1$}", "", 8 - label.len().min(8));
        let title = one_line(&item.title);
        if title != label {
            self.text.push_str("  ");
            self.put(Ink::Bold, &title);
        }
        for fact in &item.facts {
            self.put(Ink::Dim, &format!("  {}: ", one_line(&fact.name)));
            self.text.push_str(&fact.value);
        }
        let whole = self.style.full;
        if let Some(args) = item.args.as_deref().filter(|_| !whole) {
            self.text.push_str("  ");
            self.text.push_str(&clipped(&one_line(args)));
        }
        if let Some(took) = item.duration_ms.filter(|ms| *ms > 0) {
            self.put(Ink::Dim, &format!("  ({})", duration(took)));
        }
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
        let indent = width + 2;
        if let Some(args) = item.args.as_deref().filter(|_| whole) {
            self.block(indent, Ink::Plain, args, true);
        }
        if let Some(text) = &item.text {
            let (ink, all) = match item.kind {
                Kind::Message | Kind::Error => (Ink::Plain, true),
                Kind::Thinking => (Ink::Dim, whole),
                _ => (Ink::Plain, whole),
            };
            self.block(indent, ink, text, all);
        }
        if let Some(CallResult { content, is_error }) = &item.result {
            self.block(indent, if *is_error { Ink::Red } else { Ink::Dim }, content, whole);
        }
    }

    /// Writes lines under an item, marked so that they can't be taken for items.
    fn block(&mut self, indent: usize, ink: Ink, text: &str, whole: bool) {
        let text = visible(text.trim_end());
        let lines: Vec<&str> = if text.is_empty() {
            Vec::new()
        } else {
            text.lines().collect()
        };
        let shown = if whole { lines.len() } else { lines.len().min(LINES) };
        for line in &lines[..shown] {
            let _ = write!(self.text, "{:indent$}", "");
            self.put(Ink::Dim, "│ ");
            let line = if whole { (*line).to_owned() } else { clipped(line) };
            self.put(ink, &line);
            self.text.push('\n');
        }
        if shown < lines.len() {
            let _ = write!(self.text, "{:indent$}", "");
            self.put(Ink::Dim, &format!("│ … {} more lines (--full)", lines.len() - shown));
            self.text.push('\n');
        }
    }
}

fn clipped(line: &str) -> String {
    dfp_model::error::clip(line, ARGS)
}

/// The label of an item's kind, and its colour.
fn label(kind: Kind) -> (&'static str, Ink) {
    match kind {
        Kind::Start => ("start", Ink::Dim),
        Kind::Session => ("session", Ink::Dim),
        Kind::Prompt => ("prompt", Ink::Dim),
        Kind::Thinking => ("thinking", Ink::Dim),
        Kind::Message => ("message", Ink::Green),
        Kind::ToolCall => ("tool", Ink::Cyan),
        Kind::ToolResult => ("result", Ink::Cyan),
        Kind::Usage => ("tokens", Ink::Dim),
        Kind::Limit => ("limit", Ink::Yellow),
        Kind::Retry => ("retry", Ink::Yellow),
        Kind::Warning => ("warning", Ink::Yellow),
        Kind::Error => ("error", Ink::Red),
        Kind::End => ("end", Ink::Dim),
        Kind::Other => ("other", Ink::Dim),
    }
}

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
    use serde_json::json;

    use super::super::read::read;
    use super::super::timeline::timeline;
    use super::*;

    fn shown(style: Style) -> String {
        let header = json!({"format": "deep-factor-run", "version": 1, "runId": "run-1", "parentRunId": "run-0",
            "provider": "claude", "startedAt": 1_767_225_599_000_u64, "packageVersion": "0.1.0", "platform": "linux-x64",
            "prompt": {"messages": 2, "characters": 1500, "sha256": "00112233445566", "tools": ["a", "b"]}});
        let at =
            |t: u64, event: serde_json::Value| json!({"at": 0, "t": t, "run": "run-1", "event": event}).to_string();
        let result = (1..=15)
            .map(|line| format!("line {line}"))
            .collect::<Vec<_>>()
            .join("\n");
        let lines = [
            header.to_string(),
            at(
                3,
                json!({"type": "start", "runId": "run-1", "provider": "claude", "pid": 7, "attempt": 1, "queuedMs": 0}),
            ),
            at(500, json!({"type": "session", "model": "m", "version": "2.1.330"})),
            at(900, json!({"type": "text_delta", "text": "Let me "})),
            at(1_100, json!({"type": "text_delta", "text": "see.\n"})),
            at(1_150, json!({"type": "message", "content": "Let me see.\n"})),
            at(
                1_200,
                json!({"type": "tool_call", "toolCall": {"id": "t1", "name": "Bash", "args": {"command": "ls"}}}),
            ),
            at(
                3_500,
                json!({"type": "tool_result", "toolCallId": "t1", "content": result, "isError": false}),
            ),
            at(
                3_600,
                json!({"type": "tool_call", "toolCall": {"id": "t2", "name": "Rm", "args": {}}}),
            ),
            at(
                3_700,
                json!({"type": "tool_result", "toolCallId": "t2", "content": "\u{1b}[2Jno", "isError": true}),
            ),
            at(
                3_800,
                json!({"type": "retry", "by": "cli", "attempt": 1, "delayMs": 500, "reason": "overloaded"}),
            ),
            at(
                4_000,
                json!({"type": "permission", "toolCall": "x", "allowed": false, "why": {"rule": 1}}),
            ),
            at(4_100, json!({"type": "text_delta", "text": "Unfin"})),
            "{\"at\":1,\"t\":41".to_owned(),
        ];
        render(&timeline(&read(lines.join("\n").as_bytes()).unwrap()), style)
    }

    #[test]
    fn a_timeline_is_what_happened_line_by_line() {
        let expected = r#"claude  run-1  (of run-0)  2025-12-31 23:59:59 UTC
unfinished after 4.1 s · 2 tool calls · 1 error
model: m, recorded by: deep-factor-providers 0.1.0, platform: linux-x64
+0.000  prompt    messages: 2  characters: 1,500  tools: a, b  SHA-256: 001122334455
+0.003  start     attempt: 1  pid: 7
+0.500  session   model: m  CLI version: 2.1.330
+0.900  message   (250 ms)
        │ Let me see.
+1.200  tool      Bash  { "command": "ls" }  (2.3 s)
        │ line 1
        │ line 2
        │ line 3
        │ line 4
        │ line 5
        │ line 6
        │ line 7
        │ line 8
        │ line 9
        │ line 10
        │ line 11
        │ line 12
        │ … 3 more lines (--full)
+3.600  tool      Rm  {}  (100 ms)
        │ no
+3.800  retry     tried again  by: cli  attempt: 2  after: 500 ms
        │ overloaded
+4.000  other     permission  toolCall: x  allowed: false
        │ {
        │   "why": {
        │     "rule": 1
        │   }
        │ }
+4.100  message
        │ Unfin
+4.100  warning   incomplete
        │ The log ends before the run did.

line 14: the line is torn: the log ends in the middle of it
"#;
        assert_eq!(shown(Style::default()), expected);
    }

    #[test]
    fn all_of_it_where_that_is_wanted() {
        let whole = shown(Style {
            colour: false,
            full: true,
        });
        assert!(
            whole.contains("\n        │ line 15\n") && whole.contains("\n        │   \"command\": \"ls\"\n"),
            "{whole}"
        );
    }

    #[test]
    fn colours_are_all_that_differs() {
        let coloured = shown(Style {
            colour: true,
            full: false,
        });
        assert!(coloured.contains("\u{1b}[31m│") || coloured.contains("\u{1b}[31mno\u{1b}[0m"));
        assert_eq!(dfp_text::decode::lines::strip_ansi(&coloured), shown(Style::default()));
    }

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
