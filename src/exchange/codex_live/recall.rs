//! Remembers the model's output as the API gave it, with its reasoning, so that a thread that starts anew continues as if it had
//! not.
//!
//! In: the [`RecallScope`] and the thread that led to a reply, the reply, and its items. Out: the items again, for a message of the
//! model after the same beginning in the same scope. An edited beginning is another one: its messages are then built from text
//! and calls. Reasoning is sealed for one account and one conversation: it can't be used with another system prompt, other tools
//! or another login.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::settings::CodexSetup;
use crate::live::history::{Chain, Fingerprint, words_of};
use crate::live::kept::{KeptReplies, print_of_env};
use crate::live::pool::SessionKey;
use crate::live::thread::Prose;
use dfp_model::message::{Message, Role};

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

#[cfg(test)]
mod tests;
