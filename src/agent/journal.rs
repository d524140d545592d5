//! What of a run is durable: every turn of its models, every decision, and every tool that begins and ends.
//!
//! In: the entries that an earlier attempt at the run has left, and what happens in this one. Out: what had happened already (a
//! [`Recorded`], by its place), and entries for the caller's store, each acknowledged before the run goes on. The driver is the same
//! with and without: where an effect has happened before, its result is taken from here and not from the world.
//!
//! A place is where in the run something happened: turn `2`, its third call `2.3`, the first turn of the agent which that
//! call hands a task to `2.3/1`. A turn's calls are fixed once it is recorded, so that places name the same calls in every attempt.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::event::{AgentEvent, Kind, Resumed};
use super::fingerprint::Fingerprint;
use super::host::Host;
use crate::error::{Code, ProviderError};
use crate::event::Reply;
use crate::executor::Spent;
use crate::message::{Content, ToolResult, Usage};

/// The format of entries. What a newer one means is not known here.
pub(super) const VERSION: u64 = 1;

/// How long a store that does not answer is waited for once the run is cancelled.
const PATIENCE: Duration = Duration::from_secs(10);

/// One entry, as it is stored. Flat, so that arguments and contents stay the JSON text they were. The first may have a `trace` beside
/// them, which is telemetry's (`telemetry/agent.cjs`).
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Line {
    /// [`VERSION`]
    v: u64,
    /// From 0, one after the other.
    seq: u64,
    #[serde(rename = "type")]
    kind: String,
    /// Where in the run.
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

/// Of any version.
#[derive(Deserialize)]
struct Version {
    v: Option<u64>,
    seq: Option<u64>,
}

/// What there is to keep.
#[derive(Debug)]
pub(super) enum Entry {
    /// First: what was to be run.
    Run { run_id: String, run: Fingerprint },
    /// A model's turn is over: before anything of it is done.
    Turn { at: String, reply: Box<Reply> },
    /// Tokens of a turn that failed.
    Spent(Spent),
    /// Whoever was asked about a call has decided.
    Decision { at: String, decision: Decision },
    /// A tool begins: before it does.
    ToolBegun { at: String },
    /// A tool, or an agent that a task was handed to, has ended: before the model learns of it.
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

    /// `None`: it lacks what its kind has to have.
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

/// A decision about a call.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    pub allow: bool,
    pub reason: Option<String>,
    pub args: Option<Box<RawValue>>,
}

/// What had happened at a place.
#[derive(Debug, Default)]
struct Recorded {
    reply: Option<Box<Reply>>,
    decision: Option<Decision>,
    begun: bool,
    ended: Option<(ToolResult, Spent)>,
}

/// What is durable of a run, or that nothing is.
#[derive(Debug, Default)]
pub(super) struct Journal {
    recorded: HashMap<String, Recorded>,
    /// Of turns that failed.
    pub lost: Spent,
    /// There were none: the first is yet to be written.
    pub begins: Option<Fingerprint>,
    pub resumed: Option<Resumed>,
    /// The next entry's number; `None`: nothing is kept.
    next: Option<Mutex<u64>>,
}

impl Journal {
    /// The journal of `entries`, JSON texts, of a run under `run_id` whose options are `now`. What comes with it is what has
    /// changed and does no harm.
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
            // The same once more: its store was asked twice and did it twice.
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

    /// What the entries add up to.
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

    /// Whether anything is kept.
    pub fn is_on(&self) -> bool {
        self.next.is_some()
    }

    /// The turn that is over already.
    pub fn turn(&self, at: &str) -> Option<Box<Reply>> {
        self.recorded.get(at)?.reply.clone()
    }

    /// What was decided about the call already.
    pub fn decision(&self, at: &str) -> Option<Decision> {
        self.recorded.get(at)?.decision.clone()
    }

    /// Whether the call's tool had begun.
    pub fn begun(&self, at: &str) -> bool {
        self.recorded.get(at).is_some_and(|recorded| recorded.begun)
    }

    /// What the call has come to already.
    pub fn ended(&self, at: &str) -> Option<(ToolResult, Spent)> {
        self.recorded.get(at)?.ended.clone()
    }

    /// Keeps `entry`: when this returns, it is durable.
    ///
    /// # Errors
    /// What the store says: the run must not go on.
    pub async fn append(&self, entry: Entry, to: &Store<'_>) -> Result<(), Box<ProviderError>> {
        let Some(next) = &self.next else { return Ok(()) };
        let failed = |reason: String| Box::new(ProviderError::new("", Code::CheckpointFailed, reason));
        let stored = {
            // Until it is on its way: the store gets them in their order.
            let mut seq = next.lock().await;
            let line = Line::of(entry, *seq);
            let entry = serde_json::to_string(&line).map_err(|error| failed(error.to_string()))?;
            let (request, stored) = to.host.store();
            *seq += 1;
            // A host that has gone takes nothing: its going ends the run.
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

/// Where entries go.
pub(super) struct Store<'a> {
    pub host: &'a Host,
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
    let error = ProviderError::new("", code, reason).with_hint(crate::classify::hint("", code));
    Box::new(error)
}
