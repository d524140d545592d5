//! A thread as labelled text in which every turn can be recognised: `inputEncoding: "text"`.
//!
//! In: messages. Out: `[Label]` and the content below it for each of them, a blank line between, as SPEC-01 has it; and
//! beyond it, `[Tool Call]` with a line of JSON (`id`, `name`, `args`) for every call of an assistant's message, and a
//! result's call id as a JSON string in its label, `[Tool Result "call_1"]`, with `error` behind it if the tool failed.
//!
//! No content can look like a label: where a line of one does (in any case, behind white space), a backslash is put before
//! its bracket, and one more where there are backslashes already. To read it, take one backslash away.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{is_js_space, json};
use crate::message::{Message, Role};

/// The labels there always are.
const LABELS: [&str; 5] = ["System", "User", "Assistant", "Tool Call", "Tool Result"];

/// Appends the thread.
pub(super) fn write(out: &mut String, messages: &[Message]) {
    let others: BTreeSet<String> = messages
        .iter()
        .filter_map(|message| match &message.role {
            Role::Other(name) => Some(label_of(name)),
            _ => None,
        })
        .collect();
    let labels: Vec<String> = LABELS
        .iter()
        .map(|label| label.to_lowercase())
        .chain(others.iter().map(|label| label.to_lowercase()))
        .collect();
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push_str("\n\n");
        }
        match &message.role {
            Role::System => out.push_str("[System]"),
            Role::Human => out.push_str("[User]"),
            Role::Ai => out.push_str("[Assistant]"),
            Role::Tool => push_result_label(out, message),
            // Writing to a String can't fail.
            Role::Other(name) => drop(write!(out, "[{}]", label_of(name))),
        }
        out.push('\n');
        push_content(out, message.content.as_text(), &labels);
        for call in &message.tool_calls {
            out.push_str("\n\n[Tool Call]\n{\"id\":");
            push_json(out, &json_string(&call.id));
            out.push_str(",\"name\":");
            push_json(out, &json_string(&call.name));
            out.push_str(",\"args\":");
            push_json(out, &json::compact(call.args.get()));
            out.push('}');
        }
    }
}

fn push_result_label(out: &mut String, message: &Message) {
    out.push_str("[Tool Result");
    if !message.tool_call_id.is_empty() {
        out.push(' ');
        push_json(out, &json_string(&message.tool_call_id));
    }
    out.push_str(if message.is_error { " error]" } else { "]" });
}

/// A role's name as a label: letters, digits, `_`, `-` and spaces of it.
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
    json::push_string(&mut quoted, text);
    quoted
}

/// JSON on one line, whatever a reader takes for the end of one.
fn push_json(out: &mut String, json: &str) {
    for c in json.chars() {
        match c {
            // JSON escapes the others; these stand in its strings only.
            '\u{85}' | '\u{2028}' | '\u{2029}' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
}

/// `content`, with a backslash where a line of it looks like a label.
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

/// Whether `rest`, which stands behind a bracket, begins with a label that ends there.
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

/// White space, and what can't be seen at all.
fn is_blank(c: char) -> bool {
    (is_js_space(c) && !ends_line(c)) || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{AD}')
}

/// Whatever a reader may take for the end of a line.
fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
