//! The file of a thread that codex resumes, which has the thread's id: so the API finds in its cache what it was sent before.
//!
//! In: the id and the items of a thread that no process has. Out: a file where codex looks for its threads, and what codex appends to
//! it. Of a resumed thread codex sends no raw events (0.169.0: `thread/resume` has no such parameter), but it writes each item as
//! it comes, and behind each response what that has used, before it waits for the results of calls. So the raw events of such a thread
//! are read here. Its other events come as always: an item of the model is handed out when the server has told that it is
//! complete, behind its pieces.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::home;
use super::inbound::ThreadEvent;
use super::wire::{CLIENT, DynamicTool};
use crate::scratch;
use dfp_model::message::Usage;

/// The time between two looks at the file while codex writes without telling: a response that ends behind calls.
pub const LOOK: Duration = Duration::from_millis(5);
/// The time that codex may take to write what it has told already.
const LATE: Duration = Duration::from_secs(2);

/// The parts of a thread that is to be resumed.
#[derive(Debug)]
pub struct ThreadParts<'a> {
    pub id: &'a str,
    /// The whole history, the instructions first.
    pub items: &'a [Value],
    pub tools: &'a [DynamicTool],
    /// The folder that the thread runs in.
    pub cwd: &'a str,
    /// codex's version.
    pub version: &'a str,
    /// The model provider of the thread.
    pub model_provider: &'a str,
    /// The time of now, in ISO 8601.
    pub time: &'a str,
}

/// Returns whether `id` is one that codex gives its threads. It becomes a file's name.
pub fn is_thread_id(id: &str) -> bool {
    let is_digit = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    id.len() == 36 && id.bytes().enumerate().all(is_digit)
}

/// The file of a resumed thread. It is removed on drop.
#[derive(Debug)]
pub struct Rollout {
    path: PathBuf,
    file: File,
    /// The beginning of a line whose rest has not come.
    rest: Vec<u8>,
    waiting: VecDeque<ThreadEvent>,
    /// The ids of the model's items that the server has told to be complete.
    told: HashSet<String>,
    /// The turn whose end is in the file.
    ended: Option<String>,
    /// True if nothing more of the turn is to be told.
    is_over: bool,
}

impl Rollout {
    /// Writes the file below `private`, the server's private folder.
    ///
    /// # Errors
    /// The file can't be written, or there is one for this thread already.
    pub fn write(private: &Path, parts: &ThreadParts<'_>) -> io::Result<Rollout> {
        let line = |kind: &str, payload: Value| json!({"timestamp": parts.time, "type": kind, "payload": payload});
        // With `history_mode`, each line would need a number.
        let meta = json!({
            "id": parts.id,
            "timestamp": parts.time,
            "cwd": parts.cwd,
            "originator": CLIENT,
            "cli_version": parts.version,
            "source": "vscode",
            "model_provider": parts.model_provider,
            "dynamic_tools": parts.tools,
        });
        let mut lines = format!("{}\n", line("session_meta", meta));
        for item in parts.items {
            lines.push_str(&format!("{}\n", line("response_item", item.clone())));
        }
        let (date, clock) = parts.time.split_once('T').unwrap_or((parts.time, ""));
        let clock = clock.get(..8).unwrap_or_default().replace(':', "-");
        let name = format!("rollout-{date}T{clock}-{}.jsonl", parts.id);
        let place: PathBuf = [home::FOLDER, "sessions"].into_iter().chain(date.split('-')).collect();
        let place = place.join(name);
        scratch::write_below(private, &place, lines.as_bytes())?;
        let path = private.join(place);
        let mut file = File::open(&path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Rollout {
            path,
            file,
            rest: Vec::new(),
            waiting: VecDeque::new(),
            told: HashSet::new(),
            ended: None,
            is_over: false,
        })
    }

    /// Notes that the server has told the model's item `id` to be complete.
    pub fn is_told(&mut self, id: String) {
        self.told.insert(id);
    }

    /// The next event that codex has written, if its time has come.
    pub fn event(&mut self) -> Option<ThreadEvent> {
        self.read();
        let is_due = match self.waiting.front()? {
            ThreadEvent::RawItem { item, .. } if is_told_in_pieces(item) => {
                self.is_over || item["id"].as_str().is_some_and(|id| self.told.remove(id))
            }
            _ => true,
        };
        is_due.then(|| self.waiting.pop_front()).flatten()
    }

    /// Waits until all of the turn `turn` is written, which is over.
    pub async fn is_over(&mut self, turn: &str) {
        let since = Instant::now();
        self.read();
        while self.ended.as_deref() != Some(turn) && since.elapsed() < LATE {
            tokio::time::sleep(LOOK).await;
            self.read();
        }
        self.is_over = true;
    }

    /// Notes that another turn begins.
    pub fn begins(&mut self) {
        self.is_over = false;
    }

    /// Reads the lines that have come.
    fn read(&mut self) {
        // What can't be read is missed by those who wait for it.
        if !matches!(self.file.read_to_end(&mut self.rest), Ok(1..)) {
            return;
        }
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return;
        };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        for line in lines.split(|byte| *byte == b'\n') {
            self.line(line);
        }
    }

    fn line(&mut self, line: &[u8]) {
        #[derive(Deserialize)]
        struct RolloutLine {
            r#type: String,
            payload: Value,
        }
        let Ok(RolloutLine { r#type: kind, payload }) = serde_json::from_slice(line) else {
            return;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "response_item" => self.waiting.push_back(ThreadEvent::RawItem {
                turn: text(&payload["internal_chat_message_metadata_passthrough"]["turn_id"]),
                item: payload,
            }),
            "token_usage_record" => self.waiting.push_back(ThreadEvent::ResponseCompleted {
                turn: text(&payload["turn_id"]),
                usage: usage(&payload["usage"]),
            }),
            "event_msg" if payload["type"] == "task_complete" => self.ended = Some(text(&payload["turn_id"])),
            _ => {}
        }
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        // A file that can't be removed here goes with the private folder.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether the server tells of `item` by pieces first, and then that it is complete.
fn is_told_in_pieces(item: &Value) -> bool {
    match item["type"].as_str() {
        Some("message") => item["role"] == "assistant",
        kind => kind == Some("reasoning"),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage[name].as_u64();
    let (input_tokens, output_tokens) = (count("input_tokens")?, count("output_tokens")?);
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: count("total_tokens").unwrap_or(input_tokens.saturating_add(output_tokens)),
        cache_read_tokens: count("cached_input_tokens"),
        cache_write_tokens: count("cache_write_input_tokens"),
        reasoning_tokens: count("reasoning_output_tokens"),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests;
