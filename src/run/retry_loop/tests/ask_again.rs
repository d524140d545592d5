//! Tests of asking once more for a reply that does not fit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::super::*;
use crate::record::Log;
use crate::reply_check::Checks;
use crate::reply_check::tests::{reply, tokens, wants};
use crate::retry_loop::UsedUp;
use dfp_model::error::Code;
use dfp_model::event::Reply;
use dfp_model::message::Role;

/// A call of a model with scripted replies, one after the other.
struct Scripted {
    messages: Vec<Message>,
    checks: Checks,
    replies: Mutex<VecDeque<Reply>>,
    /// The messages of each attempt, and its number.
    asked: Mutex<Vec<(Vec<String>, u32)>>,
    too_long: bool,
    policy: Policy,
    used_up: UsedUp,
}

impl RetryableCall for Scripted {
    fn retry(&self) -> &Policy {
        &self.policy
    }

    fn quota(&self) -> Option<QuotaWait> {
        None
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn plan(&self) -> Plan<'_> {
        Plan {
            used_up: &self.used_up,
            env: None,
            model: "m",
        }
    }

    fn login(&self) -> Option<&str> {
        None
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        None
    }

    async fn attempt(
        &self,
        number: u32,
        _: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        info.queued_ms = Some(0);
        let texts = self.messages.iter().map(|message| message.content.as_text().to_owned());
        self.asked.lock().unwrap().push((texts.collect(), number));
        let reply = self.replies.lock().unwrap().pop_front().unwrap();
        self.checks.hold(Ok(reply), 1)
    }

    fn extend(&mut self, messages: Vec<Message>, rejected: &RejectedReply) -> Result<(), Box<ProviderError>> {
        if self.too_long {
            return Err(Box::new(ProviderError::new("test", Code::PromptTooLong, "too long")));
        }
        self.messages.extend(messages);
        self.checks = self.checks.clone().after_misfit(rejected);
        Ok(())
    }
}

struct Seen {
    ended: Ended,
    asked: Vec<(Vec<String>, u32)>,
    news: Vec<String>,
}

async fn run(replies: &[&str], too_long: bool) -> Seen {
    let mut scripted = Scripted {
        messages: vec![Message::new(Role::Human, "say yes")],
        checks: wants("yes"),
        replies: Mutex::new(replies.iter().map(|text| reply(text)).collect()),
        asked: Mutex::default(),
        too_long,
        policy: Policy {
            max_attempts: 1,
            ..Policy::default()
        },
        used_up: UsedUp::default(),
    };
    let (sender, mut receiver) = mpsc::channel(8);
    let log = Arc::new(Log::new("test".into(), "r".to_owned()));
    let sink = Sink::new(Some(sender), false, log, None, true);
    let ended = answer(&mut scripted, &CancellationToken::new(), &sink).await;
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
    assert_eq!((seen.asked, seen.news), (vec![(owned(&["say yes"]), 1)], Vec::new()));
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
    assert_eq!(seen.asked, [(owned(&["say yes"]), 1), (extended, 2)]);
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
