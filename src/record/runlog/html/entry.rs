//! Renders one item of a timeline as an entry of a page.

use std::fmt::Write;

use super::super::timeline::{CallResult, Item, Kind};
use super::LONGEST;
use super::{Escaped, beginning, escaped_block, shown};
use crate::runlog::text::{self, one_line};

/// Calls whose arguments and result have at most this many lines are unfolded at first.
const SHORT: usize = 6;

pub(super) fn entry(page: &mut String, item: &Item, id: &str, whole_ms: u64) {
    let class = if item.failed() { "failed" } else { class(item.kind) };
    let _ = write!(
        page,
        "<li id=\"{id}\" class=\"item {class}\">\n<div class=\"when\"><span class=\"offset\">{} s</span>",
        text::offset(item.t)
    );
    bar(page, item, whole_ms);
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
fn bar(page: &mut String, item: &Item, whole_ms: u64) {
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

pub(super) fn word(kind: Kind) -> &'static str {
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

pub(super) fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Message => "message",
        Kind::ToolCall | Kind::ToolResult => "tool",
        Kind::Limit | Kind::Retry | Kind::Warning => "odd",
        Kind::Error => "failed",
        Kind::Thinking => "thinking",
        _ => "quiet",
    }
}
