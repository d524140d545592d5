//! Random ids that are not given twice.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A random UUID (version 4).
pub fn uuid() -> String {
    let half = || RandomState::new().build_hasher().finish();
    let (a, b) = (half(), half());
    let (time_low, time_mid, time_high) = (a >> 32, a >> 16 & 0xFFFF, a & 0x0FFF);
    let (clock, node) = (b >> 48 & 0x3FFF | 0x8000, b & 0xFFFF_FFFF_FFFF);
    format!("{time_low:08x}-{time_mid:04x}-4{time_high:03x}-{clock:04x}-{node:012x}")
}
