//! The two encodings of a thread: `<thread>` XML, and labelled text in which every turn can be recognised.
//!
//! XML (SPEC-01's `messagesToXml`). In: messages. Out: one `<event>` per message and per tool call, byte for byte as SPEC-01 writes them,
//! with three differences where SPEC-01 is wrong: the output is always well-formed XML 1.0 (characters that XML forbids become U+FFFD), a
//! tool result is named after the nearest earlier call with its id (ids are repeated in later turns), and a failed tool's result has
//! `status="error"`. The other direction follows: a user's text that is one whole thread document is recognised and taken apart.
//!
//! Labelled text (`inputEncoding: "text"`). In: messages. Out: `[Label]` and the content below it for each of them, a blank line between,
//! as in SPEC-01. Beyond SPEC-01, each call in an assistant's message has a `[Tool Call]` with a line of JSON (`id`, `name`, `args`), and a
//! result has its call id as a JSON string in its label, `[Tool Result "call_1"]`, followed by `error` if the tool failed. No content can
//! look like a label: if a line of it does (in any case, behind white space), a backslash is put before its bracket, and one more if there
//! are backslashes already. A reader removes one backslash. A block that is not text stands behind a label of its own, `[Image 1]`. In a
//! thread with such blocks, no line of content looks like one of those labels either.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Chunk, Rendered, capacity, chunks, compact, first_stop, is_js_space, push_string};
use dfp_model::message::content::{Kind, Media};
use dfp_model::message::{Content, Message, Role};

/// The treatment of content that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocks {
    /// Write its JSON, as in SPEC-01.
    Json,
    /// Record a position for each block that is not text.
    Placed,
}

/// The set of characters that are written as entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Escapes {
    /// Those that XML can't do without: `<` and `&`, the `>` of `]]>`, and within an attribute its quote. A model that is to repeat a text
    /// to the letter has the fewer to undo.
    #[default]
    Needed,
    /// All five characters of SPEC-01.
    Spec01,
}

/// The position of a text in the XML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Element,
    Attribute,
}

/// Renders the thread as XML. A single message whose text starts with `<thread>` is one already and is returned unchanged.
pub fn messages_to_xml(messages: &[Message]) -> String {
    if let [message] = messages
        && let Content::Text(text) = &message.content
        && text.trim_start_matches(is_js_space).starts_with("<thread>")
    {
        return text.clone();
    }
    let mut out = Rendered::of_text(String::with_capacity(capacity(messages)));
    write_events(&mut out, messages, Blocks::Json, Escapes::Spec01);
    out.text
}

/// Returns `text` with `<`, `>`, `&`, `"` and `'` escaped, fit for an element's text and for an attribute. Characters that XML
/// 1.0 forbids (control characters but tab, line feed and carriage return; U+FFFE and U+FFFF) become U+FFFD.
pub fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    push_escaped(&mut out, text, Escapes::Spec01, Place::Element);
    out
}

/// Appends `messages` as a thread, whatever their content.
pub(super) fn write_events(out: &mut Rendered, messages: &[Message], blocks: Blocks, escapes: Escapes) {
    let mut events = Events {
        out,
        escapes,
        next_id: 0,
    };
    let mut names: HashMap<&str, &str> = HashMap::new();
    events.out.text.push_str("<thread>\n");
    for message in messages {
        let body = match blocks {
            Blocks::Placed => chunks(message).map_or(XmlBody::Text(message.content.as_text()), XmlBody::Chunks),
            Blocks::Json => XmlBody::Text(message.content.as_text()),
        };
        match &message.role {
            Role::Ai => {
                if !matches!(body, XmlBody::Text("")) {
                    events.push("ai", &[], body);
                }
                for call in &message.tool_calls {
                    let attributes = [("name", call.name.as_str()), ("call_id", &call.id)];
                    events.push("tool_input", &attributes, XmlBody::Text(call.args.get()));
                    if !call.id.is_empty() {
                        names.insert(&call.id, &call.name);
                    }
                }
            }
            Role::Tool => {
                let id = message.tool_call_id.as_str();
                let name = names.get(id).copied().unwrap_or("unknown");
                let status = if message.is_error { "error" } else { "success" };
                events.push(
                    "tool_output",
                    &[("name", name), ("call_id", id), ("status", status)],
                    body,
                );
            }
            role => events.push(role.as_str(), &[], body),
        }
    }
    events.out.text.push_str("</thread>");
}

/// The content of an event.
enum XmlBody<'a> {
    Text(&'a str),
    Chunks(Vec<Chunk>),
}

/// A writer that appends events and numbers them.
struct Events<'a> {
    out: &'a mut Rendered,
    escapes: Escapes,
    next_id: usize,
}

impl Events<'_> {
    /// Appends one event with its attributes and content.
    fn push(&mut self, kind: &str, attributes: &[(&str, &str)], body: XmlBody) {
        let (out, escapes) = (&mut self.out.text, self.escapes);
        out.push_str("  <event type=\"");
        push_escaped(out, kind, escapes, Place::Attribute);
        // Writing to a String can't fail.
        let _ = write!(out, "\" id=\"{}\"", self.next_id);
        for (name, value) in attributes {
            out.push(' ');
            out.push_str(name);
            out.push_str("=\"");
            push_escaped(out, value, escapes, Place::Attribute);
            out.push('"');
        }
        out.push_str(" iteration=\"0\">");
        match body {
            XmlBody::Text(text) => push_escaped(out, text, escapes, Place::Element),
            XmlBody::Chunks(chunks) => {
                for chunk in chunks {
                    match chunk {
                        Chunk::Text(text) => push_escaped(&mut self.out.text, &text, escapes, Place::Element),
                        Chunk::Media(media) => self.out.place_in_element(*media),
                    }
                }
            }
        }
        self.out.text.push_str("</event>\n");
        self.next_id += 1;
    }
}

/// Appends `text`, with the characters of `escapes` as entities. Runs without special characters are copied whole.
fn push_escaped(out: &mut String, text: &str, escapes: Escapes, place: Place) {
    let bytes = text.as_bytes();
    let (mut copied, mut at) = (0, 0);
    loop {
        at += first_stop(&bytes[at..], stops);
        let (length, escaped) = match bytes.get(at) {
            None => break,
            Some(b'>' | b'"' | b'\'') if escapes == Escapes::Needed && !is_needed(&bytes[..=at], place) => {
                at += 1;
                continue;
            }
            Some(b'<') => (1, "&lt;"),
            Some(b'>') => (1, "&gt;"),
            Some(b'&') => (1, "&amp;"),
            Some(b'"') => (1, "&quot;"),
            Some(b'\'') => (1, "&apos;"),
            Some(0xEF) if !matches!(bytes.get(at + 1..at + 3), Some([0xBF, 0xBE | 0xBF])) => {
                at += 3;
                continue;
            }
            Some(0xEF) => (3, "\u{FFFD}"),
            Some(_) => (1, "\u{FFFD}"),
        };
        out.push_str(&text[copied..at]);
        out.push_str(escaped);
        at += length;
        copied = at;
    }
    out.push_str(&text[copied..]);
}

/// Returns whether the last of `bytes`, `>` or a quote, has to be escaped in `place`.
fn is_needed(bytes: &[u8], place: Place) -> bool {
    match place {
        Place::Element => bytes.ends_with(b"]]>"),
        Place::Attribute => bytes.ends_with(b"\""),
    }
}

/// Returns whether copying stops at `byte`. `0xEF` begins U+F000 to U+FFFF, among which are the two forbidden characters beyond
/// ASCII.
const fn stops(byte: u8) -> bool {
    let control = (byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r');
    let markup = (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == b'"') | (byte == b'\'');
    control | markup | (byte == 0xEF)
}

// Recognises a text that is one whole thread document: `<thread>` with `<event …>text</event>` children and nothing else:
// well-formed XML 1.0, no markup within an event, only white space between, before and behind. Only such a text may stand in a
// prompt unescaped: a text that merely begins like one could contain any number of turns.

/// Returns whether `text` is one whole thread document.
pub fn is_thread_document(text: &str) -> bool {
    read_document(text, |_, _| {}).is_some()
}

/// The events of the document `text`: their types, and their texts as written, with references. `None` if it is not a document.
pub fn events_of_document(text: &str) -> Option<Vec<(String, &str)>> {
    let mut events = Vec::new();
    read_document(text, |kind, text| events.push((kind, text)))?;
    Some(events)
}

/// The type of the last event of the document `text`; `None` if it is not a document or has no event.
pub fn last_event_of_document(text: &str) -> Option<String> {
    let mut last = None;
    read_document(text, |kind, _| last = Some(kind))?;
    last
}

fn read_document<'a>(text: &'a str, event: impl FnMut(String, &'a str)) -> Option<()> {
    // This first look rules out nearly every message.
    let begins = text.trim_start_matches(is_js_space).starts_with("<thread>");
    (begins && text.chars().all(is_xml_char)).then(|| read(text, event))?
}

/// The reader's place in the document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Front,
    Thread,
    Event,
    Behind,
}

/// Reads a document and calls `event` with the type and the text of each event.
fn read<'a>(text: &'a str, mut event: impl FnMut(String, &'a str)) -> Option<()> {
    let mut reader = Reader::from_str(text);
    let mut place = In::Front;
    // The type of the current event, and the offset of its text.
    let (mut kind, mut from) = (String::new(), 0);
    loop {
        let before = usize::try_from(reader.buffer_position()).ok()?;
        place = match (place, reader.read_event().ok()?) {
            (In::Front, Event::Start(tag)) if &*tag == "thread" => In::Thread,
            (In::Thread, Event::Start(tag)) if tag.name().as_ref() == "event" && well_formed(&tag) => {
                kind = type_of(&tag);
                from = usize::try_from(reader.buffer_position()).ok()?;
                In::Event
            }
            (In::Event, Event::End(_)) => {
                event(std::mem::take(&mut kind), text.get(from..before)?);
                In::Thread
            }
            (In::Thread, Event::End(_)) => In::Behind,
            (In::Event, Event::Text(text)) if !text.contains("]]>") => In::Event,
            (In::Event, Event::GeneralRef(name)) if is_reference(&name) => In::Event,
            (place, Event::Text(text)) if text.chars().all(is_js_space) => place,
            (In::Behind, Event::Eof) => return Some(()),
            _ => return None,
        };
    }
}

/// The value of the tag's attribute `type`; empty if there is none.
fn type_of(tag: &BytesStart) -> String {
    let mut attributes = tag.attributes().flatten();
    let found = attributes.find(|attribute| attribute.key.as_ref() == "type");
    found.map(|attribute| (*attribute.value).to_owned()).unwrap_or_default()
}

/// Returns whether the tag's attributes are well-formed: each once, quoted, with nothing in them that had to be escaped.
fn well_formed(tag: &BytesStart) -> bool {
    tag.attributes().all(|attribute| {
        attribute.is_ok_and(|attribute| {
            let value = &*attribute.value;
            let mut references = value.split('&').skip(1);
            !value.contains('<')
                && references.all(|rest| {
                    let name = rest.split_once(';').map(|(name, _)| name);
                    name.is_some_and(is_reference)
                })
        })
    })
}

/// Returns whether `&name;` is a reference that every XML document knows, to a character that XML allows.
fn is_reference(name: &str) -> bool {
    let number = match name.strip_prefix('#') {
        None => return matches!(name, "lt" | "gt" | "amp" | "quot" | "apos"),
        Some(hex) if hex.starts_with('x') => u32::from_str_radix(&hex[1..], 16),
        Some(decimal) => decimal.parse(),
    };
    number.ok().and_then(char::from_u32).is_some_and(is_xml_char)
}

/// Returns whether XML 1.0 allows the character.
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

// Labelled text.

/// The labels that every thread may have.
const LABELS: [&str; 5] = ["System", "User", "Assistant", "Tool Call", "Tool Result"];

/// The additional labels of threads with blocks that are not text.
const BLOCK_LABELS: [&str; 5] = ["Image", "Document", "Audio", "Video", "Search Result"];

/// Appends the thread.
pub(super) fn write_labelled(out: &mut Rendered, messages: &[Message]) {
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
            push_json(text, &compact(call.args.get()));
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
    push_string(&mut quoted, text);
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
    let mut out = String::with_capacity(capacity(messages));
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
