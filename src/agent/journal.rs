//! The durable record of a run: every turn of its models, every decision, and the beginning and end of every tool.
//!
//! In: the entries that earlier attempts at the run have left, and what happens in this one. Out: what had happened already (a [`Recorded`] by
//! its place), and entries for the caller's store, each confirmed before the run goes on. The driver works the same with and without a journal:
//! where an effect has happened before, its result is taken from here instead of from the world.
//!
//! A place names a point in the run: `2` is the second turn, `2.3` its third call, `2.3/1` the first turn of the agent to which that call hands
//! a task. A turn's calls are fixed once it is recorded, so a place names the same call in every attempt.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::event::{AgentEvent, Kind, Resumed};
use super::pending::HostRequests;
use super::spec::Fingerprint;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Reply;
use dfp_model::message::{Content, Spent, ToolCall, ToolResult, Usage};

/// The version of the entries' format. Entries of a newer version are refused, since their meaning is unknown.
const VERSION: u64 = 1;

/// How long a store that doesn't answer is waited for once the run is cancelled.
const PATIENCE: Duration = Duration::from_secs(10);

/// One entry as it is stored. The object is flat so that arguments and contents keep their JSON text unchanged. The first entry may also have a
/// `trace`, which belongs to telemetry (`telemetry/agent.cjs`).
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    /// The format's [`VERSION`].
    v: u64,
    /// The entry's number: from 0, without gaps.
    seq: u64,
    #[serde(rename = "type")]
    kind: String,
    /// The place in the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Fingerprint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Box<Reply>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

/// The fields that an entry of any version has.
#[derive(Deserialize)]
struct Version {
    v: Option<u64>,
    seq: Option<u64>,
}

/// One entry.
#[derive(Debug)]
pub(super) enum Entry {
    /// The first entry: the run's id and options.
    Run { run_id: String, run: Fingerprint },
    /// The reply of a turn; stored before any of its calls begins.
    Turn { at: String, reply: Box<Reply> },
    /// The tokens of a turn that failed.
    Spent(Spent),
    /// The decision on whether a call may run.
    Decision { at: String, decision: Decision },
    /// A tool is about to begin; stored before it does.
    ToolBegun { at: String },
    /// A tool, or an agent that got a task, has ended; stored before the model learns of it.
    ToolEnded {
        at: String,
        answer: ToolResult,
        spent: Spent,
    },
}

impl Line {
    fn of(entry: Entry, seq: u64) -> Line {
        let line = |kind: &str, at: String| Line {
            v: VERSION,
            seq,
            kind: kind.to_owned(),
            at,
            ..Line::default()
        };
        match entry {
            Entry::Run { run_id, run } => Line {
                run_id: Some(run_id),
                run: Some(run),
                ..line("run", String::new())
            },
            Entry::Turn { at, reply } => Line {
                reply: Some(reply),
                ..line("turn", at)
            },
            Entry::Spent(spent) => Line {
                usage: Some(spent.usage),
                cost_usd: spent.cost_usd,
                ..line("spent", String::new())
            },
            Entry::Decision { at, decision } => Line {
                allow: Some(decision.allow),
                reason: decision.reason,
                args: decision.args,
                ..line("decision", at)
            },
            Entry::ToolBegun { at } => line("tool_begun", at),
            Entry::ToolEnded { at, answer, spent } => Line {
                content: Some(answer.content),
                is_error: Some(answer.is_error),
                usage: (spent != Spent::default()).then_some(spent.usage),
                cost_usd: spent.cost_usd,
                ..line("tool_ended", at)
            },
        }
    }

    /// Reads the entry out of the line; `None` if a field is missing that its kind needs.
    fn entry(self) -> Option<Entry> {
        let spent = || Spent {
            usage: self.usage.clone().unwrap_or_default(),
            cost_usd: self.cost_usd,
        };
        Some(match self.kind.as_str() {
            "run" => Entry::Run {
                run_id: self.run_id?,
                run: self.run?,
            },
            "spent" => Entry::Spent(spent()),
            _ if self.at.is_empty() => return None,
            "turn" => Entry::Turn {
                at: self.at,
                reply: self.reply?,
            },
            "decision" => Entry::Decision {
                at: self.at,
                decision: Decision {
                    allow: self.allow?,
                    reason: self.reason,
                    args: self.args,
                },
            },
            "tool_begun" => Entry::ToolBegun { at: self.at },
            "tool_ended" => Entry::ToolEnded {
                spent: spent(),
                answer: ToolResult {
                    content: self.content?,
                    is_error: self.is_error?,
                },
                at: self.at,
            },
            _ => return None,
        })
    }
}

/// A decision on whether a call may run.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    pub allow: bool,
    pub reason: Option<String>,
    pub args: Option<Box<RawValue>>,
}

/// Everything that earlier attempts have recorded at one place.
#[derive(Debug, Default)]
struct Recorded {
    reply: Option<Box<Reply>>,
    decision: Option<Decision>,
    begun: bool,
    ended: Option<(ToolResult, Spent)>,
}

/// The journal of a run. For a run without a checkpoint it is off: empty, and it stores nothing.
#[derive(Debug, Default)]
pub(super) struct Journal {
    recorded: HashMap<String, Recorded>,
    /// The tokens and cost of turns that failed.
    pub lost: Spent,
    /// The options to store as the first entry; `None` if an earlier attempt has stored it.
    pub begins: Option<Fingerprint>,
    pub resumed: Option<Resumed>,
    /// The number of the next entry; `None` if the journal is off.
    next: Option<Mutex<u64>>,
}

impl Journal {
    /// Reads the journal from `entries` (JSON texts) of the run `run_id`, whose options are `now`. The second value lists harmless changes of
    /// the options since the run was begun.
    ///
    /// # Errors
    /// `CHECKPOINT_INVALID`: an entry can't be read, is missing, or is of a newer version. `CHECKPOINT_MISMATCH`: the run was begun
    /// with other options.
    pub fn read(
        entries: &[String],
        run_id: &str,
        now: Fingerprint,
    ) -> Result<(Journal, Vec<String>), Box<ProviderError>> {
        let mut journal = Journal::default();
        let (mut next, mut changes) = (0, Vec::new());
        for text in entries {
            let line = read(text, next)?;
            // An entry that is there twice: its store was asked once more after it had taken the entry.
            if line.seq < next {
                continue;
            }
            if line.seq > next {
                let reason = format!(
                    "entry {next} is missing: entry {} follows on {}",
                    line.seq,
                    next.saturating_sub(1)
                );
                return Err(invalid(&reason));
            }
            let entry = line.entry().ok_or_else(|| invalid(&format!("entry {next} is none")))?;
            if next == 0 && !matches!(entry, Entry::Run { .. }) {
                return Err(invalid("its first entry does not say which run it is of"));
            }
            next += 1;
            match entry {
                Entry::Run { run_id: id, run } => {
                    if id != run_id {
                        return Err(mismatch(&format!("it is the run \"{id}\"")));
                    }
                    changes = run.compare(&now).map_err(|reason| mismatch(&reason))?;
                }
                entry => journal.keep(entry),
            }
        }
        journal.next = Some(Mutex::new(next));
        match next {
            0 => journal.begins = Some(now),
            _ => journal.resumed = Some(journal.count()),
        }
        Ok((journal, changes))
    }

    /// Adds an entry of an earlier attempt to what is recorded.
    fn keep(&mut self, entry: Entry) {
        match entry {
            Entry::Run { .. } => {}
            Entry::Turn { at, reply } => self.at(at).reply = Some(reply),
            Entry::Spent(spent) => self.lost.add(&spent),
            Entry::Decision { at, decision } => self.at(at).decision = Some(decision),
            Entry::ToolBegun { at } => self.at(at).begun = true,
            Entry::ToolEnded { at, answer, spent } => self.at(at).ended = Some((answer, spent)),
        }
    }

    fn at(&mut self, at: String) -> &mut Recorded {
        self.recorded.entry(at).or_default()
    }

    /// Adds up the entries.
    fn count(&self) -> Resumed {
        let mut spent = self.lost.clone();
        let mut resumed = Resumed::default();
        for (at, recorded) in self.recorded.iter().collect::<BTreeMap<_, _>>() {
            if let Some(reply) = &recorded.reply {
                resumed.steps += u32::from(!at.contains('/'));
                spent.add(&Spent {
                    usage: reply.usage.clone(),
                    cost_usd: reply.cost_usd,
                });
            }
            resumed.tool_calls += u32::from(recorded.ended.is_some());
        }
        (resumed.usage, resumed.cost_usd) = (spent.usage, spent.cost_usd);
        resumed
    }

    /// `true` if the run has a checkpoint, so that entries are stored.
    pub fn is_on(&self) -> bool {
        self.next.is_some()
    }

    /// The reply of the turn at this place, if it had ended in an earlier attempt.
    pub fn turn(&self, at: &str) -> Option<Box<Reply>> {
        self.recorded.get(at)?.reply.clone()
    }

    /// The decision about the call at this place, if an earlier attempt has one.
    pub fn decision(&self, at: &str) -> Option<Decision> {
        self.recorded.get(at)?.decision.clone()
    }

    /// `true` if the tool of the call at this place had begun in an earlier attempt.
    pub fn begun(&self, at: &str) -> bool {
        self.recorded.get(at).is_some_and(|recorded| recorded.begun)
    }

    /// The result of the call at this place, if it had ended in an earlier attempt.
    pub fn ended(&self, at: &str) -> Option<(ToolResult, Spent)> {
        self.recorded.get(at)?.ended.clone()
    }

    /// Stores `entry` and returns once it is durable.
    ///
    /// # Errors
    /// `CHECKPOINT_FAILED` or `RUN_LOCKED`, as the store says. The run must not go on.
    pub async fn append(&self, entry: Entry, to: &Store<'_>) -> Result<(), Box<ProviderError>> {
        let Some(next) = &self.next else { return Ok(()) };
        let failed = |reason: String| Box::new(ProviderError::new("", Code::CheckpointFailed, reason));
        let stored = {
            // Locked until the entry is on its way, so that the store gets entries in order.
            let mut seq = next.lock().await;
            let line = Line::of(entry, *seq);
            let entry = serde_json::to_string(&line).map_err(|error| failed(error.to_string()))?;
            let (request, stored) = to.host.store();
            *seq += 1;
            // A host that has gone takes no entries; its going ends the run.
            let _ = to.events.send(to.event(Kind::Append { request, entry })).await;
            stored
        };
        let patience = async {
            to.cancel.cancelled().await;
            tokio::time::sleep(PATIENCE).await;
        };
        tokio::select! {
            biased;
            stored = stored => stored.unwrap_or_else(|_| Err(failed("the store is gone".to_owned()))),
            () = patience => Err(failed(format!("the store did not answer for {} s", PATIENCE.as_secs()))),
        }
    }
}

/// The store of a run's entries, and how to reach it.
pub(super) struct Store<'a> {
    pub host: &'a HostRequests,
    pub events: &'a mpsc::Sender<AgentEvent>,
    pub run_id: &'a str,
    pub cancel: &'a CancellationToken,
}

impl Store<'_> {
    fn event(&self, kind: Kind) -> AgentEvent {
        AgentEvent {
            kind,
            run_id: self.run_id.to_owned(),
            agent: None,
            parent_run_id: None,
        }
    }
}

/// Reads one entry. Its version is checked first, because a newer one may not have these fields.
fn read(text: &str, expected: u64) -> Result<Line, Box<ProviderError>> {
    let found: Version = serde_json::from_str(text).map_err(|error| invalid(&format!("entry {expected}: {error}")))?;
    match (found.v, found.seq) {
        (Some(v), _) if v > VERSION => Err(invalid(&format!(
            "entry {expected} is of version {v}, and this package knows versions up to {VERSION}"
        ))),
        (Some(_), Some(_)) => {
            serde_json::from_str(text).map_err(|error| invalid(&format!("entry {expected}: {error}")))
        }
        _ => Err(invalid(&format!("entry {expected} has no version or no number"))),
    }
}

pub(super) fn invalid(reason: &str) -> Box<ProviderError> {
    checkpoint_error(
        Code::CheckpointInvalid,
        &format!("the checkpoint can't be read: {reason}"),
    )
}

fn mismatch(reason: &str) -> Box<ProviderError> {
    checkpoint_error(
        Code::CheckpointMismatch,
        &format!("the checkpoint is of another run: {reason}"),
    )
}

fn checkpoint_error(code: Code, reason: &str) -> Box<ProviderError> {
    let error = ProviderError::new("", code, reason).with_hint(dfp_provider::classify::hint("", code));
    Box::new(error)
}

// The position of a run: the number of its turn and of its calls, from which the places in its journal are made.
//
// In: turns and calls as they begin. Out: their places, and whether the journal has an entry for them.

/// The position of one run.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The prefix of the run's places ([`super::RunOrigin::scope`]).
    scope: String,
    turns: u32,
    /// The number of calls of this turn so far.
    calls: u32,
    /// The places of calls, by call id.
    places: HashMap<String, String>,
    /// The reply of this turn, if it had ended in an earlier attempt.
    pub recorded: Option<Box<Reply>>,
    /// This turn had ended in an earlier attempt.
    pub replayed: bool,
    /// Calls about which the host was asked because an earlier attempt was interrupted while their tool ran.
    pub questions: HashMap<String, ToolCall>,
}

impl Progress {
    /// The beginning of a run whose places begin with `scope`.
    pub fn new(scope: &str) -> Progress {
        Progress {
            scope: scope.to_owned(),
            ..Progress::default()
        }
    }

    /// Begins a turn. Returns `true` if it had ended in an earlier attempt; its reply is then `recorded`.
    pub fn enter_turn(&mut self, journal: &Journal) -> bool {
        self.turns += 1;
        self.calls = 0;
        self.recorded = journal.turn(&self.turn());
        self.replayed = self.recorded.is_some();
        self.replayed
    }

    /// The place of this turn.
    pub fn turn(&self) -> String {
        self.turn_place(self.turns)
    }

    /// Gives a new call its place in this turn.
    pub fn enter_call(&mut self, id: &str) {
        if self.places.contains_key(id) {
            return;
        }
        self.calls += 1;
        let at = format!("{}.{}", self.turn(), self.calls);
        self.places.insert(id.to_owned(), at);
    }

    /// The place of call `id`; empty for an unknown one.
    pub fn place(&self, id: &str) -> String {
        self.places.get(id).cloned().unwrap_or_default()
    }

    /// `true` if an earlier attempt has reported the events of call `id`.
    pub fn was_reported(&self, journal: &Journal, id: &str) -> bool {
        journal.ended(&self.place(id)).is_some() || journal.turn(&self.turn_place(self.turns + 1)).is_some()
    }

    fn turn_place(&self, turn: u32) -> String {
        format!("{}{turn}", self.scope)
    }
}
