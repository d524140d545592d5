//! A thread of messages on its way from JavaScript.
//!
//! In: the messages as JSON, and beside it the texts they hold, all of them in one string in which the JSON gives each one's
//! length. Both as V8 hands them out fastest, in UTF-16. Out: [`Message`]s.
//!
//! Texts beside the JSON are neither escaped nor read as JSON, and UTF-16 is copied as it is: of a long thread the JavaScript
//! thread does no more than that. What is left (UTF-8, the messages) is done on whichever thread reads it.
//!
//! It pays at every size. Node's thread, from the messages to the begun run, against texts within the JSON (µs, twenty messages of
//! ASCII, 2 cores at work on other things): 34 / 37 at 1 KB, 32 / 59 at 10 KB, 58 / 267 at 100 KB, 1,800 / 5,900 at 1 MB.

use std::fmt;
use std::ops::Deref;

use serde::de::Error;

use crate::message::{Content, Message, MessageFields};

/// A string of JavaScript's, as its owner keeps it.
type Units = Box<dyn Deref<Target = [u16]> + Send + Sync>;

/// See the module.
pub struct Thread {
    json: Units,
    texts: Units,
}

impl Thread {
    /// `json` is an array of [`Message`]s; a `content` that is a number is the length of the next text in `texts`, in UTF-16
    /// units.
    pub fn new<U: Deref<Target = [u16]> + Send + Sync + 'static>(json: U, texts: U) -> Thread {
        Thread {
            json: Box::new(json),
            texts: Box::new(texts),
        }
    }

    /// # Errors
    /// It is not JSON of messages, or the lengths are not those of the texts.
    pub fn read(&self) -> Result<Vec<Message>, serde_json::Error> {
        let mut messages: Vec<MessageFields> = serde_json::from_str(&utf8(&self.json))?;
        let mut rest: &[u16] = &self.texts;
        for MessageFields { content, .. } in &mut messages {
            if let Content::Blocks(raw) = content
                && let Ok(length) = raw.get().parse()
            {
                let (text, more) = rest
                    .split_at_checked(length)
                    .ok_or_else(|| serde_json::Error::custom("a text is missing"))?;
                *content = Content::Text(utf8(text));
                rest = more;
            }
        }
        match rest {
            [] => Ok(messages.into_iter().map(Message::from).collect()),
            _ => Err(serde_json::Error::custom("a text is too many")),
        }
    }
}

impl fmt::Debug for Thread {
    /// Its sizes; the text is the user's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thread({} + {} units)", self.json.len(), self.texts.len())
    }
}

/// `units` as UTF-8; a lone surrogate becomes U+FFFD. As [`String::from_utf16_lossy`], but some ten times faster where the
/// text is ASCII, as code and most of prose are.
pub fn utf8(units: &[u16]) -> String {
    /// So many at once, which the compiler does in two vector registers.
    const BLOCK: usize = 16;
    let mut bytes = Vec::with_capacity(units.len());
    let mut rest = units;
    while !rest.is_empty() {
        let (blocks, _) = rest.as_chunks::<BLOCK>();
        let ascii = blocks
            .iter()
            .take_while(|block| block.iter().fold(0, |all, unit| all | unit) < 0x80);
        let before = bytes.len();
        for block in ascii {
            #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
            bytes.extend_from_slice(&block.map(|unit| unit as u8));
        }
        rest = rest.get(bytes.len() - before..).unwrap_or_default();
        // What interrupts it, up to the end of a block's length, by character.
        let mut taken = 0;
        for character in char::decode_utf16(rest.iter().copied()) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            // A lone surrogate is one unit, as U+FFFD is.
            taken += character.len_utf16();
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            if taken >= BLOCK {
                break;
            }
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn texts_are_put_where_their_lengths_are() {
        let json = r#"[{"type":"system","content":2},{"type":"human","content":[{"type":"text","text":"b"}]},
            {"type":"ai","content":0,"tool_calls":[{"id":"1","name":"t","args":{"n":1}}]},
            {"type":"tool","tool_call_id":"1","is_error":true,"content":3}]"#;
        let thread = Thread::new(units(json), units("🦀a\"b"));
        let messages = thread.read().unwrap();
        let texts: Vec<&str> = messages.iter().map(|message| message.content.as_text()).collect();
        assert_eq!(texts, ["🦀", r#"[{"type":"text","text":"b"}]"#, "", "a\"b"]);
        assert_eq!(
            serde_json::to_string(&messages).unwrap(),
            r#"[{"type":"system","content":"🦀"},{"type":"human","content":[{"type":"text","text":"b"}]},{"type":"ai","content":"","tool_calls":[{"id":"1","name":"t","args":{"n":1}}]},{"type":"tool","content":"a\"b","tool_call_id":"1","is_error":true}]"#
        );
    }

    #[test]
    fn a_surrogate_pair_is_not_made_of_two_texts() {
        let json = r#"[{"type":"human","content":1},{"type":"human","content":1}]"#;
        let messages = Thread::new(units(json), vec![0xd83e, 0xdd80]).read().unwrap();
        let texts: Vec<&str> = messages.iter().map(|message| message.content.as_text()).collect();
        assert_eq!(texts, ["\u{FFFD}", "\u{FFFD}"]);
    }

    #[test]
    fn lengths_that_are_not_those_of_the_texts_are_refused() {
        let read = |texts: &str| {
            let json = r#"[{"type":"human","content":2}]"#;
            let read = Thread::new(units(json), units(texts)).read();
            read.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(read("ab"), Ok(()));
        assert_eq!(read("a"), Err("a text is missing".to_owned()));
        assert_eq!(read("abc"), Err("a text is too many".to_owned()));
    }

    proptest! {
        #[test]
        fn utf8_is_what_the_standard_library_makes(units in proptest::collection::vec(
            prop_oneof![8 => 0u16..0x80, 1 => any::<u16>(), 1 => 0xd800u16..0xe000], 0..200,
        )) {
            prop_assert_eq!(utf8(&units), String::from_utf16_lossy(&units));
        }
    }
}
