//! The messages that JavaScript may hand over again by their numbers, as JavaScript holds them.

use napi::bindgen_prelude::{Uint32Array, Utf16String};
use napi_derive::napi;

use crate::thread::{Shelf, Thread, Unfit};

/// One shelf, of whoever made it: no other copy of the package, and no other thread, knows its numbers.
#[napi]
#[derive(Default)]
pub struct NativeShelf {
    shelf: Shelf,
}

impl NativeShelf {
    /// [`Shelf::thread`]; `None` if there is no message of a number.
    pub(super) fn thread(&self, json: Utf16String, texts: Utf16String, plan: &[u32]) -> napi::Result<Option<Thread>> {
        match self.shelf.thread(json, texts, plan) {
            Ok(thread) => Ok(Some(thread)),
            Err(Unfit::Unknown) => Ok(None),
            Err(Unfit::Lengths) => Err(napi::Error::from_reason("lengths that are not those of the strings")),
        }
    }
}

#[napi]
impl NativeShelf {
    /// An empty one.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        NativeShelf::default()
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
