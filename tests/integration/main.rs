//! The tests of the library from outside, in one program: to link it once is what most of the time of `cargo test` would go into.
//!
//! Tests run side by side, so each looks only at its own: its processes by an owner or a folder that no other test has. What is
//! the whole process's, like the count of its open files, is for a program of its own: [`alone`].

// Test code: clippy.toml allows this in `#[test]` functions, and here are helpers of theirs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

#[cfg(unix)]
mod alone;
mod bridge;
mod fuzz;
mod names;
mod panics;
mod process;
mod rooms;

/// Longer than anything takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);
