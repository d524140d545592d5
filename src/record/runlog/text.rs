//! Renders a timeline as text for a terminal: a head line per run, then a line per item with its text underneath.
//!
//! Colours are optional, and the text says the same without them. No text of the log can control the terminal.

use std::fmt::Write;

use super::timeline::{CallResult, Item, Kind, RunView, Timeline, Tokens};
use super::view::{self, one_line, visible};

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
    let took = view::duration(run.duration_ms);
    let mut parts = vec![match run.outcome.as_str() {
        "unknown" => format!("unfinished after {took}"),
        "replied" => format!("replied in {took}"),
        other => format!("{} after {took}", one_line(other)),
    }];
    if let Some(input) = run.input_tokens {
        let about = if run.tokens_estimated { "about " } else { "" };
        let output = view::count(run.output_tokens.unwrap_or_default());
        let cached = run.tokens.and_then(Tokens::cache_hit);
        let cached = cached.map_or_else(String::new, |share| format!(" ({share} cached)"));
        parts.push(format!("{about}{} tokens in{cached}, {output} out", view::count(input)));
    }
    parts.extend(run.cost_usd.map(view::dollars));
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
        self.put(Ink::Dim, &format!("  {}", view::date(run.started_at)));
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
        let offsets = run.items.iter().map(|item| view::offset(item.t).len());
        let width = offsets.max().unwrap_or_default();
        for item in &run.items {
            self.item(item, width);
        }
    }

    /// Writes an item: its line, and its texts underneath. `width` is that of the column of offsets.
    fn item(&mut self, item: &Item, width: usize) {
        let (label, ink) = label(item.kind);
        let head = format!("{:>width$}  ", view::offset(item.t));
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
            self.put(Ink::Dim, &format!("  ({})", view::duration(took)));
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
        assert_eq!(dfp_text::decode::ansi::strip_ansi(&coloured), shown(Style::default()));
    }
}
