//! A timeline as one HTML page: no scripts, nothing from elsewhere, readable by eye, by keyboard and by screen reader.
//!
//! A log is foreign input: every text of it passes `escaped`, and the page forbids itself everything but its own style.

use std::fmt::Write;

use super::text::figures;
use super::timeline::{CallResult, Fact, Item, Kind, RunView, Timeline};
use super::view::{self, one_line, visible};

const STYLE: &str = include_str!("page.css");

/// Longer texts are cut, in bytes: a browser shows the page, not the file.
const LONGEST: usize = 256 * 1024;

/// So far are runs moved in that are inside of others.
const DEEPEST: usize = 6;

/// Calls whose arguments and result have no more lines than this are open from the beginning.
const SHORT: usize = 6;

/// The page. `source` is the file's name, for the title.
pub fn render(timeline: &Timeline, source: &str) -> String {
    let mut page = String::with_capacity(64 * 1024);
    let source = escaped(&one_line(source));
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"generator\" content=\"deep-factor-providers\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Run log: {source}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the timeline</a>\n\
         <header>\n<h1>Run log</h1>\n<p class=\"source\">{source}</p>\n</header>\n"
    );
    if timeline.runs.len() > 1 {
        contents(&mut page, timeline);
    }
    page.push_str("<main id=\"main\" tabindex=\"-1\">\n");
    problems(&mut page, timeline);
    for (number, run) in timeline.runs.iter().enumerate() {
        section(&mut page, run, number + 1);
    }
    page.push_str("</main>\n<footer>\n<p>Times count from the beginning of the run.");
    if timeline.redacted {
        page.push_str(" Secrets were taken out when it was recorded.");
    }
    page.push_str("</p>\n</footer>\n</body>\n</html>\n");
    page
}

fn contents(page: &mut String, timeline: &Timeline) {
    page.push_str("<nav aria-label=\"Runs\">\n<ul>\n");
    for (number, run) in timeline.runs.iter().enumerate() {
        let _ = writeln!(
            page,
            "<li class=\"{}\"><a href=\"#run-{}\">{} <span class=\"dim\">{}</span></a> {}</li>",
            inset(run),
            number + 1,
            name(run),
            shown(&run.run_id),
            badge(run)
        );
    }
    page.push_str("</ul>\n</nav>\n");
}

fn problems(page: &mut String, timeline: &Timeline) {
    if timeline.problems.is_empty() {
        return;
    }
    page.push_str("<section class=\"notice\" aria-labelledby=\"problems\">\n<h2 id=\"problems\">Not all could be read</h2>\n<ul>\n");
    for problem in &timeline.problems {
        let _ = writeln!(page, "<li>Line {}: {}</li>", problem.line, shown(&problem.message));
    }
    page.push_str("</ul>\n</section>\n");
}

/// What a run is, and who answers in it.
fn name(run: &RunView) -> String {
    match &run.role {
        Some(role) => format!("{} · {}", shown(role), shown(&run.provider)),
        None => shown(&run.provider),
    }
}

/// The class that says how far a run is moved in that is part of others. Its facts say so.
fn inset(run: &RunView) -> String {
    format!("depth-{}", run.depth.min(DEEPEST))
}

fn badge(run: &RunView) -> String {
    let (class, word) = match run.outcome.as_str() {
        "replied" => ("good", "replied".to_owned()),
        "failed" => ("bad", "failed".to_owned()),
        "unknown" => ("odd", "unfinished".to_owned()),
        other => ("odd", shown(other)),
    };
    format!("<span class=\"badge {class}\">{word}</span>")
}

fn section(page: &mut String, run: &RunView, number: usize) {
    let _ = write!(
        page,
        "<section class=\"run {}\" id=\"run-{number}\" aria-labelledby=\"run-{number}-name\">\n\
         <h2 id=\"run-{number}-name\">{} <span class=\"dim\">{}</span> {}</h2>\n<p class=\"figures\">{}</p>\n",
        inset(run),
        name(run),
        shown(&run.run_id),
        badge(run),
        figures(run)
            .iter()
            .map(|part| shown(part))
            .collect::<Vec<_>>()
            .join(" · ")
    );
    let own = |name: &str, value: String| Fact {
        name: name.to_owned(),
        value,
    };
    let mut facts = vec![own("began", view::date(run.started_at))];
    facts.extend(run.model.as_ref().map(|model| own("model", one_line(model))));
    facts.extend(
        run.parent_run_id
            .as_ref()
            .map(|parent| own("part of", one_line(parent))),
    );
    facts.extend(run.facts.iter().cloned());
    page.push_str("<dl class=\"facts\">\n");
    for fact in &facts {
        let _ = writeln!(
            page,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            shown(&fact.name),
            shown(&fact.value)
        );
    }
    page.push_str("</dl>\n");
    errors(page, run, number);
    let _ = write!(
        page,
        "<h3 id=\"run-{number}-timeline\">Timeline</h3>\n<ol class=\"timeline\" aria-labelledby=\"run-{number}-timeline\">\n"
    );
    for (index, item) in run.items.iter().enumerate() {
        entry(page, item, &format!("run-{number}-{index}"), run.duration_ms);
    }
    page.push_str("</ol>\n</section>\n");
}

/// What failed, with the way to it.
fn errors(page: &mut String, run: &RunView, number: usize) {
    let failed: Vec<(usize, &Item)> = run.items.iter().enumerate().filter(|(_, item)| item.failed()).collect();
    if failed.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<h3 id=\"run-{number}-errors\">Errors</h3>\n<ul class=\"errors\" aria-labelledby=\"run-{number}-errors\">\n"
    );
    for (index, item) in failed {
        let text = item
            .text
            .as_deref()
            .or(item.result.as_ref().map(|result| result.content.as_str()));
        let text = crate::error::clip(&one_line(text.unwrap_or_default()), 240);
        let _ = writeln!(
            page,
            "<li><a href=\"#run-{number}-{index}\">{}</a> at {} <bdi>{}</bdi></li>",
            shown(&item.title),
            view::offset(item.t),
            escaped(&text)
        );
    }
    page.push_str("</ul>\n");
}

fn entry(page: &mut String, item: &Item, id: &str, whole_ms: u64) {
    let class = if item.failed() { "failed" } else { class(item.kind) };
    let _ = write!(
        page,
        "<li id=\"{id}\" class=\"item {class}\">\n<div class=\"when\"><span class=\"offset\">{} s</span>",
        view::offset(item.t)
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

/// When it was and how long it took, drawn over the time of the run. Written beside, so it is hidden from readers.
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

/// Label, title, facts and duration, to stand in a paragraph or a summary.
fn heading(item: &Item) -> String {
    let label = word(item.kind);
    let mut line = format!("<span class=\"label\">{label}</span>");
    let title = one_line(&item.title);
    if title != label && !title.is_empty() {
        let _ = write!(line, " <bdi class=\"title\">{}</bdi>", escaped(&title));
    }
    if let Some(summary) = &item.summary {
        let _ = write!(line, " <bdi class=\"arg\">{}</bdi>", escaped(summary));
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
        let _ = write!(line, " <span class=\"took\">{}</span>", view::duration(took));
    }
    line
}

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

fn block(page: &mut String, text: &str, class: &str) {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if text[..end].trim().is_empty() {
        page.push_str("<p class=\"none\">(nothing)</p>\n");
        return;
    }
    // The line feed behind <pre> is not shown; one of the text's own there is.
    let _ = writeln!(
        page,
        "<pre class=\"{class}\" dir=\"auto\">\n{}</pre>",
        escaped(&visible(&text[..end]))
    );
    if end < text.len() {
        let _ = writeln!(
            page,
            "<p class=\"none\">{} more bytes are in the log</p>",
            view::count((text.len() - end) as u64)
        );
    }
}

/// A short foreign text as HTML.
fn shown(text: &str) -> String {
    escaped(&one_line(text))
}

/// Text as HTML, for elements and for attributes in double quotes.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            char => html.push(char),
        }
    }
    html
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
        _ => "quiet",
    }
}

#[cfg(test)]
mod tests;
