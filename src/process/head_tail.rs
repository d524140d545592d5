//! A buffer for the beginning and the end of output that may be too long to keep whole.
//!
//! In: bytes, in pieces of any size. Out: both ends, and the number of bytes in all.

use std::collections::VecDeque;

/// A buffer that keeps the first and the last bytes pushed into it, and counts all.
#[derive(Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl HeadTail {
    /// Makes a buffer that keeps at most `head_limit` bytes of the beginning and `tail_limit` of the end.
    pub fn new(head_limit: usize, tail_limit: usize) -> HeadTail {
        HeadTail {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_limit,
            tail_limit,
            total: 0,
        }
    }

    /// Adds the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// The number of bytes pushed so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether nothing was left out, so that the two ends together are the whole output.
    pub fn is_whole(&self) -> bool {
        self.total == (self.head.len() + self.tail.len()) as u64
    }

    /// Returns copies of both ends.
    pub fn ends(&self) -> (Vec<u8>, Vec<u8>) {
        (self.head.clone(), self.tail.iter().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_the_same_whatever_the_pieces() {
        let text: Vec<u8> = (0..1_000u32).flat_map(|i| format!("{i},").into_bytes()).collect();
        for size in [1, 7, 100, text.len()] {
            let mut kept = HeadTail::new(50, 150);
            text.chunks(size).for_each(|chunk| kept.push(chunk));
            let ends = (text[..50].to_vec(), text[text.len() - 150..].to_vec());
            assert_eq!(
                (kept.ends(), kept.total(), kept.is_whole()),
                (ends, text.len() as u64, false)
            );
        }
    }

    #[test]
    fn what_fits_is_whole() {
        let mut kept = HeadTail::new(2, 3);
        kept.push(b"abcde");
        assert_eq!(
            (kept.ends(), kept.is_whole()),
            ((b"ab".to_vec(), b"cde".to_vec()), true)
        );
        kept.push(b"f");
        assert_eq!(
            (kept.ends(), kept.is_whole()),
            ((b"ab".to_vec(), b"def".to_vec()), false)
        );
        assert_eq!(HeadTail::new(0, 0).ends(), (vec![], vec![]));
    }
}
