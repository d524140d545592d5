//! Calls in the marked form: what the model was asked to write, and nobody else can.
//!
//! In: an answer, and the [`Marked`] rules of the call it belongs to. Out: the calls of the blocks that end it, and the text
//! before them. A block counts if every id in it begins with the call's [`Mark`], which is random and stands in the prompt
//! only, if every name is a bound tool's, and if nothing follows but white space and its closing fence. Everything else is
//! text, whole.
//!
//! The blocks are looked for from the end, so no text before them can hide one, and the work is linear in the text's length.

use std::collections::HashSet;

use serde_json::Value;

use super::Calls;
use super::object::{Scan, Step};
use super::read::{self, Entry, Found};
use crate::message::InvalidToolCall;
use crate::prompt::is_js_space;

/// How an object of calls begins, white space aside.
pub(super) const KEY: &str = "\"tool_calls\"";
/// The fewest fence characters of a code block.
const FENCE: usize = 3;
/// The longest text behind an opening fence, bytes.
pub(super) const MAX_INFO: usize = 64;
/// The letters of a mark: 32, none of which is easily taken for another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// How many of them a mark has: 50 bits.
const LENGTH: u32 = 10;

/// What the ids of one call of the model begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// The mark made of `random`, which has to be unguessable.
    pub fn new(random: u64) -> Mark {
        let letter = |n: u32| char::from(LETTERS[(random >> (5 * n)) as usize % LETTERS.len()]);
        Mark(format!("call_{}", (0..LENGTH).map(letter).collect::<String>()))
    }

    /// `call_` and the mark's letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `id` without the mark, as the caller gets it: `call_1` of `call_k7f3q9x2ab_1`. `None` if that leaves nothing.
    fn taken_off(&self, id: &str) -> Option<String> {
        let rest = id.strip_prefix(&self.0)?.trim_start_matches(['_', '-']);
        (!rest.is_empty()).then(|| format!("call_{rest}"))
    }
}

/// Which calls count in the answer to one call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    mark: Mark,
    bound: HashSet<String>,
    any_name: bool,
}

/// What a block of calls at the end of an answer is.
enum Verdict {
    Counts,
    /// Not every id begins with the mark; whether a bound tool is named in it.
    Unmarked {
        bound: bool,
    },
    /// This tool is not bound.
    Unknown(String),
}

/// Calls that stand together at the end of a text.
struct Block {
    /// Where it begins, its opening fence included.
    start: usize,
    entries: Vec<Entry>,
}

impl Marked {
    /// Calls of the tools named `bound`, or of `any_name`: an agent's run tells the model of tools that there are not.
    pub fn new(mark: Mark, bound: impl IntoIterator<Item = String>, any_name: bool) -> Marked {
        Marked {
            mark,
            bound: bound.into_iter().collect(),
            any_name,
        }
    }

    /// The calls at the end of `text`, and how much of it is left: without calls all of it.
    pub(super) fn read(&self, text: &str) -> (usize, Calls) {
        let mut end = solid(text);
        let (mut blocks, mut ignored) = (Vec::new(), None);
        loop {
            let before = &text[..end];
            let found = block(before).or_else(|| self.unreadable(before).filter(|_| blocks.is_empty()));
            let Some(found) = found else { break };
            match self.verdict(&found.entries) {
                Verdict::Counts => {
                    end = solid(&text[..found.start]);
                    blocks.push(found.entries);
                }
                verdict => {
                    ignored = self.note(&verdict).filter(|_| blocks.is_empty());
                    break;
                }
            }
        }
        if blocks.is_empty() {
            let calls = Calls {
                ignored,
                ..Calls::default()
            };
            return (text.len(), calls);
        }
        let mut found = Found::default();
        for entries in blocks.into_iter().rev() {
            found.add(entries.into_iter().map(|entry| self.without_mark(entry)).collect());
        }
        let calls = Calls {
            tool_calls: found.tool_calls,
            invalid: found.invalid,
            ignored: None,
        };
        (end, calls)
    }

    fn verdict(&self, entries: &[Entry]) -> Verdict {
        let marked = |entry: &Entry| match entry {
            Entry::Call { id, .. } => id.as_ref().is_some_and(|id| id.starts_with(self.mark.as_str())),
            Entry::Invalid(InvalidToolCall { id: Some(id), .. }) => id.starts_with(self.mark.as_str()),
            Entry::Invalid(InvalidToolCall { args, .. }) => args.contains(self.mark.as_str()),
        };
        let named = |entry: &Entry| match entry {
            Entry::Call { name, .. } => self.bound.contains(name),
            Entry::Invalid(InvalidToolCall { name: Some(name), .. }) => self.bound.contains(name),
            Entry::Invalid(InvalidToolCall { args, .. }) => {
                let quoted = |name: &String| args.contains(&Value::from(name.as_str()).to_string());
                self.bound.iter().any(quoted)
            }
        };
        if !entries.iter().all(marked) {
            return Verdict::Unmarked {
                bound: entries.iter().any(named),
            };
        }
        let unknown = entries.iter().find_map(|entry| match entry {
            Entry::Call { name, .. } if !self.any_name && !self.bound.contains(name) => Some(name.clone()),
            _ => None,
        });
        unknown.map_or(Verdict::Counts, Verdict::Unknown)
    }

    /// What the caller is to know of a block that was left as text, if it may have been meant as one of calls.
    fn note(&self, verdict: &Verdict) -> Option<String> {
        let reason = match verdict {
            Verdict::Unmarked { bound: true } => {
                "its ids lack this call's mark, so it may be a quotation; `textToolCalls: \"lenient\"` reads such blocks as calls"
                    .to_owned()
            }
            Verdict::Unknown(name) => format!("no tool \"{}\" is bound", crate::error::clip(name, 80)),
            Verdict::Counts | Verdict::Unmarked { bound: false } => return None,
        };
        Some(format!(
            "the answer ends with a block that looks like tool calls and was left as text: {reason}"
        ))
    }

    fn without_mark(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Call { id, name, args } => Entry::Call {
                id: id.and_then(|id| self.mark.taken_off(&id)),
                name,
                args,
            },
            Entry::Invalid(invalid) => Entry::Invalid(InvalidToolCall {
                id: invalid.id.and_then(|id| self.mark.taken_off(&id)),
                ..invalid
            }),
        }
    }

    /// The last object of calls in `text`, if it can't be read and goes on to the end.
    fn unreadable(&self, text: &str) -> Option<Block> {
        let object = last_beginning(text)?;
        let mut scan = Scan::object();
        let (mut at, mut blank) = (object + 1, false);
        let mut step = scan.strict(text.as_bytes(), &mut at, &mut blank);
        if step == Step::Broken {
            for byte in &text.as_bytes()[at..] {
                step = scan.lenient(*byte);
                at += 1;
                if step == Step::End {
                    break;
                }
            }
        }
        let (body, closed) = match step {
            // Closed brackets: nothing may follow but the closing fence.
            Step::End => {
                let (body, closed) = without_closing_fence(text);
                let unreadable = body == at && read::entries(&text[object..at]).is_err();
                unreadable.then_some((body, closed))?
            }
            // The text ends within it, or its end is unknown.
            Step::More | Step::Broken => {
                let (body, closed) = without_closing_fence(text);
                let lines = text[object..body].lines().skip(1);
                let goes_on = lines.map(str::trim_start).any(|line| line.starts_with("```"));
                (!goes_on).then_some((body, closed))?
            }
        };
        Some(Block {
            start: opening(&text[..object], closed).unwrap_or(object),
            entries: read::unreadable(&text[object..body]),
        })
    }
}

/// The length of `text` without the white space at its end.
fn solid(text: &str) -> usize {
    text.trim_end_matches(is_js_space).len()
}

/// The block that `text`, which doesn't end with white space, ends with.
fn block(text: &str) -> Option<Block> {
    let (mut end, closed) = without_closing_fence(text);
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let object = object_before(&text[..end])?;
        let mut list = read::entries(&text[object..end]).ok().filter(|list| !list.is_empty())?;
        list.append(&mut entries);
        entries = list;
        if let Some(start) = opening(&text[..object], closed) {
            return Some(Block { start, entries });
        }
        end = solid(&text[..object]);
        // Several objects in one code block.
        if closed.is_none() || !text[..end].ends_with('}') {
            let start = object;
            return Some(Block { start, entries });
        }
    }
}

/// Where `text` ends without its closing fence and the white space before that, and what the fence is made of.
fn without_closing_fence(text: &str) -> (usize, Option<u8>) {
    let bytes = text.as_bytes();
    let char = match bytes.last() {
        Some(char @ (b'`' | b'~')) => *char,
        _ => return (text.len(), None),
    };
    let run = bytes.iter().rev().take_while(|byte| **byte == char).count();
    if run < FENCE {
        return (text.len(), None);
    }
    (solid(&text[..text.len() - run]), Some(char))
}

/// Where the opening fence of what follows `before` begins. Without a closing fence (`closed`) only one that says what
/// follows is an opening one.
fn opening(before: &str, closed: Option<u8>) -> Option<usize> {
    let before = &before[..solid(before)];
    let line = &before[before.rfind('\n').map_or(0, |newline| newline + 1)..];
    let last = line.rfind(['`', '~'])?;
    let char = line.as_bytes()[last];
    let info = line[last + 1..].trim();
    let run = line.as_bytes()[..=last]
        .iter()
        .rev()
        .take_while(|byte| **byte == char)
        .count();
    let opens = closed.map_or(!info.is_empty(), |closing| closing == char);
    let short = info.len() <= MAX_INFO && !info.contains('{');
    (run >= FENCE && opens && short).then(|| before.len() - line.len() + last + 1 - run)
}

/// Where the object of calls begins that `text` ends with.
fn object_before(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.last() != Some(&b'}') {
        return None;
    }
    let (mut depth, mut in_string) = (0_usize, false);
    for at in (0..bytes.len()).rev() {
        match bytes[at] {
            b'"' if in_string => {
                let escapes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                in_string = escapes % 2 == 1;
            }
            b'"' => in_string = true,
            _ if in_string => {}
            b'}' | b']' => depth += 1,
            b'{' | b'[' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return begins(&text[at..]).then_some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether `text` begins as an object of calls does.
fn begins(text: &str) -> bool {
    let inner = text.strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start_matches(JSON_SPACE).starts_with(KEY))
}

/// Where the last object of calls in `text` begins, whether it ends or not.
fn last_beginning(text: &str) -> Option<usize> {
    text.rmatch_indices(KEY).find_map(|(at, _)| {
        let before = text[..at].trim_end_matches(JSON_SPACE);
        before.ends_with('{').then(|| before.len() - 1)
    })
}

const JSON_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
