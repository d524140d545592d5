//! Captures a run's output: all of it in a file, the beginning and the end in memory.
//!
//! In: bytes as the process prints them. Out: a text of bounded length, and the first error of the file, if any.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfp_process::{HeadTail, Tee};

/// The beginning of the line that stands in a captured text where output is left out (the document's marker).
const TRUNCATED: &str = "[OUTPUT TRUNCATED";

/// The bytes reserved for that line.
const MARKER: usize = 128;

/// The capture of one stream.
#[derive(Debug)]
pub struct OutputCapture(Mutex<CaptureState>);

/// The two ends of the stream in memory, the file with all of it, and the file's first error.
#[derive(Debug)]
struct CaptureState {
    ends: HeadTail,
    file: Option<File>,
    failed: Option<io::Error>,
}

/// The captured part of a stream.
#[derive(Debug)]
pub struct Captured {
    /// The text: the whole, or the two ends around one line that says how much is left out.
    pub text: String,
    /// The number of bytes that were printed.
    pub bytes: u64,
    /// `true` if some of the output is left out.
    pub truncated: bool,
    /// The reason why the file is incomplete, if it is.
    pub failed: Option<io::Error>,
}

impl OutputCapture {
    /// Keeps at most `limit` bytes in memory, a fifth of them from the beginning, and writes everything to `file`.
    pub fn new(limit: usize, file: Option<File>) -> OutputCapture {
        OutputCapture(Mutex::new(CaptureState {
            ends: ends_of(limit),
            file,
            failed: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, CaptureState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was captured, and keeps nothing.
    pub fn take(&self) -> Captured {
        let mut state = self.lock();
        let ends = std::mem::replace(&mut state.ends, ends_of(0));
        let flushed = state.file.take().map_or(Ok(()), |mut file| file.flush());
        Captured {
            truncated: !ends.is_whole(),
            bytes: ends.total(),
            text: text_of(&ends),
            failed: state.failed.take().or_else(|| flushed.err()),
        }
    }
}

impl Tee for OutputCapture {
    fn copy(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.ends.push(bytes);
        if let Some(Err(error)) = state.file.as_mut().map(|file| file.write_all(bytes)) {
            // After an error nothing more is written: a missing end is better than a hole in the middle.
            state.file = None;
            state.failed = Some(error);
        }
    }
}

/// The share of `limit` bytes for the beginning, and for the end.
fn shares(limit: usize) -> (usize, usize) {
    let head = limit / 5;
    (head, limit - head)
}

fn ends_of(limit: usize) -> HeadTail {
    let (head, tail) = shares(limit);
    HeadTail::new(head, tail)
}

/// `true` if the byte `at` of `total` is left out when `limit` bytes are kept.
pub fn is_left_out(at: u64, total: u64, limit: usize) -> bool {
    let (head, tail) = shares(limit);
    total > limit as u64 && at >= head as u64 && at < total - tail as u64
}

/// The captured bytes as text. The cut is made between lines if possible, because half a line can't be read.
fn text_of(kept: &HeadTail) -> String {
    let (mut head, mut tail) = kept.ends();
    if kept.is_whole() {
        head.append(&mut tail);
        return into_text(head);
    }
    head.truncate(memchr::memrchr(b'\n', &head).map_or(head.len(), |end| end + 1));
    let spare = tail.len().min(MARKER);
    let begin = memchr::memchr(b'\n', &tail[spare..]).map_or(spare, |at| spare + at + 1);
    // A last line without its beginning is better than nothing.
    tail.drain(..if begin < tail.len() { begin } else { spare });
    let total = kept.total();
    let left_out = total - (head.len() + tail.len()) as u64;
    let mut text = into_text(head);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{TRUNCATED}: {left_out} of {total} bytes left out]\n"));
    text.push_str(&into_text(tail));
    text
}

fn is_marker(line: &str) -> bool {
    line.starts_with(TRUNCATED)
}

/// `true` if some of `text` is left out.
pub fn has_marker(text: &str) -> bool {
    text.lines().any(is_marker)
}

/// The lines of `text` with their line ends, without the line that marks the cut.
pub fn kept_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter(|line| !is_marker(line))
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use proptest::prelude::*;

    use super::*;

    fn kept(limit: usize, pieces: &[&[u8]]) -> Captured {
        let capture = OutputCapture::new(limit, None);
        pieces.iter().for_each(|piece| capture.copy(piece));
        capture.take()
    }

    #[test]
    fn what_fits_is_whole() {
        let found = kept(10, &[b"12345", b"67890"]);
        assert_eq!(
            (found.text.as_str(), found.bytes, found.truncated),
            ("1234567890", 10, false)
        );
    }

    #[test]
    fn what_does_not_is_cut_between_lines_and_says_so() {
        let lines: String = (0..1000).map(|n| format!("line {n:03}\n")).collect();
        let found = kept(1000, &[lines.as_bytes()]);
        let (head, tail) = found
            .text
            .split_once("[OUTPUT TRUNCATED: 8136 of 9000 bytes left out]\n")
            .unwrap();
        assert!(found.truncated && found.text.len() <= 1000);
        assert!(lines.starts_with(head) && head.ends_with("line 021\n"));
        assert!(lines.ends_with(tail) && tail.starts_with("line 9"));
    }

    #[test]
    fn one_endless_line_keeps_both_its_ends() {
        let found = kept(1000, &[&b"a".repeat(5000), b"z\n"]);
        assert_eq!(found.text.lines().count(), 3, "{}", found.text);
        assert!(found.text.starts_with("aaa") && found.text.ends_with("az\n"));
    }

    #[test]
    fn the_file_has_everything() {
        let mut file = tempfile::tempfile().unwrap();
        let capture = OutputCapture::new(10, Some(file.try_clone().unwrap()));
        (0..100).for_each(|_| capture.copy(b"0123456789"));
        assert!(capture.take().failed.is_none());
        let mut written = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut written).unwrap();
        assert_eq!(written, "0123456789".repeat(100));
    }

    #[test]
    fn a_file_that_fails_is_reported_and_stops_nothing() {
        let readonly = File::open(std::env::current_exe().unwrap()).unwrap();
        let capture = OutputCapture::new(100, Some(readonly));
        capture.copy(b"one");
        capture.copy(b"two");
        let found = capture.take();
        assert_eq!((found.text.as_str(), found.failed.is_some()), ("onetwo", true));
    }

    proptest! {
        /// The text doesn't depend on how the bytes arrive, is not longer than the limit, and has the very beginning and end.
        #[test]
        fn pieces_don_t_matter(line in "[a-z ]{0,40}", count in 0_usize..200, size in 1_usize..300, limit in 400_usize..3000) {
            let all = format!("{line}\n").repeat(count);
            let whole = kept(limit, &[all.as_bytes()]);
            let pieces: Vec<&[u8]> = all.as_bytes().chunks(size).collect();
            let cut = kept(limit, &pieces);
            prop_assert_eq!(&whole.text, &cut.text);
            prop_assert!(whole.text.len() <= limit);
            prop_assert_eq!(whole.truncated, all.len() > limit);
            prop_assert_eq!(whole.text.matches(TRUNCATED).count(), usize::from(whole.truncated));
            prop_assert!(whole.text.ends_with(&all[all.len().saturating_sub(line.len() + 1)..]));
        }
    }
}
