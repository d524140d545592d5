//! The only napi code: one-line entries over the crate's functions. JSON text goes in and comes out.
//!
//! Async functions cannot carry an error code across napi, so failures are values here (`{"err": …}`) and JavaScript throws.

pub mod agent;
pub mod api;
pub mod claude_code;
pub mod errors;
pub mod provider;
pub mod runlog;
pub mod runtime;
pub mod text;

use std::sync::atomic::{AtomicU32, Ordering};

use napi::Env;
use napi::bindgen_prelude::{Either, Latin1String};
use napi_derive::napi;

use crate::error::ProviderError;
use crate::exchange::scratch;
use crate::process::{Vars, limit, registry};

/// Owners of processes: one per Node environment (the main thread, each worker).
static NEXT_OWNER: AtomicU32 = AtomicU32::new(1);

/// Called once per environment when the façade loads: the number that names its processes from then on. When the
/// environment goes (a worker's `terminate()` included), they go.
///
/// # Errors
/// The system has no threads for the addon's runtime: nothing else may be called then.
#[napi(catch_unwind)]
pub fn attach(env: Env) -> napi::Result<u32> {
    if let Some(reason) = runtime::refusal() {
        return Err(napi::Error::from_reason(reason));
    }
    let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
    env.add_env_cleanup_hook(owner, kill_all)?;
    Ok(owner)
}

/// Ends every process of `owner` at once, synchronously, and removes their private folders: for `process.once("exit")`.
#[napi(catch_unwind)]
pub fn kill_all(owner: u32) {
    let _killed = registry::kill_all(u64::from(owner));
    scratch::remove_all(u64::from(owner));
}

/// index.d.ts's `Limits` as JSON.
#[napi(catch_unwind)]
pub fn limits() -> String {
    let limiter = limit::global();
    let limit::Snapshot { all, keys } = limiter.snapshot();
    let per_binary: serde_json::Map<String, serde_json::Value> = keys
        .into_iter()
        .map(|(key, load)| {
            (
                key,
                serde_json::json!({"running": load.running, "waiting": load.waiting}),
            )
        })
        .collect();
    let process_wide = serde_json::json!({"limit": limiter.limit(), "running": all.running, "waiting": all.waiting});
    serde_json::json!({"processWide": process_wide, "perBinary": per_binary}).to_string()
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

/// The environment a worker's JavaScript sees (`{"NAME": "value"}`), which is a copy of its own there; `None` for the
/// process's.
fn environment(json: Option<String>) -> napi::Result<Option<Vars>> {
    let Some(json) = json else { return Ok(None) };
    let vars = from_json::<std::collections::BTreeMap<String, String>>(&json)?;
    Ok(Some(
        vars.into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    ))
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
