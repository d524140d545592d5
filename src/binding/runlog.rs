//! Run logs that are replayed or shown.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;

use super::environment::promise;
use super::{from_json, outcome};
use dfp_health::status;
use dfp_record::replay::{self, Replay};
use dfp_run::record::RefusedCall;

/// A recorded run.
#[napi]
pub struct NativeReplay {
    path: String,
    run_id: Option<String>,
    replay: Arc<OnceLock<Replay>>,
}

#[napi]
impl NativeReplay {
    /// The run `run_id` of the file at `path`, or the last run in it. Nothing is read yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(path: String, run_id: Option<String>) -> Self {
        NativeReplay {
            path,
            run_id,
            replay: Arc::default(),
        }
    }

    /// Reads the file: `{"ok": facts about the run}` or `{"err": …}`.
    #[napi(catch_unwind)]
    pub fn open<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, String>> {
        let (path, run_id, opened) = (PathBuf::from(&self.path), self.run_id.clone(), Arc::clone(&self.replay));
        promise(env, async move {
            match Replay::open(path, run_id).await {
                Ok(replay) => format!(r#"{{"ok":{}}}"#, opened.get_or_init(|| replay).info()),
                Err(error) => outcome::<()>(Err(error)),
            }
        })
    }

    /// A batch of events from number `from` on, a JSON array; `null` behind the last one, and before `open`.
    #[napi(catch_unwind)]
    pub fn batch(&self, from: u32) -> Option<String> {
        self.replay.get()?.batch(from as usize)
    }
}

/// The beginning of every HTML page of this package, up to its body.
#[napi(catch_unwind)]
pub fn page_head(title: String) -> String {
    dfp_record::runlog::html::head(&title)
}

/// Renders the run log in a file: `{"ok": text}` or `{"err": …}`. `shown_json`: `{format, colour, full}`.
#[napi(catch_unwind)]
pub fn show_run_log(env: &Env, path: String, shown_json: String) -> napi::Result<PromiseRaw<'_, String>> {
    let shown = from_json(&shown_json)?;
    promise(
        env,
        async move { outcome(replay::show(PathBuf::from(path), shown).await) },
    )
}

/// Adds a call that was refused before it became a run to the log at `path`: `{"ok": null}` or `{"err": …}`. `refused_json` is
/// `{runId, provider, startedAt, error}` with a `ProviderError`.
#[napi(catch_unwind)]
pub fn record_refused_call(env: &Env, path: String, refused_json: String) -> napi::Result<PromiseRaw<'_, String>> {
    let refused: RefusedCall = from_json(&refused_json)?;
    promise(env, async move { outcome(refused.record(&PathBuf::from(path)).await) })
}

/// The state of this machine and the usage in the logs at `paths` since `since` (ms since the epoch): `{"ok": Status}` (index.d.ts)
/// or `{"err": …}`.
#[napi(catch_unwind)]
pub fn machine_status(env: &Env, paths: Vec<String>, since: f64) -> napi::Result<PromiseRaw<'_, String>> {
    let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
    promise(
        env,
        async move { outcome(status::of_machine(paths, since as u64).await) },
    )
}
