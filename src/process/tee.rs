//! Copies of what a process prints, for somebody who wants all of it as it was.
//!
//! In: bytes, as they are read and before any limit. Out: whatever the [`Tee`] does with them.

use std::fmt;
use std::sync::Arc;

/// Takes copies of bytes. Called from the runtime's threads, so it must not wait for anything slower than a local disk.
pub trait Tee: fmt::Debug + Send + Sync {
    /// The next bytes, of any size.
    fn copy(&self, bytes: &[u8]);
}

/// Who gets a copy of what.
#[derive(Debug, Clone, Default)]
pub struct Tees {
    /// All of standard output.
    pub stdout: Option<Arc<dyn Tee>>,
    /// All of standard error.
    pub stderr: Option<Arc<dyn Tee>>,
}
