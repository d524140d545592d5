//! What is remembered of a thread, so that it goes on where no process has it: the model's output, and the file that codex resumes.
//!
//! [`Recall`] keeps the model's output as the API gave it, with its reasoning, so that a thread that starts anew continues as if it had
//! not. In: the [`RecallScope`] and the thread that led to a reply, the reply, and its items. Out: the items again, for a message of the
//! model after the same beginning in the same scope. An edited beginning is another one: its messages are then built from text
//! and calls. Reasoning is sealed for one account and one conversation: it can't be used with another system prompt, other tools
//! or another login.
//!
//! A [`Rollout`] is the file of a thread that codex resumes, which has the thread's id: so the API finds in its cache what it was sent
//! before. In: the id and the items of a thread that no process has. Out: a file where codex looks for its threads, and what codex appends
//! to it. Of a resumed thread codex sends no raw events (0.169.0: `thread/resume` has no such parameter), but it writes each item as
//! it comes, and behind each response what that has used, before it waits for the results of calls. So the raw events of such a thread
//! are read here. Its other events come as always: an item of the model that is told in pieces is handed out when the server has told
//! that it is complete, behind its pieces. Lines that nobody has taken wait in the file.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::inbound::ThreadEvent;
use super::reader::has_texts;
use super::service::FOLDER;
use super::settings::CodexSetup;
use super::wire::{CLIENT, DynamicTool};
use crate::live::history::{Chain, Fingerprint, words_of};
use crate::live::kept::{KeptReplies, print_of_env};
use crate::live::pool::SessionKey;
use crate::live::thread::Prose;
use crate::scratch;
use dfp_model::message::{Message, Role, Usage};
use dfp_text::decode::lines::{Line, Lines};

/// The scope of a conversation: the instructions that the model gets beside the messages, and the account that asks it.
#[derive(Debug, Clone, Copy)]
pub struct RecallScope<'a> {
    /// The setup, and the environment, which chooses the login.
    pub key: &'a SessionKey<CodexSetup>,
    /// The login that the provider has chosen.
    pub login: Option<&'a str>,
    /// The model that answers.
    pub model: &'a str,
    /// The fingerprint of the provider's options for the login and the program.
    pub owner: Fingerprint,
}

impl RecallScope<'_> {
    /// The beginning of the fingerprints of its threads. The effort, searches of the web and the schema of the answer may
    /// change within a conversation.
    pub fn chain(&self) -> Chain {
        let setup = &self.key.setup;
        let told = (
            setup.instructions(),
            setup.own_instructions,
            setup.tools.declared(),
            setup.choices.form,
        );
        Chain::new(&(told, print_of_env(&self.key.env), self.login, self.model, self.owner))
    }
}

/// An item that codex was told, by the id that codex has given it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldItem {
    /// The item's type, and the call or the role that it is of.
    of: String,
    id: String,
}

impl ToldItem {
    /// Notes `item`, if it has an id.
    pub fn of(item: &Value) -> Option<ToldItem> {
        let id = item["id"].as_str()?.to_owned();
        Some(ToldItem { of: sort_of(item), id })
    }
}

fn sort_of(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    format!("{} {}{}", text("type"), text("role"), text("call_id"))
}

/// Gives `items` without an id the ids that they had as they were `told`, as far as they are the same, in the same order.
pub fn name_told(items: &mut [Value], told: &[ToldItem]) {
    let mut told = told.iter();
    for item in items {
        let sort = sort_of(item);
        let mut rest = told.clone();
        if let Some(found) = rest.find(|told| told.of == sort) {
            told = rest;
            if item["id"].is_null() {
                item["id"] = Value::from(found.id.as_str());
            }
        }
    }
}

/// The items of one reply.
#[derive(Debug, Clone)]
pub struct RecalledItems {
    items: Arc<Vec<Value>>,
    /// The ids of calls that were the caller's to answer.
    callers: Arc<Vec<String>>,
    /// The thread of codex's that it was given in, and what was told there since the reply before; `None` if that thread can't be
    /// resumed.
    thread: Option<Arc<(String, Vec<ToldItem>)>>,
}

impl RecalledItems {
    /// Makes the entry of a reply with `items`, whose calls `callers` are the caller's to answer.
    pub fn new(items: Vec<Value>, callers: Vec<String>) -> RecalledItems {
        RecalledItems {
            items: Arc::new(items),
            callers: Arc::new(callers),
            thread: None,
        }
    }

    /// This reply as one of the thread `id` of codex's, where `told` was told since the reply before.
    #[must_use]
    pub fn in_thread(self, id: String, told: Vec<ToldItem>) -> RecalledItems {
        RecalledItems {
            thread: Some(Arc::new((id, told))),
            ..self
        }
    }

    /// The thread of codex's that it was given in, and what was told there since the reply before.
    pub fn thread(&self) -> Option<(&str, &[ToldItem])> {
        self.thread.as_deref().map(|(id, told)| (id.as_str(), told.as_slice()))
    }

    /// The items, in the order in which they came.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Returns whether the call `id` was the caller's to answer.
    pub fn is_callers(&self, id: &str) -> bool {
        self.callers.iter().any(|known| known == id)
    }

    fn calls(&self) -> usize {
        self.callers.len()
    }

    /// Returns whether the words of `message` are in the items; prose beside calls may be missing from the message.
    fn says(&self, message: &Message) -> bool {
        let (mut now, mut then) = (Prose::default(), Prose::default());
        now.push(&words_of(&message.content));
        let spoken = self.items.iter().filter(|item| item["type"] == "message");
        for part in spoken.flat_map(|item| item["content"].as_array().into_iter().flatten()) {
            then.push(part["text"].as_str().unwrap_or_default());
        }
        now.repeats(&then)
    }
}

/// The JSON of a [`RecalledItems`].
#[derive(Serialize, Deserialize)]
struct Packed<Items, Ids, Thread> {
    items: Items,
    callers: Ids,
    /// Missing in what an older version of this package has stored.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    thread: Option<Thread>,
}

/// Packs a reply; `None` for items that can't be written as JSON, which no API sends.
fn pack(recalled: &RecalledItems) -> Option<String> {
    let packed = Packed {
        items: recalled.items(),
        callers: &*recalled.callers,
        thread: recalled.thread(),
    };
    serde_json::to_string(&packed).ok()
}

fn unpack(json: &str) -> Option<RecalledItems> {
    let Packed { items, callers, thread } = serde_json::from_str(json).ok()?;
    let recalled = RecalledItems::new(items, callers);
    Some(match thread {
        Some((id, told)) => recalled.in_thread(id, told),
        None => recalled,
    })
}

/// The latest replies of a provider.
#[derive(Debug, Default)]
pub struct Recall(pub KeptReplies);

impl Recall {
    /// Stores `recalled`, the reply to `thread`, which is its last message, in `scope`. Items without the reply's words are not all of
    /// its items, as codex may be unable to write what it gave: they would be the whole reply from then on.
    pub fn keep(&self, scope: &RecallScope, thread: &[&Message], recalled: &RecalledItems) {
        if thread.last().is_none_or(|reply| !recalled.says(reply)) {
            return;
        }
        let mut chain = scope.chain();
        let Some(print) = thread.iter().map(|message| chain.push(message)).last() else {
            return;
        };
        if let Some(json) = pack(recalled) {
            self.0.keep(print, json);
        }
    }

    /// The stored replies for the model's messages in `thread`, by their index.
    pub fn look_up(&self, scope: &RecallScope, thread: &[Message]) -> HashMap<usize, RecalledItems> {
        let mut chain = scope.chain();
        let mut found = HashMap::new();
        for (at, message) in thread.iter().enumerate() {
            let print = chain.push(message);
            if message.role == Role::Ai
                && let Some(recalled) = self.0.find(&print).as_deref().and_then(unpack)
                && recalled.calls() == message.tool_calls.len()
            {
                // The words are not the model's: from here on the beginning is another one. Without calls, the words are in the
                // fingerprint.
                if !message.tool_calls.is_empty() && !recalled.says(message) {
                    break;
                }
                found.insert(at, recalled);
            }
        }
        found
    }

    /// Loads what the store has for `thread`, whose scope has this `chain`. Blocks.
    pub fn fetch(&self, mut chain: Chain, thread: &[Message]) {
        for message in thread {
            let print = chain.push(message);
            if message.role == Role::Ai {
                let _ = self.0.fetch(&print);
            }
        }
    }
}

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
        let place: PathBuf = [FOLDER, "sessions"].into_iter().chain(date.split('-')).collect();
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
