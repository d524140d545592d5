//! A thread as the API sees it: the model's messages, and before each of them what the user's side has said.
//!
//! In: messages as an agent writes them down, and the replies that are remembered ([`FindReply`]). Out: a [`Dialogue`], which a transcript can hold, or the
//! message because of which none can ([`NotNative`]). All that the CLI would drop, move or change silently is refused here: calls
//! without results, results without calls, ids that come twice, empty messages. A reply that is remembered is whole again, even if
//! its calls came back in messages of their own.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

use super::memory::{FindReply, Recalled, place};
use crate::live::history::{Fingerprint, print, print_of, print_of_call, words_of};
use dfp_model::message::content::{Part, parts};
use dfp_model::message::{Content, Message, Role, ToolCall, json_value};

/// The longest id of a call that was tried.
const MOST_ID: usize = 80;

/// The text that the CLI puts in the place of an empty message, and drops where it is all of one (2.1.197, 2.1.332).
const NO_CONTENT: &str = "(no content)";

/// The reason why a thread can't be told natively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotNative {
    /// The number of the message, from 1; system messages don't count.
    pub message: usize,
    /// The fault, worded to stand behind the message's number.
    pub why: &'static str,
}

impl fmt::Display for NotNative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} (system messages not counted) {}", self.message, self.why)
    }
}

/// All that the user's side says between two replies: the results of all calls of the reply before it, the user's words, and then the
/// system messages that have their place there.
#[derive(Debug, Default)]
pub struct UserSide<'a> {
    /// In the order of the calls.
    pub results: Vec<(&'a ToolCall, &'a Message)>,
    pub humans: Vec<&'a Message>,
    /// The system messages behind them.
    pub systems: Vec<&'a Message>,
    /// The index of its first message; system messages don't count.
    pub at: usize,
}

impl UserSide<'_> {
    /// Returns whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.humans.is_empty()
    }

    /// Returns whether it brings results, and the user says nothing beside them.
    pub fn is_results_alone(&self) -> bool {
        !self.results.is_empty() && self.humans.is_empty()
    }
}

/// A reply of the model.
#[derive(Debug)]
pub struct RoundReply<'a> {
    /// The index of its first message; system messages don't count.
    pub at: usize,
    /// Its messages with words, and those with reasoning.
    pub messages: Vec<&'a Message>,
    pub calls: Vec<&'a ToolCall>,
    /// The reply as the API gave it, if it is remembered.
    pub recalled: Option<Recalled>,
}

/// A reply, and what was said before it.
#[derive(Debug)]
pub struct Round<'a> {
    pub side: UserSide<'a>,
    pub reply: RoundReply<'a>,
}

/// A whole thread.
#[derive(Debug)]
pub struct Dialogue<'a> {
    pub rounds: Vec<Round<'a>>,
    /// The user's side behind the last reply.
    pub last: UserSide<'a>,
    /// The fingerprint of all of it.
    pub print: Fingerprint,
}

impl<'a> Dialogue<'a> {
    /// Reads `messages`, whose system messages stand at the ends of what the user's side says, in the scope whose fingerprint is
    /// `scope`.
    ///
    /// # Errors
    /// [`NotNative`].
    pub fn of(messages: &'a [Message], scope: Fingerprint, find: FindReply) -> Result<Dialogue<'a>, NotNative> {
        let mut reader = Reader {
            messages,
            at: 0,
            systems: 0,
            print: scope,
            find,
            ids: HashSet::new(),
            early: HashMap::new(),
        };
        let mut rounds: Vec<Round> = Vec::new();
        loop {
            let side = reader.side(rounds.last().map(|round| &round.reply))?;
            if reader.at == messages.len() {
                return Ok(Dialogue {
                    rounds,
                    last: side,
                    print: reader.print,
                });
            }
            if side.is_empty() {
                return Err(not_native(
                    reader.counted(),
                    "is the model's, and nothing was said before it",
                ));
            }
            let reply = reader.reply()?;
            rounds.push(Round { side, reply });
        }
    }
}

fn not_native(at: usize, why: &'static str) -> NotNative {
    NotNative { message: at + 1, why }
}

/// Reads a thread from its beginning to its end.
struct Reader<'a, 'm> {
    messages: &'a [Message],
    at: usize,
    /// The number of system messages so far.
    systems: usize,
    print: Fingerprint,
    find: FindReply<'m>,
    /// The ids of all calls so far.
    ids: HashSet<&'a str>,
    /// The results that stood between the calls of one reply.
    early: HashMap<&'a str, &'a Message>,
}

impl<'a> Reader<'a, '_> {
    fn next(&self) -> Option<&'a Message> {
        self.messages.get(self.at)
    }

    /// The index of the next message; system messages don't count.
    fn counted(&self) -> usize {
        self.at - self.systems
    }

    /// Reads what the user's side says behind `reply`.
    fn side(&mut self, reply: Option<&RoundReply<'a>>) -> Result<UserSide<'a>, NotNative> {
        let calls = reply.map_or(&[][..], |reply| &reply.calls);
        let mut results = std::mem::take(&mut self.early);
        let mut side = UserSide {
            at: self.counted(),
            ..UserSide::default()
        };
        while let Some(message) = self.next().filter(|message| message.role != Role::Ai) {
            let at = self.counted();
            match &message.role {
                Role::System => {
                    side.systems.push(message);
                    self.systems += 1;
                }
                Role::Human => side.humans.push(message),
                Role::Tool if !side.humans.is_empty() => {
                    return Err(not_native(at, "is a result that comes behind words of the user's"));
                }
                Role::Tool if !calls.iter().any(|call| call.id == message.tool_call_id) => {
                    return Err(not_native(at, "answers no call of the model's message before it"));
                }
                Role::Tool => {
                    if results.insert(&message.tool_call_id, message).is_some() {
                        return Err(not_native(at, "is the second result of a call"));
                    }
                }
                _ => return Err(not_native(at, "has a role that the API does not know")),
            }
            self.at += 1;
        }
        for call in calls {
            let Some(result) = results.remove(call.id.as_str()) else {
                return Err(not_native(
                    reply.map_or(0, |reply| reply.at),
                    "has a call whose result is missing",
                ));
            };
            side.results.push((*call, result));
        }
        let before = self.print;
        let told = side
            .results
            .iter()
            .map(|(_, result)| *result)
            .chain(side.humans.iter().copied())
            .chain(side.systems.iter().copied());
        let told: Vec<Fingerprint> = told.map(print_of).collect();
        self.print = print(|state| (before, 2_u8, &told).hash(state));
        Ok(side)
    }

    /// Reads a reply.
    fn reply(&mut self) -> Result<RoundReply<'a>, NotNative> {
        let at = self.counted();
        let mut messages = Vec::new();
        let mut calls: Vec<&ToolCall> = Vec::new();
        while let Some(message) = self.next().filter(|message| message.role == Role::Ai) {
            is_tellable(message).map_err(|why| not_native(self.counted(), why))?;
            messages.push(message);
            calls.extend(&message.tool_calls);
            self.at += 1;
        }
        let words = messages.iter().rev().map(|message| words_of(&message.content));
        let words = words
            .into_iter()
            .find(|words| !words.trim().is_empty())
            .unwrap_or_default();
        if calls.is_empty() && (words.is_empty() || words.trim() == NO_CONTENT) {
            return Err(not_native(at, "is the model's and says nothing"));
        }
        let found = (self.find)(place(self.print, calls.first().copied(), &words));
        let found = found.filter(|found| found.begins_with(&calls));
        let recalled = found.filter(|found| self.gather(found, &mut messages, &mut calls));
        let recalled_words = recalled.as_ref().is_none_or(|recalled| recalled.says(&messages));
        for call in &calls {
            // The CLI takes `call_1_2` for a repetition of `call_1`, and loses its result (2.1.332).
            let number = call.id.trim_end_matches(|c: char| c.is_ascii_digit());
            let repeated = number.strip_suffix('_').filter(|_| number.len() < call.id.len());
            if repeated.is_some_and(|id| self.ids.contains(id)) || !self.ids.insert(&call.id) {
                return Err(not_native(
                    at,
                    "has a call whose id an earlier one had, or had without a number behind it",
                ));
            }
        }
        let before = self.print;
        self.print = match calls.as_slice() {
            [] => print(|state| (before, 3_u8, words.trim()).hash(state)),
            calls => {
                let calls: Vec<Fingerprint> = calls.iter().map(|call| print_of_call(call)).collect();
                // With other words it is another beginning: what follows was said to somebody else.
                print(|state| (before, 4_u8, &calls, recalled_words).hash(state))
            }
        };
        Ok(RoundReply {
            at,
            messages,
            calls,
            recalled: recalled.filter(|_| recalled_words),
        })
    }

    /// Gathers the rest of the calls of `found`, which an agent has written down in messages of their own with their results
    /// between them. Returns whether all are there.
    fn gather(&mut self, found: &Recalled, messages: &mut Vec<&'a Message>, calls: &mut Vec<&'a ToolCall>) -> bool {
        let mut at = self.at;
        let (mut more_messages, mut more_calls) = (Vec::new(), calls.clone());
        let mut early = HashMap::new();
        while more_calls.len() < found.calls.len() {
            let Some(message) = self.messages.get(at) else {
                return false;
            };
            match message.role {
                Role::Tool => {
                    let is_of_these = more_calls.iter().any(|call| call.id == message.tool_call_id);
                    if !is_of_these || early.insert(message.tool_call_id.as_str(), message).is_some() {
                        return false;
                    }
                }
                Role::Ai if is_tellable(message).is_ok() => {
                    more_messages.push(message);
                    more_calls.extend(&message.tool_calls);
                }
                _ => return false,
            }
            at += 1;
        }
        if !found.begins_with(&more_calls) {
            return false;
        }
        messages.extend(more_messages);
        *calls = more_calls;
        self.early = early;
        self.at = at;
        true
    }
}

/// Checks that a message of the model's can stand in a transcript.
fn is_tellable(message: &Message) -> Result<(), &'static str> {
    if let Content::Blocks(raw) = &message.content {
        let parts = parts(raw, &Role::Ai);
        if parts
            .iter()
            .any(|part| matches!(part, Part::Media(_) | Part::Unknown(_)))
        {
            return Err("is the model's and has content that is neither text nor a call");
        }
    }
    for call in &message.tool_calls {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if call.id.is_empty() || call.id.len() > MOST_ID || !call.id.chars().all(is_plain) {
            return Err("has a call with an id that the API does not take");
        }
        if call.name.is_empty() {
            return Err("has a call without a name");
        }
        if !json_value(call.args.get()).is_object() {
            return Err("has a call whose arguments are no object");
        }
    }
    Ok(())
}
