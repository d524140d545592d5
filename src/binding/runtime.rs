//! The async runtime of the addon, or the reason why there is none.
//!
//! In: the threads that the system grants. Out: a runtime for napi, and [`refusal`] if there are too few threads for one. By
//! themselves napi and tokio would panic in that case, inside a function of C, so that an `import` would abort Node.

use std::io;
use std::sync::{OnceLock, mpsc};

use napi::Env;
use napi::bindgen_prelude::{Object, create_custom_tokio_runtime};
use napi_derive::napi;
use tokio::runtime::{Builder, Runtime};

/// The number of threads that must be left beside the workers for blocking work: looking at files, starting the watchdog.
const FURTHER: usize = 2;

/// The reason why there is no runtime. Set once, before anything of the addon can be called.
static REFUSAL: OnceLock<Option<String>> = OnceLock::new();

/// The reason why nothing of this addon can work, and what to do about it; `None` if it works.
pub fn refusal() -> Option<String> {
    REFUSAL.get().cloned().flatten()
}

/// Called for each Node environment before napi starts its runtime. The system's loader holds no locks at this point, so threads
/// may be waited for.
#[napi(module_exports, catch_unwind)]
pub fn prepare(_exports: Object, _env: Env) -> napi::Result<()> {
    // napi doesn't catch a panic of this one function, whatever its attribute says.
    let built = || std::panic::catch_unwind(build).unwrap_or_else(|_| Err(io::Error::other("tokio gave up")));
    REFUSAL.get_or_init(|| match built() {
        Ok(runtime) => {
            create_custom_tokio_runtime(runtime);
            None
        }
        Err(error) => {
            // A runtime that has neither threads nor files, and on which nothing runs.
            if let Ok(runtime) = Builder::new_current_thread().build() {
                create_custom_tokio_runtime(runtime);
            }
            Some(format!(
                "deep-factor-providers can't start its threads: {error}. Raise the limit on processes and threads (`ulimit -u`, \
                 the `pids` limit of a container) and on open files (`ulimit -n`), or end what uses them up, and start Node again."
            ))
        }
    });
    Ok(())
}

/// Builds the runtime with one worker per processor, or with as many as the system grants.
fn build() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all();
    let wanted = std::thread::available_parallelism().map_or(1, usize::from);
    let (free, refused) = free_threads(wanted + FURTHER);
    if let Some(error) = refused {
        if free <= FURTHER {
            return Err(error);
        }
        builder.worker_threads(free - FURTHER);
    }
    builder.build()
}

/// The number of threads that the system grants, up to `wanted`, and the reason why it grants no more. tokio would panic without
/// them.
fn free_threads(wanted: usize) -> (usize, Option<io::Error>) {
    let (release, held) = (0..wanted)
        .map(|_| mpsc::channel::<()>())
        .unzip::<_, _, Vec<_>, Vec<_>>();
    let mut refused = None;
    let mut started = Vec::with_capacity(wanted);
    for held in held {
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        match thread.spawn(move || {
            // The thread waits, and so takes its place, until its sender is dropped.
            let _ = held.recv();
        }) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    drop(release);
    let free = started.len();
    for thread in started {
        // The thread does nothing that could panic.
        let _ = thread.join();
    }
    (free, refused)
}
