//! Each rule of the executor by an example. All effects are compared, written as text.

mod rules;

use super::*;
use dfp_model::error::Code;

pub(super) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(super) fn call(id: &str, name: &str, args: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        args: raw(args),
    }
}

/// Rules with two tools: `add` takes a number `a`, `look` takes anything.
pub(super) fn rules(builtins: &Builtins, policy: &str, limits: RunLimits) -> Rules {
    let spec = |name: &str, schema: &str| ToolSpec {
        name: name.to_owned(),
        description: None,
        schema: raw(schema),
    };
    let add = r#"{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}"#;
    let tools = [spec("add", add), spec("look", "{}")].map(|spec| Arc::new(tool(spec)));
    let policy: Policy = serde_json::from_str(policy).unwrap();
    Rules::new("fake", &tools, builtins, policy, limits).unwrap()
}

/// A run that has begun, and its effects as lines.
struct Run {
    state: Option<State>,
    lines: Vec<String>,
    outcome: Option<RunOutcome>,
}

impl Run {
    fn new(builtins: &Builtins, policy: &str, limits: RunLimits) -> Run {
        let mut run = Run {
            state: Some(State::Idle(Box::new(rules(builtins, policy, limits)))),
            lines: Vec::new(),
            outcome: None,
        };
        assert_eq!(run.feed([Input::Started]), ["next turn"]);
        run
    }

    fn plain() -> Run {
        Run::new(&Builtins::default(), "{}", RunLimits::default())
    }

    fn feed<const N: usize>(&mut self, inputs: [Input; N]) -> Vec<String> {
        self.lines.clear();
        for input in inputs {
            let (state, effects) = step(self.state.take().unwrap(), input);
            self.state = Some(state);
            for effect in effects {
                self.note(effect);
            }
        }
        self.lines.clone()
    }

    fn note(&mut self, effect: Effect) {
        let line = match effect {
            Effect::Ask(call) => format!("ask {} {}", call.id, call.args),
            Effect::Permission(it) => {
                let (verb, args) = (
                    if it.allow { "allow" } else { "deny" },
                    it.args.map(|args| format!(" {args}")),
                );
                let by = serde_json::to_string(&it.by).unwrap();
                format!(
                    "{verb} {} by {}{}",
                    it.id,
                    by.trim_matches('"'),
                    args.unwrap_or_default()
                )
            }
            Effect::Execute(call) => format!("execute {} {}", call.id, call.args),
            Effect::StartChild { id, task } => format!("start {id} {}: {}", task.agent, task.task),
            Effect::Reply { call, answer } => {
                let word = if answer.is_error { "error" } else { "reply" };
                format!("{word} {} {}", call.id, serde_json::to_string(&answer.content).unwrap())
            }
            Effect::Abandon(id) => format!("abandon {id}"),
            Effect::NextTurn { notes } if notes.is_empty() => "next turn".to_owned(),
            Effect::NextTurn { notes } => format!("next turn: {}", notes.join(" | ")),
            Effect::Stop => "stop".to_owned(),
            Effect::Finish(outcome) => {
                let line = format!("{:?} {:?}", outcome.status, outcome.output);
                self.outcome = Some(*outcome);
                line
            }
        };
        self.lines.push(line);
    }
}

fn made(id: &str, name: &str, args: &str) -> Input {
    Input::Call(call(id, name, args), Origin::Turn)
}

fn called(id: &str, name: &str, args: &str) -> Input {
    Input::Call(call(id, name, args), Origin::Callback)
}

fn done(id: &str, text: &str) -> Input {
    Input::Executed {
        id: id.to_owned(),
        answer: ToolResult::text(text),
    }
}

fn output(text: &str) -> Input {
    Input::Output(text.to_owned())
}

fn spent(cost_usd: f64) -> Input {
    Input::Spent(Spent {
        cost_usd: Some(cost_usd),
        ..Spent::default()
    })
}

fn on(report: Need, plan: Need, targets: &[&str]) -> Builtins {
    let target = |name: &&str| Target {
        name: (*name).to_owned(),
        description: None,
    };
    Builtins {
        report,
        plan,
        targets: targets.iter().map(target).collect(),
    }
}

#[test]
fn calls_of_a_turn_run_and_the_next_turn_waits_for_all_of_them() {
    let mut run = Run::plain();
    let lines = run.feed([
        output("Let me."),
        made("1", "add", r#"{"a":1}"#),
        made("2", "look", "{}"),
        Input::TurnEnded,
    ]);
    assert_eq!(
        lines,
        [
            "allow 1 by default",
            r#"execute 1 {"a":1}"#,
            "allow 2 by default",
            "execute 2 {}"
        ]
    );
    assert_eq!(run.feed([done("2", "seen")]), [r#"reply 2 "seen""#]);
    assert_eq!(run.feed([done("1", "2")]), [r#"reply 1 "2""#, "next turn"]);
    assert_eq!(
        run.feed([output("Two."), Input::TurnEnded]),
        ["stop", r#"Completed "Two.""#]
    );
    assert!(matches!(run.state, Some(State::Complete)));
    let outcome = run.outcome.unwrap();
    assert_eq!((outcome.steps, outcome.limit, outcome.error.is_none()), (2, None, true));
}

#[test]
fn results_that_are_there_before_the_turns_end_wait_for_it() {
    let mut run = Run::plain();
    let lines = run.feed([made("1", "nothing", "{}"), made("2", "add", "{}"), Input::TurnEnded]);
    assert_eq!(
        lines,
        [
            r#"error 1 "there is no tool \"nothing\": the tools are \"add\", \"look\"""#,
            r#"error 2 "the arguments of \"add\" do not fit its schema: \"a\" is a required property""#,
            "next turn"
        ]
    );
}

#[test]
fn callbacks_are_answered_in_place_and_need_no_further_turn() {
    let mut run = Run::plain();
    assert_eq!(
        run.feed([called("1", "look", "{}")]),
        ["allow 1 by default", "execute 1 {}"]
    );
    assert_eq!(run.feed([done("1", "a")]), [r#"reply 1 "a""#]);
    run.feed([called("2", "look", "{}"), called("3", "look", "{}"), done("3", "c")]);
    assert_eq!(
        run.feed([output("Done."), Input::TurnEnded]),
        [
            "abandon 2",
            r#"error 2 "\"look\" has no result: the provider ended its turn without waiting for it""#,
            "stop",
            r#"Completed "Done.""#
        ]
    );
    assert_eq!(run.outcome.unwrap().steps, 2);
    // A call after the end is answered with an error.
    let late = step(run.state.unwrap(), called("4", "look", "{}")).1;
    assert!(matches!(&late[..], [Effect::Reply { answer, .. }] if answer.is_error));
}

#[test]
fn a_decision_is_obeyed_and_replaced_arguments_are_checked() {
    let mut run = Run::new(
        &Builtins::default(),
        r#"{"ask":true,"deny":{"exact":["look"]}}"#,
        RunLimits::default(),
    );
    let decide = |id: &str, allow: bool, reason: Option<&str>, args: Option<&str>| Input::Decided {
        id: id.to_owned(),
        allow,
        reason: reason.map(str::to_owned),
        args: args.map(raw),
    };
    let lines = run.feed([
        made("1", "add", r#"{"a":1}"#),
        made("2", "add", r#"{"a":2}"#),
        made("3", "add", r#"{"a":3}"#),
        made("4", "look", "{}"),
        // Nobody is asked about a call that can't run.
        made("5", "add", "{}"),
        Input::TurnEnded,
    ]);
    assert_eq!(
        lines,
        [
            r#"ask 1 {"a":1}"#,
            r#"ask 2 {"a":2}"#,
            r#"ask 3 {"a":3}"#,
            "deny 4 by deny",
            r#"error 4 "\"look\" was not permitted""#,
            r#"error 5 "the arguments of \"add\" do not fit its schema: \"a\" is a required property""#,
        ]
    );
    assert_eq!(
        run.feed([decide("1", true, None, Some(r#"{"a":9}"#)), done("1", "9")]),
        [r#"allow 1 by ask {"a":9}"#, r#"execute 1 {"a":9}"#, r#"reply 1 "9""#]
    );
    assert_eq!(
        run.feed([decide("2", true, None, Some("{}"))]),
        [
            "allow 2 by ask {}",
            r#"error 2 "the arguments of \"add\" do not fit its schema: \"a\" is a required property""#
        ]
    );
    assert_eq!(
        run.feed([
            decide("3", false, Some("not today"), None),
            decide("3", true, None, None)
        ]),
        [
            "deny 3 by ask",
            r#"error 3 "\"add\" was not permitted: not today""#,
            "next turn"
        ]
    );
}

#[test]
fn a_report_counts_once_and_a_plan_is_asked_for_once_more() {
    let mut run = Run::new(
        &on(Need::Offered, Need::Required, &[]),
        r#"{"deny":{"globs":["*"]}}"#,
        RunLimits::default(),
    );
    let lines = run.feed([
        made("1", "completion-report", r#"{"summary":"s"}"#),
        made("2", "completion-report", r#"{"summary":"t"}"#),
        Input::TurnEnded,
    ]);
    assert_eq!(
        lines,
        [
            "allow 1 by builtin",
            r#"reply 1 "The report was taken.""#,
            "allow 2 by builtin",
            r#"error 2 "refused: there is a completion report already, and it counts""#,
            "next turn"
        ]
    );
    assert_eq!(
        run.feed([output("Done."), Input::TurnEnded]),
        [r#"next turn: You have not called "planner-output" yet. Do that now, then give your last answer again."#]
    );
    assert_eq!(run.feed([output("No."), Input::TurnEnded]), ["stop", r#"Failed "No.""#]);
    let outcome = run.outcome.unwrap();
    assert_eq!(outcome.error.unwrap().code, Code::PlannerOutputMissing);
    assert_eq!(outcome.report.unwrap().get(), r#"{"summary":"s"}"#);
}

#[test]
fn a_handoff_is_awaited_while_others_get_their_answers() {
    let mut run = Run::new(&on(Need::Off, Need::Off, &["reviewer"]), "{}", RunLimits::default());
    let lines = run.feed([
        made("1", "handoff", r#"{"agent":"reviewer","task":"look"}"#),
        made("2", "look", "{}"),
        made("3", "handoff", r#"{"agent":"nobody","task":"look"}"#),
        Input::TurnEnded,
    ]);
    assert_eq!(
        lines[..4],
        [
            "allow 1 by builtin",
            "start 1 reviewer: look",
            "allow 2 by default",
            "execute 2 {}"
        ]
    );
    assert!(lines[4].starts_with("error 3 "), "{}", lines[4]);
    assert_eq!(run.feed([done("2", "b")]), [r#"reply 2 "b""#]);
    assert!(matches!(run.state, Some(State::AwaitingDeferred(_))));
    let ended = Input::ChildEnded {
        id: "1".to_owned(),
        answer: ToolResult::error("it failed"),
        spent: Spent {
            cost_usd: Some(0.5),
            ..Spent::default()
        },
    };
    assert_eq!(run.feed([ended]), [r#"error 1 "it failed""#, "next turn"]);
    run.feed([spent(0.25), output("ok"), Input::TurnEnded]);
    assert_eq!(run.outcome.unwrap().spent.cost_usd, Some(0.75));
}

#[test]
fn every_limit_ends_the_run_and_answers_what_is_open() {
    let limits = |change: fn(&mut RunLimits)| {
        let mut limits = RunLimits::default();
        change(&mut limits);
        limits
    };
    let look = |id: &str| made(id, "look", r#"{"x":1,"y":[2]}"#);
    let same = |id: &str| made(id, "look", r#"{ "y": [2], "x": 1 }"#);
    let cases: Vec<(RunLimits, Vec<Input>, Limit)> = vec![
        (limits(|it| it.max_steps = 1), vec![look("1")], Limit::MaxSteps),
        (
            limits(|it| it.max_tool_calls = Some(1)),
            vec![look("1"), made("2", "x", "{}")],
            Limit::MaxToolCalls,
        ),
        (
            limits(|it| it.max_repeated_calls = Some(1)),
            vec![look("1"), same("2")],
            Limit::MaxRepeatedCalls,
        ),
        (
            limits(|it| it.max_cost_usd = Some(0.5)),
            vec![spent(0.6), look("1")],
            Limit::MaxCostUsd,
        ),
        (
            limits(|it| it.timeout_ms = Some(5)),
            vec![look("1"), Input::TimeUp],
            Limit::TimeoutMs,
        ),
    ];
    for (limits, inputs, expected) in cases {
        let mut run = Run::new(&Builtins::default(), "{}", limits);
        let mut lines = Vec::new();
        for input in inputs {
            lines.extend(run.feed([input]));
        }
        // The model's turn ends first, so that no result causes it to go on.
        let stop = lines.iter().position(|line| line == "stop").unwrap();
        let (answers, end) = lines[stop + 1..].split_at(lines.len() - stop - 2);
        assert_eq!(end, [r#"Limit """#], "{expected:?}");
        assert!(!answers.is_empty());
        for answer in answers {
            assert!(
                answer.starts_with("error ") && answer.contains(expected.as_str()),
                "{answer}"
            );
        }
        let outcome = run.outcome.unwrap();
        assert_eq!(
            (outcome.limit, outcome.error.unwrap().code),
            (Some(expected), Code::AgentLimit)
        );
    }
}

#[test]
fn what_is_dear_or_late_may_still_be_the_answer() {
    let limits = RunLimits {
        max_steps: 1,
        max_cost_usd: Some(0.5),
        ..RunLimits::default()
    };
    let mut run = Run::new(&on(Need::Required, Need::Off, &[]), "{}", limits);
    // The report of the last step is taken, although no step is left.
    run.feed([
        spent(0.7),
        output("Done."),
        made("1", "completion-report", r#"{"summary":"s"}"#),
        Input::TurnEnded,
    ]);
    let outcome = run.outcome.unwrap();
    assert_eq!((outcome.status, outcome.limit), (Status::Limit, Some(Limit::MaxSteps)));
    assert!(outcome.report.is_some());
    let mut run = Run::new(&Builtins::default(), "{}", limits);
    assert_eq!(
        run.feed([spent(0.7), output("Done."), Input::TurnEnded]),
        ["stop", r#"Completed "Done.""#]
    );
}

#[test]
fn what_cannot_be_read_goes_to_the_model() {
    let mut run = Run::plain();
    let lines = run.feed([
        Input::Unreadable("write it again".to_owned()),
        output("?"),
        Input::TurnEnded,
    ]);
    assert_eq!(lines, ["next turn: write it again"]);
}

#[test]
fn a_run_that_never_began_ends_as_well() {
    for (input, expected) in [
        (Input::Cancelled, "Cancelled \"\""),
        (
            Input::ProviderFailed(Box::new(ProviderError::new("fake", Code::CliNotFound, "not there"))),
            "Failed \"\"",
        ),
    ] {
        let mut run = Run {
            state: Some(State::Idle(Box::new(rules(
                &Builtins::default(),
                "{}",
                RunLimits::default(),
            )))),
            lines: Vec::new(),
            outcome: None,
        };
        assert_eq!(run.feed([made("0", "look", "{}")]).len(), 1);
        assert_eq!(run.feed([input]), ["stop", expected]);
        assert!(matches!(run.state, Some(State::Failed)));
        assert!(run.feed([Input::Started, Input::TurnEnded, done("0", "x")]).is_empty());
    }
}

#[test]
fn names_are_the_callers_unless_a_built_in_tool_of_that_name_is_on() {
    let spec = ToolSpec {
        name: "handoff".to_owned(),
        description: None,
        schema: raw("{}"),
    };
    let tools = [Arc::new(tool(spec))];
    let rules = |builtins: &Builtins| Rules::new("fake", &tools, builtins, Policy::default(), RunLimits::default());
    assert!(rules(&Builtins::default()).is_ok());
    let (name, _) = rules(&on(Need::Off, Need::Off, &["a"])).unwrap_err();
    assert_eq!(name, "handoff");
}

fn tool(spec: ToolSpec) -> Tool {
    let schema = Schema::new(spec.schema.get()).unwrap();
    Tool::new(spec, ToolKind::Caller, Arc::new(schema))
}
