//! Recognises a text that is one whole thread document.
//!
//! In: a user's text. Out: whether it is `<thread>` with `<event …>text</event>` children and nothing else: well-formed XML
//! 1.0, no markup within an event, only white space between, before and behind. Only such a text may stand in a prompt
//! unescaped: a text that merely begins like one could contain any number of turns.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::is_js_space;

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
