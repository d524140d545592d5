//! Properties that hold for any order of events: every call gets one result, nothing runs without permission, and there is one end.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::tests::{call, raw, rules};
use super::*;
use dfp_model::error::Code;

/// An event in any order, including impossible ones, such as answers to calls that nobody has made.
#[derive(Debug, Clone)]
enum Event {
    Call(u8, u8, u8, bool),
    Decided(u8, bool, u8),
    Executed(u8, bool),
    ChildEnded(u8),
    TakenBack(u8),
    Unreadable,
    Spent(u8),
    TurnEnded,
    ProviderFailed,
    Cancelled,
    TimeUp,
}

const NAMES: [&str; 6] = [
    "add",
    "look",
    "nothing",
    "completion-report",
    "planner-output",
    "handoff",
];
const ARGS: [&str; 5] = [
    "{}",
    r#"{"a":1}"#,
    r#"{"summary":"s","plan":"p"}"#,
    r#"{"agent":"reviewer","task":"t"}"#,
    r#"{"a":"\ud800"}"#,
];

fn event() -> impl Strategy<Value = Event> {
    let id = 0_u8..12;
    prop_oneof![
        6 => (id.clone(), 0_u8..6, 0_u8..5, any::<bool>()).prop_map(|(id, name, args, back)| Event::Call(id, name, args, back)),
        3 => (id.clone(), any::<bool>(), 0_u8..8).prop_map(|(id, allow, args)| Event::Decided(id, allow, args)),
        4 => (id.clone(), any::<bool>()).prop_map(|(id, failed)| Event::Executed(id, failed)),
        2 => id.clone().prop_map(Event::ChildEnded),
        1 => id.prop_map(Event::TakenBack),
        1 => Just(Event::Unreadable),
        1 => (0_u8..10).prop_map(Event::Spent),
        3 => Just(Event::TurnEnded),
        1 => prop_oneof![Just(Event::ProviderFailed), Just(Event::Cancelled), Just(Event::TimeUp)],
    ]
}

fn input(event: &Event) -> Input {
    match event {
        Event::Call(id, name, args, back) => Input::Call(
            call(&id.to_string(), NAMES[usize::from(*name)], ARGS[usize::from(*args)]),
            if *back { Origin::Callback } else { Origin::Turn },
        ),
        Event::Decided(id, allow, args) => Input::Decided {
            id: id.to_string(),
            allow: *allow,
            reason: None,
            args: ARGS.get(usize::from(*args)).map(|args| raw(args)),
        },
        Event::Executed(id, failed) => Input::Executed {
            id: id.to_string(),
            answer: if *failed {
                ToolResult::error("x")
            } else {
                ToolResult::text("x")
            },
        },
        Event::ChildEnded(id) => Input::ChildEnded {
            id: id.to_string(),
            answer: ToolResult::text("x"),
            spent: Spent::default(),
        },
        Event::TakenBack(id) => Input::TakenBack { id: id.to_string() },
        Event::Unreadable => Input::Unreadable("again".to_owned()),
        Event::Spent(cents) => Input::Spent(Spent {
            cost_usd: Some(f64::from(*cents) / 100.0),
            ..Spent::default()
        }),
        Event::TurnEnded => Input::TurnEnded,
        Event::ProviderFailed => {
            Input::ProviderFailed(Box::new(ProviderError::new("fake", Code::ServerError, "broke")))
        }
        Event::Cancelled => Input::Cancelled,
        Event::TimeUp => Input::TimeUp,
    }
}

/// Everything that was observed of a run.
#[derive(Debug, Default)]
struct Seen {
    called: HashSet<String>,
    allowed: HashSet<String>,
    denied: HashSet<String>,
    executed: HashSet<String>,
    replies: BTreeMap<String, u32>,
    turns: u32,
    ends: u32,
}

impl Seen {
    fn effect(&mut self, effect: &Effect) -> Result<(), TestCaseError> {
        prop_assert!(
            self.ends == 0 || matches!(effect, Effect::Reply { .. }),
            "after the end: {effect:?}"
        );
        match effect {
            Effect::Ask(call) => prop_assert!(!self.replies.contains_key(&call.id)),
            Effect::Permission(it) => {
                let set = if it.allow { &mut self.allowed } else { &mut self.denied };
                prop_assert!(set.insert(it.id.clone()), "decided twice: {}", it.id);
            }
            Effect::Execute(ToolCall { id, .. }) | Effect::StartChild { id, .. } => {
                prop_assert!(
                    self.allowed.contains(id) && !self.denied.contains(id),
                    "{id} was not permitted"
                );
                prop_assert!(!self.replies.contains_key(id), "{id} has its answer");
                prop_assert!(self.executed.insert(id.clone()), "{id} runs twice");
            }
            Effect::Reply { call, .. } => *self.replies.entry(call.id.clone()).or_default() += 1,
            Effect::Abandon(id) => prop_assert!(!self.replies.contains_key(id)),
            Effect::NextTurn { .. } => {
                prop_assert_eq!(self.open(), 0, "a turn begins while calls are open");
                self.turns += 1;
            }
            Effect::Stop => {}
            Effect::Finish(outcome) => {
                self.ends += 1;
                prop_assert_eq!(outcome.steps >= self.turns, true);
                prop_assert_eq!(
                    outcome.error.is_some(),
                    matches!(outcome.status, Status::Failed | Status::Limit)
                );
                prop_assert_eq!(outcome.limit.is_some(), outcome.status == Status::Limit);
                prop_assert_eq!(self.open(), 0, "the run ends while calls are open");
            }
        }
        Ok(())
    }

    fn open(&self) -> usize {
        self.called.iter().filter(|id| !self.replies.contains_key(*id)).count()
    }
}

fn setup() -> impl Strategy<Value = (Builtins, &'static str, RunLimits)> {
    let need = || prop_oneof![Just(Need::Off), Just(Need::Offered), Just(Need::Required)];
    let policy = prop_oneof![
        Just("{}"),
        Just(r#"{"ask":true}"#),
        Just(r#"{"allow":{"exact":["add"]}}"#),
        Just(r#"{"allow":{"exact":["add"]},"deny":{"globs":["l*"]},"ask":true}"#),
    ];
    let some = |most: u32| prop::option::of(0..most);
    let limits = (1_u32..8, some(6), some(4), prop::option::of(0.01_f64..0.3));
    (need(), need(), any::<bool>(), policy, limits).prop_map(|(report, plan, handoff, policy, limits)| {
        let target = Target {
            name: "reviewer".to_owned(),
            description: None,
        };
        let builtins = Builtins {
            report,
            plan,
            targets: if handoff { vec![target] } else { Vec::new() },
        };
        let limits = RunLimits {
            max_steps: limits.0,
            max_tool_calls: limits.1,
            max_repeated_calls: limits.2,
            max_cost_usd: limits.3,
            timeout_ms: Some(1),
        };
        (builtins, policy, limits)
    })
}

proptest! {
    #[test]
    fn any_order_of_events_keeps_the_promises((builtins, policy, limits) in setup(), events in prop::collection::vec(event(), 0..60)) {
        let mut seen = Seen::default();
        let mut state = State::Idle(Box::new(rules(&builtins, policy, limits)));
        // The caller cancels at last, so that every run ends.
        let all = std::iter::once(Input::Started).chain(events.iter().map(input)).chain([Input::Cancelled]);
        for input in all {
            let came = match &input {
                Input::Call(call, _) => Some(call.id.clone()),
                _ => None,
            };
            let over = seen.ends > 0;
            if let Some(id) = came {
                // After the end, a call with a known id counts as a new one, and has to be answered.
                if over {
                    seen.replies.remove(&id);
                }
                seen.called.insert(id);
            }
            let (next, effects) = step(state, input);
            for effect in &effects {
                seen.effect(effect)?;
            }
            state = next;
            let awaits = matches!(state, State::AwaitingDeferred(_));
            prop_assert!(!awaits || seen.open() > 0);
        }
        prop_assert_eq!(seen.ends, 1);
        prop_assert!(seen.turns <= limits.max_steps);
        prop_assert_eq!(seen.open(), 0);
        let twice: Vec<_> = seen.replies.iter().filter(|(_, count)| **count != 1).collect();
        prop_assert!(twice.is_empty(), "{:?}", twice);
    }

    /// Two runs whose events are mixed do the same as each does alone.
    #[test]
    fn runs_do_not_meet(ours in prop::collection::vec(event(), 0..30), theirs in prop::collection::vec(event(), 0..30)) {
        let begin = || step(State::Idle(Box::new(rules(&Builtins::default(), "{}", RunLimits::default()))), Input::Started).0;
        let alone = |events: &[Event]| {
            let (mut state, mut seen) = (begin(), Vec::new());
            for event in events {
                let (next, effects) = step(state, input(event));
                state = next;
                seen.extend(effects.iter().map(|effect| format!("{effect:?}")));
            }
            seen
        };
        let (mut parent, mut child) = (Some(begin()), Some(begin()));
        let (mut of_parent, mut of_child) = (Vec::new(), Vec::new());
        for at in 0..ours.len().max(theirs.len()) {
            let runs = [(&ours, &mut parent, &mut of_parent), (&theirs, &mut child, &mut of_child)];
            for (events, state, seen) in runs {
                if let Some(event) = events.get(at) {
                    let (next, effects) = step(state.take().unwrap(), input(event));
                    *state = Some(next);
                    seen.extend(effects.iter().map(|effect| format!("{effect:?}")));
                }
            }
        }
        prop_assert_eq!(of_parent, alone(&ours));
        prop_assert_eq!(of_child, alone(&theirs));
    }
}
