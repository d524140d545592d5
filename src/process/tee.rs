//! Copies of a process's output, unchanged, for a reader such as the recorder.
//!
//! In: bytes, as they are read and before any limit. Out: calls of a [`Tee`].

use std::fmt;
use std::sync::Arc;

/// A receiver of copied bytes. It is called on the runtime's threads, so it must not wait for anything slower than a local
/// disk.
pub trait Tee: fmt::Debug + Send + Sync {
    /// Takes the next bytes, any number of them.
    fn copy(&self, bytes: &[u8]);
}

/// The receivers of a process's output, by stream.
#[derive(Debug, Clone, Default)]
pub struct Tees {
    /// Receives all of standard output.
    pub stdout: Option<Arc<dyn Tee>>,
    /// Receives all of standard error.
    pub stderr: Option<Arc<dyn Tee>>,
}
