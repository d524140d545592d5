//! The only napi code: one-line entries over the crate's functions. JSON text goes in and comes out.
//!
//! Async functions cannot carry an error code across napi, so failures are values here (`{"err": …}`) and JavaScript throws.

pub mod agent;
pub mod budget;
pub mod checkpoint;
pub mod claude_code;
pub mod environment;
pub mod errors;
pub mod provider;
pub mod redact;
pub mod runlog;
pub mod runtime;
pub mod shelf;
pub mod suite;
pub mod text;

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::{Either, Latin1String, PromiseRaw};
use napi_derive::napi;

use crate::error::ProviderError;
use crate::process::activity;
use crate::status;

/// index.d.ts's `Limits` as JSON.
#[napi(catch_unwind)]
pub fn limits() -> String {
    status::own().to_string()
}

/// Where gateways of this process listen, all of them: `status` of other programs shows it. Settles with `{"ok": null}`.
#[napi(catch_unwind)]
pub fn note_gateways(env: &Env, addresses: Vec<String>) -> napi::Result<PromiseRaw<'_, String>> {
    environment::promise(env, async move {
        activity::note_gateways(addresses);
        outcome(Ok(()))
    })
}

/// A string on its way to JavaScript. V8 copies Latin-1 as it is; UTF-8 it reads character by character, on its own thread.
type Text = Either<Latin1String, String>;

fn text(string: String) -> Text {
    // What is ASCII is Latin-1, and to see that takes a fraction of what it saves.
    if string.is_ascii() {
        Either::A(string.into())
    } else {
        Either::B(string)
    }
}

/// What a constructor has made of its options. It can't throw an error with a code itself: `check` says it, and whoever goes on
/// without asking that gets none.
struct Made<T: ?Sized>(Result<Arc<T>, Box<ProviderError>>);

impl<T: ?Sized> Made<T> {
    /// `{"ok": null}`, or `{"err": …}` that names the option.
    fn check(&self) -> String {
        outcome(self.0.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    fn get(&self) -> napi::Result<&Arc<T>> {
        let made = self.0.as_ref();
        made.map_err(|error| napi::Error::from_reason(error.message.clone()))
    }
}

/// `{"ok": value}` or `{"err": error}` as JSON text.
fn outcome<T: serde::Serialize>(result: Result<T, Box<ProviderError>>) -> String {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Envelope<'a, T> {
        Ok(&'a T),
        Err(&'a ProviderError),
    }
    let outcome = match &result {
        Ok(value) => Envelope::Ok(value),
        Err(error) => Envelope::Err(error),
    };
    serde_json::to_string(&outcome).unwrap_or_else(|error| failed(&internal(&error)))
}

/// `{"err": error}`, of one that is known to be writable.
fn failed(error: &ProviderError) -> String {
    serde_json::json!({ "err": error }).to_string()
}

/// JSON of the façade's own making; if it can't be read, that is a bug and not the user's input.
fn from_json<'a, T: serde::Deserialize<'a>>(json: &'a str) -> napi::Result<T> {
    serde_json::from_str(json).map_err(|error| napi::Error::from_reason(error.to_string()))
}

fn internal(error: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::new(
        "deep-factor-providers",
        crate::error::Code::Internal,
        format!("internal: {error}"),
    )
    .with_hint("Please report it with what you did.")
}
