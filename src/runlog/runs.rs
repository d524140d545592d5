//! All runs of a file, each with its parts behind it.
//!
//! In: a recording. Out: its [`Timeline`].

use std::collections::HashMap;

use super::builder;
use super::read::Recording;
use super::timeline::{RunView, Timeline};

/// What there is to see of `recording`.
pub fn timeline(recording: &Recording) -> Timeline {
    Timeline {
        runs: nested(recording),
        redacted: true,
        problems: recording.problems.clone(),
    }
}

/// Each run, and behind it those that are parts of it.
fn nested(recording: &Recording) -> Vec<RunView> {
    let mut latest: HashMap<&str, usize> = HashMap::new();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); recording.runs.len()];
    let mut waiting = Vec::new();
    for (index, run) in recording.runs.iter().enumerate() {
        // A part begins after the whole, so no run is inside of itself.
        let whole = run.parent.as_deref().and_then(|parent| latest.get(parent));
        match whole.and_then(|whole| parts.get_mut(*whole)) {
            Some(parts) => parts.push(index),
            None => waiting.push((index, 0, None)),
        }
        latest.insert(&run.id, index);
    }
    waiting.reverse();
    let mut views = Vec::with_capacity(recording.runs.len());
    while let Some((index, depth, turn)) = waiting.pop() {
        let Some(run) = recording.runs.get(index) else { continue };
        let mut view = builder::run_view(run);
        view.depth = depth;
        view.role = view.role.or_else(|| turn.map(|number| format!("turn {number}")));
        views.push(view);
        let mut turns = 0;
        let inside: Vec<_> = parts[index]
            .iter()
            .map(|part| {
                let is_turn = run.is_agents() && !recording.runs[*part].is_agents();
                turns += u32::from(is_turn);
                (*part, depth + 1, is_turn.then_some(turns))
            })
            .collect();
        waiting.extend(inside.into_iter().rev());
    }
    views
}
