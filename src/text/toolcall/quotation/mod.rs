//! Decides whether a call is a quotation: whether its words stand close together in a text of the thread that its model has not
//! written.
//!
//! In: the messages of a thread ([`ForeignTexts`]), then the calls of an answer ([`Written`]). Out: which of the calls are
//! quotations. Of both only letters and digits are compared ([`letters`]). The words of a call are `name` with the tool's name,
//! each key with its value, and each item of a list; they may stand in any order.
//!
//! The work is done only when an answer ends with calls, and is linear in the thread's length. What can't be compared is taken
//! for a quotation: that of an attack must not become a call, while a call that was missed is reported as such.

mod letters;

use std::borrow::Cow;
use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem;

use crate::prompt;
use dfp_model::message::content::{Part, Source, parts};
use dfp_model::message::{Content, Message, Role};
use letters::{Letters, View};

/// The distance, in letters, within which all words of a call stand, and how much more it is for each letter of the call: the
/// lines of a log have more of their own than of the call.
const CLOSE: (usize, usize) = (6_000, 64);
/// The number of words that are found, or compared, for each letter of the thread, and in a short thread.
const WORK: (usize, usize) = (16, 1_000_000);
/// The number of tools' names that are searched for one by one.
const MAX_NAMES: usize = 64;

/// A call as an answer has it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'a> {
    /// `args` is the JSON text of the arguments, an object.
    Call { name: &'a str, args: &'a str },
    /// The text of a call that can't be read.
    Unreadable(&'a str),
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
        // A text that was cut goes on in the next one, so nothing is put between them.
        let joined = self.0.concat();
        let letters = Letters::of(&joined, View::Text);
        let mut found = search(&letters, calls, View::Text);
        if letters.has_tags || letters.has_names {
            let ascii = letters.has_names;
            let view = View::Page { ascii };
            let in_page = search(&Letters::of(&joined, view), calls, view);
            found.iter_mut().zip(in_page).for_each(|(found, there)| *found |= there);
        }
        found
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

/// Where a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Edges {
    /// Between gaps.
    Both,
    /// Before a gap: other keys may end with `name` as well.
    End,
    /// The same, unless a description follows: the definition of a tool is not a call without arguments.
    EndOfCall,
    /// Anywhere.
    Any,
}

/// The letters of a word, and where it counts.
type Token = (String, Edges);

/// The words of a call. Those without letters are left out.
fn call_tokens(call: &Written, view: View) -> Vec<Token> {
    let letters = |text: &str| Letters::of(text, view).text;
    let mut words: Vec<Token> = match call {
        Written::Unreadable(text) => vec![(letters(text), Edges::Any)],
        Written::Call { name, args } => {
            let mut words = pairs(args).map(|(key, value)| (letters(key) + &letters(value), Edges::Both));
            let mut words: Vec<Token> = words.by_ref().filter(|(word, _)| !word.is_empty()).collect();
            let edges = if words.is_empty() { Edges::EndOfCall } else { Edges::End };
            words.push((format!("name{}", letters(name)), edges));
            words
        }
    };
    words.retain(|(word, _)| !word.is_empty());
    words
}

/// The keys of `json` with their values as they are written. The key is empty for an item of a list, and the value for an object
/// or a list.
fn pairs(json: &str) -> impl Iterator<Item = (&str, &str)> {
    let (mut rest, mut key) = (json, "");
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ']' | '}'));
            let (token, behind) = rest.split_at(token_end(rest)?);
            rest = behind;
            if token.starts_with('"') && behind.trim_start().starts_with(':') {
                key = token;
                continue;
            }
            let value = if matches!(token, "{" | "[") { "" } else { token };
            return Some((std::mem::take(&mut key), value));
        }
    })
}

/// The length of the token of JSON that `text` begins with; `None` at its end.
fn token_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'{' | b'[' => Some(1),
        b'"' => {
            let mut at = 1;
            while *bytes.get(at)? != b'"' {
                at += 1 + usize::from(bytes[at] == b'\\');
            }
            Some(at + 1)
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            Some(bytes.iter().position(ends).unwrap_or(bytes.len()))
        }
    }
}

/// Returns for each of `calls` whether its words stand close together in `thread`.
fn search(thread: &Letters, calls: &[Written], view: View) -> Vec<bool> {
    let mut names: HashMap<String, bool> = HashMap::new();
    let mut is_named = |call: &Written| match call {
        Written::Call { name, .. } if names.len() < MAX_NAMES || names.contains_key(*name) => {
            let there = || memmem::find(thread.text.as_bytes(), Letters::of(name, view).text.as_bytes()).is_some();
            *names.entry((*name).to_owned()).or_insert_with(there)
        }
        _ => true,
    };
    // Every word is searched for once, however many calls have it.
    let mut indices: HashMap<Token, usize> = HashMap::new();
    let mut wanted = |call: &Written| {
        let words = call_tokens(call, view);
        let letters: usize = words.iter().map(|(word, _)| word.len()).sum();
        let mut of_call: Vec<usize> = Vec::new();
        for word in words {
            let next = indices.len();
            of_call.push(*indices.entry(word).or_insert(next));
        }
        of_call.sort_unstable();
        of_call.dedup();
        (of_call, CLOSE.0 + CLOSE.1 * letters)
    };
    let wanted: Vec<Option<(Vec<usize>, usize)>> =
        calls.iter().map(|call| is_named(call).then(|| wanted(call))).collect();
    if wanted.iter().all(Option::is_none) {
        return vec![false; calls.len()];
    }
    let allowed = WORK.1.saturating_add(WORK.0.saturating_mul(thread.text.len()));
    let Some(places) = places(thread, indices, allowed) else {
        return vec![true; calls.len()];
    };
    let mut work = 0;
    let mut is_close = |(words, reach): &(Vec<usize>, usize)| {
        let lists: Vec<&Vec<usize>> = words.iter().map(|word| &places[*word]).collect();
        let Some(rarest) = lists.iter().min_by_key(|list| list.len()) else {
            return true;
        };
        work += rarest.len() * lists.len();
        let has_near = |list: &&Vec<usize>, at: usize| {
            let next = list.partition_point(|place| *place < at.saturating_sub(*reach));
            list.get(next).is_some_and(|place| *place <= at + reach)
        };
        work > allowed || rarest.iter().any(|at| lists.iter().all(|list| has_near(list, *at)))
    };
    let found: Vec<Option<bool>> = wanted.iter().map(|wanted| wanted.as_ref().map(&mut is_close)).collect();
    found.into_iter().map(|found| found.unwrap_or(false)).collect()
}

/// The offsets in `thread` of each of `words`, by its index; `None` if more than `allowed` are found.
fn places(thread: &Letters, words: HashMap<Token, usize>, allowed: usize) -> Option<Vec<Vec<usize>>> {
    let mut words: Vec<(Token, usize)> = words.into_iter().collect();
    words.sort_unstable_by_key(|(_, index)| *index);
    let patterns = words.iter().map(|((word, _), _)| word);
    // The other kinds take more memory for long values than they save time.
    let kind = Some(AhoCorasickKind::NoncontiguousNFA);
    let search = AhoCorasick::builder().kind(kind).build(patterns).ok()?;
    let mut places = vec![Vec::new(); words.len()];
    for (count, found) in search.find_overlapping_iter(&thread.text).enumerate() {
        if count == allowed {
            return None;
        }
        let index = found.pattern().as_usize();
        let (from, to) = (found.start(), found.end());
        let counts = match words[index].0.1 {
            Edges::Both => thread.is_edge(from) && thread.is_edge(to),
            Edges::End => thread.is_edge(to),
            Edges::EndOfCall => thread.is_edge(to) && !thread.text[to..].starts_with("description"),
            Edges::Any => true,
        };
        if counts {
            places[index].push(from);
        }
    }
    Some(places)
}
