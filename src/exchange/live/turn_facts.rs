//! The facts of a turn that its outcome tells, of a session in a process that serves many.

use super::session::{TurnStep, push_outcome};
use dfp_model::event::{Event, Failure, Outcome};
use dfp_model::message::Usage;

/// The facts of a turn that is being read.
#[derive(Debug)]
pub struct TurnFacts {
    pub session: String,
    /// The model that answers; empty as long as it is not known.
    pub model: String,
    /// The usage of all requests of the turn, as far as the API tells it.
    pub usage: Option<Usage>,
    /// The reason why the last answer ended, if the API tells it.
    pub stop_reason: Option<String>,
}

impl TurnFacts {
    /// The facts at the beginning of a turn in `session`.
    pub fn new(session: &str, model: &str) -> TurnFacts {
        TurnFacts {
            session: session.to_owned(),
            model: model.to_owned(),
            usage: None,
            stop_reason: None,
        }
    }

    /// Adds the usage of a further request.
    pub fn add_usage(&mut self, usage: Option<Usage>) {
        match (&mut self.usage, usage) {
            (Some(sum), Some(usage)) => sum.add(&usage),
            (sum, usage) => *sum = sum.take().or(usage),
        }
    }

    /// Ends the turn with `failure`.
    pub fn failed(&self, failure: Failure, events: &mut Vec<Event>) -> TurnStep {
        events.push(Event::Failure(failure));
        self.push(true, events);
        TurnStep::Failed
    }

    /// Ends the turn with its reply.
    pub fn replied(&self, events: &mut Vec<Event>) -> TurnStep {
        self.push(false, events);
        TurnStep::Reply
    }

    fn push(&self, is_error: bool, events: &mut Vec<Event>) {
        let outcome = Outcome {
            is_error,
            usage: self.usage.clone(),
            stop_reason: self.stop_reason.clone(),
            session_id: Some(self.session.clone()),
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            ..Outcome::default()
        };
        push_outcome(outcome, events);
    }
}
