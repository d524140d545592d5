//! Renders a timeline as an HTML page without scripts or external resources, for eyes, keyboards and screen readers.
//!
//! A log is foreign input. Every text of it is escaped here, and gets into a page in no other way; and the page's own policy forbids
//! everything but its style. Of a long log a page shows the beginning, and says how much is left out ([`Cut`]).

mod run;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter, Write};

use super::text::{self, figures, one_line, visible};
use super::timeline::{Fact, Item, RunView, Timeline};
use dfp_model::error::clip;

/// The style sheet, which every page contains.
const STYLE: &str = include_str!("page.css");

/// Nested runs are indented by up to this many levels.
const DEEPEST: usize = 6;

/// The filters of a page: the class of the entries that each hides, and its name.
const FILTERS: [(&str, &str); 6] = [
    ("message", "messages"),
    ("tool", "tools"),
    ("thinking", "thinking"),
    ("odd", "warnings and retries"),
    ("failed", "errors"),
    ("quiet", "the rest"),
];

/// A page to be rendered.
struct HtmlPage<'a> {
    timeline: &'a Timeline,
    source: String,
    cut: Cut,
}

/// Renders `timeline` as a page. `source` is the file's name, for the title.
pub fn render(timeline: &Timeline, source: &str) -> String {
    within(timeline, source, PageLimits::PAGE)
}

fn within(timeline: &Timeline, source: &str, limits: PageLimits) -> String {
    let page = HtmlPage {
        timeline,
        source: one_line(source),
        cut: Cut::new(timeline, limits),
    };
    page.text()
}

impl HtmlPage<'_> {
    /// The whole page.
    fn text(&self) -> String {
        let mut page = String::with_capacity(64 * 1024);
        let source = Escaped(&self.source);
        page.push_str(&head(&format!("Run log: {}", self.source)));
        let _ = write!(
            page,
            "<body>\n<a class=\"skip\" href=\"#main\">Skip to the timeline</a>\n\
             <header>\n<h1>Run log</h1>\n<p class=\"source\">{source}</p>\n</header>\n"
        );
        if self.timeline.runs.len() > 1 {
            self.contents(&mut page);
        }
        page.push_str("<main id=\"main\" tabindex=\"-1\">\n");
        self.problems(&mut page);
        self.left_out(&mut page);
        filter(&mut page);
        for (number, run) in self.timeline.runs.iter().enumerate() {
            self.run(&mut page, run, number);
        }
        page.push_str("</main>\n<footer>\n<p>Times count from the beginning of the run.");
        if self.timeline.redacted {
            page.push_str(" Secrets were taken out when it was recorded.");
        }
        page.push_str("</p>\n</footer>\n</body>\n</html>\n");
        page
    }

    /// The list of all runs, with links, for a log that has several.
    fn contents(&self, page: &mut String) {
        page.push_str("<nav aria-label=\"Runs\">\n<ul>\n");
        for (number, run) in self.timeline.runs.iter().enumerate() {
            let _ = writeln!(
                page,
                "<li class=\"{}\"><a href=\"{}\">{} <span class=\"dim\">{}</span></a> {}</li>",
                inset(run),
                to_run(number),
                name(run),
                shown(&run.run_id),
                badge(run)
            );
        }
        page.push_str("</ul>\n</nav>\n");
    }

    /// The lines of the log that could not be read.
    fn problems(&self, page: &mut String) {
        let problems = &self.timeline.problems;
        if problems.is_empty() {
            return;
        }
        page.push_str(
            "<section class=\"notice\" aria-labelledby=\"problems\">\n<h2 id=\"problems\">Not all could be read</h2>\n<ul>\n",
        );
        for problem in problems {
            let _ = writeln!(page, "<li>Line {}: {}</li>", problem.line, shown(&problem.message));
        }
        page.push_str("</ul>\n</section>\n");
    }

    /// Says what the page leaves out, and where it can be found.
    fn left_out(&self, page: &mut String) {
        let Cut {
            entries, texts, bytes, ..
        } = self.cut;
        if entries == 0 && texts == 0 {
            return;
        }
        let several = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{} {many}", text::count(count as u64)),
        };
        let mut told = Vec::new();
        if entries > 0 {
            told.push(format!("{} not shown", several(entries, "entry is", "entries are")));
        }
        if texts > 0 {
            let texts = several(texts, "text is", "texts are");
            told.push(format!(
                "{texts} cut after {} KiB, by {} bytes in all",
                LONGEST / 1024,
                text::count(bytes as u64)
            ));
        }
        let _ = write!(
            page,
            "<section class=\"notice\" aria-labelledby=\"left-out\">\n<h2 id=\"left-out\">Not all of it is here</h2>\n\
             <p>{}. All of it: <code>npx deep-factor-providers log show --full {}</code></p>\n</section>\n",
            told.join("; "),
            Escaped(&quoted(&self.source))
        );
    }

    /// One run: its head, and the list of its entries.
    fn run(&self, page: &mut String, run: &RunView, number: usize) {
        let anchor = run_anchor(number);
        self.beginning(page, run, number);
        let _ = write!(
            page,
            "<h3 id=\"{anchor}-timeline\">Timeline</h3>\n<ol class=\"timeline\" aria-labelledby=\"{anchor}-timeline {anchor}-name\">\n"
        );
        for (at, item) in run.items.iter().enumerate().take(self.cut.shown(number)) {
            run::entry(page, item, &item_anchor(number, at), run.duration_ms);
        }
        page.push_str("</ol>\n</section>\n");
    }

    /// The head of a run: its figures, its waterfall, its usage and its failures.
    fn beginning(&self, page: &mut String, run: &RunView, number: usize) {
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
        let mut facts = vec![own("began", text::date(run.started_at))];
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
        self.errors(page, run, number);
        run::waterfall(page, &self.timeline.runs, number, &self.cut);
        run::usage(page, &self.timeline.runs, number);
    }

    /// The list of failures, with a link to each.
    fn errors(&self, page: &mut String, run: &RunView, number: usize) {
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
            let text = dfp_model::error::clip(&one_line(text.unwrap_or_default()), 240);
            let _ = writeln!(
                page,
                "<li><a href=\"{}\">{}</a> at {} <bdi>{}</bdi></li>",
                self.cut.to_item(number, at),
                shown(&item.title),
                text::offset(item.t),
                Escaped(&text)
            );
        }
        page.push_str("</ul>\n");
    }
}

/// The filters, without a script: the page's style hides the entries of an unticked box.
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

/// The beginning of every page of this package, up to its body.
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

/// The role of a run, and its provider.
fn name(run: &RunView) -> String {
    match &run.role {
        Some(role) => format!("{} · {}", shown(role), shown(&run.provider)),
        None => shown(&run.provider),
    }
}

/// The class by which a run that is part of others is indented. Its facts say the same in words.
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

// The cut of a long log. In: a timeline, and the most that a browser can open. Out: the entries that are shown, and how much is left
// out.

/// Longer texts are cut, in bytes: a page has to stay readable for a browser; the file has all of it.
pub const LONGEST: usize = 256 * 1024;

/// The size limits of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    /// Entries of all runs together. For further entries only the head of their run is shown.
    pub entries: usize,
    /// Bytes of the entries' texts, each after its own cut.
    pub bytes: usize,
}

impl PageLimits {
    /// The size that a browser opens in about a second.
    pub const PAGE: PageLimits = PageLimits {
        entries: 4_000,
        bytes: 8 * 1024 * 1024,
    };
}

/// The parts of a log that a page shows, and the size of what it leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// By run: how many of its entries are shown, counted from the first.
    shown: Vec<usize>,
    /// The number of entries that are left out.
    pub entries: usize,
    /// The number of shown texts that are cut.
    pub texts: usize,
    /// The bytes that were cut from them.
    pub bytes: usize,
}

impl Cut {
    /// Cuts `timeline` to `limits`.
    pub fn new(timeline: &Timeline, limits: PageLimits) -> Cut {
        let mut cut = Cut::default();
        let (mut entries, mut bytes) = (0, 0);
        for run in &timeline.runs {
            let mut shown = 0;
            for item in &run.items {
                let size: usize = texts(item).map(|text| text.len().min(LONGEST)).sum();
                if entries >= limits.entries || bytes + size > limits.bytes {
                    (entries, bytes) = (limits.entries, limits.bytes);
                    break;
                }
                entries += 1;
                bytes += size;
                shown += 1;
                for text in texts(item).filter(|text| text.len() > LONGEST) {
                    cut.texts += 1;
                    cut.bytes += text.len() - LONGEST;
                }
            }
            cut.entries += run.items.len() - shown;
            cut.shown.push(shown);
        }
        cut
    }

    /// The number of entries that are shown of a run.
    pub fn shown(&self, run: usize) -> usize {
        self.shown.get(run).copied().unwrap_or_default()
    }

    /// The link to an item, or to its run if the item is not shown.
    fn to_item(&self, run: usize, item: usize) -> String {
        match item < self.shown(run) {
            true => format!("#{}", item_anchor(run, item)),
            false => to_run(run),
        }
    }
}

fn texts(item: &Item) -> impl Iterator<Item = &String> {
    let result = item.result.as_ref().map(|result| &result.content);
    [item.text.as_ref(), item.args.as_ref(), result].into_iter().flatten()
}

/// The link to a run's beginning.
fn to_run(run: usize) -> String {
    format!("#{}", run_anchor(run))
}

/// The anchor of a run's beginning.
fn run_anchor(run: usize) -> String {
    format!("run-{}", run + 1)
}

/// The anchor of an item.
fn item_anchor(run: usize, item: usize) -> String {
    format!("run-{}-{item}", run + 1)
}

/// The most characters of a text that stands on one line.
const LONGEST_LINE: usize = 300;

/// Text that is escaped for elements, and for attributes in double quotes.
struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (before, from) = rest.split_at(at);
            out.write_str(before)?;
            out.write_str(match from.as_bytes().first() {
                Some(b'&') => "&amp;",
                Some(b'<') => "&lt;",
                Some(b'>') => "&gt;",
                Some(b'"') => "&quot;",
                _ => "&#39;",
            })?;
            rest = from.get(1..).unwrap_or_default();
        }
        out.write_str(rest)
    }
}

/// A short foreign text as HTML: on one line, and cut if it is too long.
fn shown(text: &str) -> String {
    brief(text, LONGEST_LINE)
}

/// Like [`shown`], with at most `chars` characters.
fn brief(text: &str, chars: usize) -> String {
    // Only as much is looked at as can be shown: a name may be megabytes long.
    let head = beginning(text, chars.saturating_mul(8));
    let mut line = one_line(head);
    if head.len() < text.len() {
        line.push('…');
    }
    Escaped(&clip(&line, chars)).to_string()
}

/// A long foreign text as HTML, on any number of lines.
fn escaped_block(text: &str) -> String {
    Escaped(&visible(text)).to_string()
}

/// The beginning of `text`, at most `bytes` long.
fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Quotes a file name for a POSIX shell.
fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./~".contains(&byte);
    if !name.is_empty() && !name.starts_with(['-', '~']) && name.bytes().all(plain) {
        return name.to_owned();
    }
    let name = if name.starts_with('-') {
        format!("./{name}")
    } else {
        name.to_owned()
    };
    format!("'{}'", name.replace('\'', "'\\''"))
}
