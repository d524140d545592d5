//! The Node environment that calls: the main thread's, or one worker's.
//!
//! Node frees every object of an environment when that ends, also those with promises that wait, while the runtime's threads go on.
//! So no future here borrows the object whose method has made it: an `async fn` that takes `&self` would, napi does not prevent
//! it, and what such a future touches afterwards is freed memory. `promise` takes futures that own what they need.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use napi::bindgen_prelude::{PromiseRaw, ToNapiValue};
use napi::{Env, Status};
use napi_derive::napi;
use tokio_util::sync::CancellationToken;

use super::{from_json, runtime};
use crate::exchange::scratch;
use crate::process::{Vars, registry};

/// Owners of processes: one per environment.
static NEXT_OWNER: AtomicU32 = AtomicU32::new(1);

/// Cancelled when the environment ends.
struct Ending(CancellationToken);

/// Called once per environment when the façade loads: the number that names its processes from then on. When the
/// environment goes (a worker's `terminate()` included), they go, and with them what its promises wait for.
///
/// # Errors
/// The system has no threads for the addon's runtime: nothing else may be called then.
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

/// Ends every process of `owner` at once, synchronously, and removes their private folders: for `process.once("exit")`.
#[napi(catch_unwind)]
pub fn kill_all(owner: u32) {
    let _killed = registry::kill_all(u64::from(owner));
    scratch::remove_all(u64::from(owner));
}

/// A promise of `future`'s value. The future is dropped when the environment ends: its promise is gone then.
///
/// Boxed, because each type of future brings a copy of the runtime's task and of napi's promise into the addon: 10 KB.
pub(super) fn promise<T>(env: &Env, future: impl Future<Output = T> + Send + 'static) -> napi::Result<PromiseRaw<'_, T>>
where
    T: ToNapiValue + Send + 'static,
{
    boxed_promise(env, Box::pin(future))
}

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

/// The variables a worker's JavaScript sees (`{"NAME": "value"}`), which is a copy of its own there; `None` for the
/// process's.
pub(super) fn variables(json: Option<String>) -> napi::Result<Option<Vars>> {
    let Some(json) = json else { return Ok(None) };
    let vars = from_json::<std::collections::BTreeMap<String, String>>(&json)?;
    Ok(Some(
        vars.into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    ))
}
