//! The live processes of each owner, so that an owner's end takes them along.
//!
//! In: every start and every reaping. Out: [`kill_all`], which needs no runtime and returns when all signals are sent,
//! for `process.on("exit")` and for a Node environment's clean-up hook.
//!
//! A process is registered before its start returns, under a gate that [`kill_all`] closes: a start either is over and
//! registered when the killing begins, or is refused. A process is taken off the list in the moment it is reaped, under
//! the lock the killing holds: no signal can hit an id that became somebody else's.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use super::fault::StartError;
use super::sys::{Target, kill_now};

/// The processes of one owner.
#[derive(Debug, Default)]
struct Owner {
    /// True once the owner has ended. Starting a process holds it for reading, ending the owner for writing.
    ended: RwLock<bool>,
    live: Mutex<HashMap<u32, Target>>,
}

static OWNERS: LazyLock<Mutex<HashMap<u64, Arc<Owner>>>> = LazyLock::new(Mutex::default);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn owner(id: u64) -> Arc<Owner> {
    locked(&OWNERS).entry(id).or_default().clone()
}

/// Kills (`SIGKILL`) every process of `id`, their groups and what they have started elsewhere, and refuses every later
/// start for it. Returns how many runs were killed. Blocks for some milliseconds at most, needs no runtime.
///
/// Ids of owners are never reused: each Node environment gets the next number.
pub fn kill_all(id: u64) -> usize {
    let owner = owner(id);
    *owner.ended.write().unwrap_or_else(PoisonError::into_inner) = true;
    let live = locked(&owner.live);
    let targets: Vec<Target> = live.values().cloned().collect();
    kill_now(&targets);
    targets.len()
}

/// The process ids of the leaders of `id` that are not reaped yet, sorted.
pub fn live(id: u64) -> Vec<u32> {
    let mut pids: Vec<u32> = locked(&owner(id).live).keys().copied().collect();
    pids.sort_unstable();
    pids
}

/// An entry in the registry.
#[derive(Debug)]
pub(super) struct Registration {
    owner: Arc<Owner>,
    pid: u32,
}

impl Registration {
    /// Calls `reap` and, if it returns true, takes the process off the list. For [`kill_all`] that is one step.
    pub fn release(&self, reap: impl FnOnce() -> bool) -> bool {
        let mut live = locked(&self.owner.live);
        let reaped = reap();
        if reaped {
            live.remove(&self.pid);
        }
        reaped
    }
}

/// Starts a process with `spawn` and registers it, unless the owner has ended.
pub(super) fn enter<T>(
    id: u64,
    spawn: impl FnOnce() -> Result<(T, Target), StartError>,
) -> Result<(T, Target, Registration), StartError> {
    let owner = owner(id);
    let ended = owner.ended.read().unwrap_or_else(PoisonError::into_inner);
    if *ended {
        return Err(StartError::OwnerEnded);
    }
    let (child, target) = spawn()?;
    let pid = target.pid();
    locked(&owner.live).insert(pid, target.clone());
    drop(ended);
    Ok((child, target, Registration { owner, pid }))
}
