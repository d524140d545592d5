//! Splits bytes into the messages of JSON-RPC, for a process that frames them as editors' language servers do: a header with
//! `Content-Length`, a blank line, and so many bytes.
//!
//! In: a process's standard output in whatever pieces the pipe delivers. Out: [`Frame`]s, in order. Text before a header that is
//! no header itself is skipped: a process may print a line of its own.

use std::borrow::Cow;

use dfp_text::decode::cut::Cut;
use dfp_text::decode::lines::MAX_LINE;

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
    use super::*;

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
