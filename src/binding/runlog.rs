//! Run logs, replayed and shown.

use std::path::PathBuf;
use std::sync::OnceLock;

use napi_derive::napi;

use super::{from_json, outcome};
use crate::replay::{self, Replay};

/// A recorded run.
#[napi]
pub struct NativeReplay {
    path: String,
    run_id: Option<String>,
    replay: OnceLock<Replay>,
}

#[napi]
impl NativeReplay {
    /// The run `run_id` of the file at `path`, or its last one. Nothing is read yet.
    #[napi(constructor)]
    pub fn new(path: String, run_id: Option<String>) -> Self {
        NativeReplay {
            path,
            run_id,
            replay: OnceLock::new(),
        }
    }

    /// Reads the file: `{"ok": what is known of the run}` or `{"err": …}`.
    #[napi]
    pub async fn open(&self) -> String {
        let opened = Replay::open(PathBuf::from(&self.path), self.run_id.clone()).await;
        match opened {
            Ok(replay) => format!(r#"{{"ok":{}}}"#, self.replay.get_or_init(|| replay).info()),
            Err(error) => outcome::<()>(Err(error)),
        }
    }

    /// Some events from the `from`th on, a JSON array; `null` behind the last, and before `open`.
    #[napi]
    pub fn batch(&self, from: u32) -> Option<String> {
        self.replay.get()?.batch(from as usize)
    }
}

/// A file as a person sees it: `{"ok": text}` or `{"err": …}`. `shown_json`: `{format, colour, full}`.
#[napi]
pub async fn show_run_log(path: String, shown_json: String) -> napi::Result<String> {
    let shown = from_json(&shown_json)?;
    Ok(outcome(replay::show(PathBuf::from(path), shown).await))
}
