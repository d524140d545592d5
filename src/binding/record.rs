//! What happened and what goes on: checkpoints in files, run logs that are replayed or shown, and the state of this process and
//! machine.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{from_json, outcome, promise};
use dfp_health::status;
use dfp_model::error::{Code, ProviderError};
use dfp_process::activity;
use dfp_record::checkpoint::{self, CheckpointError, OpenFiles};
use dfp_record::replay::{self, Replay};
use dfp_run::record::RefusedCall;

/// The checkpoint files of one folder.
#[napi]
pub struct NativeCheckpoints {
    folder: PathBuf,
    open: OpenFiles,
}

/// The result of `load` as JSON. Entries and result are texts, so that JavaScript can keep them unparsed.
#[derive(Serialize)]
struct LoadedJson {
    token: u64,
    entries: Vec<String>,
    result: Option<String>,
}

#[napi]
impl NativeCheckpoints {
    /// Makes and reads nothing yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(folder: String) -> Self {
        NativeCheckpoints {
            folder: PathBuf::from(folder),
            open: OpenFiles::default(),
        }
    }

    /// Takes over the run `run_id`: `{"ok": {token, entries, result}}` or `{"err": …}`.
    #[napi(catch_unwind)]
    pub fn load<'env>(&self, env: &'env Env, run_id: String) -> napi::Result<PromiseRaw<'env, String>> {
        let (folder, open) = (self.folder.clone(), self.open.clone());
        blocking(env, move || {
            let loaded = checkpoint::load(&folder, &run_id, open.token(&run_id))?;
            if let Some(file) = loaded.file {
                open.put(&run_id, file);
            }
            let text = |raw: Box<RawValue>| raw.get().to_owned();
            Ok(LoadedJson {
                token: loaded.token,
                entries: loaded.entries.into_iter().map(text).collect(),
                result: loaded.result.map(text),
            })
        })
    }

    /// Appends entries, JSON texts, for the attempt that holds `token`: `{"ok": null}` once they are on the disk.
    #[napi(catch_unwind)]
    pub fn append<'env>(
        &self,
        env: &'env Env,
        run_id: String,
        token: f64,
        entries: Vec<String>,
    ) -> napi::Result<PromiseRaw<'env, String>> {
        let open = self.open.clone();
        blocking(env, move || {
            let entries = entries.into_iter().map(|text| json_of(&run_id, text));
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            open.with(&run_id, token_of(token), |file| file.append(entries))
        })
    }

    /// Ends the attempt: the run is finished with `result`, or without one is released for another attempt.
    #[napi(catch_unwind)]
    pub fn finish<'env>(
        &self,
        env: &'env Env,
        run_id: String,
        token: f64,
        result: Option<String>,
    ) -> napi::Result<PromiseRaw<'env, String>> {
        let open = self.open.clone();
        blocking(env, move || {
            let result = result.map(|text| json_of(&run_id, text)).transpose()?;
            open.close(&run_id, token_of(token), |file| match result {
                Some(result) => file.finish(result),
                None => Ok(()),
            })
        })
    }
}

/// The JSON text `text` of JavaScript's, for the record of `run_id`.
fn json_of(run_id: &str, text: String) -> Result<Box<RawValue>, CheckpointError> {
    RawValue::from_string(text).map_err(|error| CheckpointError::Invalid(PathBuf::from(run_id), error.to_string()))
}

/// JavaScript's number as a token. A number that can't be one becomes 0, which no attempt has.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked, and what is not a token is 0"
)]
fn token_of(number: f64) -> u64 {
    if number.fract() == 0.0 && number > 0.0 {
        number as u64
    } else {
        0
    }
}

/// `true` if `run_id` can be the id of a run.
#[napi(catch_unwind)]
pub fn is_run_id(run_id: String) -> bool {
    checkpoint::is_run_id(&run_id)
}

/// A promise of `act`, which runs on the pool for blocking work: `{"ok": …}` or `{"err": …}`.
pub(super) fn blocking<T: Serialize + Send + 'static>(
    env: &Env,
    act: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> napi::Result<PromiseRaw<'_, String>> {
    promise(env, async move {
        let done = tokio::task::spawn_blocking(act).await;
        outcome(match done {
            Ok(done) => done.map_err(|refused| error_of(&refused)),
            Err(panic) => Err(Box::new(ProviderError::new("", Code::Internal, panic.to_string()))),
        })
    })
}

/// The error for JavaScript, with advice that fits the reason.
fn error_of(refused: &CheckpointError) -> Box<ProviderError> {
    let code = match refused {
        CheckpointError::Locked(..) | CheckpointError::Lost(..) | CheckpointError::Stale(..) => Code::RunLocked,
        CheckpointError::Invalid(..) => Code::CheckpointInvalid,
        CheckpointError::Unsafe(..)
        | CheckpointError::Writable(..)
        | CheckpointError::Resized(..)
        | CheckpointError::Io(..)
        | CheckpointError::Closed(_) => Code::CheckpointFailed,
    };
    let hint = match refused {
        CheckpointError::Writable(folder, _) => format!("run `chmod go-w {}`", folder.display()),
        CheckpointError::Lost(..) => {
            "leave the files of runs that are at work where they are, and start the run again".to_owned()
        }
        CheckpointError::Resized(..) => {
            "put the file back as it was, or remove it and begin the run anew: what it lacks would be done twice"
                .to_owned()
        }
        _ => dfp_provider::classify::hint("", code).to_owned(),
    };
    Box::new(ProviderError::new("", code, refused.to_string()).with_hint(hint))
}

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

/// The value of `limits()` as JSON (`Limits` in index.d.ts).
#[napi(catch_unwind)]
pub fn limits() -> String {
    status::own().to_string()
}

/// Publishes the addresses of all gateways in this process, for `status` in other programs. Settles with `{"ok": null}`.
#[napi(catch_unwind)]
pub fn note_gateways(env: &Env, addresses: Vec<String>) -> napi::Result<PromiseRaw<'_, String>> {
    promise(env, async move {
        activity::note_gateways(addresses);
        outcome(Ok(()))
    })
}
