//! A thread as labelled text in which every turn can be recognised: `inputEncoding: "text"`.
//!
//! In: messages. Out: `[Label]` and the content below it for each of them, a blank line between, as in SPEC-01. Beyond SPEC-01,
//! each call in an assistant's message has a `[Tool Call]` with a line of JSON (`id`, `name`, `args`), and a result has its
//! call id as a JSON string in its label, `[Tool Result "call_1"]`, followed by `error` if the tool failed.
//!
//! No content can look like a label: if a line of it does (in any case, behind white space), a backslash is put before its
//! bracket, and one more if there are backslashes already. A reader removes one backslash.
//!
//! A block that is not text stands behind a label of its own, `[Image 1]`. In a thread with such blocks, no line of content
//! looks like one of those labels either.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Chunk, Rendered, chunks, is_js_space, scan};
use dfp_model::message::content::{Kind, Media};
use dfp_model::message::{Message, Role};

/// The labels that every thread may have.
const LABELS: [&str; 5] = ["System", "User", "Assistant", "Tool Call", "Tool Result"];

/// The additional labels of threads with blocks that are not text.
const BLOCK_LABELS: [&str; 5] = ["Image", "Document", "Audio", "Video", "Search Result"];

/// Appends the thread.
pub(super) fn write(out: &mut Rendered, messages: &[Message]) {
    let blocks: Vec<Option<Vec<Chunk>>> = messages.iter().map(chunks).collect();
    let block_labels: &[&str] = match blocks.iter().any(Option::is_some) {
        true => &BLOCK_LABELS,
        false => &[],
    };
    let others: BTreeSet<String> = messages
        .iter()
        .filter_map(|message| match &message.role {
            Role::Other(name) => Some(label_of(name)),
            _ => None,
        })
        .collect();
    let labels: Vec<String> = LABELS
        .iter()
        .chain(block_labels)
        .map(|label| label.to_lowercase())
        .chain(others.iter().map(|label| label.to_lowercase()))
        .collect();
    for (index, (message, chunks)) in messages.iter().zip(blocks).enumerate() {
        let text = &mut out.text;
        if index > 0 {
            text.push_str("\n\n");
        }
        match &message.role {
            Role::System => text.push_str("[System]"),
            Role::Human => text.push_str("[User]"),
            Role::Ai => text.push_str("[Assistant]"),
            Role::Tool => push_result_label(text, message),
            // Writing to a String can't fail.
            Role::Other(name) => drop(write!(text, "[{}]", label_of(name))),
        }
        match chunks {
            None => {
                text.push('\n');
                push_content(text, message.content.as_text(), &labels);
            }
            Some(chunks) => {
                for chunk in chunks {
                    out.text.push('\n');
                    match chunk {
                        Chunk::Text(text) => push_content(&mut out.text, &text, &labels),
                        Chunk::Media(media) => place(out, *media),
                    }
                }
            }
        }
        let text = &mut out.text;
        for call in &message.tool_calls {
            text.push_str("\n\n[Tool Call]\n{\"id\":");
            push_json(text, &json_string(&call.id));
            text.push_str(",\"name\":");
            push_json(text, &json_string(&call.name));
            text.push_str(",\"args\":");
            push_json(text, &scan::compact(call.args.get()));
            text.push('}');
        }
    }
}

/// Writes the label of `media`, with the block behind it.
fn place(out: &mut Rendered, media: Media) {
    let label = match media.kind {
        Kind::Image => "Image",
        Kind::Document => "Document",
        Kind::Audio => "Audio",
        Kind::Video => "Video",
        Kind::SearchResult => "Search Result",
    };
    let _ = write!(out.text, "[{label} {}]", out.next_index());
    out.place(media);
}

fn push_result_label(out: &mut String, message: &Message) {
    out.push_str("[Tool Result");
    if !message.tool_call_id.is_empty() {
        out.push(' ');
        push_json(out, &json_string(&message.tool_call_id));
    }
    out.push_str(if message.is_error { " error]" } else { "]" });
}

/// A role's name as a label: only its letters, digits, `_`, `-` and spaces.
fn label_of(name: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
    let label: String = name.chars().filter(allowed).take(64).collect();
    match label.trim() {
        "" => "Message".to_owned(),
        label => label.to_owned(),
    }
}

fn json_string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    scan::push_string(&mut quoted, text);
    quoted
}

/// Writes JSON on one line, also for readers to whom other characters end a line.
fn push_json(out: &mut String, json: &str) {
    for c in json.chars() {
        match c {
            // JSON escapes the other line ends; these stand only in its strings.
            '\u{85}' | '\u{2028}' | '\u{2029}' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
}

/// Writes `content`, with a backslash where a line of it looks like a label.
fn push_content(out: &mut String, content: &str, labels: &[String]) {
    for line in content.split_inclusive(ends_line) {
        let bracket = line.find(|c: char| !is_blank(c)).and_then(|start| {
            let rest = line[start..].trim_start_matches('\\').strip_prefix('[')?;
            looks_like_label(rest, labels).then_some(line.len() - rest.len() - 1)
        });
        let (before, after) = line.split_at(bracket.unwrap_or(0));
        out.push_str(before);
        if bracket.is_some() {
            out.push('\\');
        }
        out.push_str(after);
    }
}

/// Returns whether `rest`, which stands behind a bracket, begins with a label that ends there.
fn looks_like_label(rest: &str, labels: &[String]) -> bool {
    let rest = rest.trim_start_matches(is_blank);
    labels.iter().any(|label| {
        let (mut left, mut parts) = (rest, label.split(' ').filter(|part| !part.is_empty()).peekable());
        while let Some(part) = parts.next() {
            match left.get(..part.len()) {
                Some(start) if start.eq_ignore_ascii_case(part) => left = &left[part.len()..],
                _ => return false,
            }
            if parts.peek().is_some() {
                left = left.trim_start_matches(|c| is_blank(c) || c == '_' || c == '-');
            }
        }
        !left.starts_with(|c: char| c.is_alphanumeric())
    })
}

/// Returns whether `c` is white space within a line, or invisible.
fn is_blank(c: char) -> bool {
    (is_js_space(c) && !ends_line(c)) || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{AD}')
}

/// Returns whether some reader may take `c` for the end of a line.
fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The thread as labelled text, byte for byte as SPEC-01 writes it: `[Label]\ncontent` for each message, a blank line between. Tool calls
/// are not part of this form, and a content can look like further messages: no prompt is written in it.
pub fn messages_to_prompt(messages: &[Message]) -> String {
    let mut out = String::with_capacity(super::capacity(messages));
    write_plain(&mut out, messages);
    out
}

fn write_plain(out: &mut String, messages: &[Message]) {
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push_str("\n\n");
        }
        out.push('[');
        out.push_str(match &message.role {
            Role::System => "System",
            Role::Human => "User",
            Role::Ai => "Assistant",
            Role::Tool => "Tool Result",
            Role::Other(name) => name,
        });
        out.push_str("]\n");
        out.push_str(message.content.as_text());
    }
}
