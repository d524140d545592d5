//! Finds the blocks of calls that an answer ends with.
//!
//! In: an answer, and the [`Rules`] of its model call. Out: the calls of the blocks at its end that count, and the text before
//! them. Only white space and its closing fence may follow a block. Everything else is text, whole.
//!
//! The search goes backwards from the end, so no text before the blocks can hide one, and the work is linear in the text's
//! length.
//!
//! While an answer is arriving, [`Hold`] holds back the part of it that may be such blocks.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::Calls;
use super::object::{self, Entry, Found, Scan, ScanStep, entries};
use crate::prompt::{first_stop, from_char, is_js_space};
use dfp_model::message::InvalidToolCall;

/// The usual beginning of an object of calls, white space aside.
pub(super) const KEY: &str = "\"tool_calls\"";
/// The fewest fence characters of a code block.
const FENCE: usize = 3;
/// The length of the longest text behind an opening fence, bytes.
const MAX_INFO: usize = 64;

/// Shows the name alone: the addon need not hold the code that shows every implementor.
impl std::fmt::Debug for dyn Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

/// The rules by which blocks at the end of an answer count.
pub(super) trait Rules: Send + Sync {
    /// Judges each of `blocks`. The last block of the answer comes first, and a block counts only if all blocks behind it do.
    fn verdicts(&self, blocks: &[Block]) -> Vec<BlockVerdict>;

    /// Converts an entry of a block that counts to the form that the caller gets.
    fn accept(&self, entry: Entry) -> Entry;
}

/// The judgement of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockVerdict {
    Counts,
    /// The block is text, with the reason if it may have been meant as calls.
    Text(Option<String>),
}

/// Calls that stand together.
#[derive(Debug)]
pub(super) struct Block<'a> {
    /// The offset at which the block begins, its opening fence included.
    start: usize,
    /// The objects of the block as they are written; empty for an unreadable one.
    pub(super) objects: Vec<&'a str>,
    pub(super) entries: Vec<Entry>,
}

/// Reads the calls at the end of `text`; also returns the length of the text before them, all of it if there are none.
pub(super) fn read(rules: &dyn Rules, text: &str) -> (usize, Calls) {
    let mut blocks = Vec::new();
    let mut end = solid(text);
    while let Some(found) = block(&text[..end]) {
        end = solid(&text[..found.start]);
        blocks.push(found);
    }
    if blocks.is_empty() {
        blocks.extend(unreadable(&text[..end]));
    }
    let verdicts = rules.verdicts(&blocks);
    let count = verdicts
        .iter()
        .take_while(|verdict| **verdict == BlockVerdict::Counts)
        .count();
    if count == 0 {
        let ignored = match verdicts.into_iter().next() {
            Some(BlockVerdict::Text(Some(reason))) => Some(format!(
                "the answer ends with a block that looks like tool calls and was left as text: {reason}"
            )),
            _ => None,
        };
        let calls = Calls {
            ignored,
            ..Calls::default()
        };
        return (text.len(), calls);
    }
    blocks.truncate(count);
    let end = blocks.last().map_or(text.len(), |first| solid(&text[..first.start]));
    let mut found = Found::default();
    for block in blocks.into_iter().rev() {
        found.add(block.entries.into_iter().map(|entry| rules.accept(entry)).collect());
    }
    let calls = Calls {
        tool_calls: found.tool_calls,
        invalid: found.invalid,
        ignored: None,
    };
    (end, calls)
}

/// The last object of calls in `text`, if it can't be read and reaches to the end.
fn unreadable(text: &str) -> Option<Block<'_>> {
    let object = last_beginning(text)?;
    let mut scan = Scan::object();
    let (mut at, mut blank) = (object + 1, false);
    let mut step = scan.strict(text.as_bytes(), &mut at, &mut blank);
    if step == ScanStep::Broken {
        for byte in &text.as_bytes()[at..] {
            step = scan.lenient(*byte);
            at += 1;
            if step == ScanStep::End {
                break;
            }
        }
    }
    let (body, closed) = match step {
        // The brackets are closed: only the closing fence may follow.
        ScanStep::End => {
            let (body, closed) = without_closing_fence(text);
            let unreadable = body == at && entries(&text[object..at]).is_err();
            unreadable.then_some((body, closed))?
        }
        // The text ends within the object, or the object's end is unknown.
        ScanStep::More | ScanStep::Broken => {
            let (body, closed) = without_closing_fence(text);
            let lines = text[object..body].lines().skip(1);
            let goes_on = lines.map(str::trim_start).any(|line| line.starts_with("```"));
            (!goes_on).then_some((body, closed))?
        }
    };
    Some(Block {
        start: opening(&text[..object], closed).unwrap_or(object),
        objects: Vec::new(),
        entries: object::unreadable(&text[object..body]),
    })
}

/// Returns whether `entry` names one of the tools `bound`.
pub(super) fn names_one_of(bound: &HashSet<String>, entry: &Entry) -> bool {
    match entry {
        Entry::Call { name, .. } => bound.contains(name),
        Entry::Invalid(InvalidToolCall { name: Some(name), .. }) => bound.contains(name),
        Entry::Invalid(InvalidToolCall { args, .. }) => {
            let quoted = |name: &String| args.contains(&Value::from(name.as_str()).to_string());
            bound.iter().any(quoted)
        }
    }
}

/// The length of `text` without the white space at its end.
fn solid(text: &str) -> usize {
    text.trim_end_matches(is_js_space).len()
}

/// The block at the end of `text`, which doesn't end with white space.
fn block(text: &str) -> Option<Block<'_>> {
    let (mut end, closed) = without_closing_fence(text);
    let mut objects = Vec::new();
    let mut lists: Vec<Vec<Entry>> = Vec::new();
    let start = loop {
        let object = object_before(&text[..end])?;
        lists.push(entries(&text[object..end]).ok().filter(|list| !list.is_empty())?);
        objects.push(&text[object..end]);
        if let Some(start) = opening(&text[..object], closed) {
            break start;
        }
        end = solid(&text[..object]);
        // There may be several objects in one code block.
        if closed.is_none() || !text[..end].ends_with('}') {
            break object;
        }
    };
    objects.reverse();
    let entries = lists.into_iter().rev().flatten().collect();
    Some(Block {
        start,
        objects,
        entries,
    })
}

/// The length of `text` without its closing fence and the white space before that, and the fence's character.
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

/// The offset of the opening fence at the end of `before`. If there is no closing fence (`closed`), only a fence with a word
/// behind it counts as an opening one.
fn opening(before: &str, closed: Option<u8>) -> Option<usize> {
    let before = &before[..solid(before)];
    // A line may be long: only as much of it is looked at as may stand behind a fence.
    let near = from_char(before, before.len().saturating_sub(2 * MAX_INFO));
    let line = &near[near.rfind('\n').map_or(0, |newline| newline + 1)..];
    let last = before.len() - line.len() + line.rfind(['`', '~'])?;
    let char = before.as_bytes()[last];
    let info = before[last + 1..].trim();
    let run = before.as_bytes()[..=last]
        .iter()
        .rev()
        .take_while(|byte| **byte == char)
        .count();
    let opens = closed.map_or(!info.is_empty(), |closing| closing == char);
    let short = info.len() <= MAX_INFO && !info.contains('{');
    (run >= FENCE && opens && short).then(|| last + 1 - run)
}

/// The offset of the object that `text` ends with.
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
                    return (bytes[at] == b'{').then_some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The offset of the last object of calls in `text`, whether the object ends or not.
fn last_beginning(text: &str) -> Option<usize> {
    text.rmatch_indices(KEY).find_map(|(at, _)| {
        let before = text[..at].trim_end_matches(JSON_SPACE);
        before.ends_with('{').then(|| before.len() - 1)
    })
}

const JSON_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

// The filter of an arriving answer. In: pieces of text. Out: the text up to the place where an object of calls may begin, or its
// opening fence and the white space before that. Once one has begun, the rest is held back to the end: only there is it known
// whether anything follows it. A JSON object that begins with another key is held back until it has ended without the key of calls.

/// The progress of the text towards the beginning of an object of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing has begun.
    Text,
    /// In a run of this many fence characters.
    Fence(char, usize),
    /// Behind an opening fence, on its line; this many more bytes are allowed.
    Info(usize),
    /// Between the fence's line and a brace.
    Lead,
    /// Behind a brace.
    Brace,
    /// In the key, of which this many bytes were seen.
    Key(usize),
    Begun,
}

/// A filter that holds back text which may be calls.
#[derive(Debug)]
pub(super) struct Hold {
    rules: Arc<dyn Rules>,
    /// The text that was not let through.
    pending: String,
    /// The bytes of `pending` that were looked at.
    seen: usize,
    at: At,
    /// The offset in `pending` at which the possible calls begin.
    start: usize,
    /// The offset of the white space behind the last other character.
    space: usize,
    /// The object that is being scanned.
    object: Option<HeldObject>,
}

/// A JSON object that may turn out to be one of calls.
#[derive(Debug)]
struct HeldObject {
    /// The offset in `pending` at which it begins, with its opening fence and the white space before that.
    start: usize,
    /// The bytes of `pending` that were looked at.
    seen: usize,
    scan: Scan,
}

impl Hold {
    pub(super) fn new(rules: Arc<dyn Rules>) -> Hold {
        Hold {
            rules,
            pending: String::new(),
            seen: 0,
            at: At::Text,
            start: 0,
            space: 0,
            object: None,
        }
    }

    /// Takes the next piece and returns the text that may be shown, possibly none.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        self.look();
        let held = match self.at {
            At::Text => self.space,
            _ => self.start,
        };
        let held = self.object.as_ref().map_or(held, |object| held.min(object.start));
        if held == 0 {
            return String::new();
        }
        let shown = self.pending[..held].to_owned();
        self.pending.drain(..held);
        self.seen -= held;
        self.space = self.space.saturating_sub(held);
        self.start = self.start.saturating_sub(held);
        if let Some(object) = &mut self.object {
            object.start -= held;
            object.seen -= held;
        }
        shown
    }

    /// Ends the answer; returns the rest of the text, and the calls.
    pub(super) fn finish(mut self) -> (String, Calls) {
        if self.at != At::Begun {
            return (self.pending, Calls::default());
        }
        let (kept, calls) = read(&*self.rules, &self.pending);
        self.pending.truncate(kept);
        (self.pending, calls)
    }

    /// Looks at the new text. Once an object of calls has begun, all text from there on is held back.
    fn look(&mut self) {
        while self.at != At::Begun {
            if self.at == At::Text {
                self.skip();
            }
            let Some(c) = self.pending[self.seen..].chars().next() else {
                break;
            };
            if self.at == At::Brace && c == '"' {
                self.begin_object();
                if self.at == At::Begun {
                    break;
                }
            }
            self.at = self.next(c);
            self.seen += c.len_utf8();
            if !is_js_space(c) {
                self.space = self.seen;
            }
        }
        self.look_through(self.seen);
        if self.at == At::Begun {
            // A beginning inside another object may belong to that object.
            self.start = self
                .object
                .take()
                .map_or(self.start, |object| object.start.min(self.start));
            // Only the end of the answer tells more.
            self.seen = self.pending.len();
        }
    }

    /// Begins an object at the next quote, unless that stands in an object that is still open.
    fn begin_object(&mut self) {
        self.look_through(self.seen);
        if self.object.is_none() {
            self.object = Some(HeldObject {
                start: self.start,
                seen: self.seen,
                scan: Scan::object(),
            });
        }
    }

    /// Scans the current object up to `end`.
    fn look_through(&mut self, end: usize) {
        let Some(object) = &mut self.object else { return };
        let step = object
            .scan
            .strict(&self.pending.as_bytes()[..end], &mut object.seen, &mut false);
        if object.scan.looks_like_cut_calls() {
            self.at = At::Begun;
        } else if step != ScanStep::More {
            self.object = None;
        }
    }

    /// Moves to the next character that may begin something.
    fn skip(&mut self) {
        let rest = &self.pending[self.seen..];
        let length = first_stop(rest.as_bytes(), |byte| (byte == b'`') | (byte == b'~') | (byte == b'{'));
        let solid = rest[..length].trim_end_matches(is_js_space).len();
        if solid > 0 {
            self.space = self.seen + solid;
        }
        self.seen += length;
    }

    /// The state after the character `c`.
    fn next(&mut self, c: char) -> At {
        let fence = matches!(c, '`' | '~');
        match self.at {
            At::Fence(char, length) if c == char => At::Fence(char, length + 1),
            At::Fence(_, length) if length >= 3 && !fence => match c {
                '{' => At::Brace,
                '\n' => At::Lead,
                _ => At::Info(MAX_INFO),
            },
            At::Info(_) | At::Lead if c == '{' => At::Brace,
            At::Info(_) if c == '\n' => At::Lead,
            At::Info(left) if !fence && left >= c.len_utf8() => At::Info(left - c.len_utf8()),
            At::Lead if is_js_space(c) => At::Lead,
            At::Brace if matches!(c, ' ' | '\t' | '\r' | '\n') => At::Brace,
            At::Brace if c == '"' => At::Key(1),
            At::Key(seen) if KEY[seen..].starts_with(c) => match seen + 1 {
                seen if seen == KEY.len() => At::Begun,
                seen => At::Key(seen),
            },
            _ if fence || c == '{' => {
                self.start = self.space;
                if fence { At::Fence(c, 1) } else { At::Brace }
            }
            _ => At::Text,
        }
    }
}
