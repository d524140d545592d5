//! What claude has said and told the API by itself, for a thread that comes back without it: the API's own messages with their
//! sealed reasoning and ids, the effort of each turn, and the surroundings that were told at the beginning.
//!
//! In: a reply, and the [`Dialogue`](super::dialogue::Dialogue) that led to it. Out: the reply again, for a dialogue with the same
//! beginning in the same [scope](Scope). A reply is found by all that was said before it and by its first call, or by its words:
//! so it is also found where an agent has written down its calls in messages of their own.
//!
//! [`TurnMessages`] reads the model's messages of a turn from its lines, as the CLI reports them. They are kept if they are all that was
//! said in it: a turn in which the CLI has asked for the rest of an answer is more than one reply.
//!
//! The [`Opening`] is what a process says of its surroundings in the first message of a conversation. It is made of the process's command
//! line and environment, as its transcripts have it (2.1.330, 2.1.332, on Linux; the words of other systems were not seen, so there the CLI
//! tells them anew).

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::live::history::{Fingerprint, print, print_of_call, words_of};
use crate::live::kept::{KeptReplies, print_of_env};
use crate::live::pool::SessionKey;
use crate::live::setup::Setup;
use crate::live::thread::Prose;
use crate::print;
use crate::scratch::real_path;
use dfp_model::iso;
use dfp_model::message::{Message, ToolCall};
use dfp_process::{Vars, local_offset_min};
use dfp_provider::claude::requests::facts_of;
use dfp_provider::command::CommandLine;

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
    /// The effort of a turn for which none was chosen, if its model is one whose effort the CLI reports by turn.
    pub fn default_effort(&self) -> Option<&'static str> {
        facts_of(&self.model)?.effort
    }

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
    /// The effort of its turn; `None` for the model's own.
    pub effort: Option<String>,
    /// The surroundings that were told before it, if it is the first of its conversation.
    pub opening: Option<Opening>,
}

impl Recalled {
    /// The effort of its turn, if it is of a model whose effort the CLI reports by turn.
    pub fn turn_effort(&self) -> Option<&str> {
        let default = self.messages.last()?.default_effort()?;
        Some(self.effort.as_deref().unwrap_or(default))
    }

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

/// The model name of messages that the CLI writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// The messages of a turn so far.
#[derive(Debug, Default)]
pub struct TurnMessages {
    messages: Vec<ApiMessage>,
    /// True if something else was said as well.
    is_mixed: bool,
}

#[derive(Deserialize)]
struct ReportedLine<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ReportedUser {
    content: Value,
}

impl TurnMessages {
    /// Reads a line of the turn. `answered`: the id of a call of an earlier reply whose result the CLI reports.
    pub fn read(&mut self, line: &str, answered: Option<&str>) {
        // Most lines are pieces of an answer: they are spared the parsing.
        if line.starts_with("{\"type\":\"stream_event\"")
            || !(line.contains("\"assistant\"") || line.contains("\"user\""))
        {
            return;
        }
        let Ok(line) = serde_json::from_str::<ReportedLine>(line) else {
            return;
        };
        match (line.r#type.as_ref(), line.message) {
            ("assistant", Some(message)) if line.parent_tool_use_id.is_none() && line.error.is_none() => {
                match serde_json::from_str::<ApiMessage>(message.get()) {
                    Ok(message) if message.model == SYNTHETIC => {}
                    Ok(message) => self.add(message),
                    Err(_) => self.is_mixed = true,
                }
            }
            ("assistant", _) => self.is_mixed = true,
            ("user", Some(message)) => {
                let message: Option<ReportedUser> = serde_json::from_str(message.get()).ok();
                let blocks = message.map(|message| message.content).unwrap_or_default();
                let is_known = match blocks {
                    Value::Array(blocks) => blocks.into_iter().all(|block| {
                        let is_answer = answered.is_some() && block["tool_use_id"].as_str() == answered;
                        is_answer || self.add_result(block)
                    }),
                    _ => false,
                };
                self.is_mixed |= !is_known;
            }
            _ => {}
        }
    }

    /// Each block of a message comes in a line of its own.
    fn add(&mut self, message: ApiMessage) {
        match self.messages.iter_mut().find(|known| known.id == message.id) {
            Some(known) => known.content.extend(message.content),
            None => self.messages.push(message),
        }
    }

    /// Adds the result of a call in the last message. Returns whether it is one.
    fn add_result(&mut self, block: Value) -> bool {
        let Some(last) = self.messages.last_mut() else {
            return false;
        };
        let id = block["tool_use_id"].as_str();
        let is_result = block["type"] == "tool_result" && last.open_calls().any(|call| Some(call) == id);
        if is_result {
            last.results.push(block);
        }
        is_result
    }

    /// The number of messages so far, each the answer to one request.
    pub fn requests(&self) -> usize {
        self.messages.len()
    }

    /// The messages, if nothing else was said.
    pub fn whole(self) -> Option<Vec<ApiMessage>> {
        (!self.is_mixed && !self.messages.is_empty()).then_some(self.messages)
    }
}

/// The local date at `now_ms`, `2026-11-25`; `None` where the time zone is not known.
pub fn date_told(now_ms: u64) -> Option<String> {
    let offset = i64::from(local_offset_min(now_ms)?) * 60_000;
    let local = now_ms.saturating_add_signed(offset);
    iso(local).get(..10).map(str::to_owned)
}

/// The folder, the system and the shell of a process of `line` that runs in `cwd`; `None` where its words are not known.
pub fn environment_told(line: &CommandLine, env: &Arc<Vars>, cwd: &Path) -> Option<Value> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let cwd = real_path(cwd).ok()?;
    let is_git_repo = is_git_repo(&cwd)?;
    let of_system = |name: &str| {
        let text = std::fs::read_to_string(PathBuf::from("/proc/sys/kernel").join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    let shell = print::variable(line, env, "SHELL").unwrap_or_default();
    let shell = Path::new(&shell).file_name().unwrap_or_default().to_string_lossy();
    let shell = match shell.as_ref() {
        "" | "bash" => "bash".to_owned(),
        login => format!("bash (login shell: {login})"),
    };
    Some(json!({
        "workingDirectory": cwd.to_str()?, "isWorktree": false, "isGitRepo": is_git_repo, "additionalWorkingDirectories": [],
        "platform": "linux", "shell": shell, "osVersion": format!("{} {}", of_system("ostype")?, of_system("osrelease")?),
    }))
}

/// Returns whether a folder is in a repository; `None` for a worktree, of which the CLI says more.
fn is_git_repo(cwd: &Path) -> Option<bool> {
    let found = cwd
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.exists());
    match found {
        None => Some(false),
        Some(git) => git.is_dir().then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(lines: &[Value], answered: Option<&str>) -> Option<Vec<ApiMessage>> {
        let mut said = TurnMessages::default();
        lines.iter().for_each(|line| said.read(&line.to_string(), answered));
        said.whole()
    }

    fn assistant(id: &str, block: &Value) -> Value {
        json!({"type": "assistant", "message": {"id": id, "model": "m", "role": "assistant", "content": [block], "usage": {}},
               "parent_tool_use_id": null})
    }

    #[test]
    fn the_blocks_of_a_message_are_one_message() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "SIG"});
        let call = json!({"type": "tool_use", "id": "t1", "name": "mcp__df__add", "input": {}});
        let lines = [
            json!({"type": "system", "subtype": "init"}),
            assistant("m1", &thinking),
            json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t0"}]}}),
            assistant("m1", &call),
        ];
        let message = ApiMessage {
            id: "m1".to_owned(),
            model: "m".to_owned(),
            content: vec![thinking, call],
            results: Vec::new(),
        };
        assert_eq!(said(&lines, Some("t0")), Some(vec![message]));
        assert_eq!(said(&lines, None), None);
        assert_eq!(said(&lines[..1], None), None);
    }

    #[test]
    fn the_result_of_a_tool_of_the_clis_own_belongs_to_its_call() {
        let (search, text) = (
            json!({"type": "tool_use", "id": "s1", "name": "WebSearch", "input": {}}),
            json!({"type": "text", "text": "Found."}),
        );
        let result = json!({"type": "tool_result", "tool_use_id": "s1", "content": "A page"});
        let told = |result: &Value| json!({"type": "user", "message": {"role": "user", "content": [result]}});
        let lines = [assistant("m1", &search), told(&result), assistant("m2", &text)];
        let said_then = said(&lines, None).unwrap();
        let parts: Vec<_> = said_then
            .iter()
            .map(|message| (&message.content, &message.results))
            .collect();
        assert_eq!(
            parts,
            [(&vec![search], &vec![result.clone()]), (&vec![text], &Vec::new())]
        );
        assert_eq!(said_then.iter().flat_map(ApiMessage::open_calls).count(), 0);
        // A second result of the same call is nothing that is known.
        let twice = [lines[0].clone(), told(&result), told(&result)];
        assert_eq!(said(&twice, None), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_date_is_the_local_one() {
        let date = date_told(1_795_294_800_000).unwrap();
        assert!(["2026-11-21", "2026-11-22"].contains(&date.as_str()), "{date}");
    }

    #[test]
    fn a_folder_is_in_a_repository_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        assert_eq!(is_git_repo(&inner), Some(false));
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        assert_eq!(is_git_repo(&inner), Some(true));
        std::fs::write(inner.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(is_git_repo(&inner), None);
    }
}
