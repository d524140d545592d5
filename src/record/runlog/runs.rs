//! All runs of a file as a timeline, in which each run is followed by its parts.
//!
//! In: a recording. Out: its [`Timeline`].

use std::collections::HashMap;

use super::builder;
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
    let placed = positions(&nodes).into_iter().filter_map(|place| {
        let mut view = builder::run_view(recording.runs.get(place.index)?);
        view.depth = place.depth;
        view.role = view.role.or_else(|| place.role());
        Some(view)
    });
    placed.collect()
}

/// The properties of a run that decide on its position.
#[derive(Debug)]
struct Node<'a> {
    pub id: &'a str,
    pub parent: Option<&'a str>,
    pub is_agents: bool,
}

/// The position of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    pub index: usize,
    /// The number of runs that this one is nested in.
    pub depth: usize,
    /// The number of the turn, from 1, if the run is a turn of an agent.
    pub turn: Option<u32>,
}

impl Position {
    /// The role of a run that has none of its own: `turn 2`.
    fn role(&self) -> Option<String> {
        self.turn.map(|number| format!("turn {number}"))
    }
}

/// The positions of `nodes`, which are in the order in which they began. Each run is followed by its parts.
fn positions(nodes: &[Node]) -> Vec<Position> {
    let mut latest: HashMap<&str, usize> = HashMap::new();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waiting = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        // A part begins after the whole, so only earlier runs are looked at, and no run gets nested in itself.
        let whole = node.parent.and_then(|parent| latest.get(parent));
        match whole.and_then(|whole| parts.get_mut(*whole)) {
            Some(parts) => parts.push(index),
            None => waiting.push(Position {
                index,
                depth: 0,
                turn: None,
            }),
        }
        latest.insert(node.id, index);
    }
    waiting.reverse();
    let mut places = Vec::with_capacity(nodes.len());
    while let Some(place) = waiting.pop() {
        places.push(place);
        let (Some(whole), Some(inside)) = (nodes.get(place.index), parts.get(place.index)) else {
            continue;
        };
        let mut turns = 0;
        let inside: Vec<_> = inside
            .iter()
            .map(|part| {
                let is_turn = whole.is_agents && nodes.get(*part).is_some_and(|part| !part.is_agents);
                turns += u32::from(is_turn);
                Position {
                    index: *part,
                    depth: place.depth + 1,
                    turn: is_turn.then_some(turns),
                }
            })
            .collect();
        waiting.extend(inside.into_iter().rev());
    }
    places
}
