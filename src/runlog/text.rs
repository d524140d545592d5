//! A timeline as text for a terminal: a head line per run, then a line per thing that happened, with its words underneath.
//!
//! Colours are the caller's choice; without them the text says the same. Nothing of the log's own steers the terminal.

use std::fmt::Write;

use super::timeline::{Item, Kind, Outcome, RunView, Timeline};
use super::view::{self, one_line, visible};

/// How much of long things is shown where not all is wanted.
const LINES: usize = 12;
/// In characters, of a line of arguments.
const ARGS: usize = 400;

/// How a timeline is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// With colours.
    pub colour: bool,
    /// Long arguments and results whole.
    pub full: bool,
}

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

/// The text, with a line feed at the end of each line.
pub fn render(timeline: &Timeline, style: Style) -> String {
    let mut page = Page {
        text: String::new(),
        style,
    };
    for (index, run) in timeline.runs.iter().enumerate() {
        if index > 0 {
            page.text.push('\n');
        }
        page.run(run);
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
        parts.push(format!("{about}{} tokens in, {output} out", view::count(input)));
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

struct Page {
    text: String,
    style: Style,
}

impl Page {
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

    fn run(&mut self, run: &RunView) {
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

    fn item(&mut self, item: &Item, width: usize) {
        let (label, ink) = label(item.kind);
        let head = format!("{:>width$}  ", view::offset(item.t));
        self.put(Ink::Dim, &head);
        let ink = if item.failed() { Ink::Red } else { ink };
        self.put(ink, &format!("{label:<8}"));
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
        if let Some(Outcome { content, is_error }) = &item.result {
            self.block(indent, if *is_error { Ink::Red } else { Ink::Dim }, content, whole);
        }
    }

    /// Lines under an item, marked so that they can't be taken for items.
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
    crate::error::clip(line, ARGS)
}

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
