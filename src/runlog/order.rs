//! In which order runs are shown: each with its parts behind it.

use std::collections::HashMap;

/// What is needed to know of a run.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub id: &'a str,
    pub parent: Option<&'a str>,
    pub is_agents: bool,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub index: usize,
    /// How many runs it is inside of.
    pub depth: usize,
    /// Of an agent's turns, which; from 1.
    pub turn: Option<u32>,
}

impl Position {
    /// What the run is, if it says nothing of that itself.
    pub(super) fn role(&self) -> Option<String> {
        self.turn.map(|number| format!("turn {number}"))
    }
}

/// Each run of `nodes`, which are in the order in which they began, and behind it those that are parts of it.
pub(super) fn nested(nodes: &[Node]) -> Vec<Position> {
    let mut latest: HashMap<&str, usize> = HashMap::new();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waiting = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        // A part begins after the whole, so no run is inside of itself.
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
