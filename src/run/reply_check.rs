//! The checks of a reply beside the verdict: conditions of the call that no judge of exchanges knows of.
//!
//! In: a judged success. Out: an [`AttemptOutcome`]: the reply stands, the model is to be asked once more, or the call has failed
//! after all. The [loop](super::retry_loop) of the call asks again.

use std::fmt;
use std::sync::Arc;

use super::attempt::AttemptOutcome;
use dfp_model::error::{Partial, ProviderError};
use dfp_model::event::Reply;
use dfp_model::message::Spent;
use dfp_model::message::{Message, MessageFields, Role};

/// Shows the name alone: the addon need not hold the code that shows every implementor.
impl fmt::Debug for dyn ReplyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyCheck")
    }
}

/// A condition that a call sets for its reply.
pub(super) trait ReplyCheck: Send + Sync {
    /// Checks `reply`, a judged success, and returns it with what the check has found in it.
    ///
    /// # Errors
    /// The reply does not fit, and the model may do better when it is told why.
    fn check(&self, reply: Reply) -> Result<Reply, Box<RejectedReply>>;

    /// The messages behind the thread, if a provider has failed for the reason that this check is about and may succeed when it is
    /// asked again.
    fn mend(&self, error: &ProviderError) -> Option<Vec<Message>> {
        let _ = error;
        None
    }
}

/// The reply and a user message that says what is wrong with it. Both stand behind the thread when the model is asked again.
pub(super) fn correction(reply: &Reply, reasons: impl Into<String>) -> Vec<Message> {
    let answer = Message::from(MessageFields {
        tool_calls: reply.tool_calls.clone(),
        ..MessageFields::new(Role::Ai, &reply.content)
    });
    vec![answer, Message::new(Role::Human, reasons)]
}

/// A reply that does not fit, and how to ask for another.
#[derive(Debug)]
pub(super) struct RejectedReply {
    pub reply: Reply,
    /// The messages that come behind the thread: the reply and what is wrong with it ([`correction`]).
    pub messages: Vec<Message>,
    /// The error with which the call fails if it was asked again already.
    pub error: Box<ProviderError>,
}

/// All conditions that a call sets for its reply, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Checks {
    list: Vec<Arc<dyn ReplyCheck>>,
    /// The cost of the earlier reply that did not fit and was asked for again.
    spent: Option<Spent>,
}

impl Checks {
    /// Returns whether there are no checks.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a condition.
    pub fn push(&mut self, check: Arc<dyn ReplyCheck>) {
        self.list.push(check);
    }

    /// Returns these checks for a call that is made again because of `rejected`: for the last time, and with its cost added to that
    /// of the first.
    pub fn after_misfit(self, rejected: &RejectedReply) -> Checks {
        let spent = Spent {
            usage: rejected.reply.usage.clone(),
            cost_usd: rejected.reply.cost_usd,
        };
        Checks {
            spent: Some(spent),
            ..self
        }
    }

    /// Returns whether the call is made again, so that its own events tell only part of the usage.
    pub fn asked_before(&self) -> bool {
        self.spent.is_some()
    }

    /// Applies the checks to `verdict`, after `events` public events.
    pub fn hold(
        &self,
        verdict: Result<Reply, Box<ProviderError>>,
        events: u64,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let mut reply = match verdict {
            Ok(reply) => reply,
            Err(error) => return self.hold_failure(error),
        };
        for check in &self.list {
            reply = match check.check(reply) {
                Ok(reply) => reply,
                Err(rejected) if self.spent.is_none() => return Ok(AttemptOutcome::AskAgain(rejected)),
                Err(rejected) => return Err(self.with_spent(with_partial(rejected.error, rejected.reply, events))),
            };
        }
        if let Some(before) = &self.spent {
            let mut all = before.clone();
            all.add(&Spent {
                usage: reply.usage,
                cost_usd: reply.cost_usd,
            });
            (reply.usage, reply.cost_usd) = (all.usage, all.cost_usd);
        }
        Ok(AttemptOutcome::Replied(Box::new(reply)))
    }

    fn hold_failure(&self, error: Box<ProviderError>) -> Result<AttemptOutcome, Box<ProviderError>> {
        let mended = self.list.iter().find_map(|check| check.mend(&error));
        let Some(messages) = mended.filter(|_| self.spent.is_none()) else {
            return Err(self.with_spent(error));
        };
        let partial = error.partial.as_ref().map(|partial| partial.text.clone());
        let reply = Reply {
            content: partial.unwrap_or_default(),
            usage: error.usage.clone().unwrap_or_default(),
            ..Reply::default()
        };
        Ok(AttemptOutcome::AskAgain(Box::new(RejectedReply {
            reply,
            messages,
            error,
        })))
    }

    fn with_spent(&self, mut error: Box<ProviderError>) -> Box<ProviderError> {
        if let Some(before) = &self.spent {
            let mut usage = before.usage.clone();
            if let Some(own) = &error.usage {
                usage.add(own);
            }
            error.usage = Some(usage);
        }
        error
    }
}

/// Returns `error` with `reply` as the partial output.
fn with_partial(mut error: Box<ProviderError>, reply: Reply, events: u64) -> Box<ProviderError> {
    error.usage = Some(reply.usage.clone());
    error.partial = Some(Partial {
        text: reply.content,
        events,
        usage: Some(reply.usage),
    });
    error
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use dfp_model::error::Code;
    use dfp_model::message::Usage;

    /// A check that the reply has this text.
    #[derive(Debug)]
    pub struct Wants(pub &'static str);

    impl ReplyCheck for Wants {
        fn check(&self, reply: Reply) -> Result<Reply, Box<RejectedReply>> {
            if reply.content == self.0 {
                return Ok(reply);
            }
            let reason = format!("it says {:?}, not {:?}", reply.content, self.0);
            Err(Box::new(RejectedReply {
                messages: correction(&reply, "say something else"),
                error: Box::new(ProviderError::new("test", Code::MalformedResponse, reason)),
                reply,
            }))
        }
    }

    /// Checks that the reply has the text `text`.
    pub fn wants(text: &'static str) -> Checks {
        let mut checks = Checks::default();
        assert!(checks.is_empty());
        checks.push(Arc::new(Wants(text)));
        assert!(!checks.is_empty());
        checks
    }

    /// A reply that took 3 and 2 tokens, and half a dollar.
    pub fn reply(content: &str) -> Reply {
        Reply {
            content: content.to_owned(),
            usage: tokens(3, 2),
            cost_usd: Some(0.5),
            ..Reply::default()
        }
    }

    /// Usage of so many tokens.
    pub fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens + output_tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn what_fits_stands_as_it_is() {
        for checks in [Checks::default(), wants("yes")] {
            let Ok(AttemptOutcome::Replied(held)) = checks.hold(Ok(reply("yes")), 1) else {
                panic!("it fits");
            };
            assert_eq!(*held, reply("yes"));
        }
    }

    #[test]
    fn what_does_not_fit_is_asked_for_again_with_the_reply_and_the_reasons() {
        let Ok(AttemptOutcome::AskAgain(rejected)) = wants("yes").hold(Ok(reply("no")), 1) else {
            panic!("it does not fit");
        };
        assert_eq!(rejected.reply, reply("no"));
        assert_eq!(rejected.error.message, "it says \"no\", not \"yes\"");
        let said: Vec<_> = rejected
            .messages
            .iter()
            .map(|m| (m.role.as_str(), m.content.as_text()))
            .collect();
        assert_eq!(said, [("ai", "no"), ("human", "say something else")]);
    }

    #[test]
    fn the_second_time_is_the_last_and_both_are_paid_for() {
        let Ok(AttemptOutcome::AskAgain(rejected)) = wants("yes").hold(Ok(reply("no")), 1) else {
            panic!("it does not fit");
        };
        let again = wants("yes").after_misfit(&rejected);
        assert!(again.asked_before());
        let Ok(AttemptOutcome::Replied(held)) = again.hold(Ok(reply("yes")), 1) else {
            panic!("it fits");
        };
        assert_eq!((held.usage, held.cost_usd), (tokens(6, 4), Some(1.0)));
        let Err(error) = again.hold(Ok(reply("no again")), 7) else {
            panic!("it does not fit");
        };
        assert_eq!(error.message, "it says \"no again\", not \"yes\"");
        assert_eq!(error.usage, Some(tokens(6, 4)));
        let partial = Partial {
            text: "no again".to_owned(),
            events: 7,
            usage: Some(tokens(3, 2)),
        };
        assert_eq!(error.partial, Some(partial));
    }

    #[test]
    fn a_failure_stays_one() {
        let Ok(AttemptOutcome::AskAgain(rejected)) = wants("yes").hold(Ok(reply("no")), 1) else {
            panic!("it does not fit");
        };
        let failed = Box::new(ProviderError::new("test", Code::Overloaded, "busy"));
        let Err(error) = wants("yes").after_misfit(&rejected).hold(Err(failed), 1) else {
            panic!("it has failed");
        };
        assert_eq!((error.message.as_str(), error.usage), ("busy", Some(tokens(3, 2))));
    }

    #[test]
    fn the_first_check_that_is_not_met_decides() {
        let mut checks = wants("yes");
        checks.push(Arc::new(Wants("no")));
        let Ok(AttemptOutcome::AskAgain(rejected)) = checks.hold(Ok(reply("no")), 1) else {
            panic!("it does not fit");
        };
        assert_eq!(rejected.error.message, "it says \"no\", not \"yes\"");
        let Ok(AttemptOutcome::AskAgain(rejected)) = checks.hold(Ok(reply("yes")), 1) else {
            panic!("it does not fit");
        };
        assert_eq!(rejected.error.message, "it says \"yes\", not \"no\"");
    }
}
