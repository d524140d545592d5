//! The replies that a provider keeps beside its sessions: in memory, and in a [`Store`] on disk if its user has named one.
//!
//! In: JSON of a reply, by the fingerprint of the thread that it ends. Out: the same JSON. Memory is asked at once; it is bounded, and the
//! oldest replies go first. The store is asked on the pool for blocking work, before a thread is told to a session that knows nothing of
//! it, and what it has is in memory then.
//!
//! The store is for a process that comes after this one. A reply is a file of its own, so that processes share the folder without a lock,
//! and what is wrong with one concerns no other.
//!
//! ```text
//! DIR/replies/6f0c…      {"session":1}⏎ nonce (12 bytes), the JSON sealed by AES-256-GCM
//! DIR/empty/             the folder in which a CLI runs that tells its model where it is
//! ```
//!
//! The file's name and the key are derived from the fingerprint, in which are the instructions, the tools, the environment, the
//! login and all that was said. So nobody finds a reply, or can read it, who does not know the conversation up to it.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::hash::Hash;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Deserialize;
use tokio::task::JoinHandle;

use super::history::{Fingerprint, print};
use dfp_process::Vars;
use dfp_provider::options::Options;
use dfp_record::{FolderError, private_folder};

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
const MOST_BYTES: usize = 32 * 1024 * 1024;

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

/// The version of a file's format. A file of another version is left alone.
const VERSION: u64 = 1;
/// The first line of a file.
const HEAD: &str = "{\"session\":1}\n";
/// The longest first line that is looked for.
const MOST_HEAD: usize = 64;
/// The room that all replies may take, bytes.
const MOST_ROOM: u64 = 256 * 1024 * 1024;
/// The room that a file takes at least.
const BLOCK: u64 = 4096;
/// The room that is written before the folder is looked through again.
const UNTIL_PURGE: u64 = 16 * 1024 * 1024;
/// The time after which the folder is looked through again.
const PURGE_EVERY: Duration = Duration::from_secs(3600);
/// The age at which a file that was never finished is taken for one of a process that is gone.
const UNFINISHED: Duration = Duration::from_secs(600);
/// The beginning of the names of files that are not finished.
const NEW: &str = ".new-";

/// A folder of replies.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    max_age: Duration,
    state: Mutex<StoreState>,
}

#[derive(Debug, Default)]
struct StoreState {
    /// When the folder was last looked through.
    purged: Option<SystemTime>,
    /// The room that was taken since then.
    written: u64,
}

impl Store {
    /// The store in `folder`, whose replies go when they were not used for `max_age`. Nothing is touched yet.
    pub fn new(folder: &str, max_age: Duration) -> Store {
        // The path stays valid when the process changes its folder. An invalid one is reported when it is used.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder));
        Store {
            folder,
            max_age,
            state: Mutex::default(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A private folder with this name in it. Blocks.
    ///
    /// # Errors
    /// [`FolderError`]: of the folder itself, or of the one in it.
    pub fn make(&self, name: &str) -> Result<PathBuf, FolderError> {
        private_folder(&self.folder)?;
        let inner = self.folder.join(name);
        private_folder(&inner)?;
        Ok(inner)
    }

    /// Makes the folder, and removes from it what is too old or too much, now and then. Blocks.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn open(&self) -> Result<(), FolderError> {
        let replies = self.make("replies")?;
        let now = SystemTime::now();
        let is_due = {
            let mut state = self.lock();
            let age = state
                .purged
                .map(|purged| now.duration_since(purged).unwrap_or_default());
            let is_due = age.is_none_or(|age| age >= PURGE_EVERY) || state.written >= UNTIL_PURGE;
            if is_due {
                *state = StoreState {
                    purged: Some(now),
                    written: 0,
                };
            }
            is_due
        };
        if is_due {
            purge(&replies, self.max_age, MOST_ROOM, now)?;
        }
        Ok(())
    }

    fn path(&self, print: &Fingerprint) -> PathBuf {
        let name = &print.derived("name")[..16];
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join("replies").join(name)
    }

    /// The JSON that is stored under `print`, which counts as used now. Blocks.
    ///
    /// # Errors
    /// The reason why it can't be had, with the file's name.
    pub fn read(&self, print: &Fingerprint) -> Result<Option<String>, String> {
        let path = self.path(print);
        let told = |why: String| format!("{}: {why}", path.display());
        let (file, bytes) = match read(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(error.to_string())),
        };
        let now = SystemTime::now();
        let age = file.metadata().and_then(|found| found.modified());
        let age = age.map(|modified| now.duration_since(modified).unwrap_or_default());
        if age.as_ref().is_ok_and(|age| *age > self.max_age) {
            return Ok(None);
        }
        let json = opened(print, bytes).map_err(told)?;
        // A file whose age is not noted goes too early.
        if age.is_ok_and(|age| age > self.max_age / 8) {
            let _ = file.set_modified(now);
        }
        Ok(Some(json))
    }

    /// Stores `json` under `print`. What is stored already stays. Blocks.
    ///
    /// # Errors
    /// The reason why it is not stored.
    pub fn write(&self, print: &Fingerprint, json: &str) -> Result<(), String> {
        let path = self.path(print);
        if json.len() > MOST_BYTES || path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let sealed = sealed(print, json).map_err(str::to_owned)?;
        let room = (sealed.len() as u64).max(BLOCK);
        let written = self.open().map_err(|error| error.to_string()).and_then(|()| {
            let mut builder = tempfile::Builder::new();
            builder.prefix(NEW);
            let folder = path.parent().unwrap_or(&self.folder);
            let written = builder.tempfile_in(folder).and_then(|mut file| {
                file.write_all(&sealed)?;
                // Two processes that have the same reply: either is right.
                file.persist(&path).map(drop).map_err(io::Error::from)
            });
            written.map_err(|error| error.to_string())
        });
        written.map_err(|why| format!("{}: {why}", self.folder.display()))?;
        self.lock().written += room;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of the file for `print`.
fn key(print: &Fingerprint) -> Result<LessSafeKey, &'static str> {
    let key = UnboundKey::new(&AES_256_GCM, &print.derived("key"));
    key.map(LessSafeKey::new).map_err(|_| "it can't be sealed")
}

/// The content of the file for `json`.
fn sealed(print: &Fingerprint, json: &str) -> Result<Vec<u8>, &'static str> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(|_| "the system gives no random bytes")?;
    let mut text = json.as_bytes().to_vec();
    let unique = Nonce::assume_unique_for_key(nonce);
    let done = key(print)?.seal_in_place_append_tag(unique, Aad::from(HEAD), &mut text);
    done.map_err(|_| "it can't be sealed")?;
    Ok([HEAD.as_bytes(), &nonce, &text].concat())
}

/// The JSON in the content of a file.
fn opened(print: &Fingerprint, mut bytes: Vec<u8>) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Head {
        session: u64,
    }
    const DAMAGED: &str = "the file was damaged or edited after it was written";
    let end = bytes.iter().take(MOST_HEAD).position(|byte| *byte == b'\n');
    let head = end.and_then(|end| serde_json::from_slice::<Head>(&bytes[..end]).ok());
    match head {
        Some(head) if head.session != VERSION => {
            return Err(format!(
                "it is of version {}, and this package knows version {VERSION}",
                head.session
            ));
        }
        Some(_) if bytes.starts_with(HEAD.as_bytes()) => {}
        _ => return Err(DAMAGED.to_owned()),
    }
    let mut rest = bytes.split_off(HEAD.len());
    let (nonce, text) = rest.split_at_mut_checked(NONCE_LEN).ok_or(DAMAGED)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| DAMAGED)?;
    let text = key(print)?.open_in_place(nonce, Aad::from(HEAD), text);
    let text = text.map_err(|_| DAMAGED)?;
    String::from_utf8(text.to_vec()).map_err(|_| DAMAGED.to_owned())
}

/// The file at `path`, which is no link, and its content.
fn read(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits());
        options.custom_flags(flags.unwrap_or_default());
    }
    let mut file = options.open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > MOST_BYTES as u64 + BLOCK {
        return Err(io::Error::other("it is no file of this package's"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

/// Removes the files of `folder` that are older than `max_age`, and then the oldest until they fit into `most` bytes.
fn purge(folder: &Path, max_age: Duration, most: u64, now: SystemTime) -> io::Result<()> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Another process may have removed it just now.
        let Ok(found) = entry.metadata() else { continue };
        let Ok(modified) = found.modified() else { continue };
        let age = now.duration_since(modified).unwrap_or_default();
        let is_new = entry.file_name().to_string_lossy().starts_with(NEW);
        if !found.is_file() {
            continue;
        }
        match age > max_age || is_new && age > UNFINISHED {
            true => drop(std::fs::remove_file(entry.path())),
            false => left.push((modified, found.len().max(BLOCK), entry.path())),
        }
    }
    left.sort_unstable();
    let mut room: u64 = left.iter().map(|(_, room, _)| room).sum();
    for (_, size, path) in left {
        if room <= most {
            break;
        }
        room -= size;
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
