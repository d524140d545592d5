//! Cuts a long log for a page. In: a timeline, and the most that a browser can open. Out: the entries that are shown, and how much
//! is left out.

use super::super::timeline::{Item, Timeline};

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

/// The link to a run's beginning.
pub fn to_run(run: usize) -> String {
    format!("#{}", run_anchor(run))
}

/// The anchor of a run's beginning.
pub fn run_anchor(run: usize) -> String {
    format!("run-{}", run + 1)
}

/// The anchor of an item.
pub fn item_anchor(run: usize, item: usize) -> String {
    format!("run-{}-{item}", run + 1)
}
