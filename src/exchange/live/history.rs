//! The history of a thread, independent of the way in which an agent writes it down.
//!
//! In: messages. Out: [`Entry`]s, which are the same for every way in which agents rebuild a model's turns: prose beside a call
//! left out or put into a message of its own, the calls of one message split over several, their results between them or after
//! them. The calls' ids tell which parts belong together. A model's prose may be missing beside calls, but prose that is there
//! must be the model's ([`Prose`]): a caller who continues with changed words wants the model to read them.
//!
//! A [`Fingerprint`] has few bytes that compare as the content does, in this process and in the next one.
//!
//! A form that writes a thread down as a CLI's own history names the calls by [`HistoryCalls`], since ids must be unique in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use ring::digest::{Context, SHA256};
use serde_json::Value;

use super::thread::Prose;
use dfp_model::message::{Content, Message, MessageFields, Role, ToolCall, json_value};
use dfp_text::prompt::is_js_space;

/// A part of a thread that is compared with its counterpart.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A message that is compared as a whole: of the user, of an unknown role, a result of a call that is not there, or a model's
    /// message with more than text.
    Message(Fingerprint),
    /// The model's text that belongs to no call.
    Answer(Prose),
    /// The model's calls up to its next answer or the next message of the user, and their results.
    Calls(Calls),
}

/// Calls that follow each other, and their results.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// Id, and fingerprint of name and arguments, in the model's order.
    calls: Vec<(String, Fingerprint)>,
    /// The results by the call's id. A result without its call before it does not count as a result.
    results: BTreeMap<String, Fingerprint>,
    /// The model's words beside the calls.
    prose: Prose,
}

/// The entries of a thread.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<Entry>,
    /// The index behind the last message of each entry.
    ends: Vec<usize>,
}

/// The part of a thread that comes after its known beginning.
#[derive(Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The ids of the calls that have a result now.
    pub results: Vec<String>,
    /// The index of the first message after the last entry of the beginning.
    pub rest: usize,
}

impl History {
    /// Makes the history of `messages`, whose fingerprints are `prints`.
    pub fn new(messages: &[&Message], prints: &[Fingerprint]) -> History {
        let before_calls = before_calls(messages);
        let mut history = History::default();
        let mut prose = Prose::default();
        for (at, (message, print)) in messages.iter().zip(prints).enumerate() {
            let prose_only = message.tool_calls.is_empty();
            if message.role == Role::Ai && (before_calls[at] || !prose_only) {
                prose.push(&words_of(&message.content));
            }
            match (&message.role, history.entries.last_mut(), text_of(&message.content)) {
                // The prose belongs to the calls that follow.
                (Role::Ai, ..) if prose_only && before_calls[at] => continue,
                (Role::Ai, Some(Entry::Calls(run)), _) if !prose_only => {
                    run.extend(&message.tool_calls, std::mem::take(&mut prose));
                }
                (Role::Ai, ..) if !prose_only => {
                    let mut run = Calls::default();
                    run.extend(&message.tool_calls, std::mem::take(&mut prose));
                    history.entries.push(Entry::Calls(run));
                }
                (Role::Ai, Some(Entry::Calls(run)), Some(text)) if run.results.len() < run.calls.len() => {
                    run.prose.push(&text);
                }
                (Role::Ai, Some(Entry::Answer(answer)), Some(text)) => answer.push(&text),
                (Role::Ai, _, Some(text)) => {
                    let mut answer = Prose::default();
                    answer.push(&text);
                    history.entries.push(Entry::Answer(answer));
                }
                (Role::Tool, Some(Entry::Calls(run)), _) if run.waits_for(&message.tool_call_id) => {
                    run.results.insert(message.tool_call_id.clone(), *print);
                }
                _ => history.entries.push(Entry::Message(*print)),
            }
            history.ends.resize(history.entries.len(), at + 1);
            if let Some(end) = history.ends.last_mut() {
                *end = at + 1;
            }
        }
        history
    }

    /// The history in the small shape that is kept between calls: it can be compared as a beginning, but not be continued.
    pub fn remembered(mut self) -> History {
        for entry in &mut self.entries {
            let (Entry::Answer(prose) | Entry::Calls(Calls { prose, .. })) = entry else {
                continue;
            };
            *prose = std::mem::take(prose).remembered();
        }
        self
    }

    /// The part after `beginning`; `None` if this history does not begin so.
    pub fn beyond(&self, beginning: &History) -> Option<Beyond> {
        let (last, before) = beginning.entries.split_last()?;
        let mut entries = self.entries.iter();
        for then in before {
            if !entries.next()?.beyond(then)?.is_empty() {
                return None;
            }
        }
        Some(Beyond {
            results: entries.next()?.beyond(last)?,
            rest: self.ends[before.len()],
        })
    }

    /// The length: every call, every result and every other entry counts.
    pub fn len(&self) -> usize {
        let len = |entry: &Entry| match entry {
            Entry::Calls(run) => run.calls.len() + run.results.len(),
            Entry::Message(_) | Entry::Answer(_) => 1,
        };
        self.entries.iter().map(len).sum()
    }

    /// Returns whether the history has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    /// The ids of the calls that have a result here and had none `then`; `None` if the entries are not the same.
    fn beyond(&self, then: &Entry) -> Option<Vec<String>> {
        match (self, then) {
            (Entry::Message(now), Entry::Message(then)) if now == then => Some(Vec::new()),
            (Entry::Answer(now), Entry::Answer(then)) => {
                let is_dropped = now.is_empty() && !then.is_empty();
                (!is_dropped && now.repeats(then)).then(Vec::new)
            }
            (Entry::Calls(now), Entry::Calls(then)) => now.results_beyond(then),
            _ => None,
        }
    }
}

impl Calls {
    /// Adds calls, and the words beside them.
    fn extend(&mut self, calls: &[ToolCall], prose: Prose) {
        self.calls
            .extend(calls.iter().map(|call| (call.id.clone(), print_of_call(call))));
        self.prose.append(prose);
    }

    fn waits_for(&self, id: &str) -> bool {
        !self.results.contains_key(id) && self.calls.iter().any(|(call, _)| call == id)
    }

    /// The ids of the calls that have a result here and had none `then`; `None` if these are not the same calls.
    fn results_beyond(&self, then: &Calls) -> Option<Vec<String>> {
        let kept = then
            .results
            .iter()
            .all(|(id, print)| self.results.get(id) == Some(print));
        let new = self.results.keys().filter(|id| !then.results.contains_key(*id));
        (self.calls == then.calls && kept && self.prose.repeats(&then.prose)).then(|| new.cloned().collect())
    }
}

/// For each message, whether the next message that is not mere prose of the model is a model's message with calls.
fn before_calls(messages: &[&Message]) -> Vec<bool> {
    let mut before = vec![false; messages.len()];
    for at in (1..messages.len()).rev() {
        let next = messages[at];
        before[at - 1] = next.role == Role::Ai && (!next.tool_calls.is_empty() || before[at]);
    }
    before
}

/// The text of a failed tool's result, for a CLI in which only the text can tell of a failure.
pub fn failed(text: String) -> String {
    match text.trim_start().to_lowercase() {
        lower if lower.is_empty() => "Error: the tool failed".to_owned(),
        lower if lower.starts_with("error") => text,
        _ => format!("Error: {text}"),
    }
}

/// The result of a call that nobody has answered. Without one, codex would say "aborted".
pub const NO_RESULT: &str = "Error: this call has no result";
/// The text before a result whose call does not exist.
pub const ORPHAN: &str = "The result of an earlier tool call:";

/// The calls of a history so far.
#[derive(Debug, Default)]
pub struct HistoryCalls {
    /// Calls without a result: the caller's id, and the one used in the history.
    open: Vec<(String, String)>,
    /// The ids in use: each may be there once.
    used: HashSet<String>,
    /// The number of ids that were made here.
    made: usize,
}

impl HistoryCalls {
    /// Adds a call that the caller calls `id`, and returns its id in the history.
    pub fn open(&mut self, id: &str) -> String {
        let mut unique = id.to_owned();
        while unique.is_empty() || !self.used.insert(unique.clone()) {
            self.made += 1;
            unique = format!("call_df_{}", self.made);
        }
        self.open.push((id.to_owned(), unique.clone()));
        unique
    }

    /// Notes that the history has a call `id` that is not the caller's.
    pub fn note_used(&mut self, id: String) {
        self.used.insert(id);
    }

    /// Takes the call whose result `message` is, and returns its id in the history; `None` if there is no such call.
    pub fn answered(&mut self, message: &Message) -> Option<String> {
        let at = match message.tool_call_id.as_str() {
            "" => (!self.open.is_empty()).then_some(0),
            id => self.open.iter().position(|(callers, _)| callers == id),
        };
        at.map(|at| self.open.remove(at).1)
    }

    /// Takes the calls that nobody has answered: their ids in the history.
    pub fn take_unanswered(&mut self) -> Vec<String> {
        self.open.drain(..).map(|(_, id)| id).collect()
    }
}

/// The fingerprint of a whole message. A model's text is compared without the white space around it.
pub fn print_of(message: &Message) -> Fingerprint {
    Fingerprint::of(message, |message, state| {
        message.role.as_str().hash(state);
        let trimmed = |text: &str| match message.role {
            Role::Ai => text.trim_matches(is_js_space).to_owned(),
            _ => text.to_owned(),
        };
        match (&message.content, only_text(&message.content)) {
            (Content::Text(text), _) => trimmed(text).hash(state),
            (_, Some(text)) => trimmed(&text).hash(state),
            (Content::Blocks(raw), None) => {
                1_u8.hash(state);
                hash_json(raw.get(), state);
            }
        }
        message.tool_calls.len().hash(state);
        for call in &message.tool_calls {
            hash_call(call, state);
        }
        (&message.tool_call_id, message.is_error).hash(state);
    })
}

/// The fingerprint of a thread up to each of its messages. A model's message with calls counts by its calls, as in a [`History`].
#[derive(Debug)]
pub struct Chain(Fingerprint);

impl Chain {
    /// The fingerprint of a thread of `kind` without messages.
    pub fn new(kind: &impl Hash) -> Chain {
        Chain(print(|state| kind.hash(state)))
    }

    /// Adds `message`, and returns the fingerprint of the thread with it.
    pub fn push(&mut self, message: &Message) -> Fingerprint {
        let before = self.0;
        self.0 = match message.tool_calls.as_slice() {
            [] => {
                let own = print_of(message);
                print(|state| (before, own).hash(state))
            }
            calls => print(|state| {
                before.hash(state);
                calls.iter().for_each(|call| hash_call(call, state));
            }),
        };
        self.0
    }
}

/// The fingerprint of a call.
pub(crate) fn print_of_call(call: &ToolCall) -> Fingerprint {
    print(|state| hash_call(call, state))
}

/// Hashes a call. Its arguments have the same hash in either form in which they come: as the model wrote them, and as claude
/// reports them later, with the escapes resolved that stood in them as text.
fn hash_call(call: &ToolCall, state: &mut impl Hasher) {
    (&call.id, &call.name).hash(state);
    let args = call.args.get();
    match args.contains(r"\\u").then(|| json_value(args)) {
        None | Some(Value::Null) => hash_json(args, state),
        Some(mut value) => {
            resolve_texts(&mut value);
            hash_value(&value, state);
        }
    }
}

/// Resolves the escapes that stand in texts as text.
fn resolve_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = resolved(text),
        Value::Array(items) => items.iter_mut().for_each(resolve_texts),
        Value::Object(map) => map.values_mut().for_each(resolve_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces each `\u` with four hexadecimal digits in `text` by the character for which it stands, until there is none.
fn resolved(text: &str) -> String {
    let mut whole: Vec<char> = Vec::with_capacity(text.len());
    for next in text.chars() {
        whole.push(next);
        while let Some((length, stands_for)) = escape_at_the_end(&whole) {
            whole.truncate(whole.len() - length);
            whole.push(stands_for);
        }
    }
    whole.into_iter().collect()
}

/// The length of the escape at the end of `text`, and the character for which it stands.
fn escape_at_the_end(text: &[char]) -> Option<(usize, char)> {
    let last = unit(text)?;
    match char::from_u32(last) {
        Some(char) => Some((6, char)),
        None => {
            let high = unit(&text[..text.len() - 6]).filter(|high| (0xD800..0xDC00).contains(high))?;
            let low = Some(last).filter(|low| (0xDC00..0xE000).contains(low))?;
            Some((12, char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))?))
        }
    }
}

/// The UTF-16 unit for which the escape at the end of `text` stands.
fn unit(text: &[char]) -> Option<u32> {
    let ['\\', 'u', digits @ ..] = text.last_chunk::<6>()? else {
        return None;
    };
    digits
        .iter()
        .try_fold(0, |unit, digit| Some(unit << 4 | digit.to_digit(16)?))
}

/// The text of content that is nothing but text.
fn text_of(content: &Content) -> Option<Cow<'_, str>> {
    match content {
        Content::Text(text) => Some(Cow::Borrowed(text)),
        Content::Blocks(_) => only_text(content).map(Cow::Owned),
    }
}

/// All text in content, whatever else is in it: some agents keep a message's calls as blocks, too.
pub(crate) fn words_of(content: &Content) -> Cow<'_, str> {
    let raw = match content {
        Content::Text(text) => return Cow::Borrowed(text),
        Content::Blocks(raw) => raw,
    };
    let blocks: Vec<Value> = serde_json::from_str(raw.get()).unwrap_or_default();
    let texts = blocks.iter().filter(|block| block["type"] == "text");
    texts.filter_map(|block| block["text"].as_str()).collect()
}

/// The text of content that is nothing but text, as a string or as blocks: agents keep either.
fn only_text(content: &Content) -> Option<String> {
    let Content::Blocks(raw) = content else { return None };
    let Ok(Value::Array(items)) = serde_json::from_str(raw.get()) else {
        return None;
    };
    items
        .iter()
        .map(|item| match item.get("type").and_then(Value::as_str) {
            Some("text") => item.get("text").and_then(Value::as_str),
            _ => None,
        })
        .collect()
}

/// Hashes JSON by its meaning: neither key order nor the spelling of numbers survives JavaScript.
fn hash_json(json: &str, state: &mut impl Hasher) {
    match json_value(json) {
        // Text that can't be read as JSON is hashed, too.
        Value::Null => json.trim().hash(state),
        value => hash_value(&value, state),
    }
}

fn hash_value(value: &Value, state: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(state),
        Value::Bool(flag) => (1_u8, flag).hash(state),
        Value::Number(number) => {
            // The number that JavaScript makes of it; -0 is 0.
            let number = number.as_f64().unwrap_or_default() + 0.0;
            (2_u8, number.to_bits()).hash(state);
        }
        Value::String(text) => (3_u8, text).hash(state),
        Value::Array(items) => {
            (4_u8, items.len()).hash(state);
            items.iter().for_each(|item| hash_value(item, state));
        }
        Value::Object(map) => {
            (5_u8, map.len()).hash(state);
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                key.hash(state);
                hash_value(value, state);
            }
        }
    }
}

/// A fingerprint of content: 128 bits of SHA-256, so that threads of different users can't be made to look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64);

impl Fingerprint {
    /// The fingerprint of `message` by `hash`, which is called once for a message: a thread that goes on has the message in each
    /// of its calls.
    pub(super) fn of(message: &Message, hash: impl Fn(&MessageFields, &mut PrintHasher)) -> Fingerprint {
        let (a, b) = message.digest(|fields| {
            let Fingerprint(a, b) = print(|state| hash(fields, state));
            (a, b)
        });
        Fingerprint(a, b)
    }

    /// 32 bytes that nobody knows who does not know the fingerprint, and from which nobody finds it. `purpose` makes them others for
    /// each use.
    pub(super) fn derived(&self, purpose: &str) -> [u8; 32] {
        let mut state = Context::new(&SHA256);
        state.update(&self.0.to_le_bytes());
        state.update(&self.1.to_le_bytes());
        state.update(purpose.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(state.finish().as_ref());
        bytes
    }
}

/// Content that is on its way to be a fingerprint.
pub(crate) struct PrintHasher(Context);

impl Hasher for PrintHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        halves(&self.0).0
    }
}

/// The first two numbers in the digest.
fn halves(state: &Context) -> (u64, u64) {
    let digest = state.clone().finish();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (number(&digest.as_ref()[..8]), number(&digest.as_ref()[8..16]))
}

/// The fingerprint of the data that `hash` feeds in.
pub(crate) fn print(hash: impl Fn(&mut PrintHasher)) -> Fingerprint {
    let mut state = PrintHasher(Context::new(&SHA256));
    hash(&mut state);
    let (a, b) = halves(&state.0);
    Fingerprint(a, b)
}

#[cfg(test)]
impl Fingerprint {
    /// The fingerprint of these two halves.
    pub(crate) fn of_halves(a: u64, b: u64) -> Fingerprint {
        Fingerprint(a, b)
    }
}
