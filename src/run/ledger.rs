//! Counts the usage of budgets, in this process or in a file that several processes share.
//!
//! In: requests that want to begin, and their usage. Out: whether they may begin ([`Ledger::admit`]). `budget` defines how usage
//! counts; this module keeps the count, and makes sure that nobody counts beside it.
//!
//! A request is counted before it begins, so that of several at the same time no more are admitted than the budget allows. A
//! process that is killed in between has used its request: only a request that is known not to have begun is given back.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use dfp_model::budget::{Admitted, Budget, Per, PlanWindow, PlanWindows, Used, UsedUp, Window};
use dfp_model::error::{Code, ProviderError};
use dfp_process::activity::{self, BudgetActivity};
use dfp_provider::classify;
use dfp_provider::options;
use dfp_record::checkpoint::{self, CheckpointError};

/// The number of the next ledger, by which `status` knows it.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The usage of the budget of one provider object, or of all that share its store.
#[derive(Debug)]
pub struct Ledger {
    number: u64,
    provider: String,
    budget: Budget,
    state: Mutex<LedgerState>,
    /// The windows of the plan, as answers have told them.
    plan: Mutex<PlanWindows>,
    /// The warning that costs are unknown was given.
    warned: AtomicBool,
}

/// The state of a ledger in this process.
#[derive(Debug, Default)]
struct LedgerState {
    /// The window. With a store, this is its state when the store was last read.
    window: Window,
    /// The store's file as it was then.
    seen: Option<Seen>,
    /// Usage that the store did not take. The next request tries again.
    unkept: Vec<Used>,
}

/// The reason why a request may not begin.
#[derive(Debug)]
pub enum Refused {
    UsedUp(UsedUp),
    /// The store can't be used, for this reason.
    Store(String),
    /// Another process has locked the store for too long.
    Busy(String),
    /// The store can't be used at the moment: the disk is full, too many files are open, or somebody has emptied it.
    Passing(String),
}

/// A flag that is set when this is dropped, because nobody waits any more.
struct LedgerWaiter(Arc<AtomicBool>);

impl Drop for LedgerWaiter {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Refused {
    /// The error of `provider`'s call.
    pub fn into_error(self, provider: &str) -> Box<ProviderError> {
        let error = match self {
            Refused::UsedUp(used_up) => {
                let reason = format!("the budget is used up: {}", used_up.what);
                let hint = classify::hint(provider, Code::BudgetExceeded);
                let error = ProviderError::new(provider, Code::BudgetExceeded, reason).with_hint(hint);
                ProviderError {
                    resets_at: Some(used_up.resets_at),
                    ..error
                }
            }
            Refused::Store(why) => {
                let reason = format!("option \"budget.store\" names a file that can't be used: {why}");
                let hint = "name another file, or remove this one: then nothing has been used";
                ProviderError::new(provider, Code::InvalidOption, reason).with_hint(hint)
            }
            Refused::Busy(why) => {
                let reason = format!("the store of the budget can't be had: {why}");
                let hint = "try again, or look which process has it: none keeps it for longer than a moment";
                ProviderError::new(provider, Code::Overloaded, reason).with_hint(hint)
            }
            Refused::Passing(why) => {
                let reason = format!("the store of the budget can't be used just now: {why}");
                let hint = "make room on the disk, let more files be open, or restore the file: each try looks again";
                ProviderError::new(provider, Code::Overloaded, reason).with_hint(hint)
            }
        };
        Box::new(error)
    }
}

/// A ledger for the budget in `options_json`, `{"budget": …}`. `name` stands for the provider.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, its value and what is allowed; also if there is no budget.
pub fn of_options(name: &str, options_json: &str) -> Result<Ledger, Box<ProviderError>> {
    let refuse = |reason| Box::new(ProviderError::new(name, Code::InvalidOption, reason));
    let map = options::checked(name, &[options::BUDGET], options_json)?;
    match options::budget(&map).map_err(refuse)? {
        Some(Budget { plan: Some(_), .. }) => Err(refuse(
            "option \"budget.plan\" is a provider's: a key has no plan of its own".to_owned(),
        )),
        Some(budget) => Ok(Ledger::new(name, budget)),
        None => Err(refuse("option \"budget\" must be an object with limits".to_owned())),
    }
}

impl Ledger {
    /// A ledger of `budget`, whose usage `provider` makes. The store is not touched before the first request.
    pub fn new(provider: &str, mut budget: Budget) -> Ledger {
        // The path is made absolute, so that it stays valid when the process changes its folder. An invalid path is reported by the
        // first request.
        if let Some(store) = &mut budget.store
            && let Ok(path) = std::path::absolute(&store)
            && let Ok(path) = path.into_os_string().into_string()
        {
            *store = path;
        }
        Ledger {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            provider: provider.to_owned(),
            budget,
            state: Mutex::default(),
            plan: Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// The id of the provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// `true`, once, if the budget limits costs: the caller then warns that an answer has no known cost.
    pub fn misses_cost(&self) -> bool {
        self.budget.cost_usd.is_some() && !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Notes what an answer has told of a window of the plan.
    pub fn note_plan(&self, window: PlanWindow) {
        self.plan().note(window);
    }

    fn plan(&self) -> MutexGuard<'_, PlanWindows> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hides the ledger from `status`, because its provider is closed.
    pub fn hide(&self) {
        activity::forget_budget(self.number);
    }

    /// Admits a request and counts it, before it begins. If the future is dropped while it waits for the store, nothing is counted.
    ///
    /// # Errors
    /// [`Refused`]; nothing was counted.
    pub async fn admit(self: &Arc<Self>, now_ms: u64) -> Result<Admitted, Refused> {
        if let Some(share) = self.budget.plan {
            self.plan().check(share, now_ms).map_err(Refused::UsedUp)?;
        }
        let waiting = LedgerWaiter(Arc::default());
        let counted = self.change(now_ms, Arc::clone(&waiting.0), move |window, budget, now_ms| {
            window.admit(budget, now_ms)
        });
        let counted = counted.await.map_err(|Unusable { why, kind }| match kind {
            Trouble::Busy => Refused::Busy(why),
            Trouble::Passing => Refused::Passing(why),
            Trouble::Unfit => Refused::Store(why),
        })?;
        counted.map_err(Refused::UsedUp)
    }

    /// Returns the count of a request that did not begin.
    ///
    /// # Errors
    /// The reason why the store did not take it. The request then stays counted.
    pub async fn give_back(self: &Arc<Self>, admitted: Admitted, now_ms: u64) -> Result<(), String> {
        let given = self.change(now_ms, Arc::default(), move |window, _, _| window.give_back(admitted));
        given.await.map_err(|unusable| unusable.why)
    }

    /// Counts the usage of a request.
    ///
    /// # Errors
    /// The reason why the store did not take it. The usage is counted with the next request, which is refused if that fails, too.
    pub async fn settle(self: &Arc<Self>, used: Used, now_ms: u64) -> Result<(), String> {
        let kept = self.change(now_ms, Arc::default(), move |window, budget, now_ms| {
            window.add(used, budget.per, now_ms)
        });
        let kept = kept.await;
        if kept.is_err() {
            self.locked().unkept.push(used);
        }
        kept.map_err(|unusable| unusable.why)
    }

    /// Changes the window, and returns once the change is stored. `change` gets the time in ms since the epoch: `now_ms`, or with a
    /// store the time at which that was free.
    ///
    /// # Errors
    /// The store can't be used, or the change `is_abandoned`.
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        now_ms: u64,
        is_abandoned: Arc<AtomicBool>,
        change: impl FnOnce(&mut Window, &Budget, u64) -> T + Send + 'static,
    ) -> Result<T, Unusable> {
        let Some(store) = &self.budget.store else {
            let mut state = self.locked();
            let changed = change(&mut state.window, &self.budget, now_ms);
            self.tell(&state.window, now_ms);
            return Ok(changed);
        };
        let (ledger, path) = (Arc::clone(self), PathBuf::from(store));
        // The disk may be slow, and another process may have the lock.
        let began = Instant::now();
        let work = tokio::task::spawn_blocking(move || {
            let budget = &ledger.budget;
            // The usage is taken only once the file is locked, so that waiting for the lock holds up no other call.
            let mut taken = Vec::new();
            let look = Look {
                seen: ledger.locked().seen,
                is_abandoned: &is_abandoned,
            };
            let done = update_store(Path::new(&path), budget.per, look, |window| {
                let now_ms = now_ms.saturating_add(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
                taken = std::mem::take(&mut ledger.locked().unkept);
                for used in &taken {
                    window.add(*used, budget.per, now_ms);
                }
                (change(window, budget, now_ms), *window, now_ms)
            });
            match done {
                Ok(((changed, window, now_ms), seen)) => {
                    let mut state = ledger.locked();
                    (state.window, state.seen) = (window, Some(seen));
                    drop(state);
                    ledger.tell(&window, now_ms);
                    Ok(changed)
                }
                Err(unusable) => {
                    ledger.locked().unkept.append(&mut taken);
                    Err(unusable)
                }
            }
        });
        let unended = |error: tokio::task::JoinError| Unusable {
            why: error.to_string(),
            kind: Trouble::Unfit,
        };
        work.await.unwrap_or_else(|error| Err(unended(error)))
    }

    fn locked(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the window for `status`. A budget of the plan alone has no window of its own: those of the plan are shown there already.
    fn tell(&self, window: &Window, now_ms: u64) {
        let budget = &self.budget;
        if (budget.requests, budget.tokens, budget.cost_usd) == (None, None, None) {
            return;
        }
        activity::note_budget(
            self.number,
            BudgetActivity {
                provider: self.provider.clone(),
                per: budget.per,
                store: budget.store.clone(),
                limits: activity::BudgetLimits {
                    requests: budget.requests,
                    tokens: budget.tokens,
                    cost_usd: budget.cost_usd,
                    plan: budget.plan,
                },
                requests: window.requests,
                tokens: window.tokens,
                cost_usd: window.cost_usd,
                calls_without_cost: window.without_cost,
                resets_at: window.ends_at(budget.per, now_ms),
                at: now_ms,
            },
        );
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.hide();
    }
}

// The store of a budget: a file in which several processes count together.
//
// In: a path, and a change of a window. Out: the changed file. A process has the file alone while it changes it, by the same lock
// of the operating system as for checkpoints, which ends with the process.
//
// ```text
// {"budget":1,"serial":6,"minute":…,"hour":…,"day":…,"sum":"…"}      two lines of one length, blanks before their ends:
// {"budget":1,"serial":7,"minute":…,"hour":…,"day":…,"sum":"…"}      the one with the greater serial counts
// ```
//
// A change overwrites the line that does not count, so if a crash tears it, the other line is left. There is a window of each
// length, so budgets with different lengths may share a file, and are counted separately.

/// The version of the format. Files of a newer version are refused, since their meaning is unknown.
const VERSION: u64 = 1;
/// The bytes of a line; with the longest numbers 600 are used.
const LINE: usize = 1024;
/// The longest wait for the changes of other processes, each of which takes about 100 µs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The first pause between two looks at a lock that another process has. It doubles each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The contents of a line: a window of each length. `budget` is the format's version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    budget: u64,
    /// A number that grows by one with each change.
    serial: u64,
    minute: Window,
    hour: Window,
    day: Window,
}

impl Counts {
    fn window(&mut self, per: Per) -> &mut Window {
        match per {
            Per::Minute => &mut self.minute,
            Per::Hour => &mut self.hour,
            Per::Day => &mut self.day,
        }
    }

    /// The counts of a new file.
    fn of_nobody(serial: u64) -> Counts {
        Counts {
            budget: VERSION,
            serial,
            ..Counts::default()
        }
    }

    /// The line of these counts. The longest fits.
    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = Vec::with_capacity(LINE);
        checkpoint::write_with_sum(serde_json::to_vec(self)?, &mut line);
        line.pop();
        line.resize(LINE - 1, b' ');
        line.push(b'\n');
        Ok(line)
    }
}

/// The reason why the file can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unusable {
    /// The reason as text, with the file's name.
    pub why: String,
    pub kind: Trouble,
}

/// The kinds of reasons why a file can't be used, by whether it may be usable again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The file is no store, or there can't be one at this path.
    Unfit,
    /// Another process has the lock, and may release it.
    Busy,
    /// The system can't do it at the moment (a full disk, too many open files), or another program is changing the file.
    Passing,
}

/// A file as this process last saw it. Its serial can only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    file: FileId,
    serial: u64,
}

/// The device and inode, on systems that have them.
type FileId = Option<(u64, u64)>;

/// The conditions of a change.
struct Look<'a> {
    /// The file as this process last saw it.
    pub seen: Option<Seen>,
    /// Nobody waits for the change any more, so it must not be made.
    pub is_abandoned: &'a AtomicBool,
}

/// Applies `change` to the window of the length `per` in the file at `path`, which is made if there is none (0600). Returns the
/// result of `change`, and the file's new state. Blocks.
///
/// # Errors
/// The reason why the file can't be used. Nothing was changed in it then.
fn update_store<T>(
    path: &Path,
    per: Per,
    look: Look<'_>,
    change: impl FnOnce(&mut Window) -> T,
) -> Result<(T, Seen), Unusable> {
    let unusable = |why: &dyn std::fmt::Display, kind| Unusable {
        why: format!("{}: {why}", path.display()),
        kind,
    };
    let io = |error: io::Error| unusable(&error, kind_of(&error));
    let mut file = match lock(path, look.is_abandoned) {
        Ok(Some(file)) => file,
        Ok(None) => {
            let waited = LONGEST_WAIT.as_secs();
            let why = format!("another process has kept it locked for {waited} s");
            return Err(unusable(&why, Trouble::Busy));
        }
        Err((why, kind)) => return Err(unusable(&why, kind)),
    };
    let id = id_of(&file).map_err(io)?;
    let bytes = read(&mut file).map_err(io)?;
    let was_used = look
        .seen
        .is_some_and(|seen| id.is_some() && seen.file == id && seen.serial > 1);
    let mut counts = if initial().map_err(io)?.starts_with(&bytes) && bytes.len() < 2 * LINE {
        if was_used {
            let why = "it was emptied while it was in use, so nobody knows what was used: remove it to begin anew";
            return Err(unusable(&why, Trouble::Passing));
        }
        begin(&mut file).map_err(io)?
    } else {
        // Another program may be in the middle of rewriting the file.
        let is_cut = bytes.len() < 2 * LINE;
        let kind = if was_used && is_cut && is_ours(&bytes) {
            Trouble::Passing
        } else {
            Trouble::Unfit
        };
        parse(&bytes).map_err(|why| unusable(&why, kind))?
    };
    let before = *counts.window(per);
    let changed = change(counts.window(per));
    if *counts.window(per) != before {
        counts.serial = counts.serial.saturating_add(1);
        write(&mut file, &counts).map_err(io)?;
    }
    let seen = Seen {
        file: id,
        serial: counts.serial,
    };
    Ok((changed, seen))
}

/// The kind of trouble that the system's `error` means.
fn kind_of(error: &io::Error) -> Trouble {
    let is_passing = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::OutOfMemory
    );
    match is_passing || has_too_many_files(error) {
        true => Trouble::Passing,
        false => Trouble::Unfit,
    }
}

#[cfg(unix)]
fn has_too_many_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(windows)]
fn has_too_many_files(error: &io::Error) -> bool {
    /// The error code `ERROR_TOO_MANY_OPEN_FILES`.
    const TOO_MANY: i32 = 4;
    error.raw_os_error() == Some(TOO_MANY)
}

#[cfg(unix)]
fn id_of(file: &File) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map(|found| Some((found.dev(), found.ino())))
}

#[cfg(windows)]
fn id_of(_: &File) -> io::Result<FileId> {
    Ok(None)
}

/// Locks the file for this process until it is dropped; `None` if other processes have had the lock for too long.
fn lock(path: &Path, is_abandoned: &AtomicBool) -> Result<Option<File>, (String, Trouble)> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if is_abandoned.load(Ordering::Relaxed) {
            return Err(("nobody waits for it any more".to_owned(), Trouble::Busy));
        }
        match checkpoint::lock(path) {
            // Otherwise the file was removed or replaced meanwhile, and others count in the new one.
            Ok(Some(file)) if checkpoint::is_at(&file, path) => return Ok(Some(file)),
            Ok(_) => {}
            Err(CheckpointError::Unsafe(_, why)) => return Err((why.to_owned(), Trouble::Unfit)),
            Err(CheckpointError::Io(_, error)) => return Err((error.to_string(), kind_of(&error))),
            Err(other) => return Err((other.to_string(), Trouble::Unfit)),
        }
        if began.elapsed() > LONGEST_WAIT {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Reads the whole file. Of one that is too long to be a store, a little more than a store is read.
fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(2 * LINE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn initial() -> io::Result<Vec<u8>> {
    Ok([Counts::of_nobody(0).line()?, Counts::of_nobody(1).line()?].concat())
}

/// Writes the counts of a new store, because the file is new or a crash interrupted its making.
fn begin(file: &mut File) -> io::Result<Counts> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&initial()?)?;
    // After a crash, missing blocks would read as zeros, which look like damage.
    file.sync_data()?;
    Ok(Counts::of_nobody(1))
}

/// `true` if the bytes begin like a store.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"budget\":")
}

/// The counts of the valid line with the greater serial.
fn parse(bytes: &[u8]) -> Result<Counts, String> {
    if bytes.len() != 2 * LINE {
        return Err(match is_ours(bytes) && bytes.len() < 2 * LINE {
            true => format!("it was cut: it has {} bytes of {}", bytes.len(), 2 * LINE),
            false => "it is no store of budgets".to_owned(),
        });
    }
    // If a newer version of this package has written one line, the other one is outdated.
    if let Some(newer) = bytes.chunks(LINE).find_map(newer) {
        return Err(format!(
            "it is of version {newer}, and this package knows version {VERSION}"
        ));
    }
    let lines = bytes.chunks(LINE).zip(0_u64..);
    let read = lines.map(|(line, place)| parse_line(line, place));
    let (whole, wrong): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    let latest = whole.into_iter().flatten().max_by_key(|counts| counts.serial);
    let Some(counts) = latest else {
        return Err(wrong.into_iter().find_map(Result::err).unwrap_or_default());
    };
    Ok(counts)
}

/// The version of a complete line, if it is another one.
fn newer(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Versioned {
        budget: u64,
    }
    let text = line.trim_ascii_end();
    let Versioned { budget } = serde_json::from_slice(text)
        .ok()
        .filter(|_| checkpoint::fits_sum(text))?;
    (budget != VERSION).then_some(budget)
}

/// Reads and checks the line at `place`, 0 or 1. Even serials stand in the first line, odd ones in the second, so that a change
/// never overwrites the line that counts.
fn parse_line(line: &[u8], place: u64) -> Result<Counts, String> {
    let number = place + 1;
    let text = line.trim_ascii_end();
    if !text.starts_with(b"{\"budget\":") {
        return Err("it is no store of budgets".to_owned());
    }
    if !checkpoint::fits_sum(text) {
        return Err(format!(
            "line {number} does not fit its checksum: the file was damaged or edited after it was written"
        ));
    }
    let value: serde_json::Value = serde_json::from_slice(text).map_err(|error| format!("line {number}: {error}"))?;
    if value["budget"].as_u64() != Some(VERSION) {
        return Err("it is no store of budgets".to_owned());
    }
    for name in Per::NAMES {
        serde_json::from_value::<Window>(value[name].clone())
            .map_err(|error| format!("line {number}, the field \"{name}\": {error}"))?;
    }
    let counts: Counts = serde_json::from_value(value).map_err(|error| format!("line {number}: {error}"))?;
    match counts.serial % 2 == place {
        true => Ok(counts),
        false => Err(format!(
            "line {number}, the field \"serial\": {} is the other line's",
            counts.serial
        )),
    }
}

fn write(file: &mut File, counts: &Counts) -> io::Result<()> {
    let place = (counts.serial % 2) * LINE as u64;
    file.seek(SeekFrom::Start(place))?;
    file.write_all(&counts.line()?)
}

#[cfg(test)]
mod tests;
