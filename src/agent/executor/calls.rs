//! Calls without a result, and how they are abandoned.

use std::collections::BTreeMap;

use super::{Effect, Origin};
use dfp_model::message::{ToolCall, ToolResult};

/// The phase of a call without a result: what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPhase {
    Asked,
    Running,
    Deferred,
}

/// A call without a result.
#[derive(Debug)]
pub(super) struct Pending {
    pub call: ToolCall,
    pub origin: Origin,
    pub phase: CallPhase,
}

/// Abandons calls whose results are no longer needed, and answers them with an error.
pub(super) fn give_up(open: BTreeMap<u32, Pending>, why: &str, ends: &mut Vec<Effect>, answers: &mut Vec<Effect>) {
    for Pending { call, .. } in open.into_values() {
        ends.push(Effect::Abandon(call.id.clone()));
        let answer = ToolResult::error(format!("\"{}\" has no result: {why}", call.name));
        answers.push(Effect::Reply { call, answer });
    }
}
