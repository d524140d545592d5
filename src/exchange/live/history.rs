//! What a thread comes to, however an agent writes it down.
//!
//! In: messages. Out: [`Entry`]s, which are the same for every way in which agents rebuild what a model did: prose beside a
//! call left out or put into a message of its own, the calls of one message split over several, their results between them
//! or behind them. The calls' ids say what belongs together; a model's prose counts only where it is all there is.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use serde_json::Value;

use crate::message::{Content, Message, Role, ToolCall};
use crate::prompt::is_js_space;

/// Content as 128 bits of a keyed hash: threads of different users can't be made to look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64);

static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// A part of a thread that is compared with its counterpart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A message of the user, of an unknown role, or a result of a call that is not there: compared as a whole.
    Message(Fingerprint),
    /// The model's text where no call belongs to it.
    Answer(Fingerprint),
    /// The model's calls up to its next answer or the next message of the user, and their results.
    Calls(Calls),
}

/// Calls that follow each other, and their results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// Id, and name with arguments, in the model's order.
    calls: Vec<(String, Fingerprint)>,
    /// By the call's id. A result without its call before it is no result.
    results: BTreeMap<String, Fingerprint>,
}

/// A thread's entries.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<Entry>,
    /// Behind which message each entry ends.
    ends: Vec<usize>,
}

/// What a thread has that its beginning had not.
#[derive(Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The ids of the calls that have a result now.
    pub results: Vec<String>,
    /// Where the messages behind the last entry of the beginning start.
    pub rest: usize,
}

impl History {
    /// The history of `messages`, whose fingerprints are `prints`.
    pub fn new(messages: &[&Message], prints: &[Fingerprint]) -> History {
        let before_calls = before_calls(messages);
        let mut history = History::default();
        for (at, (message, print)) in messages.iter().zip(prints).enumerate() {
            let prose_only = message.tool_calls.is_empty();
            match (&message.role, history.entries.last_mut()) {
                (Role::Ai, Some(Entry::Calls(run))) if !prose_only => run.extend(&message.tool_calls),
                (Role::Ai, _) if !prose_only => {
                    let mut run = Calls::default();
                    run.extend(&message.tool_calls);
                    history.entries.push(Entry::Calls(run));
                }
                // Belongs to calls that come, or to those that wait for results.
                (Role::Ai, _) if before_calls[at] => continue,
                (Role::Ai, Some(Entry::Calls(run))) if run.results.len() < run.calls.len() => {}
                (Role::Ai, _) => history.entries.push(Entry::Answer(*print)),
                (Role::Tool, Some(Entry::Calls(run))) if run.waits_for(&message.tool_call_id) => {
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

    /// What is beyond `beginning`; `None` if this does not begin so.
    pub fn beyond(&self, beginning: &History) -> Option<Beyond> {
        let (last, before) = beginning.entries.split_last()?;
        if !self.entries.starts_with(before) {
            return None;
        }
        let results = match (self.entries.get(before.len())?, last) {
            (Entry::Calls(now), Entry::Calls(then)) => now.results_beyond(then)?,
            (now, then) if now == then => Vec::new(),
            _ => return None,
        };
        let rest = self.ends[before.len()];
        Some(Beyond { results, rest })
    }

    /// How much there is of it: every call, every result and every other entry counts.
    pub fn len(&self) -> usize {
        let len = |entry: &Entry| match entry {
            Entry::Calls(run) => run.calls.len() + run.results.len(),
            Entry::Message(_) | Entry::Answer(_) => 1,
        };
        self.entries.iter().map(len).sum()
    }

    /// Whether there is nothing of it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Calls {
    fn extend(&mut self, calls: &[ToolCall]) {
        self.calls
            .extend(calls.iter().map(|call| (call.id.clone(), print_of_call(call))));
    }

    fn waits_for(&self, id: &str) -> bool {
        !self.results.contains_key(id) && self.calls.iter().any(|(call, _)| call == id)
    }

    /// The calls that have a result here and had none `then`; `None` if these are not the same calls.
    fn results_beyond(&self, then: &Calls) -> Option<Vec<String>> {
        let kept = then
            .results
            .iter()
            .all(|(id, print)| self.results.get(id) == Some(print));
        let new = self.results.keys().filter(|id| !then.results.contains_key(*id));
        (self.calls == then.calls && kept).then(|| new.cloned().collect())
    }
}

/// For each message, whether a model's message with calls is the next that is not prose of the model.
fn before_calls(messages: &[&Message]) -> Vec<bool> {
    let mut before = vec![false; messages.len()];
    for at in (1..messages.len()).rev() {
        let next = messages[at];
        before[at - 1] = next.role == Role::Ai && (!next.tool_calls.is_empty() || before[at]);
    }
    before
}

/// What the result of a tool says that has failed, where only its text can say so.
pub fn failed(text: String) -> String {
    match text.trim_start().to_lowercase() {
        lower if lower.is_empty() => "Error: the tool failed".to_owned(),
        lower if lower.starts_with("error") => text,
        _ => format!("Error: {text}"),
    }
}

/// The fingerprint of a whole message. A model's text is compared without the white space around it.
pub fn print_of(message: &Message) -> Fingerprint {
    print(|state| {
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

/// The fingerprint of a thread up to each of its messages. A model's message with calls is known by them, as in a [`History`].
#[derive(Debug)]
pub struct Chain(Fingerprint);

impl Chain {
    /// That of a thread of `kind` without messages.
    pub fn new(kind: &str) -> Chain {
        Chain(print(|state| kind.hash(state)))
    }

    /// The fingerprint of the thread with `message` behind it.
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
pub(in crate::exchange) fn print_of_call(call: &ToolCall) -> Fingerprint {
    print(|state| hash_call(call, state))
}

fn print(hash: impl Fn(&mut std::hash::DefaultHasher)) -> Fingerprint {
    let [a, b] = &*KEYS;
    let (mut a, mut b) = (a.build_hasher(), b.build_hasher());
    hash(&mut a);
    hash(&mut b);
    Fingerprint(a.finish(), b.finish())
}

fn hash_call(call: &ToolCall, state: &mut impl Hasher) {
    (&call.id, &call.name).hash(state);
    hash_json(call.args.get(), state);
}

/// The text of content that is nothing else, however it is written down: some agents keep strings, some keep blocks.
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

/// JSON by its meaning: neither key order nor the spelling of numbers survives JavaScript.
fn hash_json(json: &str, state: &mut impl Hasher) {
    match serde_json::from_str::<Value>(json) {
        Ok(value) => hash_value(&value, state),
        // Lone surrogates: JavaScript writes them the same way every time.
        Err(_) => json.hash(state),
    }
}

fn hash_value(value: &Value, state: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(state),
        Value::Bool(flag) => (1_u8, flag).hash(state),
        Value::Number(number) => {
            // What JavaScript makes of it; -0 is 0.
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
