//! The section of a run: its charts, which are a waterfall of its turns, calls, waits and failures over time and a table of its usage
//! turn by turn; and the entries of its timeline.

use std::fmt::Write;

use super::super::text::{self, one_line};
use super::super::timeline::{CallResult, Item, Kind, RunView, Tokens};
use super::{Cut, Escaped, LONGEST, beginning, brief, escaped_block, run_anchor, shown, to_run};

// The waterfall: a row for each turn, call, wait and failure, drawn over the time of its run. Every row also says in words what it
// draws, and links to its entry: nothing is told by colour or position alone.

/// The most rows of a run: with more, an overview is none.
const MOST_ROWS: usize = 300;

/// The most characters of a row's name.
const LONGEST_NAME: usize = 60;

/// One row.
struct Row {
    /// The beginning, in ms since the run's.
    t: u64,
    took: u64,
    class: &'static str,
    word: String,
    name: String,
    way: String,
}

/// The rows of the run `number` of `runs`.
pub(super) fn waterfall(page: &mut String, runs: &[RunView], number: usize, cut: &Cut) {
    let Some(run) = runs.get(number) else { return };
    let mut rows: Vec<Row> = run
        .items
        .iter()
        .enumerate()
        .filter(|(_, item)| is_row(item))
        .map(|(at, item)| Row {
            t: item.t,
            took: item.duration_ms.or(item.wait_ms).unwrap_or_default(),
            class: if item.failed() { "failed" } else { class(item.kind) },
            word: if item.failed() && item.kind != Kind::Error {
                format!("{}, failed", word(item.kind))
            } else {
                word(item.kind).to_owned()
            },
            name: called(item),
            way: cut.to_item(number, at),
        })
        .collect();
    rows.extend(parts(runs, number).map(|(at, part)| {
        Row {
            t: part.started_at.saturating_sub(run.started_at),
            took: part.duration_ms,
            class: if part.outcome == "failed" { "failed" } else { "turn" },
            word: part
                .role
                .as_deref()
                .map_or_else(|| "run".to_owned(), |role| brief(role, LONGEST_NAME)),
            name: brief(&part.provider, LONGEST_NAME),
            way: to_run(at),
        }
    }));
    if rows.len() < 2 {
        return;
    }
    rows.sort_by_key(|row| row.t);
    let more = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    let ends = rows.iter().map(|row| row.t.saturating_add(row.took));
    let whole = ends.max().unwrap_or_default().max(run.duration_ms).max(1);
    let anchor = run_anchor(number);
    let _ = write!(
        page,
        "<h3 id=\"{anchor}-waterfall\">What happened when</h3>\n<ol class=\"waterfall\" aria-labelledby=\"{anchor}-waterfall {anchor}-name\">\n"
    );
    for row in &rows {
        let Row {
            t,
            took,
            class,
            word,
            name,
            way,
        } = row;
        let percent = |ms: u64| (ms.min(whole) as f64 / whole as f64) * 100.0;
        let times = match took {
            0 => format!("{} s", text::offset(*t)),
            took => format!("{} s, took {}", text::offset(*t), text::duration(*took)),
        };
        let _ = writeln!(
            page,
            "<li class=\"{class}\"><a href=\"{way}\"><span class=\"label\">{word}</span> <bdi>{name}</bdi></a> \
             <span class=\"times\">{times}</span>\
             <svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">\
             <rect class=\"whole\" width=\"100\" height=\"8\"/><rect class=\"part\" x=\"{:.2}\" width=\"{:.2}\" height=\"8\"/></svg></li>",
            percent(*t).min(99.5),
            percent(*took).max(0.5)
        );
    }
    page.push_str("</ol>\n");
    if more > 0 {
        let _ = writeln!(
            page,
            "<p class=\"none\">{} more are in the timeline</p>",
            text::count(more as u64)
        );
    }
}

/// The name of an item. For a call it includes the first argument, which tells two calls of one tool apart.
fn called(item: &Item) -> String {
    let about = item.summary.as_ref().or(item.args.as_ref());
    match about.filter(|about| item.kind == Kind::ToolCall && about.as_str() != "{}") {
        Some(about) => format!(
            "{} <span class=\"arg\">{}</span>",
            brief(&item.title, LONGEST_NAME),
            brief(about, LONGEST_NAME)
        ),
        None => brief(&item.title, LONGEST_NAME),
    }
}

/// The direct parts of the run `number`, without the parts of those.
fn parts(runs: &[RunView], number: usize) -> impl Iterator<Item = (usize, &RunView)> {
    let depth = runs.get(number).map_or(0, |run| run.depth);
    let behind = runs.iter().enumerate().skip(number + 1);
    behind
        .take_while(move |(_, run)| run.depth > depth)
        .filter(move |(_, run)| run.depth == depth + 1)
}

fn is_row(item: &Item) -> bool {
    let is_long = item.duration_ms.is_some_and(|ms| ms > 0);
    match item.kind {
        Kind::ToolCall | Kind::Error | Kind::Retry => true,
        Kind::Message | Kind::Thinking => is_long,
        Kind::Limit => item.wait_ms.is_some(),
        _ => item.failed(),
    }
}

// The usage of a run: tokens and cost, turn by turn, as figures with bars beside them.

/// The names of the columns.
const COLUMNS: [&str; 5] = ["input", "of it cached", "output", "of it thinking", "cost"];

/// The usage of the run `number` of `runs`: a row for each of its turns, and one for the total.
pub(super) fn usage(page: &mut String, runs: &[RunView], number: usize) {
    let Some(run) = runs.get(number) else { return };
    let turns: Vec<(usize, &RunView)> = parts(runs, number)
        .filter(|(_, part)| part.tokens.is_some() || cost(part).is_some())
        .collect();
    if run.tokens.is_none() && cost(run).is_none() && turns.is_empty() {
        return;
    }
    let more = turns.len().saturating_sub(MOST_ROWS);
    let shown = || turns.iter().take(MOST_ROWS);
    // The longest bar is a turn's: against the total, the turns' bars would be too short to compare.
    let most = match turns.is_empty() {
        true => total(run),
        false => shown().map(|(_, turn)| total(turn)).max().unwrap_or_default(),
    };
    let anchor = run_anchor(number);
    let _ = write!(
        page,
        "<h3 id=\"{anchor}-usage\">Tokens and cost</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{anchor}-usage {anchor}-name\">\n\
         <table class=\"usage\">\n<thead><tr><th scope=\"col\">turn</th>"
    );
    for column in COLUMNS {
        let _ = write!(page, "<th scope=\"col\">{column}</th>");
    }
    page.push_str("<td class=\"legend\"><span class=\"cached\">cached</span> <span class=\"input\">input</span> <span class=\"output\">output</span> <span class=\"reasoning\">thinking</span></td></tr></thead>\n<tbody>\n");
    for (at, turn) in shown() {
        let name = turn.role.as_deref().unwrap_or("run");
        let name = format!("<a href=\"{}\">{}</a>", to_run(*at), brief(name, 60));
        row(page, &name, turn, most);
    }
    row(page, "all", run, if turns.is_empty() { most } else { 0 });
    page.push_str("</tbody>\n</table>\n</div>\n");
    if more > 0 {
        let _ = writeln!(
            page,
            "<p class=\"none\">{} more turns are not in the table</p>",
            text::count(more as u64)
        );
    }
}

/// One row. `most`: the tokens of the longest bar; 0 for no bar.
fn row(page: &mut String, name: &str, run: &RunView, most: u64) {
    let unknown = || "unknown".to_owned();
    let count = |tokens: Option<u64>| tokens.map_or_else(unknown, text::count);
    let tokens = run.tokens;
    let about = if tokens.is_some_and(|tokens| tokens.estimated) {
        "about "
    } else {
        ""
    };
    let _ = write!(
        page,
        "<tr><th scope=\"row\">{name}</th><td>{about}{}</td><td>{}</td><td>{about}{}</td><td>{}</td><td>{}</td><td class=\"drawn\">",
        count(tokens.map(|tokens| tokens.input)),
        cached(tokens),
        count(tokens.and_then(|tokens| tokens.output)),
        count(tokens.and_then(|tokens| tokens.reasoning)),
        cost(run).map_or_else(unknown, text::dollars)
    );
    if let Some(tokens) = tokens.filter(|_| most > 0) {
        token_bar(page, tokens, most);
    }
    page.push_str("</td></tr>\n");
}

/// The bar: the parts side by side. The row's figures say what they are.
fn token_bar(page: &mut String, tokens: Tokens, most: u64) {
    let cached = tokens.cache_read.unwrap_or_default().min(tokens.input);
    let output = tokens.output.unwrap_or_default();
    let reasoning = tokens.reasoning.unwrap_or_default().min(output);
    let bars = [
        ("cached", cached),
        ("input", tokens.input - cached),
        ("output", output - reasoning),
        ("reasoning", reasoning),
    ];
    page.push_str(
        "<svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">",
    );
    let mut x = 0.0;
    for (class, tokens) in bars {
        let width = ((tokens.min(most) as f64 / most as f64) * 100.0).min(100.0 - x);
        if width > 0.0 {
            let _ = write!(
                page,
                "<rect class=\"{class}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"8\"/>"
            );
            x += width;
        }
    }
    page.push_str("</svg>");
}

/// The tokens that were read from the cache, and their share of the input.
fn cached(tokens: Option<Tokens>) -> String {
    let read = tokens.and_then(|tokens| tokens.cache_read).map(text::count);
    match (read, tokens.and_then(Tokens::cache_hit)) {
        (Some(read), Some(share)) => format!("{read} ({share})"),
        (read, _) => read.unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn total(run: &RunView) -> u64 {
    run.tokens.map_or(0, |tokens| {
        tokens.input.saturating_add(tokens.output.unwrap_or_default())
    })
}

/// The cost, if it is a finite number: a log may say anything.
fn cost(run: &RunView) -> Option<f64> {
    run.cost_usd.filter(|cost| cost.is_finite())
}

// The entries of the timeline, one for each item.

/// Calls whose arguments and result have at most this many lines are unfolded at first.
const SHORT: usize = 6;

pub(super) fn entry(page: &mut String, item: &Item, id: &str, whole_ms: u64) {
    let class = if item.failed() { "failed" } else { class(item.kind) };
    let _ = write!(
        page,
        "<li id=\"{id}\" class=\"item {class}\">\n<div class=\"when\"><span class=\"offset\">{} s</span>",
        text::offset(item.t)
    );
    duration_bar(page, item, whole_ms);
    page.push_str("</div>\n<div class=\"what\">\n");
    match item.kind {
        Kind::ToolCall => tool(page, item),
        Kind::Thinking => folded(page, item),
        Kind::Other if item.text.is_some() => folded(page, item),
        Kind::Prompt if item.text.is_some() => folded(page, item),
        _ => {
            head(page, item);
            if let Some(text) = &item.text {
                block(page, text, "prose");
            }
            if let Some(args) = &item.args {
                block(page, args, "code");
            }
            if let Some(result) = &item.result {
                block(page, &result.content, "code");
            }
        }
    }
    page.push_str("</div>\n</li>\n");
}

/// A bar that shows when the item happened and how long it took, within the time of the run. The figures stand beside it as text,
/// so screen readers skip it.
fn duration_bar(page: &mut String, item: &Item, whole_ms: u64) {
    let Some(took) = item.duration_ms.filter(|_| whole_ms > 0) else {
        return;
    };
    let percent = |ms: u64| (ms.min(whole_ms) as f64 / whole_ms as f64) * 100.0;
    let _ = write!(
        page,
        "<svg class=\"bar\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">\
         <rect class=\"whole\" width=\"100\" height=\"4\"/><rect class=\"part\" x=\"{:.2}\" width=\"{:.2}\" height=\"4\"/></svg>",
        percent(item.t).min(99.0),
        percent(took).max(1.0)
    );
}

fn head(page: &mut String, item: &Item) {
    let _ = writeln!(page, "<p class=\"head\">{}</p>", heading(item));
}

/// The label, title, facts and duration of an item, for a paragraph or a summary.
fn heading(item: &Item) -> String {
    let label = word(item.kind);
    let mut line = format!("<span class=\"label\">{label}</span>");
    let title = one_line(&item.title);
    if title != label && !title.is_empty() {
        let _ = write!(line, " <bdi class=\"title\">{}</bdi>", shown(&item.title));
    }
    if let Some(summary) = &item.summary {
        let _ = write!(line, " <bdi class=\"arg\">{}</bdi>", Escaped(summary));
    }
    for fact in &item.facts {
        let _ = write!(
            line,
            " <span class=\"fact\">{}: <bdi>{}</bdi></span>",
            shown(&fact.name),
            shown(&fact.value)
        );
    }
    if item.result.as_ref().is_some_and(|result| result.is_error) {
        line.push_str(" <span class=\"badge bad\">failed</span>");
    }
    if let Some(took) = item.duration_ms.filter(|ms| *ms > 0) {
        let _ = write!(line, " <span class=\"took\">{}</span>", text::duration(took));
    }
    line
}

/// The entry of a call, folded if it is long. A failed call is always unfolded.
fn tool(page: &mut String, item: &Item) {
    let lines = |text: Option<&str>| text.map_or(0, |text| text.lines().count());
    let result = item.result.as_ref();
    let short = lines(item.args.as_deref()) <= SHORT && lines(result.map(|result| result.content.as_str())) <= SHORT;
    let _ = writeln!(
        page,
        "<details{}>\n<summary>{}</summary>",
        if short || item.failed() { " open" } else { "" },
        heading(item)
    );
    if let Some(args) = &item.args {
        page.push_str("<p class=\"part\">arguments</p>\n");
        block(page, args, "code");
    }
    match result {
        Some(CallResult { content, is_error }) => {
            let _ = writeln!(
                page,
                "<p class=\"part\">{}</p>",
                if *is_error { "error" } else { "result" }
            );
            block(page, content, "code");
        }
        None if item.is_cut => {
            page.push_str("<p class=\"part\">no result: the run was ended while it was waited for</p>\n")
        }
        None => page.push_str("<p class=\"part\">no result in this log: the call was for the caller to run</p>\n"),
    }
    page.push_str("</details>\n");
}

fn folded(page: &mut String, item: &Item) {
    let _ = writeln!(page, "<details>\n<summary>{}</summary>", heading(item));
    if let Some(text) = &item.text {
        block(page, text, "prose");
    }
    page.push_str("</details>\n");
}

/// A text in a `<pre>`, cut to the longest that a page shows.
fn block(page: &mut String, text: &str, class: &str) {
    let start = beginning(text, LONGEST);
    if start.trim().is_empty() {
        page.push_str("<p class=\"none\">(nothing)</p>\n");
        return;
    }
    // HTML drops the line feed right behind `<pre>`. This one is dropped instead of the text's own.
    let _ = writeln!(
        page,
        "<pre class=\"{class}\" dir=\"auto\">\n{}</pre>",
        escaped_block(start)
    );
    if start.len() < text.len() {
        let _ = writeln!(
            page,
            "<p class=\"none\">{} more bytes are in the log</p>",
            text::count((text.len() - start.len()) as u64)
        );
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Start => "start",
        Kind::Session => "session",
        Kind::Prompt => "prompt",
        Kind::Thinking => "thinking",
        Kind::Message => "message",
        Kind::ToolCall => "tool",
        Kind::ToolResult => "result",
        Kind::Usage => "tokens",
        Kind::Limit => "limit",
        Kind::Retry => "retry",
        Kind::Warning => "warning",
        Kind::Error => "error",
        Kind::End => "end",
        Kind::Other => "other",
    }
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Message => "message",
        Kind::ToolCall | Kind::ToolResult => "tool",
        Kind::Limit | Kind::Retry | Kind::Warning => "odd",
        Kind::Error => "failed",
        Kind::Thinking => "thinking",
        _ => "quiet",
    }
}
