//! Where a run's events and records go, and whether any of them was output: what was given can't be taken back by a further attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::log::Log;
use crate::event::Event;

/// Where a run's events go.
pub(super) struct Sink {
    /// `None` where nobody asked for events: then nothing is ever given.
    consumer: Option<mpsc::Sender<Event>>,
    /// Tools that run are the CLI's own, which change things: running them counts as output, whoever listens.
    tools_act: bool,
    final_word: AtomicBool,
    /// The run's records.
    pub log: Arc<Log>,
}

impl Sink {
    pub fn new(consumer: Option<mpsc::Sender<Event>>, tools_act: bool, log: Arc<Log>) -> Sink {
        Sink {
            consumer,
            tools_act,
            final_word: AtomicBool::new(false),
            log,
        }
    }

    /// Sends all of `events` in order. Waits while the consumer is slow; one that has gone is no reason to fail.
    pub async fn send(&self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            self.log.event(&event);
            let given = self.consumer.is_some() && is_output(&event);
            let acted = self.tools_act && matches!(event, Event::ToolCall { .. } | Event::ToolResult { .. });
            if given || acted {
                self.final_word.store(true, Ordering::Relaxed);
            }
            if let Some(consumer) = &self.consumer {
                let _ = consumer.send(event).await;
            }
        }
    }

    /// Something was done that must not be done again.
    pub fn acted(&self) {
        self.final_word.store(true, Ordering::Relaxed);
    }

    /// Whether a further attempt would say, or do, something twice.
    pub fn must_not_repeat(&self) -> bool {
        self.final_word.load(Ordering::Relaxed)
    }
}

/// The model's own words and calls, as opposed to news about the run.
fn is_output(event: &Event) -> bool {
    matches!(
        event,
        Event::TextDelta { .. }
            | Event::ThinkingDelta { .. }
            | Event::Message { .. }
            | Event::ToolCall { .. }
            | Event::InvalidToolCall { .. }
            | Event::ToolResult { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Event {
        Event::Message {
            id: None,
            content: "hi".to_owned(),
        }
    }

    fn acted() -> Event {
        Event::ToolResult {
            tool_call_id: "t1".to_owned(),
            content: String::new(),
            is_error: false,
        }
    }

    fn news() -> Event {
        Event::Warning {
            code: "X".to_owned(),
            message: String::new(),
        }
    }

    #[tokio::test]
    async fn what_was_given_or_done_must_not_be_repeated() {
        for (listens, tools_act, event, expected) in [
            (true, false, text(), true),
            (true, false, news(), false),
            (false, false, text(), false),
            (false, false, acted(), false),
            (false, true, acted(), true),
            (false, true, text(), false),
        ] {
            let (sender, _receiver) = mpsc::channel(1);
            let sink = Sink::new(
                listens.then_some(sender),
                tools_act,
                Arc::new(Log::new("claude".into(), "r".to_owned())),
            );
            let said = format!("{event:?}, listens: {listens}, tools act: {tools_act}");
            sink.send(&mut vec![event]).await;
            assert_eq!(sink.must_not_repeat(), expected, "{said}");
        }
    }
}
