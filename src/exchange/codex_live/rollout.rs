//! The file of a thread that codex resumes, which has the thread's id: so the API finds in its cache what it was sent before.
//!
//! In: the id and the items of a thread that no process has. Out: a file where codex looks for its threads, and what codex appends to
//! it. Of a resumed thread codex sends no raw events (0.169.0: `thread/resume` has no such parameter), but it writes each item as
//! it comes, and behind each response what that has used, before it waits for the results of calls. So the raw events of such a thread
//! are read here. Its other events come as always: an item of the model that is told in pieces is handed out when the server has told
//! that it is complete, behind its pieces. Lines that nobody has taken wait in the file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::inbound::ThreadEvent;
use super::launch;
use super::reader::has_texts;
use super::wire::{CLIENT, DynamicTool};
use crate::scratch;
use dfp_model::message::Usage;
use dfp_text::decode::lines::{Line, Lines};

/// The time between two looks at the file while codex writes without telling: a response that ends behind calls.
pub const LOOK: Duration = Duration::from_millis(5);
/// The time that codex may take to write what it has told already.
pub const LATE: Duration = Duration::from_secs(2);
/// The bytes of lines that may wait here at once.
const MOST_WAITING: usize = 64 << 20;
/// The bytes that are read at once.
const PIECE: usize = 64 << 10;

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
    lines: Lines,
    text: RolloutText,
    /// The model's items that the server has told to be complete and codex has not written, by id; the text of a message.
    told: Vec<(String, String)>,
    /// True if nothing more of the turn is to be told.
    is_over: bool,
}

/// The events read from the lines that codex has written.
#[derive(Debug, Default)]
struct RolloutText {
    /// The events that nobody has taken, and the lengths of their lines.
    waiting: VecDeque<(ThreadEvent, usize)>,
    /// The sum of those lengths.
    waiting_bytes: usize,
    /// The turn whose end is in the file.
    ended: Option<String>,
    /// True if a line was too long.
    has_lost: bool,
}

/// A line of the file.
#[derive(Serialize)]
struct Written<'a> {
    timestamp: &'a str,
    r#type: &'a str,
    payload: &'a Value,
}

impl Rollout {
    /// Writes the file below `private`, the server's private folder. Blocks.
    ///
    /// # Errors
    /// The file can't be written, or there is one for this thread already.
    pub fn write(private: &Path, parts: &ThreadParts<'_>) -> io::Result<Rollout> {
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
        let items = parts.items.iter().map(|item| ("response_item", item));
        let mut lines = Vec::new();
        for (kind, payload) in std::iter::once(("session_meta", &meta)).chain(items) {
            let line = Written {
                timestamp: parts.time,
                r#type: kind,
                payload,
            };
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
        }
        let (date, clock) = parts.time.split_once('T').unwrap_or((parts.time, ""));
        let clock = clock.get(..8).unwrap_or_default().replace(':', "-");
        let name = format!("rollout-{date}T{clock}-{}.jsonl", parts.id);
        let place: PathBuf = [launch::FOLDER, "sessions"]
            .into_iter()
            .chain(date.split('-'))
            .collect();
        let place = place.join(name);
        scratch::write_below(private, &place, &lines)?;
        let path = private.join(place);
        let file = File::open(&path).and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        match file {
            Ok(file) => Ok(Rollout {
                path,
                file,
                lines: Lines::default(),
                text: RolloutText::default(),
                told: Vec::new(),
                is_over: false,
            }),
            Err(error) => {
                remove(&path);
                Err(error)
            }
        }
    }

    /// Notes that the server has told the model's item `id` to be complete: a message of `text`, or reasoning.
    pub fn is_told(&mut self, id: String, text: String) {
        self.told.push((id, text));
    }

    /// The next event that codex has written, if its time has come.
    pub fn event(&mut self) -> Option<ThreadEvent> {
        self.read();
        let is_due = match &self.text.waiting.front()?.0 {
            ThreadEvent::RawItem { item, .. } if is_told_in_pieces(item) => {
                let is_untold = item["id"].as_str().is_some_and(|id| {
                    let place = self.told.iter().position(|(told, _)| told == id);
                    place.map(|place| self.told.remove(place)).is_none()
                });
                self.is_over || !is_untold
            }
            _ => true,
        };
        if !is_due {
            return None;
        }
        let (event, bytes) = self.text.waiting.pop_front()?;
        self.text.waiting_bytes -= bytes;
        Some(event)
    }

    /// Notes that the turn is over: all that is written of it is due.
    pub fn is_over(&mut self) {
        self.is_over = true;
    }

    /// Returns whether the end of the turn `turn` was read: it stands behind everything else of the turn.
    pub fn has_ended(&self, turn: &str) -> bool {
        self.text.ended.as_deref() == Some(turn)
    }

    /// Takes the messages that the server has told and codex has not written, as the items that it would have written of `turn`.
    pub fn take_unwritten(&mut self, turn: &str) {
        for (id, text) in self.told.drain(..).filter(|(_, text)| !text.is_empty()) {
            let content = [json!({"type": "output_text", "text": text})];
            let event = ThreadEvent::RawItem {
                turn: turn.to_owned(),
                item: json!({"type": "message", "role": "assistant", "id": id, "content": content}),
            };
            self.text.waiting.push_back((event, 0));
        }
    }

    /// Returns whether a line was longer than can be taken.
    pub fn has_lost(&self) -> bool {
        self.text.has_lost
    }

    /// Notes that another turn begins.
    pub fn begins(&mut self) {
        self.is_over = false;
        self.told.clear();
    }

    /// Reads the lines that have come, as far as there is room for them.
    fn read(&mut self) {
        let mut piece = [0; PIECE];
        while self.text.waiting_bytes < MOST_WAITING {
            let read = match self.file.read(&mut piece) {
                Ok(read @ 1..) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // What can't be read is missed by those who wait for it.
                _ => return,
            };
            let Rollout { lines, text, .. } = self;
            lines.push(&piece[..read], |line| text.push(line));
        }
    }
}

impl RolloutText {
    fn push(&mut self, line: Line<'_>) {
        #[derive(Deserialize)]
        struct RolloutLine {
            r#type: String,
            payload: Value,
        }
        let Line::Text { text: line, .. } = line else {
            self.has_lost = true;
            return;
        };
        let Ok(RolloutLine { r#type: kind, payload }) = serde_json::from_str(&line) else {
            return;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = match kind.as_str() {
            "response_item" => ThreadEvent::RawItem {
                turn: text(&payload["internal_chat_message_metadata_passthrough"]["turn_id"]),
                item: payload,
            },
            "token_usage_record" => ThreadEvent::ResponseCompleted {
                turn: text(&payload["turn_id"]),
                usage: usage(&payload["usage"]),
            },
            "event_msg" if payload["type"] == "task_complete" => {
                self.ended = Some(text(&payload["turn_id"]));
                return;
            }
            _ => return,
        };
        self.waiting.push_back((event, line.len()));
        self.waiting_bytes += line.len();
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the file at `path`. One that can't be removed here goes with the private folder.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Returns whether the server tells of `item` by pieces first, and then that it is complete. Sealed reasoning and a refusal have none.
fn is_told_in_pieces(item: &Value) -> bool {
    let has_any = |name: &str| item[name].as_array().is_some_and(|parts| !parts.is_empty());
    match item["type"].as_str() {
        Some("message") => item["role"] == "assistant" && has_texts(item),
        kind => kind == Some("reasoning") && (has_any("summary") || has_any("content")),
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
