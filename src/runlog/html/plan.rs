//! Which page holds what. In: an outline and how much a page may hold. Out: the pages' parts, and the way to each entry.

use std::ops::Range;

use super::super::outline::{Outline, Source};
use super::escape::address;

/// Longer texts are cut, in bytes: a browser shows the page, not the file.
pub const LONGEST: u64 = 256 * 1024;

/// About what an entry takes beside its texts, in bytes.
const ENTRY: u64 = 512;

/// How much a page may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Entries, and runs that begin.
    pub entries: usize,
    /// Of texts, in bytes, as long as they are in the log; with one entry more than this, a page holds that.
    pub bytes: u64,
}

impl Budget {
    /// Pages that a browser opens at once.
    pub const PAGES: Budget = Budget {
        entries: 1_000,
        bytes: 2 * 1024 * 1024,
    };
    /// All on one.
    pub const ONE: Budget = Budget {
        entries: usize::MAX,
        bytes: u64::MAX,
    };
}

/// How pages are called, beside each other in one folder: `run.html`, `run-2.html`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// `run`.
    pub stem: String,
    /// `.html`, or nothing.
    pub extension: String,
}

impl Names {
    /// The file of the page `number`, from 1.
    pub fn file(&self, number: usize) -> String {
        let Names { stem, extension } = self;
        match number {
            0 | 1 => format!("{stem}{extension}"),
            number => format!("{stem}-{number}{extension}"),
        }
    }
}

/// A part of a run that stands on one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub run: usize,
    pub items: Range<usize>,
}

impl Segment {
    /// Whether the run begins with it.
    pub(super) fn first(&self) -> bool {
        self.items.start == 0
    }
}

/// What is cut away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many texts are cut.
    pub texts: u64,
    /// How much of them is not shown, in bytes.
    pub bytes: u64,
}

impl LeftOut {
    fn of(source: &Source) -> LeftOut {
        let cut = source.lengths.iter().filter(|length| **length > LONGEST);
        cut.fold(LeftOut::default(), |sum, length| LeftOut {
            texts: sum.texts + 1,
            bytes: sum.bytes.saturating_add(length - LONGEST),
        })
    }

    fn plus(self, more: LeftOut) -> LeftOut {
        LeftOut {
            texts: self.texts + more.texts,
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }
}

/// One page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub segments: Vec<Segment>,
    pub entries: usize,
    pub left_out: LeftOut,
}

/// All pages of a log.
#[derive(Debug)]
pub struct Plan {
    names: Names,
    pub(super) pages: Vec<Page>,
    /// Of each run, from which item on it is on which page.
    begins: Vec<Vec<(usize, usize)>>,
}

impl Plan {
    /// The pages of `outline`.
    pub fn new(outline: &Outline, budget: Budget, names: Names) -> Plan {
        let mut plan = Plan {
            names,
            pages: vec![Page::default()],
            begins: Vec::with_capacity(outline.sources.len()),
        };
        let (mut entries, mut bytes) = (0_usize, 0_u64);
        for (run, sources) in outline.sources.iter().enumerate() {
            // The run's own head.
            plan.begins.push(Vec::new());
            if entries > 0 && (entries >= budget.entries || bytes >= budget.bytes) {
                (entries, bytes) = (0, 0);
                plan.pages.push(Page::default());
            }
            plan.open(run, 0);
            entries += 1;
            for (index, source) in sources.iter().enumerate() {
                let texts = source.lengths.iter().map(|length| (*length).min(LONGEST));
                let size = texts.fold(ENTRY, u64::saturating_add);
                if entries > 1 && (entries >= budget.entries || bytes.saturating_add(size) > budget.bytes) {
                    (entries, bytes) = (1, 0);
                    plan.pages.push(Page::default());
                    plan.open(run, index);
                }
                entries += 1;
                bytes = bytes.saturating_add(size);
                plan.take(index, LeftOut::of(source));
            }
        }
        plan
    }

    fn open(&mut self, run: usize, index: usize) {
        let page = self.pages.len() - 1;
        if let Some(begins) = self.begins.get_mut(run) {
            // A run whose head alone was on the page before goes over whole.
            begins.retain(|(from, _)| *from != index);
            begins.push((index, page));
        }
        if let Some(before) = page.checked_sub(1).and_then(|before| self.pages.get_mut(before)) {
            before
                .segments
                .retain(|segment| segment.run != run || !segment.items.is_empty());
        }
        if let Some(page) = self.pages.get_mut(page) {
            page.segments.push(Segment {
                run,
                items: index..index,
            });
        }
    }

    fn take(&mut self, index: usize, left_out: LeftOut) {
        let Some(page) = self.pages.last_mut() else { return };
        page.entries += 1;
        page.left_out = page.left_out.plus(left_out);
        if let Some(segment) = page.segments.last_mut() {
            segment.items.end = index + 1;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// The file of the page `index`, from 0.
    pub fn file(&self, index: usize) -> String {
        self.names.file(index + 1)
    }

    /// What is left out of all of them.
    pub fn left_out(&self) -> LeftOut {
        let all = self.pages.iter().map(|page| page.left_out);
        all.fold(LeftOut::default(), LeftOut::plus)
    }

    /// Which page an item of a run is on, from 0. `item` 0 is the run's beginning, whether it has items or not.
    pub(super) fn page_of(&self, run: usize, item: usize) -> usize {
        let begins = self.begins.get(run).map_or(&[][..], Vec::as_slice);
        let after = begins.partition_point(|(from, _)| *from <= item);
        after
            .checked_sub(1)
            .and_then(|at| begins.get(at))
            .map_or(0, |(_, page)| *page)
    }

    /// The way to `anchor`, which is on the page `to`, from the page `here`.
    pub(super) fn link(&self, here: usize, to: usize, anchor: &str) -> String {
        if here == to {
            format!("#{anchor}")
        } else {
            format!("{}#{anchor}", address(&self.file(to)))
        }
    }

    /// The way to a run's beginning.
    pub(super) fn to_run(&self, here: usize, run: usize) -> String {
        self.link(here, self.page_of(run, 0), &run_anchor(run))
    }

    /// The way to an item.
    pub(super) fn to_item(&self, here: usize, run: usize, item: usize) -> String {
        self.link(here, self.page_of(run, item), &item_anchor(run, item))
    }
}

/// The name of a run's beginning: the same on whichever page it is.
pub(super) fn run_anchor(run: usize) -> String {
    format!("run-{}", run + 1)
}

/// The name of an item.
pub(super) fn item_anchor(run: usize, item: usize) -> String {
    format!("run-{}-{item}", run + 1)
}
