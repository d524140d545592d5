use std::future::pending;
use std::ops::ControlFlow;

use super::*;
use crate::live::session::Pulse;
use dfp_text::decode::Wire;

/// A log of what has happened to a session and its turn, in order.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn said(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// A session whose turn reports two pieces, and then ends in this way.
#[derive(Debug)]
struct Pieces {
    log: Log,
    end: fn(&Log) -> Option<TurnEnd<u8>>,
}

fn piece(text: &str) -> Event {
    Event::TextDelta {
        message_id: None,
        text: text.to_owned(),
    }
}

impl Session for Pieces {
    type Setup = ();
    type Input = ();
    type ReplyFacts = u8;

    fn pid(&self) -> u32 {
        7
    }

    async fn turn(&mut self, _: TurnInput<Pieces>, report: &Report) -> TurnEnd<u8> {
        for text in ["a", "b"] {
            self.log.note(text);
            report.received(1);
            report.tell(&mut vec![piece(text)]).await;
        }
        report.push([piece("c")]);
        match (self.end)(&self.log) {
            Some(end) => end,
            None => pending().await,
        }
    }

    async fn stop(self, _: Duration) -> Option<EndedProcess> {
        tokio::task::yield_now().await;
        self.log.note("stopped");
        None
    }

    async fn idle(&mut self) -> Pulse {
        Pulse::Ended
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        self.end();
        None
    }

    fn end(self) {
        self.log.note("session ended");
    }
}

fn reply(_: &Log) -> Option<TurnEnd<u8>> {
    Some(TurnEnd::Reply {
        goes_on: true,
        known: 9,
        diagnostics: vec!["odd".to_owned()],
        stdout_tail: "tail".to_owned(),
    })
}

struct Begun {
    turn: Turn<Pieces>,
    log: Log,
    tracker: TaskTracker,
}

fn begin(end: fn(&Log) -> Option<TurnEnd<u8>>) -> Begun {
    let (log, tracker) = (Log::default(), TaskTracker::new());
    let of_park = log.clone();
    let start = TurnStart {
        invocation: Invocation {
            provider: "claude".to_owned(),
            wire: Wire::ClaudeStream,
            flags: Vec::new(),
            optional_flags: Vec::new(),
            has_schema: false,
            launched: None,
        },
        limits: ProcessLimits::default(),
        tracker: &tracker,
        park: Box::new(move |kept: Option<Kept<Pieces>>, _, known| {
            of_park.note(match (kept, known) {
                (Some(kept), 9) if kept.pending.is_empty() => "kept",
                _ => "not kept",
            });
        }),
    };
    let session = Box::new(Pieces { log: log.clone(), end });
    let input = TurnInput {
        input: (),
        setup: Arc::new(()),
        origin: Origin::Continued,
    };
    let turn = Turn::begin(session, input, start);
    Begun { turn, log, tracker }
}

/// The number of events of each step of `turn`, to its end.
async fn steps(turn: &mut Turn<Pieces>) -> Vec<usize> {
    let mut steps = Vec::new();
    loop {
        let mut events = Vec::new();
        let progress = turn.next(&mut events).await;
        steps.push(events.len());
        if progress == ControlFlow::Break(()) {
            return steps;
        }
    }
}

#[tokio::test]
async fn a_turn_stands_still_until_what_it_told_was_taken() {
    let Begun { mut turn, log, .. } = begin(reply);
    assert_eq!((log.said(), turn.has_begun()), (vec![], false));
    let mut events = Vec::new();
    assert_eq!(turn.next(&mut events).await, ControlFlow::Continue(()));
    assert_eq!((events.len(), log.said(), turn.received_bytes()), (1, vec!["a"], 1));
    assert_eq!(steps(&mut turn).await, [1, 1]);
    assert_eq!((log.said(), turn.has_begun()), (vec!["a", "b"], true));
}

#[tokio::test]
async fn the_session_of_a_reply_is_kept_and_that_of_a_failure_ends() {
    let answer = Reply::default();
    for (verdict, last) in [(Some((&answer, &[][..])), "kept"), (None, "session ended")] {
        let Begun { mut turn, log, .. } = begin(reply);
        steps(&mut turn).await;
        let Ok(ended) = Box::new(turn).finish().await else {
            panic!("unusable")
        };
        let Evidence::Turn(evidence) = ended.evidence else {
            panic!("no turn")
        };
        assert_eq!(
            (evidence.diagnostics, evidence.stdout_tail, evidence.stopped),
            (vec!["odd".to_owned()], "tail".to_owned(), None)
        );
        ended.on_verdict.unwrap()(verdict);
        assert_eq!(log.said().last(), Some(&last));
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_has_stopped_when_it_is_finished() {
    let Begun { mut turn, log, .. } = begin(|_| None);
    let _ = turn.next(&mut Vec::new()).await;
    turn.stop(StopReason::Cancelled);
    let Ok(ended) = Box::new(turn).finish().await else {
        panic!("unusable")
    };
    assert_eq!(ended.evidence.stop_reason(), Some(StopReason::Cancelled));
    assert_eq!(log.said(), ["a", "stopped"]);
}

#[tokio::test]
async fn a_turn_that_is_stopped_before_it_was_asked_for_anything_stops_as_well() {
    let Begun { mut turn, log, .. } = begin(|_| None);
    turn.stop(StopReason::Cancelled);
    assert!(Box::new(turn).finish().await.is_ok());
    assert_eq!(log.said(), ["stopped"]);
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_stopped_in_the_background() {
    let Begun { mut turn, log, tracker } = begin(|_| None);
    let _ = turn.next(&mut Vec::new()).await;
    drop(turn);
    tracker.close();
    tracker.wait().await;
    assert_eq!(log.said(), ["a", "stopped"]);
}

#[tokio::test]
async fn nothing_is_reported_of_a_turn_that_came_to_nothing() {
    let Begun { mut turn, .. } = begin(|_| Some(TurnEnd::Vanished));
    steps(&mut turn).await;
    assert!(!turn.has_begun());
    assert!(matches!(Box::new(turn).finish().await, Err(Unusable::Vanished)));
    let Begun { mut turn, .. } = begin(|_| Some(TurnEnd::Failed));
    steps(&mut turn).await;
    assert!(turn.has_begun());
}
