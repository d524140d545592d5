//! The messages of JSON-RPC: their fields, reading incoming ones, writing outgoing ones, and where one ends.
//!
//! Most processes write a message a line. Others frame them as editors' language servers do: a header with `Content-Length`, a blank
//! line, and so many bytes. Of those, [`Frames`] takes the standard output in whatever pieces the pipe delivers, and makes [`Frame`]s, in
//! order. Text before a header that is no header itself is skipped: a process may print a line of its own.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use dfp_text::decode::lines::{Cut, MAX_LINE};

/// The code of JSON-RPC for a method that nobody knows.
const UNKNOWN_METHOD: i64 = -32_601;

/// A message of the process.
#[derive(Debug)]
pub enum Message<'a> {
    /// The answer to a request of ours.
    Answer {
        id: u64,
        /// The result, or the error.
        result: Result<Box<RawValue>, RpcError>,
    },
    /// A request of the process.
    Request(Request<'a>),
    Notification {
        method: Cow<'a, str>,
        /// The parameters, as JSON.
        params: &'a str,
    },
    /// A line that can't be read as a message.
    Nothing,
}

/// A request of the process. Its ids are numbered separately from ours.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id to be repeated in the answer.
    pub id: &'a RawValue,
    pub method: Cow<'a, str>,
    /// The parameters, as JSON.
    pub params: &'a str,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RpcError {
    /// The code. codex: -32600 for nearly everything; gemini: the API's HTTP status.
    #[serde(default)]
    pub code: i64,
    /// The reason.
    #[serde(default)]
    pub message: String,
    /// Further data of the error.
    #[serde(default)]
    pub data: Value,
}

impl RpcError {
    /// Makes an error without a code, for this reason.
    pub fn of(message: impl Into<String>) -> RpcError {
        RpcError {
            code: 0,
            message: message.into(),
            data: Value::Null,
        }
    }

    /// The reason: that in `data`, if it has a finer one than the message.
    pub fn reason(&self) -> &str {
        let details = self.data.get("details").and_then(Value::as_str);
        details.or(self.data.as_str()).unwrap_or(&self.message)
    }
}

#[derive(Deserialize)]
struct RpcLine<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads a line; what can't be read is [`Message::Nothing`].
pub fn read(text: &str) -> Message<'_> {
    let Ok(line) = serde_json::from_str::<RpcLine>(text) else {
        return Message::Nothing;
    };
    let params = line.params.map_or("{}", RawValue::get);
    match (line.id, line.method) {
        (Some(id), Some(method)) => Message::Request(Request { id, method, params }),
        (Some(id), None) => {
            let Ok(id) = id.get().parse() else {
                return Message::Nothing;
            };
            let result = match (line.result, line.error) {
                (_, Some(error)) => Err(serde_json::from_str(error.get()).unwrap_or(RpcError::of(error.get()))),
                (Some(result), None) => Ok(result.to_owned()),
                (None, None) => Ok(RawValue::NULL.to_owned()),
            };
            Message::Answer { id, result }
        }
        (None, Some(method)) => Message::Notification { method, params },
        (None, None) => Message::Nothing,
    }
}

/// The member that names the version of JSON-RPC, which codex leaves out.
pub type Version = Option<&'static str>;

#[derive(Serialize)]
struct RpcCall<'a, P: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a P>,
}

#[derive(Serialize)]
struct RpcReply<'a, R: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Version,
    id: &'a RawValue,
    #[serde(flatten)]
    came: Came<'a, R>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Came<'a, R: Serialize> {
    Result(&'a R),
    Error { code: i64, message: String },
}

/// The line of request `id`.
pub fn request(version: Version, id: u64, method: &str, params: &impl Serialize) -> String {
    line(&RpcCall {
        jsonrpc: version,
        id: Some(id),
        method,
        params: Some(params),
    })
}

/// The line of a notification.
pub fn notification<P: Serialize>(version: Version, method: &str, params: Option<&P>) -> String {
    line(&RpcCall {
        jsonrpc: version,
        id: None,
        method,
        params,
    })
}

/// The answer to the process's request `id`.
pub fn answer(version: Version, id: &RawValue, result: &impl Serialize) -> String {
    line(&RpcReply {
        jsonrpc: version,
        id,
        came: Came::Result(result),
    })
}

/// The refusal of the process's request `id`, which nobody here understands.
pub fn refusal(version: Version, id: &RawValue, method: &str) -> String {
    let came: Came<'_, ()> = Came::Error {
        code: UNKNOWN_METHOD,
        message: format!("deep-factor-providers knows no request {method}"),
    };
    line(&RpcReply {
        jsonrpc: version,
        id,
        came,
    })
}

fn line<T: Serialize>(message: &T) -> String {
    // Strings, numbers and raw JSON that was parsed: there is nothing serde_json can't write.
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

/// The longest header that is searched for, bytes.
const MAX_HEADER: usize = 64 << 10;

/// The end of a header: a blank line.
const BLANK: &[u8] = b"\r\n\r\n";

/// The output of [`Frames`].
#[derive(Debug)]
pub enum Frame<'a> {
    /// A message; invalid UTF-8 is U+FFFD.
    Text(Cow<'a, str>),
    /// A message longer than the limit. It was dropped as it came.
    TooLong(Cut),
}

/// The splitter.
#[derive(Debug)]
pub struct Frames {
    header: Vec<u8>,
    /// The number of bytes of the message that are still to come.
    missing: usize,
    body: Body,
    limit: usize,
    /// The number of bytes that have come since the last message was whole.
    unfinished: u64,
}

#[derive(Debug)]
enum Body {
    /// No message has begun.
    None,
    Kept(Vec<u8>),
    Cut(Cut),
}

impl Default for Frames {
    fn default() -> Self {
        Frames::with_limit(MAX_LINE)
    }
}

impl Frames {
    /// Makes a splitter that keeps messages of at most `limit` bytes.
    pub fn with_limit(limit: usize) -> Frames {
        Frames {
            header: Vec::new(),
            missing: 0,
            body: Body::None,
            limit,
            unfinished: 0,
        }
    }

    /// The number of bytes that have come of an incomplete message, and before its header.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// Takes the next bytes, and hands over the messages that they complete.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Frame<'_>)) {
        while !bytes.is_empty() {
            if let Body::None = self.body {
                let behind = self.take_header(bytes);
                self.unfinished += (bytes.len() - behind.len()) as u64;
                bytes = behind;
                continue;
            }
            let (now, rest) = bytes.split_at(self.missing.min(bytes.len()));
            self.unfinished += now.len() as u64;
            match &mut self.body {
                Body::Kept(kept) => kept.extend_from_slice(now),
                Body::Cut(cut) => cut.push(now),
                Body::None => {}
            }
            self.missing -= now.len();
            bytes = rest;
            if self.missing == 0 {
                self.end(&mut each);
            }
        }
    }

    /// Hands over a message that is complete.
    fn end(&mut self, each: &mut impl FnMut(Frame<'_>)) {
        self.unfinished = 0;
        match std::mem::replace(&mut self.body, Body::None) {
            Body::Kept(kept) => each(Frame::Text(String::from_utf8_lossy(&kept))),
            Body::Cut(cut) => each(Frame::TooLong(cut)),
            Body::None => {}
        }
    }

    /// Searches for the end of a header, and returns the bytes after it.
    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        // The end of the header may have begun in the piece before.
        let from = self.header.len().saturating_sub(BLANK.len() - 1);
        let before = self.header.len();
        self.header.extend_from_slice(bytes);
        let Some(at) = memchr::memmem::find(&self.header[from..], BLANK) else {
            // No header is so long: only its end may still be one.
            if self.header.len() > MAX_HEADER {
                self.header.drain(..self.header.len() - MAX_HEADER);
            }
            return &[];
        };
        let end = from + at + BLANK.len();
        let length = length_of(&self.header[..end]);
        self.header.clear();
        if let Some(length) = length.filter(|length| *length > 0) {
            self.missing = length;
            self.body = match length > self.limit {
                false => Body::Kept(Vec::with_capacity(length.min(1 << 20))),
                true => Body::Cut(Cut::default()),
            };
        }
        &bytes[end - before..]
    }
}

/// The length of its message that a header tells, bytes.
fn length_of(header: &[u8]) -> Option<usize> {
    let header = String::from_utf8_lossy(header);
    let mut lengths = header.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.trim().eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok()).flatten()
    });
    lengths.next_back()
}

/// Frames `message`, a line of JSON: puts a header before it.
pub fn framed(message: &str) -> String {
    let message = message.trim_end_matches('\n');
    format!("Content-Length: {}\r\n\r\n{message}", message.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_written_whole() {
        assert_eq!(
            request(Some("2.0"), 1, "session/new", &json!({"cwd": "a\n\"b\""})),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"a\\n\\\"b\\\"\"}}\n"
        );
        assert_eq!(
            notification::<()>(None, "initialized", None),
            "{\"method\":\"initialized\"}\n"
        );
        let id = RawValue::from_string("\"x\"".to_owned()).unwrap();
        assert_eq!(
            answer(None, &id, &json!({"ok": 1})),
            "{\"id\":\"x\",\"result\":{\"ok\":1}}\n"
        );
        assert_eq!(
            refusal(Some("2.0"), &id, "fs/read"),
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"deep-factor-providers knows no request \
             fs/read\"}}\n"
        );
    }

    /// The process's ids and ours are separate (CODEX-LIVE pitfall 16).
    #[test]
    fn what_has_a_method_and_a_number_is_the_processs_request() {
        let line = r#"{"method":"item/tool/call","id":0,"params":{"a":1}}"#;
        let Message::Request(Request { id, method, params }) = read(line) else {
            panic!("no request");
        };
        assert_eq!((id.get(), &*method, params), ("0", "item/tool/call", r#"{"a":1}"#));
        let line = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
        assert!(matches!(read(line), Message::Answer { id: 0, result: Ok(_) }));
        let line = r#"{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"401 bad key"}}}"#;
        let Message::Answer {
            id: 3,
            result: Err(error),
        } = read(line)
        else {
            panic!("no error");
        };
        assert_eq!((error.code, error.reason()), (-32_603, "401 bad key"));
    }

    #[test]
    fn other_lines_are_nothing() {
        for line in [
            "",
            "[]",
            "7",
            "\u{feff}{}",
            "{}",
            "no JSON",
            r#"{"method":7}"#,
            r#"{"id":"x","result":{}}"#,
        ] {
            assert!(matches!(read(line), Message::Nothing), "{line}");
        }
    }

    fn of(frames: &mut Frames, pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        for piece in pieces {
            frames.push(piece, |frame| {
                found.push(match frame {
                    Frame::Text(text) => text.into_owned(),
                    Frame::TooLong(cut) => format!("{} bytes", cut.bytes()),
                });
            });
        }
        found
    }

    #[test]
    fn messages_are_found_however_their_bytes_are_cut() {
        let whole = [
            framed("{\"a\":\"é\"}\n"),
            "a line of its own\n".to_owned(),
            "Content-Type: x\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
            framed("{\"b\":\"Content-Length: 9\\r\\n\\r\\n\"}"),
        ]
        .concat();
        let expected = ["{\"a\":\"é\"}", "{}", "{\"b\":\"Content-Length: 9\\r\\n\\r\\n\"}"];
        let bytes = whole.as_bytes();
        assert_eq!(of(&mut Frames::default(), &[bytes]), expected);
        for size in 1..8 {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(of(&mut Frames::default(), &pieces), expected, "{size}");
        }
    }

    #[test]
    fn what_is_too_long_is_dropped_and_the_next_one_is_found() {
        let long = framed(&format!("{{\"id\":7,\"text\":\"{}\"}}", "x".repeat(100)));
        let all = format!("{long}{}", framed("{}"));
        assert_eq!(of(&mut Frames::with_limit(50), &[all.as_bytes()]), ["118 bytes", "{}"]);
    }

    #[test]
    fn what_never_ends_counts_before_it_does() {
        let mut frames = Frames::with_limit(50);
        assert!(of(&mut frames, &[b"Content-Length: 999999\r\n\r\n", &[b'x'; 1000]]).is_empty());
        assert_eq!(frames.unfinished(), 1026);
        assert_eq!(of(&mut frames, &[&[b'x'; 998_999]]), ["999999 bytes"]);
        assert_eq!(frames.unfinished(), 0);
        assert!(of(&mut frames, &[&[b'n'; 100_000]]).is_empty());
        assert_eq!(frames.unfinished(), 100_000);
        assert_eq!(
            of(&mut frames, &[format!("\r\n\r\n{}", framed("{}")).as_bytes()]),
            ["{}"]
        );
        assert_eq!(frames.unfinished(), 0);
    }

    #[test]
    fn what_is_no_header_is_held_in_bounds_and_says_nothing() {
        let mut frames = Frames::default();
        let noise = vec![b'x'; 1 << 20];
        assert!(of(&mut frames, &[&noise, b"\r\n\r\n", b"Content-Length: many\r\n\r\n"]).is_empty());
        assert!(frames.header.capacity() < 4 << 20);
        assert_eq!(of(&mut frames, &[framed("{}").as_bytes()]), ["{}"]);
    }
}
