//! Redacts errors, events and replies before they leave. The model's own text and calls stay unchanged: they are the answer.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Channel, Redactor, apart, replaced};
use dfp_model::error::{ProviderError, clip};
use dfp_model::event::{Event, Reply};

impl Redactor {
    /// Redacts everything in an error except the model's part of it (`partial`).
    pub fn clean_error(&self, error: &mut ProviderError) {
        self.clean_message(&mut error.message);
        for reason in &mut error.reasons {
            self.clean_message(&mut reason.message);
        }
        for problem in &mut error.problems {
            self.clean_message(&mut problem.message);
        }
        if let Some(hint) = &mut error.hint {
            self.clean_message(hint);
        }
        for tail in [&mut error.stdout_tail, &mut error.stderr_tail].into_iter().flatten() {
            replace(tail, |tail| self.redact_error(tail));
        }
    }

    /// Redacts an event that is about the run, not one with the model's text.
    pub fn clean_event(&self, event: &mut Event) {
        match event {
            Event::Warning { message, .. } => replace(message, |text| self.redact_error(text)),
            Event::Retry { reason, .. } | Event::Waiting { reason, .. } => self.clean_message(reason),
            Event::RateLimit { status, limit_type, .. } => {
                replace(status, |text| self.redact_error(text));
                if let Some(limit_type) = limit_type {
                    replace(limit_type, |text| self.redact_error(text));
                }
            }
            Event::Other { raw, .. } => {
                if let Cow::Owned(clean) = self.redact_json(Channel::Record, raw.get())
                    && let Ok(clean) = RawValue::from_string(clean)
                {
                    *raw = clean;
                }
            }
            Event::Done { reply } => self.clean_reply(reply),
            _ => {}
        }
    }

    /// Returns whether [`Redactor::clean_event`] looks at events like this one.
    pub fn concerns(event: &Event) -> bool {
        match event {
            Event::Done { reply } => !reply.diagnostics.is_empty(),
            Event::Warning { .. }
            | Event::Retry { .. }
            | Event::Waiting { .. }
            | Event::RateLimit { .. }
            | Event::Other { .. } => true,
            _ => false,
        }
    }

    /// Redacts a reply's diagnostics, lines of the CLI that are no part of the answer.
    pub fn clean_reply(&self, reply: &mut Reply) {
        for line in &mut reply.diagnostics {
            replace(line, |line| self.redact_error(line));
        }
    }

    /// Redacts an error's message. A message is our own or has been through [`super::one_line`]: the shapes that only foreign
    /// text needs would redact words of our own. It may have been cut since.
    fn clean_message(&self, message: &mut String) {
        let mut found = self.spans(Channel::Record, message);
        found.extend(self.values.spans(message, 0, Channel::Error.shortest_value()));
        found.extend(self.values.at_cuts(message));
        replace(message, |text| replaced(text, &apart(found)));
        if message.chars().count() > ProviderError::MESSAGE_LIMIT {
            *message = clip(message, ProviderError::MESSAGE_LIMIT);
        }
    }
}

fn replace(text: &mut String, redact: impl FnOnce(&str) -> Cow<'_, str>) {
    if let Cow::Owned(clean) = redact(text) {
        *text = clean;
    }
}
