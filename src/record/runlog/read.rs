//! Reads a run log. In: the bytes of a file. Out: its runs.
//!
//! A file is foreign input, and everything that can be read of it is read. A line that was torn (by a crash, a full disk), or that
//! is not a JSON object of this format, is left out and reported. Refused are only files that are no run logs, and newer versions
//! of the format.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{FORMAT, VERSION};
use dfp_model::event::EventKind;
use dfp_model::message::Lossy;

/// The reason why a whole file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The file is empty.
    #[error("it is empty: a run log begins with a header line")]
    Empty,
    /// The file is no run log.
    #[error("it is not a run log: {0}")]
    Other(String),
    /// The file was written by a newer version of this package.
    #[error("its version is {0}, and this package reads up to {VERSION}: a newer deep-factor-providers wrote it")]
    Version(u64),
}

/// The contents of a file.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// The runs, in the order of their header lines.
    pub runs: Vec<Run>,
    /// The lines that could not be read.
    pub problems: Vec<Problem>,
}

/// One run of a file.
#[derive(Debug, Clone)]
pub struct Run {
    pub id: String,
    /// The run that this run is part of.
    pub parent: Option<String>,
    /// The header line, unchanged.
    pub header: Box<RawValue>,
    pub provider: String,
    /// When the run began, ms since the epoch.
    pub started_at: u64,
    /// Its events, in order.
    pub entries: Vec<Entry>,
    /// Its end, if that has a line of its own.
    pub end: Option<Ended>,
    /// `true` if a line is missing that may have been of this run.
    pub damaged: bool,
}

/// One event of a run.
#[derive(Debug, Clone)]
pub struct Entry {
    /// ms since the epoch.
    pub at: u64,
    /// ms since the run's beginning.
    pub t: u64,
    /// The event's `type`.
    pub kind: String,
    /// The event's JSON, unchanged.
    pub event: Box<RawValue>,
}

/// The line of a run's end.
#[derive(Debug, Clone)]
pub struct Ended {
    /// ms since the epoch.
    pub at: u64,
    /// ms since the run's beginning.
    pub t: u64,
    /// `failed` or `cancelled`.
    pub status: String,
    /// The error's JSON.
    pub error: Option<Box<RawValue>>,
}

/// A line that was left out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The line's number, from 1.
    pub line: usize,
    pub message: String,
}

impl Entry {
    /// The event's kind; `None` for a type that another version of this package has written.
    pub fn known_kind(&self) -> Option<EventKind> {
        EventKind::named(&self.kind)
    }
}

impl Run {
    /// The last event, if it is one that ends a run.
    pub fn last_word(&self) -> Option<&Entry> {
        self.entries
            .iter()
            .rev()
            .find(|entry| entry.known_kind().is_some_and(EventKind::is_last))
    }

    /// `true` for an agent's run, whose events are those of `runAgent`.
    pub fn is_agents(&self) -> bool {
        self.entries
            .first()
            .is_some_and(|first| first.known_kind() == Some(EventKind::RunStarted))
    }

    /// `true` if the log holds all of the run.
    pub fn complete(&self) -> bool {
        !self.damaged && (self.end.is_some() || self.last_word().is_some())
    }

    /// `replied`, `failed` or `cancelled`; `unknown` if the log ends before the run did.
    pub fn outcome(&self) -> &str {
        match (&self.end, self.last_word()) {
            (Some(end), _) => &end.status,
            (None, Some(last)) => last_outcome(last.known_kind(), &last.event),
            (None, None) => "unknown",
        }
    }

    /// The header of the run, in short.
    pub(super) fn opening(&self) -> RunHeader {
        RunHeader {
            id: self.id.clone(),
            parent: self.parent.clone(),
            provider: self.provider.clone(),
            started_at: self.started_at,
        }
    }
}

/// The outcome of a run whose last event is `event`.
pub(super) fn last_outcome(kind: Option<EventKind>, event: &RawValue) -> &'static str {
    let status = || text(serde_json::from_str::<LineKind>(event.get()).ok()?.status);
    match kind {
        // A run that was stopped by a limit has no answer either, and counts as failed.
        Some(EventKind::RunFailed) if status().as_deref() == Some("cancelled") => "cancelled",
        Some(EventKind::RunFailed) => "failed",
        _ => "replied",
    }
}

/// The header of a run without the prompt.
#[derive(Debug, Clone)]
pub(super) struct RunHeader {
    pub id: String,
    /// The run that this run is part of.
    pub parent: Option<String>,
    pub provider: String,
    /// When the run began, ms since the epoch.
    pub started_at: u64,
}

/// A line of a file, by its kind.
#[derive(Debug)]
pub(super) enum LineOf<'a> {
    /// The header that opens a run.
    Header(RunHeader),
    /// An event of `run`.
    Event {
        run: String,
        at: u64,
        t: u64,
        kind: String,
        event: &'a RawValue,
    },
    /// The end of `run`.
    End {
        run: String,
        at: u64,
        t: u64,
        status: String,
        error: Option<Box<RawValue>>,
    },
}

/// The fields of a line of any kind. Each is read separately, and one whose type is not the expected one is treated as missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogLine<'a> {
    #[serde(borrow)]
    format: Option<&'a RawValue>,
    #[serde(borrow)]
    version: Option<&'a RawValue>,
    #[serde(borrow)]
    run_id: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_run_id: Option<&'a RawValue>,
    #[serde(borrow)]
    provider: Option<&'a RawValue>,
    #[serde(borrow)]
    started_at: Option<&'a RawValue>,
    #[serde(borrow)]
    at: Option<&'a RawValue>,
    #[serde(borrow)]
    t: Option<&'a RawValue>,
    #[serde(borrow)]
    run: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    end: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LineKind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn value<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    value::<Lossy>(raw).map(|text| text.0)
}

/// Reads a file.
///
/// # Errors
/// [`Unreadable`], which the first line decides.
pub fn read(bytes: &[u8]) -> Result<Recording, Unreadable> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Unreadable::Empty);
    }
    let whole = bytes.ends_with(b"\n");
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let last = lines.len();
    let mut recording = Recording::default();
    for (index, line) in lines.into_iter().enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let number = index + 1;
        let text = String::from_utf8_lossy(line);
        let torn = number == last && !whole;
        if let Err(message) = take(&text, &mut recording)? {
            if recording.runs.is_empty() {
                return Err(foreign(&text, bytes, torn));
            }
            let message = if torn {
                "the line is torn: the log ends in the middle of it".to_owned()
            } else {
                message
            };
            recording.problems.push(Problem { line: number, message });
            // The unreadable line may have been of any run that was not over.
            for run in recording.runs.iter_mut().filter(|run| run.outcome() == "unknown") {
                run.damaged = true;
            }
        }
    }
    Ok(recording)
}

/// Adds one line to the runs, or returns what is wrong with it.
fn take(line: &str, to: &mut Recording) -> Result<Result<(), String>, Unreadable> {
    Ok(parse(line, to.runs.is_empty())?.and_then(|parsed| add(line, parsed, to)))
}

/// Adds a parsed line to its run.
fn add(line: &str, parsed: LineOf, to: &mut Recording) -> Result<(), String> {
    match parsed {
        LineOf::Header(opening) => to.runs.push(Run {
            id: opening.id,
            parent: opening.parent,
            header: RawValue::from_string(line.trim().to_owned()).map_err(|error| error.to_string())?,
            provider: opening.provider,
            started_at: opening.started_at,
            entries: Vec::new(),
            end: None,
            damaged: false,
        }),
        LineOf::Event {
            run: id,
            at,
            t,
            kind,
            event,
        } => latest(to, &id)?.entries.push(Entry {
            at,
            t,
            kind,
            event: event.to_owned(),
        }),
        LineOf::End {
            run: id,
            at,
            t,
            status,
            error,
        } => latest(to, &id)?.end = Some(Ended { at, t, status, error }),
    }
    Ok(())
}

/// The latest run with that id. Another process may have appended to the file and used the id again.
fn latest<'a>(of: &'a mut Recording, id: &str) -> Result<&'a mut Run, String> {
    let run = of.runs.iter_mut().rev().find(|known| known.id == id);
    run.ok_or_else(|| headless(id))
}

/// The problem of a line whose run has no header.
pub(super) fn headless(run: &str) -> String {
    format!("the line is of run {run}, which has no header")
}

/// Reads one line, or returns what is wrong with it. `first`: no run has begun yet.
///
/// # Errors
/// [`Unreadable::Version`], if the line is the header of a newer version.
pub(super) fn parse(line: &str, first: bool) -> Result<Result<LineOf<'_>, String>, Unreadable> {
    let parsed: LogLine = match serde_json::from_str(line) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Err(format!("the line is not a JSON object: {error}"))),
    };
    if text(parsed.format).as_deref() == Some(FORMAT) {
        let version: u64 = value(parsed.version).unwrap_or_default();
        if version > u64::from(VERSION) {
            return Err(Unreadable::Version(version));
        }
        let (Some(id), Some(provider)) = (text(parsed.run_id), text(parsed.provider)) else {
            return Ok(Err("the header names no run or no provider".to_owned()));
        };
        return Ok(Ok(LineOf::Header(RunHeader {
            id,
            parent: text(parsed.parent_run_id),
            provider,
            started_at: value(parsed.started_at).unwrap_or_default(),
        })));
    }
    if first {
        return Ok(Err("its first line is not a header".to_owned()));
    }
    Ok(later(&parsed))
}

/// Reads an event line or an end line.
fn later<'a>(parsed: &LogLine<'a>) -> Result<LineOf<'a>, String> {
    let (Some(at), Some(t), Some(run)) = (value(parsed.at), value(parsed.t), text(parsed.run)) else {
        return Err("the line has no at, t or run".to_owned());
    };
    let pieces = |raw: &'a RawValue| serde_json::from_str::<LineKind<'a>>(raw.get()).ok();
    match (parsed.event, parsed.end) {
        (Some(event), None) => {
            let kind = pieces(event).and_then(|event| text(event.kind));
            let kind = kind.ok_or("the line's event has no type")?;
            Ok(LineOf::Event {
                run,
                at,
                t,
                kind,
                event,
            })
        }
        (None, Some(end)) => {
            let end = pieces(end);
            let status = end.as_ref().and_then(|end| text(end.status));
            let status = status.ok_or("the line's end has no status")?;
            let error = end.and_then(|end| end.error.map(ToOwned::to_owned));
            Ok(LineOf::End {
                run,
                at,
                t,
                status,
                error,
            })
        }
        _ => Err("the line has neither an event nor an end".to_owned()),
    }
}

/// The reason for refusing a file that does not begin with a header.
fn foreign(first_line: &str, bytes: &[u8], torn: bool) -> Unreadable {
    if torn && first_line.starts_with(r#"{"format":"deep-factor-run","#) {
        return Unreadable::Other("it ends in the middle of the header line".to_owned());
    }
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        agent_info: Option<&'a RawValue>,
        #[serde(borrow)]
        execution: Option<&'a RawValue>,
    }
    let document: Cow<str> = String::from_utf8_lossy(bytes);
    let what = match serde_json::from_str::<Whole>(&document) {
        Ok(Whole {
            agent_info: Some(_),
            execution: Some(_),
        }) => "it is a normalised log of the Claude Code adapter (youbencha-log.json), which can be shown but not replayed"
            .to_owned(),
        Ok(_) => "it is a JSON document without the header of one".to_owned(),
        Err(_) if serde_json::from_str::<&RawValue>(first_line).is_ok() => {
            format!("its first line is JSON, but not a header with \"format\":\"{FORMAT}\"")
        }
        Err(_) => "its first line is not JSON".to_owned(),
    };
    Unreadable::Other(what)
}
