//! The receiver of a run's events and records: its log first, then its consumer. It remembers whether any of them was output, since
//! output that was delivered can't be taken back by a further attempt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::lifecycle::{CallHandles, Ended, Lifecycle};
use super::record;
use super::record::{Log, RunRedactor, lazy_redactor};
use super::request::CallOptions;
use crate::ledger::Ledger;
use dfp_model::budget::Used;
use dfp_model::error::ProviderError;
use dfp_model::event::Event;
use dfp_record::recorder::Recorder;
use dfp_record::runlog::Prompt;
use dfp_text::redact::Redactor;

/// The receiver of a run's events.
pub(super) struct Sink {
    /// The consumer; `None` if nobody asked for events, so that nothing is ever delivered.
    consumer: Option<mpsc::Sender<Event>>,
    /// True if the tools that run are the CLI's own, which change things: running one counts as output, whoever listens.
    tools_act: bool,
    committed: AtomicBool,
    pub log: Arc<Log>,
    /// The run's log, if it is recorded.
    recorder: Option<Recorder>,
    /// True if pieces of messages are for the log alone.
    whole_only: bool,
    /// True if pieces of texts are for the log alone, since the whole text comes, too. Reasoning comes in no other form.
    whole_texts: bool,
    redactor: RunRedactor,
    /// Cancelled with the run.
    cancel: CancellationToken,
    /// The ledger that counts the attempts, if the provider has a budget.
    pub ledger: Option<Arc<Ledger>>,
    /// The known usage of the attempt that goes on.
    used: Mutex<Option<Used>>,
}

impl Sink {
    /// Creates a sink. `pieces` says whether the consumer wants pieces of messages; a recorder always gets them.
    pub fn new(
        consumer: Option<mpsc::Sender<Event>>,
        tools_act: bool,
        log: Arc<Log>,
        recorder: Option<Recorder>,
        pieces: bool,
    ) -> Sink {
        Sink {
            consumer,
            tools_act,
            committed: AtomicBool::new(false),
            log,
            whole_only: recorder.is_some() && !pieces,
            whole_texts: false,
            recorder,
            redactor: lazy_redactor(Redactor::default),
            cancel: CancellationToken::new(),
            ledger: None,
            used: Mutex::default(),
        }
    }

    /// Makes the sink of a call that says whether it wants events and records. `recorded` is its thread as its log has it; `redactor`
    /// takes its secrets out.
    ///
    /// # Errors
    /// `INVALID_OPTION` if the log can't be begun.
    pub async fn of_call(
        provider: &Lifecycle,
        handles: CallHandles,
        options: &CallOptions,
        recorded: Option<Prompt>,
        redactor: RunRedactor,
    ) -> Result<Sink, Box<ProviderError>> {
        let CallHandles { log, consumer, cancel } = handles;
        let recorder = match &options.record {
            Some(record) => Some(
                record
                    .begin_call(provider.id(), log.run_id(), recorded, Redactor::clone(&redactor))
                    .await
                    .map_err(|(code, reason)| provider.refuse(code, reason))?,
            ),
            None => None,
        };
        if options.log {
            log.want();
        }
        log.redact_with(Arc::clone(&redactor));
        let consumer = options.events.then_some(consumer);
        Ok(Sink {
            redactor,
            cancel,
            ledger: provider.ledger.clone(),
            ..Sink::new(consumer, false, log, recorder, options.partial)
        })
    }

    /// Returns this sink for a CLI; `tools_act` says whether the tools that it runs are its own.
    pub fn with_acting_tools(mut self, tools_act: bool) -> Sink {
        self.tools_act = tools_act;
        self
    }

    /// Returns this sink for a run that `cancel` ends: then nobody waits for its consumer.
    #[cfg(test)]
    pub fn ending_with(mut self, cancel: &CancellationToken) -> Sink {
        self.cancel = cancel.clone();
        self
    }

    /// Returns this sink with `ledger` counting the attempts.
    #[cfg(test)]
    pub fn counting(mut self, ledger: Option<Arc<Ledger>>) -> Sink {
        self.ledger = ledger;
        self
    }

    /// Notes the usage of the attempt that goes on. Returns a warning, once, if costs are counted and the cost of an answer is
    /// unknown.
    pub fn note_used(&self, used: Used) -> Option<Event> {
        let ledger = self.ledger.as_ref()?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(used);
        let is_missing = used.answered && used.cost_usd.is_none() && ledger.misses_cost();
        is_missing.then(|| Event::Warning {
            code: "BUDGET_COST_UNKNOWN".to_owned(),
            message: "the provider does not tell what this answer has cost, so `budget.costUsd` counts nothing for it: limit `requests` or \
                      `tokens`"
                .to_owned(),
        })
    }

    /// Takes the usage that [`note_used`](Sink::note_used) was told of the attempt that is over.
    pub fn take_used(&self) -> Option<Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Hands `event` to the consumer. Waits for a slow consumer until the run is cancelled or its time is up: a stuck consumer must
    /// not hold up the run's end.
    async fn hand(&self, consumer: &mpsc::Sender<Event>, event: Event) {
        let event = match consumer.try_send(event) {
            Ok(()) | Err(TrySendError::Closed(_)) => return,
            Err(TrySendError::Full(event)) => event,
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            _ = consumer.send(event) => {}
            () = self.log.time_up() => {}
        }
    }

    /// The redactor that takes the run's secrets out.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns this sink for an engine that always reports pieces; `wanted` says whether the consumer gets them, too.
    pub fn in_pieces(mut self, wanted: bool) -> Sink {
        self.whole_only = !wanted;
        self
    }

    /// Returns this sink for a CLI that may report pieces; `wanted` says whether the consumer gets those of texts.
    pub fn text_in_pieces(mut self, wanted: bool) -> Sink {
        self.whole_texts = !wanted;
        self
    }

    /// Returns whether anybody reads the events. The CLI's retries, warnings and limits go to the log in any case.
    pub fn has_listener(&self) -> bool {
        self.consumer.is_some() || self.recorder.is_some()
    }

    /// Sends all of `events` in order. Waits while the consumer is slow; a consumer that has gone is no failure.
    pub async fn send(&self, events: &mut Vec<Event>) {
        self.record(events).await;
        for mut event in events.drain(..) {
            if Redactor::concerns(&event) {
                self.redactor.clean_event(&mut event);
            }
            self.log.event(&event);
            let is_kept_back = match event {
                Event::TextDelta { .. } | Event::ToolCallDelta { .. } => self.whole_only || self.whole_texts,
                Event::ThinkingDelta { .. } => self.whole_only,
                _ => false,
            };
            if is_kept_back {
                continue;
            }
            let delivered = self.consumer.is_some() && is_output(&event);
            let acted = self.tools_act && matches!(event, Event::ToolCall { .. } | Event::ToolResult { .. });
            if delivered || acted {
                self.committed.store(true, Ordering::Relaxed);
            }
            if let Some(consumer) = &self.consumer {
                self.hand(consumer, event).await;
            }
        }
    }

    /// Notes that something was done that must not be done again.
    pub fn mark_side_effect(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Writes `events` into the run's log. A failure to write is reported behind them, but before the last.
    async fn record(&self, events: &mut Vec<Event>) {
        let Some(recorder) = &self.recorder else { return };
        // The pieces of a call's arguments are not recorded, since the call has them.
        for event in events
            .iter()
            .filter(|event| !matches!(event, Event::ToolCallDelta { .. }))
        {
            recorder.event(event).await;
        }
        let last = matches!(events.last(), Some(Event::Done { .. }));
        if last {
            recorder.settle().await;
        }
        if let Some(reason) = recorder.failure() {
            events.insert(events.len() - usize::from(last), not_recorded(&reason));
        }
    }

    /// Ends the run, which has `ended`: all of its log is in the file when this returns.
    pub async fn close(&self, ended: &Ended) {
        let Some(recorder) = &self.recorder else { return };
        recorder.end(record::end_of(ended).as_ref()).await;
        recorder.settle().await;
        self.send(&mut Vec::new()).await;
    }

    /// Returns whether a further attempt would say, or do, something twice.
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }
}

fn not_recorded(reason: &str) -> Event {
    Event::Warning {
        code: "RUN_LOG_FAILED".to_owned(),
        message: format!("the run goes on and is no longer recorded: {reason}"),
    }
}

/// Returns whether the event is the model's own text or a call, as opposed to news about the run.
fn is_output(event: &Event) -> bool {
    matches!(
        event,
        Event::TextDelta { .. }
            | Event::ThinkingDelta { .. }
            | Event::Message { .. }
            | Event::ToolCallDelta { .. }
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
                None,
                true,
            );
            let case = format!("{event:?}, listens: {listens}, tools act: {tools_act}");
            sink.send(&mut vec![event]).await;
            assert_eq!(sink.is_committed(), expected, "{case}");
        }
    }

    #[tokio::test]
    async fn pieces_for_the_log_alone_are_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let header = dfp_record::runlog::Header {
            run_id: "r".to_owned(),
            parent_run_id: None,
            provider: "claude".to_owned(),
            started_at: 1,
            prompt: None,
        };
        let recorder = Recorder::begin(&path, &header, Redactor::default()).await.unwrap();
        let (sender, mut receiver) = mpsc::channel(2);
        let log = Arc::new(Log::new("claude".into(), "r".to_owned()));
        let sink = Sink::new(Some(sender), false, log, Some(recorder), false);
        let piece = Event::TextDelta {
            message_id: None,
            text: "hi".to_owned(),
        };
        sink.send(&mut vec![piece]).await;
        assert!(!sink.is_committed());
        sink.send(&mut vec![text()]).await;
        sink.close(&Ended::Replied(Box::default())).await;
        assert!(matches!(receiver.recv().await, Some(Event::Message { .. })));
        let recording = dfp_record::runlog::read::read(&std::fs::read(&path).unwrap()).unwrap();
        let kinds: Vec<_> = recording.runs[0]
            .entries
            .iter()
            .map(|entry| entry.kind.as_str())
            .collect();
        assert_eq!(kinds, ["text_delta", "message"]);
    }
}
