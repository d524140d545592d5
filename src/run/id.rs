//! The ids of runs: unique over machines and containers, ordered by time.

use std::sync::{Mutex, PoisonError};

use dfp_exchange::random;
use dfp_process::activity::now_ms;

/// Crockford's base 32, without I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Milliseconds since the epoch, and 80 random bits. Later ids of one process are greater, also within a millisecond and when
/// the clock is set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    ms: u64,
    random: u128,
}

impl Moment {
    /// The moment after `last`, at `now_ms`.
    fn after(last: Option<Moment>, now_ms: u64, fresh: impl FnOnce() -> u128) -> Moment {
        const RANDOM: u128 = (1 << 80) - 1;
        match last {
            Some(last) if last.ms >= now_ms && last.random < RANDOM => Moment {
                random: last.random + 1,
                ..last
            },
            Some(last) if last.ms >= now_ms => Moment {
                ms: last.ms + 1,
                random: fresh() & RANDOM,
            },
            _ => Moment {
                ms: now_ms,
                random: fresh() & RANDOM,
            },
        }
    }

    /// The id as a ULID (github.com/ulid/spec): 26 characters.
    fn encoded(self) -> String {
        let bits = u128::from(self.ms) << 80 | self.random;
        let digit = |place: u32| char::from(ALPHABET[usize::try_from(bits >> (5 * place) & 31).unwrap_or_default()]);
        (0..26).rev().map(digit).collect()
    }
}

/// A new id: `run-01JD3Z9V5N8Q4W2X7Y6T5R4E3M` for the prefix `run`.
pub fn next(prefix: &str) -> String {
    static LAST: Mutex<Option<Moment>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let next = Moment::after(*last, now_ms(), random::id_bits);
    *last = Some(next);
    format!("{prefix}-{}", next.encoded())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_ulids_in_the_order_of_time() {
        let random = 0x0123_4567_89AB_CDEF_0123;
        let first = Moment::after(None, 1_700_000_000_000, || random);
        assert_eq!(first.encoded(), "01HF7YAT0004HMASW9NF6YY093");
        let same = Moment::after(Some(first), 1_700_000_000_000, || 0);
        let set_back = Moment::after(Some(same), 5, || 0);
        let later = Moment::after(Some(set_back), 1_700_000_000_001, || 0);
        let full = Moment {
            random: (1 << 80) - 1,
            ..later
        };
        let over = Moment::after(Some(full), 5, || 0);
        let all = [first, same, set_back, later, full, over].map(Moment::encoded);
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn many_at_once_are_all_different() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..5_000).map(|_| next("run")).collect::<Vec<_>>()))
            .collect();
        let mut all = HashSet::new();
        for thread in threads {
            let made = thread.join().unwrap();
            assert!(made.is_sorted());
            assert!(made.iter().all(|id| id.len() == 30 && id.starts_with("run-")));
            all.extend(made);
        }
        assert_eq!(all.len(), 20_000);
    }
}
