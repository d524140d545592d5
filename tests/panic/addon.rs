//! An addon that panics in every way a binding function can: what Node makes of it is what it makes of a bug in ours, for the
//! macros, the runtime and the profile are the same. Built by `cargo build --example panic-addon`; never part of what ships.

// Panicking is its purpose.
#![allow(clippy::panic, missing_docs)]

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;

/// As the binding's pure functions.
#[napi(catch_unwind)]
pub fn panic_in_function(reason: String) -> String {
    panic!("{reason}")
}

/// As the binding's methods that wait.
#[napi]
pub async fn panic_in_async(reason: String) -> String {
    panic!("{reason}")
}

/// As the binding's functions that begin on JavaScript's thread and end elsewhere.
#[napi(catch_unwind)]
pub fn panic_in_future<'env>(env: &'env Env, reason: String) -> napi::Result<PromiseRaw<'env, String>> {
    env.spawn_future(async move {
        if !reason.is_empty() {
            panic!("{reason}");
        }
        Ok(reason)
    })
}

/// An object's constructor and methods.
#[napi]
pub struct Panicking {}

#[napi]
impl Panicking {
    #[napi(constructor, catch_unwind)]
    pub fn new(reason: Option<String>) -> Self {
        if let Some(reason) = reason {
            panic!("{reason}");
        }
        Panicking {}
    }

    #[napi(catch_unwind)]
    pub fn method(&self, reason: String) {
        panic!("{reason}")
    }
}
