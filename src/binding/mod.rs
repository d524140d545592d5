//! The only napi code: one-line entries over the crate's functions. JSON text goes in and comes out.
//!
//! Async functions cannot carry an error code across napi, so failures are values here (`{"err": …}`) and JavaScript throws.

pub mod errors;
pub mod provider;
pub mod text;

use std::sync::atomic::{AtomicU32, Ordering};

use napi::Env;
use napi_derive::napi;

use crate::error::ProviderError;
use crate::process::registry;

/// Owners of processes: one per Node environment (the main thread, each worker).
static NEXT_OWNER: AtomicU32 = AtomicU32::new(1);

/// Called once per environment when the façade loads: the number that names its processes from then on. When the
/// environment goes (a worker's `terminate()` included), they go.
#[napi]
pub fn attach(env: Env) -> napi::Result<u32> {
    let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
    env.add_env_cleanup_hook(owner, kill_all)?;
    Ok(owner)
}

/// Ends every process of `owner` at once, synchronously: for `process.once("exit")`.
#[napi]
pub fn kill_all(owner: u32) {
    let _killed = registry::kill_all(u64::from(owner));
}

/// `{"ok": value}` or `{"err": error}` as JSON text.
fn outcome<T: serde::Serialize>(result: Result<T, Box<ProviderError>>) -> String {
    let (tag, body) = match &result {
        Ok(value) => ("ok", serde_json::to_string(value)),
        Err(error) => ("err", serde_json::to_string(error)),
    };
    match body {
        Ok(body) => format!("{{\"{tag}\":{body}}}"),
        Err(error) => outcome::<()>(Err(Box::new(internal(&error)))),
    }
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
