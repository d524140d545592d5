//! Killing whole runs at once, without a runtime, on Unix.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process_group};

use super::proc::Proc;
use super::tree::{self, Table};

/// The facts about a run that [`kill_now`] needs.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub pid: Pid,
    pub run: String,
}

impl Target {
    pub fn pid(&self) -> u32 {
        self.group().cast_unsigned()
    }

    /// The group's id, which is the leader's.
    pub fn group(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

/// Kills whole runs at once, without a runtime: their groups and, where the table of processes shows them, processes that left
/// the group. The leaders must not have been reaped.
pub(super) fn kill_now(targets: &[Target]) {
    if targets.is_empty() {
        return;
    }
    let mut known: Vec<HashSet<Proc>> = vec![HashSet::new(); targets.len()];
    // The second round finds processes that were forked during the first, and those whose environment was not there yet.
    for round in 0..3 {
        let table = Table::look().ok();
        let mut found = false;
        for (target, known) in targets.iter().zip(&mut known) {
            if let Some(table) = &table {
                let escapees = table.descendants(target.group(), known, &target.run);
                found |= !escapees.living.is_subset(known) || !escapees.undecided.is_empty();
                *known = escapees.living;
            }
            // If nobody is left, that is as good as a success.
            let _ = kill_process_group(target.pid, Signal::KILL);
            known.iter().for_each(|escapee| tree::signal(escapee, Signal::KILL));
        }
        if round > 0 && !found {
            return;
        }
    }
}
