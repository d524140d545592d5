//! Splits bytes into Server-Sent Events, as the HTML standard reads them ("Interpreting an event stream").
//!
//! In: the body in whatever pieces it comes. Out: the data of every event as soon as its blank line is there. Lines end with
//! `\n`, `\r\n` or `\r`; several `data` lines are one text; comments and other fields (`event`, `id`, `retry`) say nothing an
//! API's client needs; a byte order mark at the very start is dropped. Unlike a browser, [`Events::finish`] also takes an event
//! whose blank line is missing: some servers leave it out behind the last.

use dfp_text::decode::lines::{Cut, LineEnds};

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
    fn an_event_over_the_limit_is_lost_and_those_around_it_are_not() {
        let body = b"data: 1\n\ndata: {\"a\":\"123456789\"}\n\ndata: 2\n\n";
        for size in [1, 2, 7, 100] {
            let mut events = Events::with_limit(16);
            let (mut seen, mut lost) = (Vec::new(), Vec::new());
            for piece in body.chunks(size) {
                events.push(piece, |data| seen.push(data.to_owned()));
                lost.extend(events.lost());
            }
            assert_eq!(seen, ["1", "2"], "{size}");
            let lost: Vec<_> = lost.iter().map(|cut| (cut.bytes(), cut.text(&[], "a"))).collect();
            assert_eq!(lost, [(17, Some("123456789".to_owned()))], "{size}");
            assert_eq!(events.waiting(), 0);
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
