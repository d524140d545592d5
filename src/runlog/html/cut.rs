//! What a page shows of a long log. In: a timeline, and how much a browser opens at once. Out: which entries are shown, and what is left out.

use super::super::timeline::{Item, Timeline};

/// Longer texts are cut, in bytes: a browser shows the page, not the file.
pub const LONGEST: usize = 256 * 1024;

/// How much a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    /// Entries of all runs together; of further ones, a run has its head alone.
    pub entries: usize,
    /// Bytes of their texts, each of which is cut already.
    pub bytes: usize,
}

impl PageLimits {
    /// What a browser opens in about a second.
    pub const PAGE: PageLimits = PageLimits {
        entries: 4_000,
        bytes: 8 * 1024 * 1024,
    };
}

/// What a page shows, and what it does not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Of each run, how many of its entries are shown, from the first on.
    shown: Vec<usize>,
    /// How many entries are not shown.
    pub entries: usize,
    /// How many texts of those that are shown are cut.
    pub texts: usize,
    /// How much is cut away of them, in bytes.
    pub bytes: usize,
}

impl Cut {
    /// Of `timeline`, within `limits`.
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

    /// How many entries of a run are shown.
    pub fn shown(&self, run: usize) -> usize {
        self.shown.get(run).copied().unwrap_or_default()
    }

    /// The way to an item; to its run, where it is not shown.
    pub fn to_item(&self, run: usize, item: usize) -> String {
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

/// The way to a run's beginning.
pub fn to_run(run: usize) -> String {
    format!("#{}", run_anchor(run))
}

/// The name of a run's beginning.
pub fn run_anchor(run: usize) -> String {
    format!("run-{}", run + 1)
}

/// The name of an item.
pub fn item_anchor(run: usize, item: usize) -> String {
    format!("run-{}-{item}", run + 1)
}
