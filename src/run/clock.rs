//! The clock: the current time in ms since the epoch.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, ms since the epoch.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Minutes by which local time is east of UTC now.
pub(super) fn local_offset_min() -> Option<i32> {
    crate::process::zone::local_offset_min(now_ms())
}

/// Whole ms.
pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
