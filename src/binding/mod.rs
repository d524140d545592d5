//! The only napi code: one-line entries over the crate's functions. JSON text goes in and comes out.
//!
//! An async function can't carry an error code across napi. So failures are values here (`{"err": …}`), and JavaScript throws.

pub mod agent;
pub mod budget;
pub mod environment;
pub mod errors;
pub mod provider;
pub mod record;
pub mod suite;
pub mod text;

use std::sync::Arc;

use napi::bindgen_prelude::{Either, Latin1String};

use dfp_model::error::ProviderError;

/// A string for JavaScript. V8 copies Latin-1 unchanged, but reads UTF-8 character by character on its own thread.
type Text = Either<Latin1String, String>;

fn text(string: String) -> Text {
    // ASCII is valid Latin-1, and checking for it costs a fraction of what it saves.
    if string.is_ascii() {
        Either::A(string.into())
    } else {
        Either::B(string)
    }
}

/// The value that a constructor made of its options, or the error. A constructor can't throw an error with a code, so `check`
/// reports it; using the object without that check fails.
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

/// `{"err": error}`, for an error that can certainly be written as JSON.
fn failed(error: &ProviderError) -> String {
    serde_json::json!({ "err": error }).to_string()
}

/// Reads JSON that the façade has made. A failure is a bug, not a mistake in the user's input.
fn from_json<'a, T: serde::Deserialize<'a>>(json: &'a str) -> napi::Result<T> {
    serde_json::from_str(json).map_err(|error| napi::Error::from_reason(error.to_string()))
}

fn internal(error: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::new(
        "deep-factor-providers",
        dfp_model::error::Code::Internal,
        format!("internal: {error}"),
    )
    .with_hint("Please report it with what you did.")
}
