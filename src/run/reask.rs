//! Asks once more: a reply that does not fit the call is sent back to the model with the reasons, one time.
//!
//! In: a call that can be made with a longer thread ([`Reaskable`]). Out: the call's end. The events of the rejected reply are out
//! already; an [`Event::Retry`] behind them says that they no longer count, as it does for any other attempt.

use serde_json::json;

use super::handle::Ended;
use super::log::Level;
use super::reply_check::RejectedReply;
use super::retry_loop::{Driven, LimitsUsed};
use super::sink::Sink;
use dfp_model::error::ProviderError;
use dfp_model::event::Event;
use dfp_model::message::Message;

/// The number of times that a reply that does not fit is asked for again.
const FURTHER: u32 = 1;

/// A call that can be asked again with more behind its thread.
pub(super) trait Reaskable: Sync {
    /// The request that is made.
    type Request: Send + Sync;

    /// Makes `request`, with retries; `spent` is the part of the limits that the same call has used before.
    fn ask(&self, request: &Self::Request, spent: LimitsUsed) -> impl Future<Output = Driven> + Send;

    /// The request with `messages` behind its thread, made because of `rejected`.
    ///
    /// # Errors
    /// The part of it that the provider can't take.
    fn extended(
        &self,
        request: Self::Request,
        messages: Vec<Message>,
        rejected: &RejectedReply,
    ) -> Result<Self::Request, Box<ProviderError>>;
}

/// Makes `request`, and once more if the reply does not fit.
pub(super) async fn ask<A: Reaskable>(asking: &A, request: A::Request, sink: &Sink) -> Ended {
    let (mut rejected, spent) = match asking.ask(&request, LimitsUsed::default()).await {
        Driven::Ended(ended) => return ended,
        Driven::AskAgain { rejected, spent } => (rejected, spent),
    };
    sink.redactor().clean_error(&mut rejected.error);
    sink.log.say(
        Level::Warn,
        "asked again",
        json!({"attempt": spent.attempts, "code": rejected.error.code}),
    );
    let news = Event::Retry {
        by: "provider",
        attempt: FURTHER,
        max_attempts: Some(FURTHER),
        delay_ms: 0,
        reason: rejected.error.message.clone(),
        http_status: None,
    };
    sink.send(&mut vec![news]).await;
    let messages = std::mem::take(&mut rejected.messages);
    let extended = match asking.extended(request, messages, &rejected) {
        Ok(extended) => extended,
        Err(error) => return Ended::Failed(error),
    };
    match asking.ask(&extended, spent).await {
        Driven::Ended(ended) => ended,
        // The checks know that this is the last time.
        Driven::AskAgain { rejected, .. } => Ended::Failed(rejected.error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use tokio::sync::mpsc;

    use super::*;
    use crate::log::Log;
    use crate::reply_check::tests::{reply, tokens, wants};
    use crate::reply_check::{CheckOutcome, Checks};
    use dfp_model::error::Code;
    use dfp_model::event::Reply;
    use dfp_model::message::Role;

    /// A model with scripted replies, one after the other.
    struct Scripted {
        replies: Mutex<VecDeque<Reply>>,
        /// The messages of each request, and the costs so far.
        asked: Mutex<Vec<(Vec<String>, LimitsUsed)>>,
        too_long: bool,
    }

    struct Thread {
        messages: Vec<Message>,
        checks: Checks,
    }

    impl Reaskable for Scripted {
        type Request = Thread;

        async fn ask(&self, request: &Thread, spent: LimitsUsed) -> Driven {
            let texts = request
                .messages
                .iter()
                .map(|message| message.content.as_text().to_owned());
            self.asked.lock().unwrap().push((texts.collect(), spent));
            let reply = self.replies.lock().unwrap().pop_front().unwrap();
            match request.checks.hold(Ok(reply), 1) {
                CheckOutcome::Replied(reply) => Driven::Ended(Ended::Replied(reply)),
                CheckOutcome::Failed(error) => Driven::Ended(Ended::Failed(error)),
                CheckOutcome::AskAgain(rejected) => Driven::AskAgain {
                    rejected,
                    spent: LimitsUsed {
                        attempts: spent.attempts + 2,
                        waited_ms: spent.waited_ms + 5,
                    },
                },
            }
        }

        fn extended(
            &self,
            mut request: Thread,
            messages: Vec<Message>,
            rejected: &RejectedReply,
        ) -> Result<Thread, Box<ProviderError>> {
            if self.too_long {
                return Err(Box::new(ProviderError::new("test", Code::PromptTooLong, "too long")));
            }
            request.messages.extend(messages);
            let checks = request.checks.after_misfit(rejected);
            Ok(Thread { checks, ..request })
        }
    }

    struct Seen {
        ended: Ended,
        asked: Vec<(Vec<String>, LimitsUsed)>,
        news: Vec<String>,
    }

    async fn run(replies: &[&str], too_long: bool) -> Seen {
        let scripted = Scripted {
            replies: Mutex::new(replies.iter().map(|text| reply(text)).collect()),
            asked: Mutex::default(),
            too_long,
        };
        let (sender, mut receiver) = mpsc::channel(8);
        let log = Arc::new(Log::new("test".into(), "r".to_owned()));
        let sink = Sink::new(Some(sender), false, log, None, true);
        let request = Thread {
            messages: vec![Message::new(Role::Human, "say yes")],
            checks: wants("yes"),
        };
        let ended = ask(&scripted, request, &sink).await;
        drop(sink);
        let mut news = Vec::new();
        while let Some(event) = receiver.recv().await {
            news.push(serde_json::to_string(&event).unwrap());
        }
        Seen {
            ended,
            asked: scripted.asked.into_inner().unwrap(),
            news,
        }
    }

    fn retry(reason: &str) -> String {
        let event =
            json!({"type": "retry", "by": "provider", "attempt": 1, "maxAttempts": 1, "delayMs": 0, "reason": reason});
        event.to_string()
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[tokio::test]
    async fn what_fits_is_not_asked_for_again() {
        let seen = run(&["yes"], false).await;
        assert!(matches!(seen.ended, Ended::Replied(held) if *held == reply("yes")));
        assert_eq!(
            (seen.asked, seen.news),
            (vec![(owned(&["say yes"]), LimitsUsed::default())], Vec::new())
        );
    }

    #[tokio::test]
    async fn a_second_reply_that_fits_is_the_answer_and_its_usage_is_that_of_both() {
        let seen = run(&["no", "yes"], false).await;
        let Ended::Replied(held) = seen.ended else {
            panic!("it fits the second time: {:?}", seen.ended);
        };
        let expected = Reply {
            usage: tokens(6, 4),
            cost_usd: Some(1.0),
            ..reply("yes")
        };
        assert_eq!(*held, expected);
        let extended = owned(&["say yes", "no", "say something else"]);
        let first = LimitsUsed {
            attempts: 2,
            waited_ms: 5,
        };
        assert_eq!(
            seen.asked,
            [(owned(&["say yes"]), LimitsUsed::default()), (extended, first)]
        );
        assert_eq!(seen.news, [retry("it says \"no\", not \"yes\"")]);
    }

    #[tokio::test]
    async fn there_is_no_third_time() {
        let seen = run(&["no", "never", "yes"], false).await;
        let Ended::Failed(error) = seen.ended else {
            panic!("it does not fit: {:?}", seen.ended);
        };
        assert_eq!(error.message, "it says \"never\", not \"yes\"");
        assert_eq!(error.usage, Some(tokens(6, 4)));
        assert_eq!(error.partial.map(|partial| partial.text).as_deref(), Some("never"));
        assert_eq!((seen.asked.len(), seen.news.len()), (2, 1));
    }

    #[tokio::test]
    async fn what_cannot_be_asked_again_says_so() {
        let seen = run(&["no", "yes"], true).await;
        assert!(matches!(seen.ended, Ended::Failed(error) if error.code == Code::PromptTooLong));
        assert_eq!(seen.asked.len(), 1);
    }
}
