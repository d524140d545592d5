//! The names of events: one vocabulary for a provider's run, an agent's run, and readers of run logs.
//!
//! In: an event's `type`. Out: an [`EventKind`], or none for a name that only another version knows. A `match` on it must not
//! have a catch-all, so that a new kind does not compile until each reader of logs handles it.

use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

/// The kind of an event: its `type` in index.d.ts and in a run log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The first event of an attempt.
    Start,
    /// The provider identified itself.
    Session,
    /// A piece of the answer's text.
    TextDelta,
    /// A piece of the model's reasoning.
    ThinkingDelta,
    /// A message of the model, whole.
    Message,
    /// A piece of the arguments of a call.
    ToolCallDelta,
    /// The model calls a tool.
    ToolCall,
    /// A text looks like a call and can't be read as one.
    InvalidToolCall,
    /// The result of a tool.
    ToolResult,
    /// The token usage.
    Usage,
    /// The state of a subscription's limit.
    RateLimit,
    Retry,
    /// The call waits for a plan that is used up to be available again.
    Waiting,
    /// Information for the user that is not a failure.
    Warning,
    /// A provider of a list was passed over (`js/fallback.cjs`).
    Fallback,
    /// The last event of a provider's run that succeeded.
    Done,
    /// A line of a kind that no decoder knows.
    Other,
    /// The first event of an agent's run.
    RunStarted,
    /// The decision about a call.
    Permission,
    /// A call waits for another agent.
    Deferred,
    /// The last event of an agent's run that ended well.
    RunCompleted,
    /// The last event of any other run of an agent.
    RunFailed,
}

impl EventKind {
    /// The kind with this `name`, if this version knows one.
    pub fn named(name: &str) -> Option<EventKind> {
        EventKind::deserialize(StrDeserializer::<Error>::new(name)).ok()
    }

    /// Returns whether an event of this kind is the last of a run.
    pub fn is_last(self) -> bool {
        matches!(self, EventKind::Done | EventKind::RunCompleted | EventKind::RunFailed)
    }
}

/// The kinds by their names in index.d.ts, for the tests of every room.
#[cfg(any(test, feature = "test-support"))]
#[allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "only tests use it")]
pub mod kinds {
    use std::collections::BTreeSet;

    use super::EventKind;

    /// The name of `kind` in logs and in JavaScript.
    pub fn name(kind: EventKind) -> String {
        let name = serde_json::to_value(kind).unwrap();
        name.as_str().unwrap().to_owned()
    }

    /// All kinds: the events that index.d.ts declares.
    pub fn all() -> BTreeSet<EventKind> {
        declared().iter().filter_map(|name| EventKind::named(name)).collect()
    }

    /// The names of events in index.d.ts.
    pub(super) fn declared() -> BTreeSet<String> {
        let contract = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../index.d.ts")).unwrap();
        let of = |union: &str| {
            let (_, rest) = contract.split_once(&format!("export type {union}")).unwrap();
            let (body, _) = rest.split_once(";\n\n").unwrap();
            let names = body.split("type: \"").skip(1);
            let names = names.map(|rest| rest.split('"').next().unwrap().to_owned());
            names.collect::<BTreeSet<_>>()
        };
        let names: BTreeSet<_> = of("ProviderEvent").into_iter().chain(of("AgentEvent")).collect();
        assert!(names.len() > 15, "{names:?}");
        names
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::EventKind;
    use super::kinds::{all, declared};

    #[test]
    fn the_contract_names_the_same_events() {
        let unknown: Vec<_> = declared()
            .into_iter()
            .filter(|name| EventKind::named(name).is_none_or(|kind| super::kinds::name(kind) != *name))
            .collect();
        assert_eq!(unknown, Vec::<String>::new());
        // The last kind of the enum is used, so that a kind which only Rust has is noticed.
        assert_eq!(all().len(), EventKind::RunFailed as usize + 1);
    }

    #[test]
    fn a_name_of_another_version_is_none() {
        for foreign in ["", "Start", "text-delta", "teleported"] {
            assert_eq!(EventKind::named(foreign), None, "{foreign}");
        }
        assert_eq!(
            serde_json::to_value(EventKind::TextDelta).unwrap(),
            Value::from("text_delta")
        );
    }
}
