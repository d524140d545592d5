//! The async runtime of the addon, or why there is none.
//!
//! In: the system's threads. Out: a runtime for napi, and [`refusal`] where the system has no threads for one. napi's own and
//! tokio's way of starting one panics there, inside of a function of C: Node would be aborted by an `import`.

use std::io;
use std::sync::{OnceLock, mpsc};

use napi::Env;
use napi::bindgen_prelude::{Object, create_custom_tokio_runtime};
use napi_derive::napi;
use tokio::runtime::{Builder, Runtime};

/// How many threads must be left beside the workers, for what blocks: looking at files, starting the watchdog.
const FURTHER: usize = 2;

/// Why there is no runtime; set once, before anything of the addon can be called.
static REFUSAL: OnceLock<Option<String>> = OnceLock::new();

/// The reason why nothing of this addon can work, and what to do; `None` where it can.
pub fn refusal() -> Option<String> {
    REFUSAL.get().cloned().flatten()
}

/// Called for each Node environment before napi starts its runtime, and not while the system's loader holds its locks: threads
/// can be waited for here.
#[napi(module_exports, catch_unwind)]
pub fn prepare(_exports: Object, _env: Env) -> napi::Result<()> {
    // napi catches no panic of this one function, whatever its attribute says.
    let built = || std::panic::catch_unwind(build).unwrap_or_else(|_| Err(io::Error::other("tokio gave up")));
    REFUSAL.get_or_init(|| match built() {
        Ok(runtime) => {
            create_custom_tokio_runtime(runtime);
            None
        }
        Err(error) => {
            // One that has neither threads nor files: nothing runs on it.
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

/// How many threads the system starts, up to `wanted`, and why not more: tokio panics where it gets none.
fn free_threads(wanted: usize) -> (usize, Option<io::Error>) {
    let (release, held) = (0..wanted)
        .map(|_| mpsc::channel::<()>())
        .unzip::<_, _, Vec<_>, Vec<_>>();
    let mut refused = None;
    let mut started = Vec::with_capacity(wanted);
    for held in held {
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        match thread.spawn(move || {
            // Ends when its sender is dropped: until then it takes its place.
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
        // It does nothing that could panic.
        let _ = thread.join();
    }
    (free, refused)
}
