//! The pieces of an answer: the events of its stream, and the tool calls that are put together from their pieces.
//!
//! In: the body in whatever pieces it comes, as Server-Sent Events of the HTML standard ("Interpreting an event stream"). Out: the data
//! of every event as soon as its blank line is there ([`Events`]). Lines end with `\n`, `\r\n` or `\r`; several `data` lines are one
//! text; comments and other fields (`event`, `id`, `retry`) say nothing an API's client needs; a byte order mark at the very start is
//! dropped. Unlike a browser, [`Events::finish`] also takes an event whose blank line is missing: some servers leave it out behind the
//! last.
//!
//! In: the elements of `tool_calls`, of deltas or of a whole message. Out: one event per call, in the order of their beginnings.
//!
//! By the protocol, a call's pieces carry its `index`, and only the first has `id` and `name`. Servers also repeat both in every
//! piece, leave the index out, give every call the index 0, send each call whole, give two calls one id, send the arguments under
//! an index of their own (without id and name), or begin with `{}` before the real arguments.

use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::declare::Tools;
use dfp_model::event::Event;
use dfp_model::message::reasoning::ReasoningDetail;
use dfp_model::message::{json_value, wtf8_to_string};
use dfp_text::decode::format::{invalid_call, tool_call};
use dfp_text::decode::json::{Fields, Members, Wtf8, is_object};
use dfp_text::decode::lines::{Cut, LineEnds};
use dfp_text::redact::{Channel, Redactor, StreamRedactor};
use dfp_text::toolcall::{TakenIds, make_unique};

/// A splitter of a stream into its events.
#[derive(Debug)]
pub struct Events {
    /// The line that is being received.
    line: Vec<u8>,
    /// The `data` lines of the event that is being received, each with a `\n` behind it.
    data: Vec<u8>,
    ends: LineEnds,
    /// True if the first line has ended.
    begun: bool,
    limit: usize,
    /// The kept part of the event that is being received, if that is too long.
    cut: Option<Cut>,
    /// Both ends of an event that was too long, when it is complete.
    lost: Option<Cut>,
}

impl Default for Events {
    fn default() -> Self {
        Events::with_limit(usize::MAX)
    }
}

impl Events {
    /// A splitter that drops events longer than `limit` bytes.
    pub fn with_limit(limit: usize) -> Events {
        Events {
            line: Vec::new(),
            data: Vec::new(),
            ends: LineEnds::default(),
            begun: false,
            limit,
            cut: None,
            lost: None,
        }
    }

    /// Takes the next piece and hands the data of every event that is now complete to `each`.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str)) {
        while let Some((line, has_ended)) = self.ends.next(&mut bytes) {
            self.gather(line);
            if has_ended {
                self.end_line(&mut each);
            }
        }
    }

    /// The size of the part of an incomplete event that has come, bytes.
    pub fn waiting(&self) -> u64 {
        let dropped = self.cut.as_ref().map_or(0, Cut::bytes);
        dropped + (self.line.len() + self.data.len()) as u64
    }

    /// Takes both ends of an event that was too long. Call this behind each piece.
    pub fn lost(&mut self) -> Option<Cut> {
        self.lost.take()
    }

    /// Adds bytes to the present line. An event above the limit keeps only its beginning and end.
    fn gather(&mut self, bytes: &[u8]) {
        self.line.extend_from_slice(bytes);
        if self.cut.is_none() && self.line.len() + self.data.len() > self.limit {
            let cut = self.cut.get_or_insert_default();
            cut.push(&std::mem::take(&mut self.data));
            let line = std::mem::take(&mut self.line);
            cut.push(value_of(&line).unwrap_or_default());
            // From now on it matters only that the line is not blank.
            self.line.push(b' ');
        } else if let Some(cut) = &mut self.cut {
            cut.push(bytes);
            self.line.truncate(1);
        }
    }

    /// Ends the body.
    pub fn finish(&mut self, mut each: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(&mut each);
        }
        self.dispatch(&mut each);
    }

    /// Ends the present line: a blank one ends the event, and a `data` line belongs to it.
    fn end_line(&mut self, each: &mut impl FnMut(&str)) {
        let mut line = std::mem::take(&mut self.line);
        let text = match std::mem::replace(&mut self.begun, true) {
            false => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line),
            true => &line[..],
        };
        if text.is_empty() {
            self.dispatch(each);
        } else if self.cut.is_none()
            && let Some(value) = value_of(text)
        {
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
        }
        line.clear();
        self.line = line;
    }

    fn dispatch(&mut self, each: &mut impl FnMut(&str)) {
        if let Some(cut) = self.cut.take() {
            self.lost = Some(cut);
        } else if let [data @ .., b'\n'] = &self.data[..] {
            each(&String::from_utf8_lossy(data));
            self.data.clear();
        }
    }
}

/// The value of a line of data. `data` alone is a field, too; `database: x` is another one.
fn value_of(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [] => Some(&[]),
        _ => None,
    }
}

/// The number of pieces without the name of a call or a tool before which it is checked whether the call before them is whole: each
/// check costs a scan of it.
const MOST_LOOKS: usize = 256;

#[derive(Debug, Default, Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
}

/// The content of one element.
#[derive(Debug, Default)]
struct Piece<'a> {
    index: Option<u64>,
    id: String,
    name: String,
    /// The arguments as WTF-8: a character may be cut between its UTF-16 halves.
    args: Wtf8<'a>,
    /// The members beside `function`.
    beside: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// A call that is not complete yet.
#[derive(Debug, Default)]
struct Open {
    id: String,
    name: String,
    args: Vec<u8>,
    telling: Telling,
    /// The members that the server wants back with the call: Gemini's `extra_content` holds a signature.
    beside: Map<String, Value>,
}

/// The state of reporting a call's arguments before they are whole.
#[derive(Debug, Default)]
enum Telling {
    /// Nothing is reported yet.
    #[default]
    Unbegun,
    InPieces(ToldPieces),
    /// The arguments are reported whole.
    Whole,
}

/// The reporting of a call's arguments piece by piece, without secrets that were cut apart.
#[derive(Debug)]
struct ToldPieces {
    /// Half of a character that waits for its other half, as WTF-8.
    half: Vec<u8>,
    redactor: StreamRedactor,
}

impl ToldPieces {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.half.extend_from_slice(bytes);
        let mut text = joined(std::mem::take(&mut self.half));
        if let [.., 0xED, 0xA0..=0xAF, _] = text[..] {
            self.half = text.split_off(text.len() - 3);
        }
        self.redactor.push(&wtf8_to_string(text)).into_owned()
    }

    fn finish(&mut self) -> String {
        let half = wtf8_to_string(std::mem::take(&mut self.half));
        let shown = self.redactor.push(&half).into_owned();
        shown + &self.redactor.finish()
    }
}

impl Open {
    /// Returns whether `piece`, which names a tool, begins another call, since this one has all it needs.
    fn is_followed_by(&self, piece: &Piece) -> bool {
        let named = !piece.name.is_empty() && !self.name.is_empty();
        let news = piece.name != self.name || !piece.args.0.is_empty();
        let is_placeholder = piece.id == self.id && self.is_placeholder();
        named && news && !is_placeholder && serde_json::from_slice::<IgnoredAny>(&self.args).is_ok()
    }

    /// Returns whether the arguments are the `{}` with which servers begin before the real ones come.
    fn is_placeholder(&self) -> bool {
        self.args.trim_ascii() == b"{}"
    }

    /// Returns whether the call has no arguments, or only empty ones.
    fn is_empty(&self) -> bool {
        matches!(self.args.trim_ascii(), b"" | b"null" | b"{}")
    }

    /// Adds a piece to the call. Arguments that follow a placeholder replace it; a call of which that was reported is then reported
    /// whole.
    fn take(&mut self, piece: Piece) {
        if self.id.is_empty() {
            self.id = piece.id;
        }
        for (name, value) in piece.beside {
            match json_value(value.get()) {
                Value::Null => {}
                value => drop(self.beside.insert(name.into_owned(), value)),
            }
        }
        // The member is repeated with every piece, or comes in pieces itself.
        if self.args.is_empty() && piece.name != self.name {
            self.name.push_str(&piece.name);
        }
        if self.is_placeholder() && !piece.args.0.trim_ascii().is_empty() {
            self.args.clear();
            if matches!(self.telling, Telling::InPieces(_)) {
                self.telling = Telling::Whole;
            }
        }
        self.args.extend_from_slice(&piece.args.0);
    }
}

/// The receiver of what a chunk adds to the arguments of calls.
#[derive(Debug)]
pub struct DeltaSink<'a> {
    /// The tools, which know the caller's names.
    pub tools: &'a Tools,
    /// The redactor that takes secrets out of arguments.
    pub redactor: &'a Redactor,
    /// The pieces, in their order.
    pub events: Vec<Event>,
}

/// The event for a piece of a call's arguments, if it has text and the tool is the caller's.
fn delta_of(id: &str, name: &str, tools: &Tools, delta: String) -> Option<Event> {
    let name = tools.callers_name(name).filter(|_| !delta.is_empty())?;
    Some(Event::ToolCallDelta {
        tool_call_id: id.to_owned(),
        name: name.to_owned(),
        delta,
    })
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct AnswerCalls {
    list: Vec<Open>,
    /// The positions of the last call with an index, and with an id, so that a piece finds its call at once: an answer may have
    /// tens of thousands.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, SameId>,
    looks: usize,
}

/// The calls that share one id.
#[derive(Debug, Default)]
struct SameId {
    last: usize,
    count: usize,
}

impl AnswerCalls {
    /// Returns whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes the elements of a `tool_calls`. The pieces that they add to arguments are in `told` afterwards.
    pub fn take(&mut self, fields: &mut Fields, raw: Option<&RawValue>, told: &mut DeltaSink) {
        let elements: Vec<&RawValue> = fields.read("tool_calls", raw).unwrap_or_default();
        for element in elements {
            let Some(Members(members)) = fields.read("tool_calls", Some(element)) else {
                continue;
            };
            let member = |name: &str| {
                let found = members.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| *value).filter(|value| value.get() != "null")
            };
            let (index, id) = (member("index"), member("id"));
            let function: Function = fields.read("function", member("function")).unwrap_or_default();
            let is_known = |name: &str| matches!(name, "index" | "id" | "type" | "function");
            let piece = Piece {
                index: fields.count("index", index),
                id: fields.string("id", id).unwrap_or_default(),
                beside: members.into_iter().filter(|(name, _)| !is_known(name)).collect(),
                name: fields.string("name", function.name).unwrap_or_default(),
                args: match function.arguments {
                    // Some servers send the object itself instead of its text.
                    Some(raw) if is_object(raw) => Cow::Borrowed(raw.get()).into(),
                    raw => fields.read("arguments", raw).unwrap_or_default(),
                },
            };
            let args = piece.args.0.clone().into_owned();
            let at = self.place(&piece);
            let open = &mut self.list[at];
            let was_nameless = open.id.is_empty();
            open.take(piece);
            if was_nameless && !open.id.is_empty() {
                let known = self.by_id.entry(open.id.clone()).or_default();
                (known.last, known.count) = (known.last.max(at), known.count + 1);
            }
            self.tell(at, &args, told);
        }
    }

    /// Reports the piece `args` of the call `at`, if that is a regular one: with an id of its own, a name, and an object for
    /// arguments. A first `{}` may be a placeholder, so it is reported at the answer's end ([`AnswerCalls::tell_rest`]).
    fn tell(&mut self, at: usize, args: &[u8], told: &mut DeltaSink) {
        let open = &mut self.list[at];
        let is_alone = self.by_id.get(&open.id).is_some_and(|known| known.count == 1);
        if args.is_empty() {
            return;
        }
        let mut piece = args;
        if matches!(open.telling, Telling::Unbegun) {
            if !open.name.is_empty() && is_alone && open.is_placeholder() {
                return;
            }
            let is_object = open.args.trim_ascii_start().first() == Some(&b'{');
            open.telling = match is_object && is_alone && !open.name.is_empty() {
                true => Telling::InPieces(ToldPieces {
                    half: Vec::new(),
                    redactor: StreamRedactor::new(told.redactor.clone(), Channel::Answer),
                }),
                false => Telling::Whole,
            };
            piece = &open.args;
        }
        if let Telling::InPieces(pieces) = &mut open.telling {
            let delta = pieces.push(piece);
            told.events.extend(delta_of(&open.id, &open.name, told.tools, delta));
        }
    }

    /// Reports a possible placeholder behind which nothing came.
    pub fn tell_rest(&mut self, told: &mut DeltaSink) {
        for open in &mut self.list {
            let is_alone = self.by_id.get(&open.id).is_some_and(|known| known.count == 1);
            let is_held = matches!(open.telling, Telling::Unbegun) && open.is_placeholder();
            if is_held && is_alone && !open.name.is_empty() {
                open.telling = Telling::Whole;
                let delta = String::from_utf8_lossy(&open.args).into_owned();
                told.events.extend(delta_of(&open.id, &open.name, told.tools, delta));
            }
        }
    }

    /// The position of the call that `piece` belongs to.
    fn place(&mut self, piece: &Piece) -> usize {
        let same_id = |open: &Open| piece.id.is_empty() || open.id.is_empty() || open.id == piece.id;
        let is_nameless = piece.id.is_empty() && piece.name.is_empty();
        let known = match piece.index {
            Some(index) => self.by_index.get(&index).copied(),
            None if piece.id.is_empty() => self.list.len().checked_sub(1),
            None => self.by_id.get(&piece.id).map(|known| known.last),
        };
        let known = known.filter(|at| {
            let open = &self.list[*at];
            let by_id = !piece.id.is_empty() && open.id == piece.id;
            let begins = !by_id || piece.args.0.trim_ascii_start().first() == Some(&b'{');
            same_id(open) && !(begins && open.is_followed_by(piece))
        });
        let known = known.or_else(|| is_nameless.then(|| self.unfinished()).flatten());
        let at = known.unwrap_or_else(|| {
            self.list.push(Open::default());
            self.list.len() - 1
        });
        self.by_index.extend(piece.index.map(|index| (index, at)));
        at
    }

    /// The call that was opened last, unless it is complete.
    fn unfinished(&mut self) -> Option<usize> {
        let at = self.list.len().checked_sub(1)?;
        let open = &self.list[at];
        if open.is_empty() {
            return Some(at);
        }
        self.looks += 1;
        let is_whole = self.looks <= MOST_LOOKS && serde_json::from_slice::<IgnoredAny>(&open.args).is_ok();
        (!is_whole).then_some(at)
    }

    /// The calls, under the caller's names and without secrets, which may have been cut apart.
    pub fn finish(self, tools: &Tools, redactor: &Redactor) -> Vec<Event> {
        // Arguments without a call may be those of a call without arguments.
        let has_stray = self
            .list
            .iter()
            .any(|open| open.id.is_empty() && open.name.is_empty() && !open.is_empty());
        let (mut taken, mut details, mut count) = (TakenIds::default(), Vec::new(), 0);
        let event = |(number, mut open): (usize, Open)| {
            let is_bereft = has_stray && open.is_empty();
            let rest = match &mut open.telling {
                Telling::InPieces(pieces) => pieces.finish(),
                Telling::Unbegun | Telling::Whole => String::new(),
            };
            let rest = delta_of(&open.id, &open.name, tools, rest);
            let id = match open.id {
                id if id.is_empty() => format!("call_{number}"),
                id => id,
            };
            let name = tools.callers_name(&open.name).map_or(open.name.clone(), str::to_owned);
            let args = wtf8_to_string(joined(open.args));
            let args = redactor.redact(Channel::Answer, &args);
            let args = match args.trim() {
                "" | "null" => "{}",
                args => args,
            };
            let mut call = if name.is_empty() {
                invalid_call(id, name, args, "the call names no tool")
            } else if is_bereft {
                invalid_call(
                    id,
                    name,
                    args,
                    "its arguments came in pieces that say of no call that they are its",
                )
            } else {
                match RawValue::from_string(args.to_owned()) {
                    Ok(raw) => tool_call(id, name, Some(&raw)),
                    Err(error) => invalid_call(id, name, args, &format!("arguments are not JSON: {error}")),
                }
            };
            // Two calls with the same id are two calls.
            if let Event::ToolCall { tool_call } = &mut call {
                make_unique(slice::from_mut(tool_call), &mut taken);
                if !open.beside.is_empty() {
                    details.push(ReasoningDetail::beside_call(
                        &tool_call.id,
                        count,
                        &Value::Object(open.beside),
                    ));
                }
                count += 1;
            }
            rest.into_iter().chain([call])
        };
        let mut events: Vec<Event> = self.list.into_iter().enumerate().flat_map(event).collect();
        if !details.is_empty() {
            events.push(Event::Reasoning { details });
        }
        events
    }
}

/// WTF-8 with the halves of characters that were cut apart put together.
fn joined(bytes: Vec<u8>) -> Vec<u8> {
    let mut joined = Vec::with_capacity(bytes.len());
    let mut rest = &bytes[..];
    while let Some(byte) = rest.first() {
        let whole = match rest {
            [0xED, h1 @ 0xA0..=0xAF, h2, 0xED, l1 @ 0xB0..=0xBF, l2, ..] => {
                let half = |second: u8, third: u8| u32::from(second & 0x0F) << 6 | u32::from(third & 0x3F);
                char::from_u32(0x1_0000 + (half(*h1, *h2) << 10) + (half(*l1, *l2) & 0x3FF))
            }
            _ => None,
        };
        match whole {
            Some(whole) => {
                joined.extend_from_slice(whole.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[6..];
            }
            None => {
                joined.push(*byte);
                rest = &rest[1..];
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests;
