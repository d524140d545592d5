//! The replies that a provider keeps beside its sessions: in memory, and in a [`Store`] if its user has named one.
//!
//! In: JSON of a reply, by the fingerprint of the thread that it ends. Out: the same JSON. Memory is asked at once; it is bounded, and the
//! oldest replies go first. The store is asked on the pool for blocking work, before a thread is told to a session that knows nothing of
//! it, and what it has is in memory then.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use super::history::{Fingerprint, print};
use super::store::Store;
use dfp_process::Vars;
use dfp_provider::options::Options;
use dfp_record::folder::FolderError;

/// The variables that name a terminal, a session of the system or a start of the program. They are others after each restart, and tell a
/// CLI nothing of its login.
const PASSING: [&str; 30] = [
    "_",
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOSTNAME",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LINES",
    "LS_COLORS",
    "MANAGERPID",
    "NOTIFY_SOCKET",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STY",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "WINDOWID",
    "XDG_SESSION_ID",
    "XDG_SESSION_TYPE",
];

/// The fingerprint of an environment, but for what is another after each restart.
pub fn print_of_env(env: &Vars) -> Fingerprint {
    let passes = |name: &OsStr| {
        let name = name.to_string_lossy();
        PASSING.contains(&name.as_ref()) || name.starts_with("npm_")
    };
    let lasting = env.iter().filter(|(name, _)| !passes(name));
    let mut lasting: Vec<_> = lasting
        .map(|(name, value)| (name.as_encoded_bytes(), value.as_encoded_bytes()))
        .collect();
    lasting.sort_unstable();
    print(|state| lasting.hash(state))
}

/// The replies that a provider keeps.
#[derive(Debug)]
pub struct KeptReplies {
    /// The fingerprint of what its options say of the login and of the program: providers that share a store may differ in it.
    owner: Fingerprint,
    memory: Mutex<Replies>,
    store: Option<Arc<Store>>,
    /// The writes into the store that have begun.
    writes: Mutex<Vec<JoinHandle<Result<(), String>>>>,
    /// The trouble with the store, until it is told.
    trouble: Mutex<Option<String>>,
}

impl Default for KeptReplies {
    fn default() -> KeptReplies {
        KeptReplies {
            owner: print(|_| {}),
            memory: Mutex::default(),
            store: None,
            writes: Mutex::default(),
            trouble: Mutex::default(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeptReplies {
    /// The replies of a provider `id` with `options`.
    pub fn of(id: &str, options: &Options) -> KeptReplies {
        let Options {
            env,
            auth,
            cli_path,
            extra_args,
            ignore_user_config,
            launch,
            ..
        } = options;
        let (auth, launch) = (format!("{auth:?}"), format!("{launch:?}"));
        let stores = options.sessions.as_ref();
        KeptReplies {
            owner: print(|state| (id, env, &auth, &launch, cli_path, extra_args, ignore_user_config).hash(state)),
            store: stores.map(|sessions| Arc::new(Store::new(&sessions.store, sessions.max_age))),
            ..KeptReplies::default()
        }
    }

    /// The fingerprint of what the options say of the login and of the program.
    pub fn owner(&self) -> Fingerprint {
        self.owner
    }

    /// The store, if there is one.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Makes sure that the store can be used, if there is one. Blocks.
    ///
    /// # Errors
    /// The folder is not the user's alone. Any other reason is kept to be told: then the store has nothing.
    pub fn open(&self) -> Result<(), StoreRefused> {
        let Some(store) = &self.store else { return Ok(()) };
        match store.open() {
            Ok(()) => Ok(()),
            Err(FolderError::Io(error)) => {
                self.is_troubled(format!("{}: {error}", store.folder().display()));
                Ok(())
            }
            Err(why) => Err(StoreRefused {
                folder: store.folder().display().to_string(),
                why,
            }),
        }
    }

    /// The reply that is kept under `print`, if it is in memory.
    pub fn find(&self, print: &Fingerprint) -> Option<String> {
        locked(&self.memory).get(print).map(str::to_owned)
    }

    /// The reply that is kept under `print`, which is in memory then. Blocks.
    pub fn fetch(&self, print: &Fingerprint) -> Option<String> {
        if let Some(known) = self.find(print) {
            return Some(known);
        }
        match self.store.as_ref()?.read(print) {
            Ok(found) => {
                let json = found?;
                locked(&self.memory).keep(*print, json.clone());
                Some(json)
            }
            Err(why) => {
                self.is_troubled(why);
                None
            }
        }
    }

    /// Keeps `json` under `print`. What is kept already stays.
    pub fn keep(&self, print: Fingerprint, json: String) {
        if let (Some(store), Ok(runtime)) = (&self.store, tokio::runtime::Handle::try_current()) {
            let (store, json) = (Arc::clone(store), json.clone());
            let write = runtime.spawn_blocking(move || store.write(&print, &json));
            locked(&self.writes).push(write);
        }
        locked(&self.memory).keep(print, json);
    }

    /// Waits until everything that was kept is in the store.
    pub async fn stored(&self) {
        let writes = std::mem::take(&mut *locked(&self.writes));
        for write in writes {
            if let Ok(Err(why)) = write.await {
                self.is_troubled(why);
            }
        }
    }

    /// The trouble with the store, if it was not told yet.
    pub fn trouble(&self) -> Option<String> {
        locked(&self.trouble).take()
    }

    fn is_troubled(&self, why: String) {
        locked(&self.trouble).get_or_insert(why);
    }

    /// Drops what is in memory, and keeps nothing any more there: the provider is closed.
    pub fn close(&self) {
        locked(&self.memory).close();
    }
}

/// The folder of a store that is not used.
#[derive(Debug)]
pub struct StoreRefused {
    pub folder: String,
    pub why: FolderError,
}

/// Has `read` ask a store, on the pool for blocking work.
///
/// # Errors
/// Those of `read`.
pub async fn blocking(read: impl FnOnce() -> Result<(), StoreRefused> + Send + 'static) -> Result<(), StoreRefused> {
    // A reply that can't be looked for is not remembered.
    tokio::task::spawn_blocking(read).await.unwrap_or(Ok(()))
}

/// The limit of the memory that is used for all entries together, bytes.
pub const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The memory of an entry beside its JSON, bytes: its places in the table and in the order, three times, since either has room
/// for twice as many if it has just grown, and stood beside its old self while it did; and the allocator's overhead for the JSON.
const ENTRY_BYTES: usize = 3 * (size_of::<(Fingerprint, Box<str>)>() + 1 + size_of::<Fingerprint>()) + 16;

/// Replies as JSON, one piece of memory of known size each. As values they take ten times as much.
#[derive(Debug, Default)]
pub struct Replies {
    replies: HashMap<Fingerprint, Box<str>>,
    order: VecDeque<Fingerprint>,
    bytes: usize,
    is_closed: bool,
}

impl Replies {
    /// Stores `json` under `print`. What is stored already stays.
    pub fn keep(&mut self, print: Fingerprint, json: String) {
        let bytes = json.len() + ENTRY_BYTES;
        if self.is_closed || bytes > MOST_BYTES || self.replies.contains_key(&print) {
            return;
        }
        self.bytes += bytes;
        while self.bytes > MOST_BYTES {
            let oldest = self.order.pop_front().and_then(|print| self.replies.remove(&print));
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.len() + ENTRY_BYTES;
        }
        self.replies.insert(print, json.into_boxed_str());
        self.order.push_back(print);
    }

    /// The JSON that is stored under `print`.
    pub fn get(&self, print: &Fingerprint) -> Option<&str> {
        self.replies.get(print).map(|json| &**json)
    }

    /// The memory that all entries take, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Drops all entries, and stores nothing any more: the provider is closed.
    pub fn close(&mut self) {
        *self = Replies {
            is_closed: true,
            ..Replies::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ffi::OsString;
    use std::hash::Hash;

    use super::*;
    use crate::live::history::print;

    #[test]
    fn an_environment_is_the_same_after_a_restart_and_another_with_another_login() {
        let env = |vars: &[(&str, &str)]| {
            let vars = vars
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)));
            print_of_env(&vars.collect())
        };
        let own = env(&[("HOME", "/home/a"), ("SHLVL", "1"), ("API_KEY", "k")]);
        assert_eq!(
            own,
            env(&[
                ("API_KEY", "k"),
                ("HOME", "/home/a"),
                ("SHLVL", "2"),
                ("npm_package_name", "x")
            ])
        );
        assert_ne!(own, env(&[("API_KEY", "other"), ("HOME", "/home/a")]));
        assert_ne!(own, env(&[("HOME", "/home/a")]));
    }

    fn place(number: usize) -> Fingerprint {
        print(|state| number.hash(state))
    }

    /// The memory that `replies` have allocated: the table with all its places (a byte each beside the entry, and an eighth is
    /// never used), the order, and each entry's JSON.
    fn held(replies: &Replies) -> usize {
        let table = (replies.replies.capacity() * 8).div_ceil(7) * (size_of::<(Fingerprint, Box<str>)>() + 1);
        let order = replies.order.capacity() * size_of::<Fingerprint>();
        let json: usize = replies.replies.values().map(|json| json.len()).sum();
        table + order + json
    }

    fn keep_many(replies: &mut Replies, count: usize, text: &str) {
        (0..count).for_each(|number| replies.keep(place(number), text.to_owned()));
    }

    #[test]
    fn all_that_they_hold_is_bounded() {
        for (count, text) in [
            (300_000, "ok".to_owned()),
            (60_000, "r".repeat(2_000)),
            (5, "x".repeat(MOST_BYTES / 2 - 2 * ENTRY_BYTES)),
            (2, "x".repeat(MOST_BYTES)),
        ] {
            let mut replies = Replies::default();
            keep_many(&mut replies, count, &text);
            assert!(held(&replies) <= MOST_BYTES, "{} of {count}", held(&replies));
            let entries: usize = replies.replies.values().map(|json| json.len() + ENTRY_BYTES).sum();
            assert_eq!((replies.bytes(), replies.order.len()), (entries, replies.len()));
            let in_order: HashSet<Fingerprint> = replies.order.iter().copied().collect();
            assert!(replies.replies.keys().all(|print| in_order.contains(print)));
        }
    }

    #[test]
    fn the_oldest_goes_where_there_is_too_much() {
        let mut replies = Replies::default();
        keep_many(&mut replies, 3, &"x".repeat(MOST_BYTES / 2 - 2 * ENTRY_BYTES));
        assert_eq!(
            [0, 1, 2].map(|number| replies.get(&place(number)).is_some()),
            [false, true, true]
        );
    }

    #[test]
    fn a_closed_one_holds_nothing_and_keeps_nothing() {
        let mut replies = Replies::default();
        keep_many(&mut replies, 1, "early");
        replies.close();
        keep_many(&mut replies, 3, "late");
        assert_eq!((held(&replies), replies.bytes(), replies.is_empty()), (0, 0, true));
    }
}
