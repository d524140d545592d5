//! A log that is too large to be held, as a timeline without its long texts.
//!
//! In: the log, read line by line. Out: its [`Outline`], in which each item knows the lines it was made of, so that it can be had
//! whole again when its page is written. What is held at a time is one line, the items with the beginnings of their texts, and
//! the message that is being written in each run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::builder::TimelineBuilder;
use super::order::{self, Node};
use super::read::{LineOf, Problem, Unreadable, headless, last_outcome, parse};
use super::timeline::{Item, Timeline};
use super::view;
use crate::event::EventKind;

/// Longer texts are not held, in bytes: an item has their beginnings.
const HEAD: usize = 512;

/// Of a title or a fact as much is held: a page shows 300 characters.
const LINE: usize = 300 * 8;

/// Longer lines are left out, in bytes.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// So many lines that can't be read are reported one by one.
const MOST_PROBLEMS: usize = 100;

/// Why there is no outline.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no log, or a newer one. What it is instead is said by `read`.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// A timeline, and where the whole of its items is.
#[derive(Debug)]
pub struct Outline {
    /// Its items have the beginnings of long texts only.
    pub timeline: Timeline,
    /// Of each run of the timeline, of each of its items.
    pub sources: Vec<Vec<Source>>,
    /// How many further lines could not be read, beside the timeline's problems.
    pub more_problems: u64,
}

/// Where an item is whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Its lines: from where to where, in bytes. None for an item that is held whole.
    lines: Vec<(u64, u64)>,
    /// How long its texts are, in bytes: the text, the arguments, the result.
    pub lengths: [u64; 3],
}

/// What can be read again.
pub trait Log: Read + Seek {}
impl<T: Read + Seek> Log for T {}

impl Outline {
    /// Of a timeline that is held anyway.
    pub fn of(timeline: Timeline) -> Outline {
        let of_item = |item: &Item| Source {
            lines: Vec::new(),
            lengths: lengths(item),
        };
        let sources = timeline.runs.iter().map(|run| run.items.iter().map(of_item).collect());
        Outline {
            sources: sources.collect(),
            more_problems: 0,
            timeline,
        }
    }

    /// Of a log.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(log: &mut impl BufRead) -> Result<Outline, Refused> {
        Lines::new(log).outline()
    }
}

impl Source {
    /// `item`, which is of this source, with all of its texts. `log` is where it was read from.
    ///
    /// # Errors
    /// The log's; and `InvalidData` if something else stands there now.
    pub fn whole<'a>(&self, item: &'a Item, log: &mut dyn Log) -> io::Result<Cow<'a, Item>> {
        if self.lines.is_empty() {
            return Ok(Cow::Borrowed(item));
        }
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "the log was changed meanwhile");
        let mut builder: Option<TimelineBuilder> = None;
        let mut bytes = Vec::new();
        for (from, to) in &self.lines {
            log.seek(SeekFrom::Start(*from))?;
            bytes.clear();
            (&mut *log).take(to - from).read_to_end(&mut bytes)?;
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)) {
                let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
                let text = String::from_utf8_lossy(line);
                let parsed = parse(&text, false).map_err(|_| changed())?.map_err(|_| changed())?;
                let builder = builder.get_or_insert_with(TimelineBuilder::nameless);
                match parsed {
                    LineOf::Header(_) => builder.header(&view::json(&text)),
                    LineOf::Event { t, kind, event, .. } => builder.event(t, &kind, &view::json(event.get())),
                    LineOf::End { t, status, error, .. } => {
                        builder.end(t, &status, error.map(|error| view::json(error.get())));
                    }
                }
            }
        }
        let made = builder.and_then(|mut builder| builder.items().first().cloned());
        let made = made.filter(|made| made.kind == item.kind && made.t == item.t);
        made.map(Cow::Owned).ok_or_else(changed)
    }

    fn add(&mut self, from: u64, to: u64) {
        match self.lines.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.lines.push((from, to)),
        }
    }
}

fn lengths(item: &Item) -> [u64; 3] {
    let result = item.result.as_ref().map(|result| &result.content);
    [item.text.as_ref(), item.args.as_ref(), result].map(|text| text.map_or(0, |text| text.len() as u64))
}

/// A run that is being read.
#[derive(Debug)]
struct Reading {
    id: String,
    parent: Option<String>,
    builder: TimelineBuilder,
    sources: Vec<Source>,
    /// The item whose text may still grow.
    growing: Option<usize>,
    last: Option<&'static str>,
    end: Option<String>,
    damaged: bool,
}

/// A log, line by line.
struct Lines<'a, R> {
    log: &'a mut R,
    /// Where the next line begins.
    at: u64,
    runs: Vec<Reading>,
    /// The latest run of an id.
    latest: HashMap<String, usize>,
    problems: Vec<Problem>,
    more_problems: u64,
    /// The runs that have begun since a line could not be read.
    unharmed: Vec<usize>,
}

impl<R: BufRead> Lines<'_, R> {
    fn new(log: &mut R) -> Lines<'_, R> {
        Lines {
            log,
            at: 0,
            runs: Vec::new(),
            latest: HashMap::new(),
            problems: Vec::new(),
            more_problems: 0,
            unharmed: Vec::new(),
        }
    }

    fn outline(mut self) -> Result<Outline, Refused> {
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            line.shrink_to(1024 * 1024);
            let from = self.at;
            let whole = self.next(&mut line)?;
            if self.at == from {
                break;
            }
            number += 1;
            if number == 1 && line.starts_with(b"\xEF\xBB\xBF") {
                line.drain(..3);
            }
            let taken = match whole {
                Length::TooLong => Err(format!("the line is longer than {} MiB", LONGEST_LINE / 1024 / 1024)),
                _ if is_blank(&line) => continue,
                _ => self.take(&String::from_utf8_lossy(&line), from)?,
            };
            if let Err(message) = taken {
                if self.runs.is_empty() {
                    return Err(Unreadable::Other(message).into());
                }
                let message = match whole {
                    Length::Torn => "the line is torn: the log ends in the middle of it".to_owned(),
                    _ => crate::error::clip(&message, 240),
                };
                self.problem(number, message);
            }
        }
        if self.runs.is_empty() {
            return Err(Unreadable::Empty.into());
        }
        Ok(self.finish())
    }

    /// The next line, without more than is read of one.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Length> {
        let read = (&mut *self.log).take(LONGEST_LINE).read_until(b'\n', line)? as u64;
        self.at += read;
        if line.ends_with(b"\n") {
            return Ok(Length::Whole);
        }
        if read < LONGEST_LINE {
            return Ok(Length::Torn);
        }
        loop {
            let buffer = self.log.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.log.consume(used);
            self.at += used as u64;
            if end.is_some() || used == 0 {
                return Ok(Length::TooLong);
            }
        }
    }

    fn problem(&mut self, line: usize, message: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem { line, message });
        } else {
            self.more_problems += 1;
        }
        // Which run it was of is what can't be read: of any that was not over.
        for index in std::mem::take(&mut self.unharmed) {
            if let Some(run) = self.runs.get_mut(index) {
                run.damaged = run.outcome() == "unknown";
            }
        }
    }

    fn take(&mut self, line: &str, from: u64) -> Result<Result<(), String>, Unreadable> {
        let parsed = match parse(line, self.runs.is_empty())? {
            Ok(parsed) => parsed,
            Err(message) => return Ok(Err(message)),
        };
        Ok(self.add(line, parsed, from))
    }

    fn add(&mut self, line: &str, parsed: LineOf, from: u64) -> Result<(), String> {
        let to = self.at;
        let (id, t) = match parsed {
            LineOf::Header(opening) => {
                self.latest.insert(opening.id.clone(), self.runs.len());
                let mut run = Reading {
                    id: opening.id.clone(),
                    parent: opening.parent.clone(),
                    builder: TimelineBuilder::new(opening),
                    sources: Vec::new(),
                    growing: None,
                    last: None,
                    end: None,
                    damaged: false,
                };
                run.builder.header(&view::json(line));
                run.took(from, to);
                self.unharmed.push(self.runs.len());
                self.runs.push(run);
                return Ok(());
            }
            LineOf::Event { ref run, t, .. } | LineOf::End { ref run, t, .. } => (run, t),
        };
        let known = self.latest.get(id).and_then(|index| self.runs.get_mut(*index));
        let run = known.ok_or_else(|| headless(id))?;
        match parsed {
            LineOf::Header(_) => {}
            LineOf::Event { kind, event, .. } => {
                let known = EventKind::named(&kind);
                if known.is_some_and(EventKind::is_last) {
                    run.last = Some(last_outcome(known, event));
                }
                run.builder.event(t, &kind, &view::json(event.get()));
            }
            LineOf::End { status, error, .. } => {
                run.builder.end(t, &status, error.map(|error| view::json(error.get())));
                run.end = Some(status);
            }
        }
        run.took(from, to);
        Ok(())
    }

    fn finish(self) -> Outline {
        let nodes: Vec<Node> = self
            .runs
            .iter()
            .map(|run| Node {
                id: &run.id,
                parent: run.parent.as_deref(),
                is_agents: run.builder.is_agents(),
            })
            .collect();
        let places = order::nested(&nodes);
        let mut read: Vec<Option<Reading>> = self.runs.into_iter().map(Some).collect();
        let (mut runs, mut sources) = (Vec::new(), Vec::new());
        for place in places {
            let Some(run) = read.get_mut(place.index).and_then(Option::take) else {
                continue;
            };
            let (mut view, lines) = run.finish();
            view.depth = place.depth;
            view.role = view.role.or_else(|| place.role());
            runs.push(view);
            sources.push(lines);
        }
        Outline {
            timeline: Timeline {
                runs,
                redacted: true,
                problems: self.problems,
            },
            sources,
            more_problems: self.more_problems,
        }
    }
}

impl Reading {
    fn outcome(&self) -> &str {
        self.end.as_deref().or(self.last).unwrap_or("unknown")
    }

    /// A line was taken: whose it is is remembered, and what can't grow any more is held no longer.
    fn took(&mut self, from: u64, to: u64) {
        let Some(index) = self.builder.touched() else { return };
        self.sources
            .resize_with(self.sources.len().max(index + 1), Source::default);
        if let Some(source) = self.sources.get_mut(index) {
            source.add(from, to);
        }
        if let Some(before) = self.growing.replace(index).filter(|before| *before != index) {
            self.shorten(before);
        }
    }

    fn shorten(&mut self, index: usize) {
        let (Some(item), Some(source)) = (self.builder.items().get_mut(index), self.sources.get_mut(index)) else {
            return;
        };
        let now = lengths(item);
        for (known, now) in source.lengths.iter_mut().zip(now) {
            // What has the length of a beginning is one, unless it came anew.
            let is_head = (HEAD - 3..=HEAD).contains(&(now as usize)) && *known > HEAD as u64;
            *known = if is_head { *known } else { now };
        }
        let result = item.result.as_mut().map(|result| &mut result.content);
        for text in [item.text.as_mut(), item.args.as_mut(), result].into_iter().flatten() {
            cut(text, HEAD);
        }
        // Of these, no page shows more.
        cut(&mut item.title, LINE);
        for fact in &mut item.facts {
            cut(&mut fact.value, LINE);
        }
    }

    fn finish(mut self) -> (super::timeline::RunView, Vec<Source>) {
        if let Some(last) = self.growing {
            self.shorten(last);
        }
        let outcome = self.outcome().to_owned();
        let complete = !self.damaged && (self.end.is_some() || self.last.is_some());
        let view = self.builder.finish(&outcome, complete);
        self.sources.resize_with(view.items.len(), Source::default);
        for source in &mut self.sources {
            if source.lengths.iter().all(|length| *length <= HEAD as u64) {
                source.lines = Vec::new();
            }
        }
        (view, self.sources)
    }
}

fn cut(text: &mut String, to: usize) {
    if text.len() <= to {
        return;
    }
    let mut end = to;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.shrink_to_fit();
}

/// How a line ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Whole,
    /// With the log.
    Torn,
    TooLong,
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}
