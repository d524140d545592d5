//! All runs of a file as a timeline, in which each run is followed by its parts.
//!
//! In: a recording. Out: its [`Timeline`].

use super::builder;
use super::order::{self, Node};
use super::read::Recording;
use super::timeline::{RunView, Timeline};

/// The timeline of `recording`.
pub fn timeline(recording: &Recording) -> Timeline {
    Timeline {
        runs: nested(recording),
        redacted: true,
        problems: recording.problems.clone(),
    }
}

/// The views of all runs, each followed by its parts.
fn nested(recording: &Recording) -> Vec<RunView> {
    let nodes: Vec<Node> = recording
        .runs
        .iter()
        .map(|run| Node {
            id: &run.id,
            parent: run.parent.as_deref(),
            is_agents: run.is_agents(),
        })
        .collect();
    let placed = order::nested(&nodes).into_iter().filter_map(|place| {
        let mut view = builder::run_view(recording.runs.get(place.index)?);
        view.depth = place.depth;
        view.role = view.role.or_else(|| place.role());
        Some(view)
    });
    placed.collect()
}
