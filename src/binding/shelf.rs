//! Messages that JavaScript can hand over again by their numbers.

use std::sync::{Mutex, PoisonError};

use napi::bindgen_prelude::{Uint32Array, Utf16String};
use napi_derive::napi;

use dfp_model::thread::{Shelf, Thread, Unfit};

/// One shelf of messages. Its numbers mean nothing to another copy of the package, or to another thread.
#[napi]
#[derive(Default)]
pub struct NativeShelf {
    shelf: Shelf,
}

/// The thread of one run. Starting the run takes the messages out, so they are freed in time even if JavaScript's collector finds
/// this object late.
#[napi]
pub struct NativeThread {
    thread: Mutex<Thread>,
}

impl NativeThread {
    /// Takes the messages; can be called once.
    pub(super) fn take(&self) -> Thread {
        std::mem::take(&mut *self.thread.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[napi]
impl NativeShelf {
    /// An empty shelf.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        NativeShelf::default()
    }

    /// Makes a thread by [`Shelf::thread`]; `null` if a number has no message: then the thread has to be handed over as a whole.
    #[napi(catch_unwind)]
    pub fn thread(
        &self,
        messages_json: Utf16String,
        texts: Utf16String,
        plan: Uint32Array,
    ) -> napi::Result<Option<NativeThread>> {
        match self.shelf.thread(messages_json, texts, &plan) {
            Ok(thread) => Ok(Some(NativeThread {
                thread: Mutex::new(thread),
            })),
            Err(Unfit::Unknown) => Ok(None),
            Err(Unfit::Lengths) => Err(napi::Error::from_reason("lengths that are not those of the strings")),
        }
    }

    /// Drops the messages of these numbers. Runs that have begun keep theirs.
    #[napi(catch_unwind)]
    pub fn release(&self, numbers: Uint32Array) {
        self.shelf.release(&numbers);
    }

    /// Drops all messages.
    #[napi(catch_unwind)]
    pub fn clear(&self) {
        self.shelf.clear();
    }
}
