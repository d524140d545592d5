//! The latest replies of a provider, by the fingerprint of the thread that they end: what is kept beside the sessions.
//!
//! In: JSON of a reply. Out: the same JSON, for a thread with the same fingerprint. The memory is bounded: the oldest go first.

use std::collections::{HashMap, VecDeque};

use super::fingerprint::Fingerprint;

/// The limit of the memory that is used for all entries together, bytes.
pub const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The memory of an entry beside its JSON, bytes: its places in the table and in the order, three times, since either has room
/// for twice as many if it has just grown, and stood beside its old self while it did; and the allocator's overhead for the JSON.
pub const ENTRY_BYTES: usize = 3 * (size_of::<(Fingerprint, Box<str>)>() + 1 + size_of::<Fingerprint>()) + 16;

/// Replies as JSON, one piece of memory of known size each. As values they take ten times as much.
#[derive(Debug, Default)]
pub struct Replies {
    replies: HashMap<Fingerprint, Box<str>>,
    order: VecDeque<Fingerprint>,
    bytes: usize,
    is_closed: bool,
}

impl Replies {
    /// Stores `json` under `print`. What is stored already stays.
    pub fn keep(&mut self, print: Fingerprint, json: String) {
        let bytes = json.len() + ENTRY_BYTES;
        if self.is_closed || bytes > MOST_BYTES || self.replies.contains_key(&print) {
            return;
        }
        self.bytes += bytes;
        while self.bytes > MOST_BYTES {
            let oldest = self.order.pop_front().and_then(|print| self.replies.remove(&print));
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.len() + ENTRY_BYTES;
        }
        self.replies.insert(print, json.into_boxed_str());
        self.order.push_back(print);
    }

    /// The JSON that is stored under `print`.
    pub fn get(&self, print: &Fingerprint) -> Option<&str> {
        self.replies.get(print).map(|json| &**json)
    }

    /// The memory that all entries take, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Drops all entries, and stores nothing any more: the provider is closed.
    pub fn close(&mut self) {
        *self = Replies {
            is_closed: true,
            ..Replies::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;
    use crate::live::fingerprint::print;

    fn place(number: usize) -> Fingerprint {
        print(|state| number.hash(state))
    }

    /// The memory that `replies` have allocated: the table with all its places (a byte each beside the entry, and an eighth is
    /// never used), the order, and each entry's JSON.
    fn held(replies: &Replies) -> usize {
        let table = (replies.replies.capacity() * 8).div_ceil(7) * (size_of::<(Fingerprint, Box<str>)>() + 1);
        let order = replies.order.capacity() * size_of::<Fingerprint>();
        let json: usize = replies.replies.values().map(|json| json.len()).sum();
        table + order + json
    }

    fn keep_many(replies: &mut Replies, count: usize, text: &str) {
        (0..count).for_each(|number| replies.keep(place(number), text.to_owned()));
    }

    #[test]
    fn all_that_they_hold_is_bounded() {
        for (count, text) in [
            (300_000, "ok".to_owned()),
            (60_000, "r".repeat(2_000)),
            (5, "x".repeat(MOST_BYTES / 2 - 2 * ENTRY_BYTES)),
            (2, "x".repeat(MOST_BYTES)),
        ] {
            let mut replies = Replies::default();
            keep_many(&mut replies, count, &text);
            assert!(held(&replies) <= MOST_BYTES, "{} of {count}", held(&replies));
            let entries: usize = replies.replies.values().map(|json| json.len() + ENTRY_BYTES).sum();
            assert_eq!((replies.bytes(), replies.order.len()), (entries, replies.len()));
            let in_order: HashSet<Fingerprint> = replies.order.iter().copied().collect();
            assert!(replies.replies.keys().all(|print| in_order.contains(print)));
        }
    }

    #[test]
    fn the_oldest_goes_where_there_is_too_much() {
        let mut replies = Replies::default();
        keep_many(&mut replies, 3, &"x".repeat(MOST_BYTES / 2 - 2 * ENTRY_BYTES));
        assert_eq!(
            [0, 1, 2].map(|number| replies.get(&place(number)).is_some()),
            [false, true, true]
        );
    }

    #[test]
    fn a_closed_one_holds_nothing_and_keeps_nothing() {
        let mut replies = Replies::default();
        keep_many(&mut replies, 1, "early");
        replies.close();
        keep_many(&mut replies, 3, "late");
        assert_eq!((held(&replies), replies.bytes(), replies.is_empty()), (0, 0, true));
    }
}
