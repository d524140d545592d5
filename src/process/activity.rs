//! The activity table: what the CLI processes of this host are doing. `limits()` shows it, and the `status` command of another
//! program.
//!
//! In: starts and ends of processes that have a [`Label`], turns ([`turn`]), and the plan windows that providers report
//! ([`note_window`]). Out: a [`Snapshot`], on request ([`snapshot`]) or, on Linux, published for programs of the same user: a file
//! without a name that holds the latest state as one line of JSON, which the `status` command finds under `/proc/<pid>/fd`. It is
//! written at most once per `PAUSE`, kept in memory, belongs to this process alone and goes with it: nothing is written to a disk, and
//! no port is opened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::limit;
use dfp_model::budget::Per;
use dfp_model::message::Usage;

/// The number of conversations listed per process, the latest ones: a server may have had hundreds.
const CONVERSATIONS: usize = 8;

/// The number of conversations per process whose usage is added up: a server keeps up to a hundred of them.
const COUNTED: usize = 128;

/// The number of plan windows that are remembered: a provider has two or three kinds.
const WINDOWS: usize = 64;

/// The CLI that a process runs, and the engine that drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub provider: String,
    /// `print`, `live` or `warm`.
    pub engine: &'static str,
}

/// The current use of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// A call is under way in it.
    Working,
    /// The process keeps its conversations for their next calls.
    Resting,
    /// No call has reached the process yet: it is being started, or was started ahead of its first call.
    Spare,
}

/// One process, as `limits()` and `status` list it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessActivity {
    pub pid: u32,
    pub provider: String,
    /// `print`, `live` or `warm`.
    pub engine: String,
    /// The current use of the process.
    pub state: ProcessState,
    /// When it was started, ms since the epoch.
    pub started_at: u64,
    /// The value of [`super::RUN_VARIABLE`] in the environment of the process and of all that it starts.
    pub run: String,
    /// The CLI's ids of the conversations the process has had, the latest last, at most 8.
    pub conversations: Vec<String>,
    /// The tokens of all answers in it, as far as they were told; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The latest report of a provider about one limit of its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitWindow {
    pub provider: String,
    /// The folder of the login whose plan it is, if the option `login` names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// `five_hour`, `seven_day`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_type: Option<String>,
    /// `allowed`, `allowed_warning` or `rejected`.
    pub status: String,
    /// When the window ends, ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<u64>,
    /// Share used, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    /// When the provider reported this, ms since the epoch.
    pub at: u64,
}

/// The limits of a budget for one window. A kind without a limit is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The share of a window of the plan, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<f64>,
}

/// The part of a budget that is used up in its current window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetActivity {
    pub provider: String,
    pub per: Per,
    /// The file that other hosts count in as well; `None` for a budget of this process alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    pub limits: BudgetLimits,
    pub requests: u64,
    pub tokens: u64,
    /// US dollars, counting only the answers whose cost is known.
    pub cost_usd: f64,
    /// The number of answers whose cost is unknown.
    pub calls_without_cost: u64,
    /// When the window ends, ms since the epoch; `None` while no window is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<u64>,
    /// When this was counted, ms since the epoch.
    pub at: u64,
}

/// The number of runs of one binary or API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    pub running: usize,
    pub waiting: usize,
}

/// The number of runs of all binaries and APIs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllRuns {
    /// The largest number of runs at once.
    pub limit: usize,
    pub running: usize,
    pub waiting: usize,
}

/// The whole activity table at one moment: `ProcessLimits` of index.d.ts, without memory figures, which only the system knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// All binaries and APIs together.
    pub process_wide: AllRuns,
    /// The runs of each CLI or API, keyed by the CLI's file or the API's base URL.
    pub per_binary: BTreeMap<String, Runs>,
    /// The processes, sorted by their ids.
    pub processes: Vec<ProcessActivity>,
    /// The latest report of each provider and kind of window.
    pub rate_limits: Vec<RateLimitWindow>,
    /// The budgets that a call has used, in the order in which their providers were made. A program of an earlier version
    /// publishes none.
    #[serde(default)]
    pub budgets: Vec<BudgetActivity>,
    /// Where its gateways listen.
    #[serde(default)]
    pub gateways: Vec<String>,
}

#[derive(Debug)]
struct Entry {
    label: Label,
    run: String,
    started_at: u64,
    turns: usize,
    has_worked: bool,
    /// The latest last.
    conversations: VecDeque<Conversation>,
    usage: Option<Usage>,
}

/// A conversation in a process: the CLI's id, and the tokens of its answers.
#[derive(Debug, Default)]
struct Conversation {
    id: String,
    usage: Usage,
}

#[derive(Debug, Default)]
struct ActivityTable {
    processes: BTreeMap<u32, Entry>,
    windows: Vec<RateLimitWindow>,
    budgets: BTreeMap<u64, BudgetActivity>,
    gateways: Vec<String>,
}

static TABLE: LazyLock<Mutex<ActivityTable>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, ActivityTable> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current time, ms since the epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A process's entry in the table; dropping it removes the entry.
#[derive(Debug)]
pub(super) struct Listed(u32);

impl Drop for Listed {
    fn drop(&mut self) {
        table().processes.remove(&self.0);
        changed();
    }
}

/// Lists a process that has just started, if it has a label.
pub(super) fn list(pid: u32, run: &str, label: Option<Label>) -> Option<Listed> {
    let entry = Entry {
        label: label?,
        run: run.to_owned(),
        started_at: now_ms(),
        turns: 0,
        has_worked: false,
        conversations: VecDeque::new(),
        usage: None,
    };
    table().processes.insert(pid, entry);
    changed();
    Some(Listed(pid))
}

/// A call that is under way; it ends when this is dropped.
#[derive(Debug)]
pub struct Turn(Option<u32>);

/// Marks a call as under way in the process `pid`, or at an API (`None`).
pub fn turn(pid: Option<u32>) -> Turn {
    let turn = Turn(pid);
    turn.change(|entry| {
        entry.turns += 1;
        entry.has_worked = true;
    });
    turn
}

impl Turn {
    /// Adds the CLI's id of this call's conversation to the process's entry.
    pub fn note_conversation(&self, id: &str) {
        self.change(|entry| {
            entry.conversation(id);
        });
    }

    /// Adds the tokens of an answer in the conversation `id`, and returns those of all its answers in this process; `None` if the process is
    /// not listed any more, or the conversation has no id.
    pub fn note_usage(&self, id: Option<&str>, usage: &Usage) -> Option<Usage> {
        self.change(|entry| {
            entry.usage.get_or_insert_default().add(usage);
            let conversation = entry.conversation(id?);
            conversation.usage.add(usage);
            Some(conversation.usage.clone())
        })?
    }

    fn change<T>(&self, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let changed_to = self.0.and_then(|pid| table().processes.get_mut(&pid).map(change));
        changed();
        changed_to
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.change(|entry| entry.turns = entry.turns.saturating_sub(1));
    }
}

/// Remembers a provider's report about a limit of its plan; `at` is set here.
pub fn note_window(window: RateLimitWindow) {
    let window = RateLimitWindow { at: now_ms(), ..window };
    let mut table = table();
    let whose = |window: &RateLimitWindow| (window.provider.clone(), window.login.clone(), window.limit_type.clone());
    let own = whose(&window);
    let same = |known: &RateLimitWindow| whose(known) == own;
    table.windows.retain(|known| !same(known));
    if table.windows.len() == WINDOWS {
        table.windows.remove(0);
    }
    table.windows.push(window);
    drop(table);
    changed();
}

/// Remembers how much of the budget `number` is used up.
pub fn note_budget(number: u64, budget: BudgetActivity) {
    table().budgets.insert(number, budget);
    changed();
}

/// Removes the budget `number`, which no provider uses any more.
pub fn forget_budget(number: u64) {
    if table().budgets.remove(&number).is_some() {
        changed();
    }
}

/// Notes where gateways of this process listen: all of them. Called inside of a runtime, which publishes it.
pub fn note_gateways(addresses: Vec<String>) {
    table().gateways = addresses;
    changed();
}

/// Returns the whole table as it is now.
pub fn snapshot() -> Snapshot {
    let limiter = limit::global();
    let limit::LimiterState { all, keys } = limiter.snapshot();
    let runs = |load: limit::Load| Runs {
        running: load.running,
        waiting: load.waiting,
    };
    let table = table();
    Snapshot {
        process_wide: AllRuns {
            limit: limiter.limit(),
            running: all.running,
            waiting: all.waiting,
        },
        per_binary: keys.into_iter().map(|(key, load)| (key, runs(load))).collect(),
        processes: table
            .processes
            .iter()
            .map(|(pid, entry)| entry.activity(*pid))
            .collect(),
        rate_limits: table.windows.clone(),
        budgets: table.budgets.values().cloned().collect(),
        gateways: table.gateways.clone(),
    }
}

impl Entry {
    /// The conversation `id`, which becomes the latest.
    fn conversation(&mut self, id: &str) -> &mut Conversation {
        let known = self.conversations.iter().position(|known| known.id == id);
        let conversation = known.and_then(|at| self.conversations.remove(at));
        let conversation = conversation.unwrap_or_else(|| Conversation {
            id: id.to_owned(),
            ..Conversation::default()
        });
        if self.conversations.len() == COUNTED {
            self.conversations.pop_front();
        }
        self.conversations.push_back(conversation);
        let latest = self.conversations.len() - 1;
        &mut self.conversations[latest]
    }

    fn activity(&self, pid: u32) -> ProcessActivity {
        ProcessActivity {
            pid,
            provider: self.label.provider.clone(),
            engine: self.label.engine.to_owned(),
            state: match (self.turns, self.has_worked) {
                (0, false) => ProcessState::Spare,
                (0, true) => ProcessState::Resting,
                _ => ProcessState::Working,
            },
            started_at: self.started_at,
            run: self.run.clone(),
            conversations: self
                .conversations
                .iter()
                .skip(self.conversations.len().saturating_sub(CONVERSATIONS))
                .map(|conversation| conversation.id.clone())
                .collect(),
            usage: self.usage.clone(),
        }
    }
}

/// The name under which the published file shows in `/proc`; it is not a path.
#[cfg(target_os = "linux")]
pub const PUBLISHED_NAME: &str = "deep-factor-status";

#[cfg(not(target_os = "linux"))]
pub(super) fn changed() {}

#[cfg(target_os = "linux")]
pub(super) use published::changed;

#[cfg(target_os = "linux")]
mod published {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::{PUBLISHED_NAME, snapshot};

    /// The time for which changes are gathered before they are written.
    const PAUSE: Duration = Duration::from_millis(100);

    /// True while a task is about to write.
    static IS_DUE: AtomicBool = AtomicBool::new(false);

    /// The file, made at the first change rather than at the first write, so that every count of this process's
    /// open files includes it.
    static FILE: OnceLock<Option<File>> = OnceLock::new();

    /// Publishes the table soon. Costs an atomic operation; the first of several changes starts a task. Outside of a runtime
    /// nothing happens: the next change inside of one publishes both.
    pub fn changed() {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        FILE.get_or_init(|| create().ok());
        if !IS_DUE.swap(true, Ordering::AcqRel) {
            runtime.spawn(async {
                // The flag is cleared even if the runtime ends first.
                let due = Due;
                tokio::time::sleep(PAUSE).await;
                drop(due);
                if let Some(Some(file)) = FILE.get() {
                    // After a failure, the `status` command sees less.
                    let _ = write(file);
                }
            });
        }
    }

    struct Due;

    impl Drop for Due {
        fn drop(&mut self) {
            IS_DUE.store(false, Ordering::Release);
        }
    }

    fn create() -> io::Result<File> {
        let file = rustix::fs::memfd_create(PUBLISHED_NAME, rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(File::from(file))
    }

    /// Replaces the file's content. A reader may see part of it, and reads again until the line is whole.
    fn write(file: &File) -> io::Result<()> {
        let mut line = serde_json::to_vec(&snapshot())?;
        line.push(b'\n');
        file.write_all_at(&line, 0)?;
        file.set_len(line.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process ids that no process has: all tests of this program share the table.
    const PID: u32 = u32::MAX - 1;

    fn found(pid: u32) -> Option<ProcessActivity> {
        snapshot().processes.into_iter().find(|process| process.pid == pid)
    }

    #[test]
    fn a_process_is_a_spare_then_works_then_rests_and_is_gone() {
        let label = Label {
            provider: "claude".to_owned(),
            engine: "live",
        };
        let listed = list(PID, "run-1", Some(label)).unwrap();
        let at_first = found(PID).unwrap();
        let state = || found(PID).unwrap().state;
        let expected = ProcessActivity {
            pid: PID,
            provider: "claude".to_owned(),
            engine: "live".to_owned(),
            state: ProcessState::Spare,
            started_at: at_first.started_at,
            run: "run-1".to_owned(),
            conversations: Vec::new(),
            usage: None,
        };
        assert_eq!(at_first, expected);
        assert!(at_first.started_at > 0);
        let (one, other) = (turn(Some(PID)), turn(Some(PID)));
        assert_eq!(state(), ProcessState::Working);
        for number in 0..CONVERSATIONS + 1 {
            one.note_conversation(&number.to_string());
        }
        one.note_conversation("3");
        let used = |input_tokens, cache_read_tokens| Usage {
            input_tokens,
            cache_read_tokens: Some(cache_read_tokens),
            ..Usage::default()
        };
        // Every conversation is counted for itself, also one that is no longer listed, and the process all of them.
        assert_eq!(one.note_usage(Some("0"), &used(100, 0)), Some(used(100, 0)));
        assert_eq!(one.note_usage(Some("3"), &used(50, 50)), Some(used(50, 50)));
        assert_eq!(one.note_usage(Some("0"), &used(100, 90)), Some(used(200, 90)));
        one.note_conversation("3");
        assert_eq!(found(PID).unwrap().usage, Some(used(250, 140)));
        drop(one);
        assert_eq!(state(), ProcessState::Working);
        drop(other);
        assert_eq!(state(), ProcessState::Resting);
        assert_eq!(
            found(PID).unwrap().conversations,
            ["2", "4", "5", "6", "7", "8", "0", "3"]
        );
        drop(listed);
        assert_eq!(found(PID), None);
        // Nothing is known of a process that is gone, or was never listed.
        turn(Some(PID)).note_conversation("x");
        assert_eq!(found(PID), None);
        assert!(list(PID, "run-2", None).is_none());
    }

    #[test]
    fn the_latest_window_of_each_kind_counts() {
        let window = |limit_type: &str, resets_at| RateLimitWindow {
            provider: "a provider of this test".to_owned(),
            login: None,
            limit_type: Some(limit_type.to_owned()),
            status: "allowed".to_owned(),
            resets_at: Some(resets_at),
            utilization: None,
            at: 0,
        };
        for (kind, resets_at) in [("five_hour", 1), ("seven_day", 2), ("five_hour", 3)] {
            note_window(window(kind, resets_at));
        }
        note_window(RateLimitWindow {
            login: Some("/another".to_owned()),
            ..window("five_hour", 4)
        });
        let windows = snapshot().rate_limits;
        let own = windows
            .iter()
            .filter(|known| known.provider.starts_with("a provider of this"));
        let own: Vec<_> = own
            .map(|known| (known.limit_type.as_deref(), known.login.as_deref(), known.resets_at))
            .collect();
        let told = [
            (Some("seven_day"), None, Some(2)),
            (Some("five_hour"), None, Some(3)),
            (Some("five_hour"), Some("/another"), Some(4)),
        ];
        assert_eq!(own, told);
    }
}
