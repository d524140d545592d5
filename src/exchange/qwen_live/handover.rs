//! The end of a turn whose model has made calls: the CLI does not report it, since it waits for the results.
//!
//! In: the known facts of the model's message. Out: the events with which a turn ends.

use dfp_model::event::{Event, Outcome};
use dfp_model::message::Usage;

/// The session and the model, as the CLI has named them.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub session_id: Option<String>,
    pub model: Option<String>,
    pub permission_mode: Option<String>,
    pub version: Option<String>,
}

impl Names {
    /// The `session` event with which each turn of this session begins.
    pub fn session_event(&self) -> Event {
        Event::Session {
            session_id: self.session_id.clone(),
            model: self.model.clone(),
            permission_mode: self.permission_mode.clone(),
            version: self.version.clone(),
        }
    }
}

/// The events at the end of the turn, in the CLI's place.
pub(super) fn end_events(usage: Option<Usage>, names: &Names) -> impl Iterator<Item = Event> {
    let stop_reason = Some("tool_use".to_owned());
    let tokens = usage.clone().map(|usage| Event::Usage {
        usage,
        raw_stop_reason: stop_reason.clone(),
    });
    let outcome = Event::Outcome(Box::new(Outcome {
        subtype: Some("success".to_owned()),
        is_error: false,
        stop_reason,
        num_turns: Some(1),
        usage,
        session_id: names.session_id.clone(),
        model: names.model.clone(),
        ..Outcome::default()
    }));
    tokens.into_iter().chain([outcome])
}

/// The warning that the model has also called the tool `name`, which does not exist.
pub(super) fn unknown_tool(name: &str) -> Event {
    Event::Warning {
        code: "UNKNOWN_TOOL".to_owned(),
        message: format!(
            "the model also called {name:?}, which is no tool: the CLI tells it so with the results of the others"
        ),
    }
}
