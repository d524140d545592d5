//! The messages that JavaScript may hand over again by their numbers, as JavaScript holds them.

use std::sync::{Mutex, PoisonError};

use napi::bindgen_prelude::{Uint32Array, Utf16String};
use napi_derive::napi;

use crate::thread::{Shelf, Thread, Unfit};

/// One shelf, of whoever made it: no other copy of the package, and no other thread, knows its numbers.
#[napi]
#[derive(Default)]
pub struct NativeShelf {
    shelf: Shelf,
}

/// A thread, for one run: what began it has taken the messages, whenever JavaScript's collector finds what is left.
#[napi]
pub struct NativeThread {
    thread: Mutex<Thread>,
}

impl NativeThread {
    /// Its messages, once.
    pub(super) fn take(&self) -> Thread {
        std::mem::take(&mut *self.thread.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[napi]
impl NativeShelf {
    /// An empty one.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        NativeShelf::default()
    }

    /// [`Shelf::thread`]; `null` if there is no message of a number: the thread has to be handed over whole.
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

    /// Keeps the messages of these numbers no longer. Runs that have begun have them all the same.
    #[napi(catch_unwind)]
    pub fn release(&self, numbers: Uint32Array) {
        self.shelf.release(&numbers);
    }

    /// Keeps no message any longer.
    #[napi(catch_unwind)]
    pub fn clear(&self) {
        self.shelf.clear();
    }
}
