//! Bytes to Server-Sent Events, as the HTML standard reads them ("Interpreting an event stream").
//!
//! In: the body in whatever pieces it comes. Out: the data of every event as soon as its blank line is there. Lines end with
//! `\n`, `\r\n` or `\r`; several `data` lines are one text; comments and other fields (`event`, `id`, `retry`) say nothing an
//! API's client needs; a byte order mark at the very start is dropped. Unlike a browser, [`Events::finish`] also takes an event
//! whose blank line is missing: some servers leave it out behind the last.

/// The splitter.
#[derive(Debug, Default)]
pub struct Events {
    /// The line that is being received.
    line: Vec<u8>,
    /// The `data` lines of the event that is being received, each with a `\n` behind it.
    data: Vec<u8>,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_cr: bool,
    /// The first line has ended.
    begun: bool,
}

impl Events {
    /// Takes the next piece and hands the data of every event that is now complete to `each`.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str)) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                return;
            };
            self.after_cr = bytes[end] == b'\r';
            self.line.extend_from_slice(&bytes[..end]);
            self.end_line(&mut each);
            bytes = &bytes[end + 1..];
        }
    }

    /// How much has come of an event that is not complete, bytes.
    pub fn waiting(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// The body is over.
    pub fn finish(&mut self, mut each: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(&mut each);
        }
        self.dispatch(&mut each);
    }

    fn end_line(&mut self, each: &mut impl FnMut(&str)) {
        let mut line = std::mem::take(&mut self.line);
        let text = match std::mem::replace(&mut self.begun, true) {
            false => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line),
            true => &line[..],
        };
        if text.is_empty() {
            self.dispatch(each);
        } else if let Some(value) = text.strip_prefix(b"data") {
            // `data` alone is a field, too; `database: x` is another one.
            let value = match value {
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
                [] => Some(value),
                _ => None,
            };
            if let Some(value) = value {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
        }
        line.clear();
        self.line = line;
    }

    fn dispatch(&mut self, each: &mut impl FnMut(&str)) {
        if let [data @ .., b'\n'] = &self.data[..] {
            each(&String::from_utf8_lossy(data));
            self.data.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        let mut seen = Vec::new();
        for piece in pieces {
            events.push(piece, |data| seen.push(data.to_owned()));
        }
        events.finish(|data| seen.push(data.to_owned()));
        seen
    }

    #[test]
    fn every_form_the_standard_knows() {
        for (body, expected) in [
            ("data: a\n\ndata:b\n\n", &["a", "b"][..]),
            ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &["a", "b", "c"]),
            ("\u{FEFF}data: a\n\n", &["a"]),
            ("data: a\n\n\u{FEFF}data: b\n\n", &["a"]),
            (": keep-alive\n\n:\n\ndata: a\n: in between\n\n", &["a"]),
            (
                "event: message\nid: 7\nretry: 10\ndata: {\"a\":\ndata:  1}\n\n",
                &["{\"a\":\n 1}"],
            ),
            ("data\n\ndata:\n\n", &["", ""]),
            ("database: x\n\ndata : y\n\n", &[]),
            ("data: a\n\ndata: cut", &["a", "cut"]),
            ("data: a\n\ndata: cut\n", &["a", "cut"]),
            ("", &[]),
        ] {
            assert_eq!(read(&[body.as_bytes()]), expected, "{body:?}");
        }
    }

    #[test]
    fn an_event_is_there_with_its_blank_line() {
        let mut events = Events::default();
        let mut seen = Vec::new();
        events.push(b"data: a\r\n", |data| seen.push(data.to_owned()));
        assert!(seen.is_empty());
        events.push(b"\r", |data| seen.push(data.to_owned()));
        assert_eq!(seen, ["a"]);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_events(
            body in prop::collection::vec(prop::sample::select(vec![
                &b"data: "[..], b"data:{}", b"\n", b"\r\n", b"\r", b": x",
                b"\xEF\xBB\xBF", b"\xF0\x9F", "🦀".as_bytes(), b"event: y",
            ]), 0..40),
            size in 1usize..6,
        ) {
            let body = body.concat();
            let pieces: Vec<&[u8]> = body.chunks(size).collect();
            prop_assert_eq!(read(&pieces), read(&[&body]));
        }
    }
}
