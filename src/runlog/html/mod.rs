//! A timeline as HTML pages: no scripts, nothing from elsewhere, readable by eye, by keyboard and by screen reader.
//!
//! A log is foreign input: every text of it passes `escape`, and a page forbids itself everything but its own style. A long log is
//! several pages ([`plan`]); what is held at a time is the outline of the log and one page.

mod entry;
mod escape;
pub mod plan;
mod usage;
mod waterfall;

use std::fmt::Write;
use std::io;

use super::outline::{Log, Outline};
use super::text::figures;
use super::timeline::{Fact, Item, RunView, Timeline};
use super::view::{self, one_line};
use escape::{Escaped, shown};
use plan::{Budget, Names, Plan, Segment, item_anchor, run_anchor};

const STYLE: &str = include_str!("page.css");

/// So far are runs moved in that are inside of others.
const DEEPEST: usize = 6;

/// What can be hidden: the class of the entries, and their name.
const FILTERS: [(&str, &str); 6] = [
    ("message", "messages"),
    ("tool", "tools"),
    ("thinking", "thinking"),
    ("odd", "warnings and retries"),
    ("failed", "errors"),
    ("quiet", "the rest"),
];

/// The pages of a log.
#[derive(Debug)]
pub struct Pages {
    outline: Outline,
    plan: Plan,
    /// The log's name, for the title.
    source: String,
}

/// All of `timeline` as one page. `source` is the file's name, for the title.
pub fn render(timeline: Timeline, source: &str) -> String {
    let names = Names {
        stem: String::new(),
        extension: String::new(),
    };
    let pages = Pages::new(Outline::of(timeline), Budget::ONE, names, source);
    // Everything is held: no file is read.
    pages.page(0, &mut io::empty()).unwrap_or_default()
}

impl Pages {
    /// Those of `outline`, each within `budget`.
    pub fn new(outline: Outline, budget: Budget, names: Names, source: &str) -> Pages {
        Pages {
            plan: Plan::new(&outline, budget, names),
            outline,
            source: one_line(source),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.plan.count()
    }

    /// The page `index`, from 0. `log` is what the outline was read from.
    ///
    /// # Errors
    /// The log's.
    pub fn page(&self, index: usize, log: &mut dyn Log) -> io::Result<String> {
        let mut page = String::with_capacity(64 * 1024);
        let (source, count) = (Escaped(&self.source), self.count());
        let number = match count {
            1 => String::new(),
            _ => format!(", page {} of {count}", index + 1),
        };
        page.push_str(&head(&format!("Run log: {}{number}", self.source)));
        let _ = write!(
            page,
            "<body>\n<a class=\"skip\" href=\"#main\">Skip to the timeline</a>\n\
             <header>\n<h1>Run log</h1>\n<p class=\"source\">{source}{number}</p>\n</header>\n"
        );
        self.ways(&mut page, index, "Pages");
        if index == 0 && self.outline.timeline.runs.len() > 1 {
            self.contents(&mut page);
        }
        page.push_str("<main id=\"main\" tabindex=\"-1\">\n");
        if index == 0 {
            self.problems(&mut page);
            self.left_out(&mut page);
        }
        filter(&mut page);
        let segments = self
            .plan
            .pages
            .get(index)
            .map_or(&[][..], |page| page.segments.as_slice());
        for segment in segments {
            self.segment(&mut page, segment, index, log)?;
        }
        page.push_str("</main>\n");
        self.ways(&mut page, index, "Pages, again");
        page.push_str("<footer>\n<p>Times count from the beginning of the run.");
        if self.outline.timeline.redacted {
            page.push_str(" Secrets were taken out when it was recorded.");
        }
        page.push_str("</p>\n</footer>\n</body>\n</html>\n");
        Ok(page)
    }

    /// The ways to the other pages.
    fn ways(&self, page: &mut String, index: usize, label: &str) {
        let count = self.count();
        if count == 1 {
            return;
        }
        let _ = write!(page, "<nav class=\"pages\" aria-label=\"{label}\">\n<ul>\n");
        let mut way = |to: usize, text: String| {
            let _ = writeln!(
                page,
                "<li><a href=\"{}\">{text}</a></li>",
                self.plan.link(index, to, "main")
            );
        };
        if let Some(before) = index.checked_sub(1) {
            way(before, "previous".to_owned());
        }
        if index + 1 < count {
            way(index + 1, "next".to_owned());
        }
        for to in (0..count).filter(|to| *to != index) {
            way(to, format!("page {}", to + 1));
        }
        page.push_str("</ul>\n</nav>\n");
    }

    fn contents(&self, page: &mut String) {
        page.push_str("<nav aria-label=\"Runs\">\n<ul>\n");
        for (number, run) in self.outline.timeline.runs.iter().enumerate() {
            let _ = writeln!(
                page,
                "<li class=\"{}\"><a href=\"{}\">{} <span class=\"dim\">{}</span></a> {}</li>",
                inset(run),
                self.plan.to_run(0, number),
                name(run),
                shown(&run.run_id),
                badge(run)
            );
        }
        page.push_str("</ul>\n</nav>\n");
    }

    fn problems(&self, page: &mut String) {
        let problems = &self.outline.timeline.problems;
        if problems.is_empty() {
            return;
        }
        page.push_str(
            "<section class=\"notice\" aria-labelledby=\"problems\">\n<h2 id=\"problems\">Not all could be read</h2>\n<ul>\n",
        );
        for problem in problems {
            let _ = writeln!(page, "<li>Line {}: {}</li>", problem.line, shown(&problem.message));
        }
        if self.outline.more_problems > 0 {
            let _ = writeln!(
                page,
                "<li>and {} further lines</li>",
                view::count(self.outline.more_problems)
            );
        }
        page.push_str("</ul>\n</section>\n");
    }

    /// What these pages do not show, and where it is.
    fn left_out(&self, page: &mut String) {
        let left_out = self.plan.left_out();
        if left_out.texts == 0 {
            return;
        }
        let texts = match left_out.texts {
            1 => "1 text is".to_owned(),
            texts => format!("{} texts are", view::count(texts)),
        };
        let _ = write!(
            page,
            "<section class=\"notice\" aria-labelledby=\"left-out\">\n<h2 id=\"left-out\">Long texts are cut</h2>\n\
             <p>{texts} longer than {} KiB; {} bytes are not shown. All of it: \
             <code>npx deep-factor-providers log show --full {}</code></p>\n</section>\n",
            plan::LONGEST / 1024,
            view::count(left_out.bytes),
            Escaped(&escape::quoted(&self.source))
        );
    }

    fn segment(&self, page: &mut String, segment: &Segment, index: usize, log: &mut dyn Log) -> io::Result<()> {
        let number = segment.run;
        let Some(run) = self.outline.timeline.runs.get(number) else {
            return Ok(());
        };
        let anchor = run_anchor(number);
        if segment.first() {
            self.beginning(page, run, number, index);
        } else {
            let _ = write!(
                page,
                "<section class=\"run {}\" aria-labelledby=\"{anchor}-name\">\n<h2 id=\"{anchor}-name\">{} \
                 <span class=\"dim\">{}</span>, continued</h2>\n<p><a href=\"{}\">its beginning</a></p>\n",
                inset(run),
                name(run),
                shown(&run.run_id),
                self.plan.to_run(index, number)
            );
        }
        let _ = write!(
            page,
            "<h3 id=\"{anchor}-timeline\">Timeline</h3>\n<ol class=\"timeline\" aria-labelledby=\"{anchor}-timeline {anchor}-name\">\n"
        );
        let sources = self.outline.sources.get(number).map_or(&[][..], Vec::as_slice);
        for at in segment.items.clone() {
            if let (Some(item), Some(source)) = (run.items.get(at), sources.get(at)) {
                let whole = source.whole(item, log)?;
                entry::entry(page, &whole, &item_anchor(number, at), run.duration_ms);
            }
        }
        page.push_str("</ol>\n</section>\n");
        Ok(())
    }

    /// The head of a run: its figures, its waterfall, what it has used, what failed.
    fn beginning(&self, page: &mut String, run: &RunView, number: usize, index: usize) {
        let anchor = run_anchor(number);
        let _ = write!(
            page,
            "<section class=\"run {}\" id=\"{anchor}\" aria-labelledby=\"{anchor}-name\">\n\
         <h2 id=\"{anchor}-name\">{} <span class=\"dim\">{}</span> {}</h2>\n<p class=\"figures\">{}</p>\n",
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
        self.errors(page, run, number, index);
        waterfall::waterfall(page, &self.outline.timeline.runs, number, &self.plan, index);
        usage::usage(page, &self.outline.timeline.runs, number, &self.plan, index);
    }

    /// What failed, with the way to it.
    fn errors(&self, page: &mut String, run: &RunView, number: usize, index: usize) {
        let anchor = run_anchor(number);
        let failed: Vec<(usize, &Item)> = run.items.iter().enumerate().filter(|(_, item)| item.failed()).collect();
        if failed.is_empty() {
            return;
        }
        let _ = write!(
            page,
            "<h3 id=\"{anchor}-errors\">Errors</h3>\n<ul class=\"errors\" aria-labelledby=\"{anchor}-errors {anchor}-name\">\n"
        );
        for (at, item) in failed {
            let text = item
                .text
                .as_deref()
                .or(item.result.as_ref().map(|result| result.content.as_str()));
            let text = crate::error::clip(&one_line(text.unwrap_or_default()), 240);
            let _ = writeln!(
                page,
                "<li><a href=\"{}\">{}</a> at {} <bdi>{}</bdi></li>",
                self.plan.to_item(index, number, at),
                shown(&item.title),
                view::offset(item.t),
                Escaped(&text)
            );
        }
        page.push_str("</ul>\n");
    }
}

/// What is shown, without a script: unticked boxes hide entries by the page's style.
fn filter(page: &mut String) {
    page.push_str("<fieldset class=\"filter\">\n<legend>Show</legend>\n");
    for (class, name) in FILTERS {
        let _ = writeln!(
            page,
            "<label><input type=\"checkbox\" id=\"show-{class}\" autocomplete=\"off\" checked> {name}</label>"
        );
    }
    page.push_str(
        "<p class=\"dim\">To search, use the browser's own search (Ctrl-F, or Command-F): most open folded entries where they find something.</p>\n\
         </fieldset>\n",
    );
}

/// What every page of ours begins with, up to its body.
pub fn head(title: &str) -> String {
    let title = Escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"generator\" content=\"deep-factor-providers\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n"
    )
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

#[cfg(test)]
mod tests;
