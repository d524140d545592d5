//! Adds up the usage in run logs since a moment: tokens and cost by provider and model, and the rate limits that were reported.
//!
//! In: the lines of logs, file by file. Out: a [`Spending`]. Only lines that can matter are parsed, and only figures and names are
//! kept of them: memory grows with the number of open runs, not with the size of a log.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use dfp_model::message::Usage;

/// The most open runs of a file. Beyond that the figures of the oldest are given up. A real log has no more open runs than there
/// are at a time.
const MOST_OPEN: usize = 10_000;

/// The most bytes of a provider's or model's name. Longer ones are not names.
const LONGEST_NAME: usize = 200;

/// The usage of all calls of one provider and model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    pub provider: String,
    /// The model, if it was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The number of calls that were answered.
    pub calls: u64,
    /// The number of calls that were not answered, but have used tokens.
    pub failed_calls: u64,
    /// The tokens of all these calls.
    pub usage: Usage,
    /// The cost in US dollars of the calls whose CLI reports one.
    pub cost_usd: f64,
    /// The number of calls without a reported cost.
    pub calls_without_cost: u64,
}

/// The latest report of one rate limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    pub provider: String,
    /// The kind of limit: `five_hour`, `seven_day`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_type: Option<String>,
    /// `allowed`, `allowed_warning` or `rejected`.
    pub status: String,
    /// When the limit's window ends, ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<u64>,
    /// The used share, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    /// When it was reported, ms since the epoch.
    pub at: u64,
}

/// The sums over all logs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    /// The usage by provider and model.
    pub spent: Vec<Spent>,
    /// The latest report of each provider's limits, whatever its age.
    pub rate_limits: Vec<Limit>,
    /// The number of lines that could not be read.
    pub unreadable_lines: u64,
}

/// Adds up lines, file by file.
#[derive(Debug)]
pub struct Adder {
    since: u64,
    spent: BTreeMap<(String, Option<String>), Spent>,
    limits: BTreeMap<(String, Option<String>), Limit>,
    unreadable: u64,
    open: HashMap<String, Open>,
}

/// A run that is not over.
#[derive(Debug, Default)]
struct Open {
    provider: String,
    model: Option<String>,
    usage: Option<Usage>,
    at: u64,
}

/// The fields of a line that matter here: those of a header (`format`, `run_id`, `provider`), or those of an event or an end.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpendingLine<'a> {
    #[serde(borrow)]
    format: Option<&'a RawValue>,
    run_id: Option<String>,
    provider: Option<String>,
    run: Option<String>,
    at: Option<u64>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    end: Option<&'a RawValue>,
}

/// The events that matter here, with the fields that do.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum LoggedEvent {
    #[serde(rename_all = "camelCase")]
    Session {
        model: Option<String>,
    },
    Usage {
        usage: Usage,
    },
    #[serde(rename_all = "camelCase")]
    RateLimit {
        status: String,
        resets_at: Option<u64>,
        limit_type: Option<String>,
        utilization: Option<f64>,
    },
    Done {
        reply: Replied,
    },
    RunStarted,
    #[serde(other)]
    Other,
}

/// The reply of a `done` event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replied {
    usage: Option<Usage>,
    model: Option<String>,
    cost_usd: Option<f64>,
}

/// The beginnings, in the recorder's spelling, by which a line is known to matter.
const MARKS: &[&[u8]] = &[
    br#"{"format":"#,
    br#"{"type":"session""#,
    br#"{"type":"usage""#,
    br#"{"type":"rate_limit""#,
    br#"{"type":"done""#,
    br#"{"type":"run_started""#,
    br#""end":{"status""#,
];

impl Adder {
    /// An adder that counts events at `since` (ms since the epoch) and later.
    pub fn new(since: u64) -> Adder {
        Adder {
            since,
            spent: BTreeMap::new(),
            limits: BTreeMap::new(),
            unreadable: 0,
            open: HashMap::new(),
        }
    }

    /// Takes the next line of a file, without its line feed.
    pub fn line(&mut self, line: &[u8]) {
        if !MARKS.iter().any(|mark| memchr::memmem::find(line, mark).is_some()) {
            return;
        }
        let Ok(SpendingLine {
            format,
            run_id,
            provider,
            run,
            at,
            event,
            end,
        }) = serde_json::from_slice::<SpendingLine>(line)
        else {
            self.unreadable += 1;
            return;
        };
        if format.is_some() {
            if let (Some(id), Some(provider)) = (run_id, provider.and_then(name)) {
                self.begin(id, provider);
            }
            return;
        }
        let Some(run) = run else { return };
        let at = at.unwrap_or_default();
        if let Some(event) = event {
            match serde_json::from_str::<LoggedEvent>(event.get()) {
                Ok(logged) => self.event(&run, at, logged),
                Err(_) => self.unreadable += 1,
            }
        } else if end.is_some()
            && let Some(open) = self.open.remove(&run)
        {
            self.give_up(open);
        }
    }

    /// Ends a file and with it the open runs. Those were not answered, and have used what they reported.
    pub fn end_of_file(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            self.give_up(open);
        }
    }

    /// Counts a line that could not be read at all.
    pub fn unreadable_line(&mut self) {
        self.unreadable += 1;
    }

    /// The sums of all files.
    pub fn finish(mut self) -> Spending {
        self.end_of_file();
        Spending {
            spent: self.spent.into_values().collect(),
            rate_limits: self.limits.into_values().collect(),
            unreadable_lines: self.unreadable,
        }
    }

    /// Opens a run. If a run of this id is open already, another process has used the id again, and the older run is given up.
    fn begin(&mut self, id: String, provider: String) {
        if self.open.len() == MOST_OPEN {
            self.end_of_file();
        }
        let open = Open {
            provider,
            ..Open::default()
        };
        if let Some(before) = self.open.insert(id, open) {
            self.give_up(before);
        }
    }

    /// Takes an event of an open run.
    fn event(&mut self, run: &str, at: u64, logged: LoggedEvent) {
        let Some(open) = self.open.get_mut(run) else { return };
        match logged {
            LoggedEvent::Session { model } => open.model = model.and_then(name).or(open.model.take()),
            LoggedEvent::Usage { usage } => (open.usage, open.at) = (Some(usage), at),
            LoggedEvent::RateLimit {
                status,
                resets_at,
                limit_type,
                utilization,
            } => {
                let (Some(status), limit_type) = (name(status), limit_type.and_then(name)) else {
                    return;
                };
                let limit = Limit {
                    provider: open.provider.clone(),
                    limit_type,
                    status,
                    resets_at,
                    utilization: utilization.filter(|share| share.is_finite()),
                    at,
                };
                let key = (limit.provider.clone(), limit.limit_type.clone());
                if self.limits.get(&key).is_none_or(|known| known.at <= at) {
                    self.limits.insert(key, limit);
                }
            }
            LoggedEvent::Done { reply } => {
                if let Some(open) = self.open.remove(run) {
                    self.answered(open, at, reply);
                }
            }
            // The run of an agent repeats the usage of its turns, which are runs of their own.
            LoggedEvent::RunStarted => drop(self.open.remove(run)),
            LoggedEvent::Other => {}
        }
    }

    /// Counts a run that was answered. The reply's usage is the total, so it replaces usage that was reported before.
    fn answered(&mut self, open: Open, at: u64, reply: Replied) {
        if at < self.since {
            return;
        }
        let usage = reply.usage.or(open.usage).unwrap_or_default();
        let spent = self.of(open.provider, reply.model.and_then(name).or(open.model));
        spent.calls += 1;
        spent.usage.add(&usage);
        match reply.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            Some(cost) => spent.cost_usd += cost,
            None => spent.calls_without_cost += 1,
        }
    }

    fn give_up(&mut self, open: Open) {
        let Some(usage) = open.usage.filter(|_| open.at >= self.since) else {
            return;
        };
        let spent = self.of(open.provider, open.model);
        spent.failed_calls += 1;
        spent.usage.add(&usage);
        spent.calls_without_cost += 1;
    }

    /// The sums of a provider and model.
    fn of(&mut self, provider: String, model: Option<String>) -> &mut Spent {
        let key = (provider.clone(), model.clone());
        self.spent.entry(key).or_insert_with(|| Spent {
            provider,
            model,
            calls: 0,
            failed_calls: 0,
            usage: Usage::default(),
            cost_usd: 0.0,
            calls_without_cost: 0,
        })
    }
}

/// `text` as a name, if it may be shown.
fn name(text: String) -> Option<String> {
    (!text.is_empty() && text.len() <= LONGEST_NAME && !text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests;
