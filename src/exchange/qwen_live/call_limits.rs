//! Tells when a session can take no more calls, though nothing is wrong with it.
//!
//! In: the calls of its model, one after the other. Out: whether the next call could fail: then the thread's next call begins
//! another process, which counts from the start. Measured with 0.24.4, which reads no settings with `--bare` that would switch
//! any of it off:
//! - the fifth call in a row of the same tool with the same arguments ends the turn ("Loop detection halted the run"), whoever
//!   polls;
//! - so does a call beyond the hundredth if six of the turn's are alike;
//! - a call under an id that the API has used before gets another id, and a call that also has the arguments of the first is
//!   never asked for: the CLI answers it itself, and asks its model again.

use super::pending_calls::print_of;
use crate::live::fingerprint::Fingerprint;
use dfp_model::message::ToolCall;

/// The number of calls in a row that may be alike.
const MOST_ALIKE: usize = 4;

/// The number of calls that a turn may have; the message with the last of them may have a few more.
const MOST_CALLS: usize = 80;

/// The text that the CLI puts after an id that the API has used before, with a number.
const REUSED: &str = "__qwen_dup_";

/// Returns whether `id` stands for one that the API has used before.
pub(super) fn is_reused(id: &str) -> bool {
    id.contains(REUSED)
}

/// Counts the calls of a turn in the CLI's sense, which are all that follow one message of the user's, against its limits.
#[derive(Debug, Default)]
pub(super) struct CallLimits {
    last: Option<Fingerprint>,
    /// The number of calls in a row that are like the last one.
    alike: usize,
    calls: usize,
    has_reused: bool,
}

impl CallLimits {
    /// Begins a turn in the CLI's sense.
    pub fn begin(&mut self) {
        *self = CallLimits::default();
    }

    /// Counts `call`, which the model has made.
    pub fn note(&mut self, call: &ToolCall) {
        let print = print_of(call);
        self.alike = match self.last {
            Some(last) if last == print => self.alike + 1,
            _ => 1,
        };
        self.last = Some(print);
        self.calls += 1;
        self.has_reused |= is_reused(&call.id);
    }

    /// Returns whether the session can't continue with the results of these calls.
    pub fn are_reached(&self) -> bool {
        self.alike >= MOST_ALIKE || self.calls >= MOST_CALLS || self.has_reused
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn are_reached(calls: &[(&str, &str)]) -> bool {
        let mut limits = CallLimits::default();
        for (id, args) in calls {
            let args = RawValue::from_string((*args).to_owned()).unwrap();
            limits.note(&ToolCall {
                id: (*id).to_owned(),
                name: "poll".to_owned(),
                args,
            });
        }
        limits.are_reached()
    }

    #[test]
    fn four_calls_alike_in_a_row_are_the_most() {
        let (one, same, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2.0, "a":1}"#, "{}");
        assert!(are_reached(&[("c1", one), ("c2", same), ("c3", one), ("c4", same)]));
        assert!(!are_reached(&[("c1", one), ("c2", one), ("c3", one)]));
        let broken = [
            ("c1", one),
            ("c2", one),
            ("c3", one),
            ("c4", other),
            ("c5", one),
            ("c6", one),
            ("c7", one),
        ];
        assert!(!are_reached(&broken));
    }

    #[test]
    fn a_turn_of_the_clis_has_no_hundred_calls() {
        let args: Vec<String> = (0..80).map(|n| format!(r#"{{"n":{}}}"#, n % 2)).collect();
        let calls: Vec<(&str, &str)> = args.iter().map(|args| ("c", args.as_str())).collect();
        assert_eq!([&calls[1..], &calls].map(are_reached), [false, true]);
    }

    #[test]
    fn an_id_that_was_used_before_is_the_last() {
        assert!(are_reached(&[("call_0__qwen_dup_2", "{}")]));
        assert!(!are_reached(&[("call_0", "{}")]));
    }
}
