//! Renders a waterfall: a row for each turn, call, wait and failure, drawn over the time of its run.
//!
//! Every row also says in words what it draws, and links to its entry: nothing is told by colour or position alone.

use std::fmt::Write;

use super::super::timeline::{Item, Kind, RunView};
use super::super::view;
use super::cut::{Cut, run_anchor, to_run};
use super::entry::{class, word};
use super::escape::brief;

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
            0 => format!("{} s", view::offset(*t)),
            took => format!("{} s, took {}", view::offset(*t), view::duration(*took)),
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
            view::count(more as u64)
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
pub(super) fn parts(runs: &[RunView], number: usize) -> impl Iterator<Item = (usize, &RunView)> {
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
