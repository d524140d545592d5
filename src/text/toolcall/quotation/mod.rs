//! Decides whether a call is a quotation: whether its words stand close together in a text of the thread that its model has not
//! written.
//!
//! In: the text of a thread, and the calls of an answer ([`Written`]). Out: which of the calls are quotations. Of both only letters and digits are compared ([`letters`]). The words of a call are `name` with the tool's name,
//! each key with its value, and each item of a list; they may stand in any order.
//!
//! The work is done only when an answer ends with calls, and is linear in the thread's length. What can't be compared is taken
//! for a quotation: that of an attack must not become a call, while a call that was missed is reported as such.

mod letters;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use letters::{Letters, View};

/// The distance, in letters, within which all words of a call stand, and how much more it is for each letter of the call: the
/// lines of a log have more of their own than of the call.
const CLOSE: (usize, usize) = (6_000, 64);
/// The number of words that are found, or compared, for each letter of the thread, and in a short thread.
const WORK: (usize, usize) = (16, 1_000_000);

/// The number of calls whose tools' names are searched for one by one.
const MAX_NAMES: usize = 64;

/// A call as an answer has it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'a> {
    /// `args` is the JSON text of the arguments, an object.
    Call { name: &'a str, args: &'a str },
    /// The text of a call that can't be read.
    Unreadable(&'a str),
}

/// Returns for each of `calls` whether `thread`, the texts that its model has not written, has brought it.
pub(super) fn are_quoted(thread: &str, calls: &[Written]) -> Vec<bool> {
    let letters = Letters::of(thread, View::Text);
    let found = search(&letters, calls, View::Text);
    if !letters.has_tags && !letters.has_names {
        return found;
    }
    let view = View::Page {
        ascii: letters.has_names,
    };
    let in_page = search(&Letters::of(thread, view), calls, view);
    found
        .iter()
        .zip(in_page)
        .map(|(found, there)| *found || there)
        .collect()
}

/// Where a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

/// The words of a call, its name last. Those without letters are left out.
fn call_tokens(call: &Written, view: View) -> Vec<Token> {
    let letters = |text: &str| Letters::of(text, view).text;
    let mut words: Vec<Token> = match call {
        Written::Unreadable(text) => vec![(letters(text), Edges::Any)],
        Written::Call { args, .. } => pairs(args)
            .map(|(key, value)| (letters(key) + &letters(value), Edges::Both))
            .collect(),
    };
    words.retain(|(word, _)| !word.is_empty());
    if let Written::Call { name, .. } = call {
        let edges = if words.is_empty() { Edges::EndOfCall } else { Edges::End };
        words.push((format!("name{}", letters(name)), edges));
    }
    words
}

/// A token of JSON that is a value, or opens an object or a list.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| letters::pattern(r#""(?:[^"\\]|\\.)*"?|[{\[]|[^\s:,{}\[\]"]+"#));

/// The keys of `json` with their values as they are written. The key is empty for an item of a list, and the value for an object
/// or a list.
fn pairs(json: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut key = "";
    TOKEN.find_iter(json).filter_map(move |token| {
        let (text, behind) = (token.as_str(), &json[token.end()..]);
        if text.starts_with('"') && behind.trim_start().starts_with(':') {
            key = text;
            return None;
        }
        let value = if matches!(text, "{" | "[") { "" } else { text };
        // The thread may have a whole number as one with a fraction, where the word ends before its point.
        Some((std::mem::take(&mut key), value.strip_suffix(".0").unwrap_or(value)))
    })
}

/// Returns for each of `calls` whether its words stand close together in `thread`.
fn search(thread: &Letters, calls: &[Written], view: View) -> Vec<bool> {
    let calls: Vec<Vec<Token>> = calls.iter().map(|call| call_tokens(call, view)).collect();
    // Nearly every thread has no call of the tool, which is found out in no time.
    let is_named = |call: &Vec<Token>| call.last().is_none_or(|(name, _)| thread.text.contains(name));
    if calls.len() <= MAX_NAMES && !calls.iter().any(is_named) {
        return vec![false; calls.len()];
    }
    // Every word is searched for once, however many calls have it.
    let mut words: Vec<&Token> = calls.iter().flatten().collect();
    words.sort_unstable();
    words.dedup();
    let allowed = WORK.1.saturating_add(WORK.0.saturating_mul(thread.text.len()));
    let Some(places) = places(thread, &words, allowed) else {
        return vec![true; calls.len()];
    };
    let mut work = 0;
    let mut is_close = |call: &Vec<Token>| {
        let reach = CLOSE.0 + CLOSE.1 * call.iter().map(|(word, _)| word.len()).sum::<usize>();
        let lists = call
            .iter()
            .filter_map(|word| places.get(words.binary_search(&word).ok()?));
        let lists: Vec<&Vec<usize>> = lists.collect();
        let Some(rarest) = lists.iter().min_by_key(|list| list.len()) else {
            return true;
        };
        work += rarest.len() * lists.len();
        let has_near = |list: &&Vec<usize>, at: usize| {
            let next = list.partition_point(|place| *place < at.saturating_sub(reach));
            list.get(next).is_some_and(|place| *place <= at + reach)
        };
        work > allowed || rarest.iter().any(|at| lists.iter().all(|list| has_near(list, *at)))
    };
    calls.iter().map(&mut is_close).collect()
}

/// The offsets in `thread` of each of `words`; `None` if more than `allowed` are found.
fn places(thread: &Letters, words: &[&Token], allowed: usize) -> Option<Vec<Vec<usize>>> {
    // The other kinds take more memory for long values than they save time.
    let kind = Some(AhoCorasickKind::NoncontiguousNFA);
    let patterns = words.iter().map(|(word, _)| word);
    let search = AhoCorasick::builder().kind(kind).build(patterns).ok()?;
    let mut places = vec![Vec::new(); words.len()];
    for (count, found) in search.find_overlapping_iter(&thread.text).enumerate() {
        if count == allowed {
            return None;
        }
        let index = found.pattern().as_usize();
        let (from, to) = (found.start(), found.end());
        let counts = match words[index].1 {
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
