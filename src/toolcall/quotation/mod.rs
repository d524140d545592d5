//! Decides whether a call is a quotation: whether the same name with the same arguments stands in a text of the thread that its
//! model has not written.
//!
//! In: the messages of a thread ([`ForeignTexts`]), then the calls of an answer ([`Written`]). Out: which of the calls are
//! quotations. Both are reduced to plain text (`plain`), in which layers of escapes, quotes and white space don't count; each
//! place there with a call's name is compared with the call (`needle`). Text with line prefixes or markup is also compared
//! without those, in each layer of escapes (`lines`). JSON is also read as JSON, so that no text in a string is taken for its
//! end (`objects`).
//!
//! The work is done only when an answer ends with calls. It is linear in the thread's length; if somebody has made a thread for
//! which it is not, calls that could not be compared count as quotations.

mod lines;
mod needle;
mod objects;
mod plain;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use memchr::memmem;

use crate::message::content::{Part, Source, parts};
use crate::message::{Content, Message, Role};
use crate::prompt;
use lines::{Prefix, without_tags};
use needle::{NAME, Needle, Site};
use objects::each_object;
use plain::{entities, one_level, plain};

/// The number of layers of escapes whose lines are looked at.
const MAX_LEVELS: usize = 4;
/// The number of nested line prefixes that are removed within a layer.
const MAX_NESTED: usize = 3;
/// Limits of the work: comparisons per byte of a thread, and the number allowed in a short one.
const WORK: (usize, usize) = (16, 50_000_000);

/// The number of names that are searched for one by one.
const MAX_NAMES: usize = 64;

/// A call as an answer has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    pub name: &'a str,
    /// The JSON text of the arguments, an object.
    pub args: &'a str,
    /// The JSON text of the call.
    pub text: &'a str,
}

/// The texts of a thread that its model has not written, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTexts(Vec<String>);

impl ForeignTexts {
    /// Collects the foreign texts of `messages`. With `documents`, a lone user message may be a thread document, which holds
    /// texts and calls of the model as well.
    pub fn of(messages: &[Message], documents: bool) -> ForeignTexts {
        if documents
            && let [message] = messages
            && message.role == Role::Human
            && let Content::Text(text) = &message.content
            && let Some(events) = prompt::events_of_document(text)
        {
            let own = |kind: &str| matches!(kind, "ai" | "tool_input");
            let foreign = events.into_iter().filter(|(kind, _)| !own(kind));
            return ForeignTexts(foreign.map(|(_, text)| text.to_owned()).collect());
        }
        let foreign = messages.iter().filter(|message| message.role != Role::Ai);
        ForeignTexts(foreign.flat_map(texts).collect())
    }

    /// Returns the texts with `text` before them.
    #[must_use]
    pub fn after(mut self, text: &str) -> ForeignTexts {
        self.0.insert(0, text.to_owned());
        self
    }

    /// Returns for each of `calls` whether the thread has brought it.
    pub(super) fn bring(&self, calls: &[Written]) -> Vec<bool> {
        let mut search = Search::new(calls);
        // A text that was cut goes on in the next one, so nothing is put between them.
        let joined = self.0.concat();
        let whole = plain(&joined);
        let (named, spoken) = mentions(&whole, calls);
        search.look_at(&whole);
        drop(whole);
        if named {
            search.look_in_json(&joined);
            search.look_at_lines(&entities(&self.0.join("\n")));
        }
        if spoken && let Cow::Owned(text) = without_tags(&joined) {
            let text = entities(&text);
            search.look_at(&plain(&text));
            if named {
                search.look_in_json(&text);
            }
            search.look_at_lines(&text);
        }
        search.found
    }

    /// Returns whether `text` stands in the texts, apart from escapes and white space.
    pub(super) fn hold(&self, text: &str) -> bool {
        plain(&self.0.concat()).contains(&plain(text))
    }
}

/// The texts in a message.
fn texts(message: &Message) -> Vec<String> {
    let Content::Blocks(raw) = &message.content else {
        return vec![message.content.as_text().to_owned()];
    };
    let text = |part| match part {
        Part::Text(text) => Some(text),
        Part::Media(media) => match media.source {
            Source::Base64(_) => media.text().map(Cow::into_owned),
            Source::Text(text) => Some(text),
            _ => Some(media.block.to_string()),
        },
        Part::Omitted | Part::Call(_) | Part::Unknown(_) => None,
    };
    parts(raw, &message.role).into_iter().filter_map(text).collect()
}

/// The calls that are searched for, and those that were found.
struct Search {
    needles: Vec<Needle>,
    /// The calls by the beginning of their name, up to what may end a name.
    by_name: HashMap<String, Vec<usize>>,
    longest: usize,
    found: Vec<bool>,
    /// The number of comparisons made so far.
    work: usize,
}

/// Returns whether the plain text `whole` has one of the calls' names as the value of a name, and whether it has such a name at
/// all, ignoring any marks within it.
fn mentions(whole: &str, calls: &[Written]) -> (bool, bool) {
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let names: HashSet<String> = calls.iter().map(|call| letters(&plain(call.name))).collect();
    if names.len() > MAX_NAMES {
        return (true, true);
    }
    let whole = letters(whole);
    let has = |text: &str| memmem::find(whole.as_bytes(), text.as_bytes()).is_some();
    let spoken = names.iter().any(|name| has(name));
    (spoken && names.iter().any(|name| has(&format!("name{name}"))), spoken)
}

/// The part of `name` before a character that may end a name.
fn beginning(name: &str) -> &str {
    name.split([',', '}']).next().unwrap_or_default()
}

impl Search {
    /// Makes the search for `calls`.
    fn new(calls: &[Written]) -> Search {
        let needles: Vec<Needle> = calls
            .iter()
            .map(|call| Needle::new(call.name, call.args, call.text))
            .collect();
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, needle) in needles.iter().enumerate() {
            by_name
                .entry(beginning(&needle.name).to_owned())
                .or_default()
                .push(index);
        }
        Search {
            longest: by_name.keys().map(String::len).max().unwrap_or(0),
            found: vec![false; needles.len()],
            needles,
            by_name,
            work: 0,
        }
    }

    /// Searches `text`, which is plain, for the calls.
    fn look_at(&mut self, text: &str) {
        let allowed = WORK.0.saturating_mul(text.len()).saturating_add(WORK.1);
        self.work = 0;
        for (at, name) in sites(text, self.longest) {
            let Some(indices) = self.by_name.get(name) else {
                continue;
            };
            let site = Site::new(text, at, at + name.len());
            self.work += site.reach();
            for index in indices {
                let needle = &self.needles[*index];
                self.work += 1;
                let there = !self.found[*index] && text[at..].starts_with(&needle.name);
                self.found[*index] |= there && (needle.stands_at(text, &site) || self.work > allowed);
            }
        }
    }

    /// Searches the objects of the JSON in `text`, and its strings, for the calls.
    fn look_in_json(&mut self, text: &str) {
        let Search {
            needles,
            by_name,
            found,
            ..
        } = self;
        let indices = |name: &str| by_name.get(beginning(name)).into_iter().flatten().copied();
        let wanted = |name: &str| indices(name).any(|index| needles[index].name == name);
        each_object(text, &wanted, &mut |object| {
            for index in indices(&object.name) {
                let needle = &needles[index];
                found[index] = found[index] || (needle.name == object.name && needle.is_in(object));
            }
            found.iter().all(|found| *found)
        });
    }

    /// Searches `text` without its line prefixes for the calls, in each layer of escapes.
    fn look_at_lines(&mut self, text: &str) {
        for prefix in Prefix::ALL {
            let mut layer = Cow::Borrowed(text);
            for _ in 0..MAX_LEVELS {
                // A mail inside a mail has its mark twice.
                for _ in 0..MAX_NESTED {
                    if self.found.iter().all(|found| *found) {
                        return;
                    }
                    let Cow::Owned(stripped) = prefix.taken_off(&layer) else {
                        break;
                    };
                    self.look_at(&plain(&stripped));
                    self.look_in_json(&stripped);
                    layer = Cow::Owned(stripped);
                }
                let Some(next) = one_level(&layer) else { break };
                layer = Cow::Owned(next);
            }
        }
    }
}

/// The places of names in `text`, each with the candidate for the name: the text before the next comma or brace, if that is
/// near.
fn sites(text: &str, longest: usize) -> impl Iterator<Item = (usize, &str)> {
    memmem::find_iter(text.as_bytes(), NAME.as_bytes()).filter_map(move |key| {
        let at = key + NAME.len();
        let rest = &text.as_bytes()[at..];
        let end = rest
            .iter()
            .take(longest + 1)
            .position(|byte| matches!(byte, b',' | b'}'))?;
        Some((at, &text[at..at + end]))
    })
}
