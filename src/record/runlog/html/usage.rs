//! Renders the usage of a run: tokens and cost, turn by turn, as figures with bars beside them.

use std::fmt::Write;

use super::super::timeline::{RunView, Tokens};
use super::super::view;
use super::cut::{run_anchor, to_run};
use super::escape::brief;
use super::waterfall::parts;

/// The most rows of turns.
const MOST_ROWS: usize = 300;

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
            view::count(more as u64)
        );
    }
}

/// One row. `most`: the tokens of the longest bar; 0 for no bar.
fn row(page: &mut String, name: &str, run: &RunView, most: u64) {
    let unknown = || "unknown".to_owned();
    let count = |tokens: Option<u64>| tokens.map_or_else(unknown, view::count);
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
        cost(run).map_or_else(unknown, view::dollars)
    );
    if let Some(tokens) = tokens.filter(|_| most > 0) {
        bar(page, tokens, most);
    }
    page.push_str("</td></tr>\n");
}

/// The bar: the parts side by side. The row's figures say what they are.
fn bar(page: &mut String, tokens: Tokens, most: u64) {
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
    let read = tokens.and_then(|tokens| tokens.cache_read).map(view::count);
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
