//! Finds the blocks of calls that an answer ends with.
//!
//! In: an answer, and the [`Rules`] of its model call. Out: the calls of the blocks at its end that count, and the text before
//! them. Only white space and its closing fence may follow a block. Everything else is text, whole.
//!
//! The search goes backwards from the end, so no text before the blocks can hide one, and the work is linear in the text's
//! length.

use std::collections::HashSet;
use std::fmt::Debug;

use serde_json::Value;

use super::Calls;
use super::object::{Scan, ScanStep};
use super::read::{self, Entry, Found};
use crate::prompt::is_js_space;
use crate::prompt::scan::from_char;
use dfp_model::message::InvalidToolCall;

/// The usual beginning of an object of calls, white space aside.
pub(super) const KEY: &str = "\"tool_calls\"";
/// The fewest fence characters of a code block.
const FENCE: usize = 3;
/// The length of the longest text behind an opening fence, bytes.
pub(super) const MAX_INFO: usize = 64;

/// The rules by which blocks at the end of an answer count.
pub(super) trait Rules: Debug + Send + Sync {
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
            let unreadable = body == at && read::entries(&text[object..at]).is_err();
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
        entries: read::unreadable(&text[object..body]),
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
        lists.push(read::entries(&text[object..end]).ok().filter(|list| !list.is_empty())?);
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
