//! Reads run logs from files, to replay or to show them.
//!
//! In: a path. Out: a [`Replay`], whose events are the recorded JSON, byte for byte; or a page of text. The result of a log is
//! the one in its last event (`done`), so that a replayed run has the very same reply as the run itself.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::runlog::read::{Problem, Recording, Run, Unreadable, read};
use crate::runlog::text::Style;
use crate::runlog::timeline::{normalised, timeline};
use crate::runlog::{html, text};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EventKind;
use dfp_provider::classify;

/// The name in errors that are not a provider's.
const PACKAGE: &str = "deep-factor-providers";

/// The number of events in a batch.
const BATCH: usize = 256;

/// One recorded run of a file.
#[derive(Debug)]
pub struct Replay {
    run: Run,
    info: String,
}

/// The result of a run: index.d.ts's `RunLogInfo`, with the data for its reply or its error.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    header: &'a RawValue,
    /// `replied`, `failed`, `cancelled` or `unknown`.
    outcome: &'a str,
    complete: bool,
    events: usize,
    /// The ids of all runs in the file.
    run_ids: Vec<&'a str>,
    /// True if the run is an agent's, whose failure is one of its events.
    agent: bool,
    problems: &'a [Problem],
    /// The error, if the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
    /// The reply, if the run has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Box<RawValue>>,
    /// The text so far, if the run has no reply.
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
}

impl Replay {
    /// Opens the run `run_id` of the file, or the last run in it that is no part of another.
    ///
    /// # Errors
    /// `NOT_FOUND` for a file or a run that does not exist, `INVALID_RUN_LOG` for a file that is not a run log, or one of a
    /// newer version.
    pub async fn open(path: PathBuf, run_id: Option<String>) -> Result<Replay, Box<ProviderError>> {
        let recording = load(&path).await?;
        let wanted = recording.runs.iter().rev().find(|run| match &run_id {
            Some(id) => run.id == *id,
            // A parent run that is not in this file does not count.
            None => !recording
                .runs
                .iter()
                .any(|whole| run.parent.as_ref() == Some(&whole.id)),
        });
        let Some(run) = wanted else {
            let reason = format!("{} holds no run {:?}", path.display(), run_id.unwrap_or_default());
            return Err(refused(Code::NotFound, reason));
        };
        let info = info(run, &recording).map_err(|error| refused(Code::Internal, error.to_string()))?;
        Ok(Replay { run: run.clone(), info })
    }

    /// The facts about the run, as JSON.
    pub fn info(&self) -> &str {
        &self.info
    }

    /// Some of the events, from the `from`th on, as a JSON array; `None` after the last.
    pub fn batch(&self, from: usize) -> Option<String> {
        let entries = self.run.entries.get(from..).filter(|rest| !rest.is_empty())?;
        let events: Vec<&str> = entries.iter().take(BATCH).map(|entry| entry.event.get()).collect();
        Some(format!("[{}]", events.join(",")))
    }
}

/// The facts about a run as JSON. The text is read only if there is no reply, which has it.
fn info(run: &Run, recording: &Recording) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Done {
        reply: Option<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct ReplayPiece {
        text: Option<dfp_model::message::Lossy>,
    }
    let done = run
        .last_word()
        .filter(|last| last.known_kind() == Some(EventKind::Done));
    let reply = done.and_then(|done| serde_json::from_str::<Done>(done.event.get()).ok()?.reply);
    let pieces = run
        .entries
        .iter()
        .filter(|entry| reply.is_none() && entry.known_kind() == Some(EventKind::TextDelta));
    let text = pieces.filter_map(|entry| serde_json::from_str::<ReplayPiece>(entry.event.get()).ok()?.text);
    serde_json::to_string(&Info {
        header: &run.header,
        outcome: run.outcome(),
        complete: run.complete(),
        events: run.entries.len(),
        agent: run.is_agents(),
        run_ids: recording.runs.iter().map(|run| run.id.as_str()).collect(),
        problems: &recording.problems,
        error: run.end.as_ref().and_then(|end| end.error.as_deref()),
        text: text.map(|text| text.0).collect(),
        reply,
    })
}

/// The form in which a file is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text for a terminal.
    Text,
    /// A self-contained HTML page.
    Html,
    /// The timeline as JSON data.
    Json,
}

/// The options for showing a file.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Shown {
    pub format: Format,
    /// True for colours; text only.
    #[serde(default)]
    pub colour: bool,
    /// True to show long arguments and results whole; text only.
    #[serde(default)]
    pub full: bool,
}

/// Renders all runs of a file, or the content of a normalised log of the Claude Code adapter, for a person.
///
/// # Errors
/// The same errors as those of [`Replay::open`].
pub async fn show(path: PathBuf, Shown { format, colour, full }: Shown) -> Result<String, Box<ProviderError>> {
    let bytes = contents(&path).await?;
    // Rendering the page of a long log takes a while.
    let made = tokio::task::spawn_blocking(move || {
        let timeline = match (read(&bytes), normalised(&bytes)) {
            (Ok(recording), _) => timeline(&recording),
            (Err(Unreadable::Other(_)), Some(timeline)) => timeline,
            (Err(reason), _) => return Err(unreadable(&path, &reason)),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let shown = match format {
            Format::Text => Ok(text::render(&timeline, Style { colour, full })),
            Format::Html => Ok(html::render(&timeline, &name)),
            Format::Json => serde_json::to_string_pretty(&timeline).map(|json| json + "\n"),
        };
        shown.map_err(|error| refused(Code::Internal, error.to_string()))
    });
    match made.await {
        Ok(made) => made,
        Err(panic) => Err(refused(Code::Internal, panic.to_string())),
    }
}

async fn load(path: &Path) -> Result<Recording, Box<ProviderError>> {
    let bytes = contents(path).await?;
    match tokio::task::spawn_blocking(move || read(&bytes)).await {
        Ok(read) => read.map_err(|reason| unreadable(path, &reason)),
        Err(panic) => Err(refused(Code::Internal, panic.to_string())),
    }
}

async fn contents(path: &Path) -> Result<Vec<u8>, Box<ProviderError>> {
    let read = tokio::fs::read(path).await;
    read.map_err(|error| refused(Code::NotFound, format!("{} can't be read: {error}", path.display())))
}

fn unreadable(path: &Path, reason: &Unreadable) -> Box<ProviderError> {
    refused(Code::InvalidRunLog, format!("{}: {reason}", path.display()))
}

fn refused(code: Code, reason: String) -> Box<ProviderError> {
    Box::new(ProviderError::new(PACKAGE, code, reason).with_hint(classify::hint(PACKAGE, code)))
}
