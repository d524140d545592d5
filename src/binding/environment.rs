//! The Node environment of a call: the main thread's, or a worker's.
//!
//! When an environment ends, Node frees all its objects, even those whose promises are pending, while the runtime's threads go on.
//! So no future here borrows the object whose method made it. An `async fn` that takes `&self` would, napi doesn't prevent it, and
//! such a future would go on with freed memory. `promise` takes futures that own everything they need.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use napi::bindgen_prelude::{PromiseRaw, ToNapiValue};
use napi::{Env, Status};
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::{from_json, runtime};
use dfp_exchange::scratch;
use dfp_process::{Vars, registry};

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
    if let Some(reason) = runtime::refusal() {
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
    let _killed = registry::kill_all(u64::from(owner));
    scratch::remove_all(u64::from(owner));
}

/// A promise of `future`'s value. The future is dropped when the environment ends, since its promise is gone then.
///
/// The future is boxed because each type of future would add 10 KB to the addon: its own copy of the runtime's task and of napi's
/// promise.
pub(super) fn promise<T>(env: &Env, future: impl Future<Output = T> + Send + 'static) -> napi::Result<PromiseRaw<'_, T>>
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
pub(super) fn variables(json: Option<String>) -> napi::Result<Option<Vars>> {
    let Some(json) = json else { return Ok(None) };
    let vars = from_json::<std::collections::BTreeMap<String, String>>(&json)?;
    Ok(Some(
        vars.into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    ))
}
