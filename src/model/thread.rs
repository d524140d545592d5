//! Receives a thread of messages from JavaScript.
//!
//! In: the messages as JSON, and beside it their texts, all of them in one string; for an unchanged message that was handed
//! over before, only its number in a [`Shelf`]. Strings are in UTF-16, in which V8 hands them out fastest. Out: [`Message`]s,
//! of which those handed over before are shared with the earlier threads.
//!
//! Texts beside the JSON are neither escaped nor parsed as JSON, and UTF-16 is copied unchanged: for a long text the JavaScript
//! thread does no more than that. The rest of the work (UTF-8, the messages) is done on whichever thread reads the message
//! first.
//!
//! This pays at every size. Time on Node's thread from the messages to the begun run, compared with texts inside the JSON (µs,
//! twenty messages of ASCII, 2 cores busy with other work): 34 / 37 at 1 KB, 32 / 59 at 10 KB, 58 / 267 at 100 KB, 1,800 /
//! 5,900 at 1 MB.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::message::{Content, Message, MessageFields};

/// A string of JavaScript's, as its owner keeps it.
type Units = Box<dyn Deref<Target = [u16]> + Send + Sync>;

/// A thread as it was handed over, whose messages are read when they are needed.
#[derive(Default)]
pub struct Thread {
    messages: Vec<Arc<Sent>>,
}

/// The two strings of one hand-over.
struct Parcel {
    json: Units,
    texts: Units,
}

/// A message that was handed over, read or not.
struct Sent {
    /// The message's place in a parcel, until it is read.
    place: Mutex<Option<Span>>,
    message: OnceLock<Result<Message, String>>,
}

struct Span {
    parcel: Arc<Parcel>,
    json: Range<usize>,
    text: Range<usize>,
}

/// The messages that JavaScript may name by their numbers. JavaScript decides which stay, since it knows when the caller's own
/// messages are gone.
#[derive(Default)]
pub struct Shelf {
    kept: Mutex<HashMap<u32, Arc<Sent>>>,
}

/// The reason why a thread can't be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// There is no message with one of the numbers: the thread has to be handed over whole.
    Unknown,
    /// The lengths are not those of the strings.
    Lengths,
}

impl Shelf {
    /// Makes a thread. `plan` has for each message in turn its number, the length of its JSON in `json` and the length of its
    /// text in `texts`, in UTF-16 units. Without a length of JSON it is the message that was handed over under that number;
    /// with one it is kept under the number, unless that is 0. The JSON is a [`MessageFields`], in which any number in place of
    /// `content` means the text.
    ///
    /// # Errors
    /// A number without a message, or lengths that are not those of the strings; nothing is kept in that case.
    pub fn thread<U: Deref<Target = [u16]> + Send + Sync + 'static>(
        &self,
        json: U,
        texts: U,
        plan: &[u32],
    ) -> Result<Thread, Unfit> {
        let parcel = Arc::new(Parcel {
            json: Box::new(json),
            texts: Box::new(texts),
        });
        let (mut json, mut texts) = (0, 0);
        let mut kept = self.lock();
        let (entries, []) = plan.as_chunks::<3>() else {
            return Err(Unfit::Lengths);
        };
        let mut messages = Vec::with_capacity(entries.len());
        let mut new = HashMap::new();
        for [number, json_length, text_length] in entries {
            if *json_length == 0 {
                // The same message may come twice in a thread.
                let sent = kept.get(number).or_else(|| new.get(number)).ok_or(Unfit::Unknown)?;
                messages.push(Arc::clone(sent));
                continue;
            }
            let place = Span {
                parcel: Arc::clone(&parcel),
                json: step(&mut json, *json_length),
                text: step(&mut texts, *text_length),
            };
            let sent = Arc::new(Sent {
                place: Mutex::new(Some(place)),
                message: OnceLock::new(),
            });
            if *number != 0 {
                new.insert(*number, Arc::clone(&sent));
            }
            messages.push(sent);
        }
        if (json, texts) != (parcel.json.len(), parcel.texts.len()) {
            return Err(Unfit::Lengths);
        }
        kept.extend(new);
        Ok(Thread { messages })
    }

    /// Drops the messages with these numbers.
    pub fn release(&self, numbers: &[u32]) {
        let mut kept = self.lock();
        let released: Vec<Option<Arc<Sent>>> = numbers.iter().map(|number| kept.remove(number)).collect();
        drop(kept);
        drop(released);
    }

    /// Drops all messages.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Sent>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The range of the next `length` units behind `at`.
fn step(at: &mut usize, length: u32) -> Range<usize> {
    let begin = *at;
    *at = begin.saturating_add(length as usize);
    begin..*at
}

impl Thread {
    /// # Errors
    /// The reason why one of the messages is invalid.
    pub fn read(&self) -> Result<Vec<Message>, String> {
        self.messages.iter().map(|sent| sent.read()).collect()
    }
}

impl Sent {
    /// Reads the message, once; the first caller does the work.
    fn read(&self) -> Result<Message, String> {
        let read = || {
            let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
            place.ok_or_else(|| "it is gone".to_owned())?.read()
        };
        self.message.get_or_init(read).clone()
    }
}

impl Span {
    fn read(&self) -> Result<Message, String> {
        let Span { parcel, json, text } = self;
        let json = parcel.json.get(json.clone()).unwrap_or_default();
        let text = parcel.texts.get(text.clone()).unwrap_or_default();
        let mut fields: MessageFields = serde_json::from_str(&utf8(json)).map_err(|error| error.to_string())?;
        match &fields.content {
            Content::Blocks(raw) if raw.get().parse::<f64>().is_ok() => fields.content = Content::Text(utf8(text)),
            _ if text.is_empty() => {}
            _ => return Err("a text is too many".to_owned()),
        }
        Ok(fields.into())
    }
}

impl fmt::Debug for Thread {
    /// Shows the number of messages; the text is the user's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thread({} messages)", self.messages.len())
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shelf({} messages)", self.lock().len())
    }
}

/// Converts `units` to UTF-8; a lone surrogate becomes U+FFFD. Does the same as [`String::from_utf16_lossy`], but some ten
/// times faster where the text is ASCII, as code and most prose are.
pub fn utf8(units: &[u16]) -> String {
    /// The number of units converted at once, which the compiler does in two vector registers.
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
        // Units that are not ASCII are converted one character at a time, up to the end of a block's length.
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

    fn length(text: &str) -> u32 {
        u32::try_from(units(text).len()).unwrap()
    }

    /// Hands messages over as JavaScript does, each with its number, its JSON and its text; those without JSON by the number
    /// alone.
    fn hand_over(shelf: &Shelf, messages: &[(u32, &str, &str)]) -> Result<Thread, Unfit> {
        let joined = |of: fn(&(u32, &str, &str)) -> String| messages.iter().map(of).collect::<String>();
        let plan: Vec<u32> = messages
            .iter()
            .flat_map(|(number, json, text)| [*number, length(json), length(text)])
            .collect();
        shelf.thread(
            units(&joined(|(_, json, _)| (*json).to_owned())),
            units(&joined(|(.., text)| (*text).to_owned())),
            &plan,
        )
    }

    #[test]
    fn texts_are_put_where_their_messages_are() {
        let thread = hand_over(
            &Shelf::default(),
            &[
                (0, r#"{"type":"system","content":2}"#, "🦀"),
                (0, r#"{"type":"human","content":[{"type":"text","text":"b"}]}"#, ""),
                (
                    0,
                    r#"{"type":"ai","content":0,"tool_calls":[{"id":"1","name":"t","args":{"n":1}}]}"#,
                    "",
                ),
                (
                    0,
                    r#"{"type":"tool","tool_call_id":"1","is_error":true,"content":3}"#,
                    "a\"b",
                ),
            ],
        );
        assert_eq!(
            serde_json::to_string(&thread.unwrap().read().unwrap()).unwrap(),
            r#"[{"type":"system","content":"🦀"},{"type":"human","content":[{"type":"text","text":"b"}]},{"type":"ai","content":"","tool_calls":[{"id":"1","name":"t","args":{"n":1}}]},{"type":"tool","content":"a\"b","tool_call_id":"1","is_error":true}]"#
        );
    }

    #[test]
    fn a_surrogate_pair_is_not_made_of_two_texts() {
        let json = r#"{"type":"human","content":1}"#;
        let plan = [0, length(json), 1, 0, length(json), 1];
        let thread = Shelf::default().thread(units(&json.repeat(2)), vec![0xd83e, 0xdd80], &plan);
        let messages = thread.unwrap().read().unwrap();
        let texts: Vec<&str> = messages.iter().map(|message| message.content.as_text()).collect();
        assert_eq!(texts, ["\u{FFFD}", "\u{FFFD}"]);
    }

    #[test]
    fn lengths_that_are_not_those_of_the_strings_are_refused() {
        let json = r#"{"type":"human","content":2}"#;
        let read = |texts: &str, plan: &[u32]| {
            let thread = Shelf::default().thread(units(json), units(texts), plan);
            thread.map(|thread| thread.read().is_ok())
        };
        assert_eq!(read("ab", &[0, length(json), 2]), Ok(true));
        assert_eq!(read("a", &[0, length(json), 2]), Err(Unfit::Lengths));
        assert_eq!(read("abc", &[0, length(json), 2]), Err(Unfit::Lengths));
        assert_eq!(read("ab", &[0, length(json) - 1, 2]), Err(Unfit::Lengths));
        assert_eq!(read("ab", &[0, u32::MAX, u32::MAX]), Err(Unfit::Lengths));
        assert_eq!(read("ab", &[0, length(json)]), Err(Unfit::Lengths));
        assert_eq!(read("", &[]), Err(Unfit::Lengths));
    }

    #[test]
    fn a_text_without_its_place_is_refused() {
        let blocks = r#"{"type":"human","content":[]}"#;
        let read = hand_over(&Shelf::default(), &[(0, blocks, "a")]).unwrap().read();
        assert_eq!(read.map(|_| ()), Err("a text is too many".to_owned()));
    }

    #[test]
    fn a_message_that_was_handed_over_is_shared_until_it_is_released() {
        let shelf = Shelf::default();
        let (first, second) = (
            (1, r#"{"type":"human","content":1}"#, "a"),
            (2, r#"{"type":"ai","content":1}"#, "b"),
        );
        let texts = |thread: Result<Thread, Unfit>| {
            let messages = thread?.read().unwrap();
            Ok::<_, Unfit>(
                messages
                    .iter()
                    .map(|message| message.content.as_text().to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let before = hand_over(&shelf, &[first]).unwrap();
        let after = hand_over(&shelf, &[(1, "", ""), second]).unwrap();
        // The first reader does the work: here that is the later thread.
        let [now, _] = &after.read().unwrap()[..] else {
            panic!("two")
        };
        let then = &before.read().unwrap()[0];
        assert!(std::ptr::eq(&raw const **then, &raw const **now));
        assert_eq!(
            texts(hand_over(&shelf, &[(2, "", ""), (1, "", "")])),
            Ok(vec!["b".into(), "a".into()])
        );
        let twice = hand_over(&shelf, &[(3, first.1, "c"), (3, "", "")]);
        assert_eq!(texts(twice), Ok(vec!["c".into(), "c".into()]));
        shelf.release(&[1, 7]);
        assert_eq!(
            texts(hand_over(&shelf, &[(2, "", ""), (1, "", "")])),
            Err(Unfit::Unknown)
        );
        assert_eq!(texts(Ok(after)), Ok(vec!["a".into(), "b".into()]));
        shelf.clear();
        assert_eq!(texts(hand_over(&shelf, &[(2, "", "")])), Err(Unfit::Unknown));
        // A thread that can't be made leaves nothing behind.
        assert_eq!(texts(hand_over(&shelf, &[first, (9, "", "")])), Err(Unfit::Unknown));
        assert_eq!(texts(hand_over(&shelf, &[(1, "", "")])), Err(Unfit::Unknown));
        assert_eq!(format!("{shelf:?}"), "Shelf(0 messages)");
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
