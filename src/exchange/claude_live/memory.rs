//! What claude has said and told the API by itself, for a thread that comes back without it: the API's own messages with their
//! sealed reasoning and ids, the effort of each turn, and the surroundings that were told at the beginning.
//!
//! In: a reply, and the [`Dialogue`](super::dialogue::Dialogue) that led to it. Out: the reply again, for a dialogue with the same
//! beginning in the same [scope](Scope). A reply is found by all that was said before it and by its first call, or by its words:
//! so it is also found where an agent has written down its calls in messages of their own.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::live::fingerprint::{Fingerprint, print};
use crate::live::history::{print_of_call, words_of};
use crate::live::kept::{KeptReplies, print_of_env};
use crate::live::pool::SessionKey;
use crate::live::prose::Prose;
use crate::live::setup::Setup;
use dfp_model::message::{Message, ToolCall};

/// The most names of models that are remembered.
const MOST_MODELS: usize = 256;

/// The scope of a conversation: the instructions that the model gets beside the messages, and the account that asks it.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The setup, and the environment, which chooses the login.
    pub key: &'a SessionKey<Setup>,
    /// The login that the provider has chosen.
    pub login: Option<&'a str>,
    /// The fingerprint of the provider's options for the login and the program.
    pub owner: Fingerprint,
}

impl Scope<'_> {
    /// The beginning of the fingerprints of its threads. Effort, model and limits may change within a conversation.
    pub fn begin(&self) -> Fingerprint {
        let setup = &self.key.setup;
        let told = (setup.system_prompt(), setup.append_system_prompt(), setup.tools());
        let env = print_of_env(&self.key.env);
        print(|state| {
            (told, env, self.login, self.owner).hash(state);
            // The model knows names alone, and its calls stand behind searches. Without that, what older versions have stored is found.
            if setup.searches_tools() {
                "tools.search".hash(state);
            }
        })
    }
}

/// A message of the model, as the API gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiMessage {
    pub id: String,
    pub model: String,
    pub content: Vec<Value>,
    /// The results of its calls of the CLI's own tools, as the API was told them behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Value>,
}

impl ApiMessage {
    /// The ids of its calls that the CLI has not answered itself.
    pub fn open_calls(&self) -> impl Iterator<Item = &str> {
        let calls = self.content.iter().filter(|block| block["type"] == "tool_use");
        let is_open = |id: &&str| !self.results.iter().any(|result| result["tool_use_id"] == **id);
        calls
            .map(|block| block["id"].as_str().unwrap_or_default())
            .filter(is_open)
    }
}

/// The surroundings that the CLI tells its model at the beginning of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The folder, the system and the shell; `None` where they are not known.
    pub environment: Option<Value>,
    /// The date, `2026-11-25`.
    pub date: Option<String>,
    /// The model that was asked.
    pub model: Option<String>,
}

/// A reply that is remembered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recalled {
    pub messages: Vec<ApiMessage>,
    /// The calls, as the caller has seen them.
    pub calls: Vec<ToolCall>,
    /// The effort that was chosen for it.
    pub effort: Option<String>,
    /// The surroundings that were told before it, if it is the first of its conversation.
    pub opening: Option<Opening>,
}

impl Recalled {
    /// Returns whether `calls` are the calls of this reply, as many as they are, or its first ones.
    pub fn begins_with(&self, calls: &[&ToolCall]) -> bool {
        calls.len() <= self.calls.len()
            && (self.calls.iter().zip(calls)).all(|(then, now)| print_of_call(then) == print_of_call(now))
    }

    /// Returns whether nothing is said in `messages` that was not said then.
    pub fn says(&self, messages: &[&Message]) -> bool {
        let (mut now, mut then) = (Prose::default(), Prose::default());
        messages
            .iter()
            .for_each(|message| now.push(&words_of(&message.content)));
        for block in self.messages.iter().flat_map(|message| &message.content) {
            then.push(block["text"].as_str().unwrap_or_default());
        }
        now.repeats(&then)
    }
}

/// The fingerprint by which a reply is found behind what has the fingerprint `before`: by its first call, or by its words.
pub fn place(before: Fingerprint, first: Option<&ToolCall>, words: &str) -> Fingerprint {
    match first {
        Some(call) => {
            let call = print_of_call(call);
            print(|state| (before, 1_u8, call).hash(state))
        }
        None => print(|state| (before, 0_u8, words.trim()).hash(state)),
    }
}

/// Finds the reply that is remembered at a [`place`].
pub type FindReply<'m> = &'m dyn Fn(Fingerprint) -> Option<Recalled>;

/// The replies that a provider remembers.
#[derive(Debug, Default)]
pub struct Memory {
    pub replies: KeptReplies,
    /// The models that have answered, by the names under which they were asked for; "" for none.
    models: Mutex<HashMap<String, String>>,
}

impl Memory {
    /// The reply that is remembered at this [`place`], if it is in memory.
    pub fn find(&self, place: Fingerprint) -> Option<Recalled> {
        serde_json::from_str(&self.replies.find(&place)?).ok()
    }

    /// The reply that is remembered at this [`place`], if it is in memory or in the store. Blocks.
    pub fn fetch(&self, place: Fingerprint) -> Option<Recalled> {
        serde_json::from_str(&self.replies.fetch(&place)?).ok()
    }

    /// Makes a memory of these replies.
    pub fn of(replies: KeptReplies) -> Memory {
        Memory {
            replies,
            ..Memory::default()
        }
    }

    /// Remembers a reply at its [`place`].
    pub fn keep(&self, place: Fingerprint, recalled: &Recalled) {
        if let Ok(json) = serde_json::to_string(recalled) {
            self.replies.keep(place, json);
        }
    }

    fn models(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the model `model` has answered where `asked` was asked for.
    pub fn note_model(&self, asked: &str, model: &str) {
        let mut models = self.models();
        if models.len() < MOST_MODELS || models.contains_key(asked) {
            models.insert(asked.to_owned(), model.to_owned());
        }
    }

    /// The model that answers where `asked` is asked for, if one has answered already.
    pub fn model_of(&self, asked: &str) -> Option<String> {
        self.models().get(asked).cloned()
    }

    /// Forgets all that is in memory, for good: the provider is closed.
    pub fn close(&self) {
        self.replies.close();
        self.models().clear();
    }
}
