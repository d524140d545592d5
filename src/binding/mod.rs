//! The only napi code: one-line entries over the crate's functions. JSON text goes in and comes out.
//!
//! An async function can't carry an error code across napi. So failures are values here (`{"err": …}`), and JavaScript throws.
//!
//! When an environment (the main thread's or a worker's) ends, Node frees all its objects, even those whose promises are pending, while
//! the runtime's threads go on. So no future here borrows the object whose method made it. An `async fn` that takes `&self` would, napi
//! doesn't prevent it, and such a future would go on with freed memory. `promise` takes futures that own everything they need.

pub mod agent;
pub mod errors;
pub mod provider;
pub mod record;
pub mod text;

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use napi::bindgen_prelude::{Either, Latin1String, Object, PromiseRaw, ToNapiValue, create_custom_tokio_runtime};
use napi::{Env, Status};
use napi_derive::napi;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use dfp_exchange::scratch;
use dfp_model::error::ProviderError;
use dfp_process::Vars;

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

// The Node environment of a call, the main thread's or a worker's.

/// The number of the next environment. It names the owner of processes.
static NEXT_OWNER: AtomicU32 = AtomicU32::new(1);

/// A token that is cancelled when the environment ends.
struct Ending(CancellationToken);

/// Attaches to an environment; the façade calls it once when it loads. The returned number names the environment's processes from
/// then on. When the environment ends (by a worker's `terminate()` too), they are ended, and the futures of its promises are
/// dropped.
///
/// # Errors
/// The system has no threads for the addon's runtime. Nothing else of the addon may be called then.
#[napi(catch_unwind)]
pub fn attach(env: Env) -> napi::Result<u32> {
    if let Some(reason) = refusal() {
        return Err(napi::Error::from_reason(reason));
    }
    let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
    let ending = CancellationToken::new();
    env.set_instance_data(Ending(ending.clone()), (), |_| {})?;
    env.add_env_cleanup_hook((owner, ending), |(owner, ending)| {
        ending.cancel();
        kill_all(owner);
    })?;
    Ok(owner)
}

/// Ends every process of `owner` synchronously and removes their private folders: for `process.once("exit")`.
#[napi(catch_unwind)]
pub fn kill_all(owner: u32) {
    let _killed = dfp_process::kill_all(u64::from(owner));
    scratch::remove_all(u64::from(owner));
}

/// A promise of `future`'s value. The future is dropped when the environment ends, since its promise is gone then.
///
/// The future is boxed because each type of future would add 10 KB to the addon: its own copy of the runtime's task and of napi's
/// promise.
fn promise<T>(env: &Env, future: impl Future<Output = T> + Send + 'static) -> napi::Result<PromiseRaw<'_, T>>
where
    T: ToNapiValue + Send + 'static,
{
    boxed_promise(env, Box::pin(future))
}

/// The part of [`promise`] that doesn't depend on the type of future.
fn boxed_promise<T>(env: &Env, future: Pin<Box<dyn Future<Output = T> + Send>>) -> napi::Result<PromiseRaw<'_, T>>
where
    T: ToNapiValue + Send + 'static,
{
    let ending = env.get_instance_data::<Ending>()?.map(|ending| ending.0.clone());
    env.spawn_future(async move {
        let Some(ending) = ending else {
            return Ok(future.await);
        };
        let gone = || napi::Error::new(Status::Cancelled, "the JavaScript environment has ended");
        ending.run_until_cancelled_owned(future).await.ok_or_else(gone)
    })
}

/// Reads the environment variables of a worker, `{"NAME": "value"}`: a worker's JavaScript has a copy of its own. `None` means the
/// process's variables.
fn variables(json: Option<String>) -> napi::Result<Option<Vars>> {
    let Some(json) = json else { return Ok(None) };
    let vars = from_json::<BTreeMap<String, String>>(&json)?;
    Ok(Some(
        vars.into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    ))
}

// The runtime. In: the threads that the system grants. Out: a runtime for napi, and [`refusal`] if there are too few threads for
// one. By themselves napi and tokio would panic in that case, inside a function of C, so that an `import` would abort Node.

/// The number of threads that must be left beside the workers for blocking work: looking at files, starting the watchdog.
const FURTHER: usize = 2;

/// The reason why there is no runtime. Set once, before anything of the addon can be called.
static REFUSAL: OnceLock<Option<String>> = OnceLock::new();

/// The reason why nothing of this addon can work, and what to do about it; `None` if it works.
fn refusal() -> Option<String> {
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
