//! The clock: the current time in ms since the epoch.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time, ms since the epoch.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// The offset of local time from UTC now, minutes; positive in the east.
pub(super) fn local_offset_min() -> Option<i32> {
    dfp_process::zone::local_offset_min(now_ms())
}

/// The duration in whole ms.
pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
