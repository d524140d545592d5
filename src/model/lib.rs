//! The vocabulary: plain data and decisions about numbers, without IO.
//!
//! Into this room comes what others have read: a thread of messages, an error's facts, an event of a run, a moment. Out of it come
//! the types that every other room speaks, in the JSON that JavaScript and the run log have, and three decisions that need nothing
//! else: whether a failure is tried again, whether a provider that keeps failing is called, and whether a budget is used up. A moment is
//! milliseconds since the epoch, which [`iso`] writes.

// Tests read recordings and write goldens.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod budget;
pub mod error;
pub mod event;
pub mod message;
pub mod retry;
pub mod thread;

use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};

/// The latest moment, 9999-12-31T23:59:59.999Z, in ms since the epoch.
pub const LATEST_MS: i64 = 253_402_300_799_999;

/// The beginning of the times that are counted here, as clocks in UTC show it.
pub const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// Writes `ms`, since the epoch, like `2026-11-22T02:05:01.892Z`. Later times than the year 9999 become its last moment.
pub fn iso(ms: u64) -> String {
    let ms = i64::try_from(ms).map_or(LATEST_MS, |ms| ms.min(LATEST_MS));
    let at = EPOCH.saturating_add(SignedDuration::from_millis(ms));
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_294_800_123, "2026-11-21T21:00:00.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso(ms), text);
        }
    }
}
