//! Whether a text is one whole thread document.
//!
//! In: a user's text. Out: whether it is `<thread>` with `<event …>text</event>` children and nothing else: well-formed XML
//! 1.0, no markup within an event, nothing but white space between, before and behind. Only such a text may stand in a prompt
//! as it is: one that merely begins so could be any number of turns.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::is_js_space;

/// See the module.
pub fn is_thread_document(text: &str) -> bool {
    // Nearly every message is none, at the first look.
    text.trim_start_matches(is_js_space).starts_with("<thread>")
        && text.chars().all(is_xml_char)
        && read(text).is_some()
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Front,
    Thread,
    Event,
    Behind,
}

fn read(text: &str) -> Option<()> {
    let mut reader = Reader::from_str(text);
    let mut place = In::Front;
    loop {
        place = match (place, reader.read_event().ok()?) {
            (In::Front, Event::Start(tag)) if &*tag == "thread" => In::Thread,
            (In::Thread, Event::Start(tag)) if tag.name().as_ref() == "event" && well_formed(&tag) => In::Event,
            (In::Event, Event::End(_)) => In::Thread,
            (In::Thread, Event::End(_)) => In::Behind,
            (In::Event, Event::Text(text)) if !text.contains("]]>") => In::Event,
            (In::Event, Event::GeneralRef(name)) if is_reference(&name) => In::Event,
            (place, Event::Text(text)) if text.chars().all(is_js_space) => place,
            (In::Behind, Event::Eof) => return Some(()),
            _ => return None,
        };
    }
}

/// Whether the attributes are: each once, quoted, with nothing in them that had to be escaped.
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

/// Whether `&name;` is one that every XML document knows, of a character that it may hold.
fn is_reference(name: &str) -> bool {
    let number = match name.strip_prefix('#') {
        None => return matches!(name, "lt" | "gt" | "amp" | "quot" | "apos"),
        Some(hex) if hex.starts_with('x') => u32::from_str_radix(&hex[1..], 16),
        Some(decimal) => decimal.parse(),
    };
    number.ok().and_then(char::from_u32).is_some_and(is_xml_char)
}

/// Whether XML 1.0 allows it.
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}
