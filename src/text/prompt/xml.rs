//! A thread as `<thread>` XML: SPEC-01's `messagesToXml`.
//!
//! In: messages. Out: one `<event>` per message and per tool call, byte for byte as SPEC-01 writes them, with three differences
//! where SPEC-01 is wrong: the output is always well-formed XML 1.0 (characters that XML forbids become U+FFFD), a tool result
//! is named after the nearest earlier call with its id (ids are repeated in later turns), and a failed tool's result has
//! `status="error"`.
//!
//! The other direction is at the end of the file: a user's text that is one whole thread document is recognised and taken apart.

use std::collections::HashMap;
use std::fmt::Write;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Chunk, Rendered, chunks, is_js_space, scan};
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
        && text.trim_start_matches(super::is_js_space).starts_with("<thread>")
    {
        return text.clone();
    }
    let mut out = Rendered::of_text(String::with_capacity(super::capacity(messages)));
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
        at += scan::first(&bytes[at..], stops);
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
