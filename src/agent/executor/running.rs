//! A run under way: its calls, its usage, the tools that it still has to call; and its end.
//!
//! In: inputs, one at a time. Out: effects, and whether the run goes on.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    By, Effect, Input, Limit, Need, Origin, PLAN, Permission, PolicyDecision, REPORT, Rules, RunOutcome, State, Status,
    Task, ToolKind,
};
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::{Spent, ToolCall, ToolResult};

/// The state of a run under way.
#[derive(Debug)]
pub struct RunState {
    rules: Rules,
    /// Calls without a result, in the order in which they came.
    pending: BTreeMap<u32, Pending>,
    /// All calls so far: the id with the call's number.
    known: HashMap<String, u32>,
    /// The number of calls that count against `maxToolCalls`.
    counted: u32,
    repeats: HashMap<(String, String), u32>,
    /// The number of times the model was asked.
    steps: u32,
    /// The model's turn is over.
    turn_over: bool,
    /// This turn has calls whose results the model gets with the next turn.
    awaited: bool,
    /// Every call of the turn so far has its result. If a turn with callbacks goes on then, the model was asked once more.
    answered: bool,
    notes: Vec<String>,
    output: String,
    spent: Spent,
    report: Option<Box<RawValue>>,
    plan: Option<Box<RawValue>>,
    reminded: bool,
}

impl RunState {
    pub(super) fn new(rules: Rules) -> RunState {
        RunState {
            rules,
            pending: BTreeMap::new(),
            known: HashMap::new(),
            counted: 0,
            repeats: HashMap::new(),
            steps: 0,
            turn_over: true,
            awaited: false,
            answered: false,
            notes: Vec::new(),
            output: String::new(),
            spent: Spent::default(),
            report: None,
            plan: None,
            reminded: false,
        }
    }

    /// Takes an input, and either closes the run or returns its next state.
    pub(super) fn step(mut self, input: Input, effects: &mut Vec<Effect>) -> State {
        if let Some(end) = self.take(input, effects) {
            let (status, limit, error) = end.parts();
            let outcome = RunOutcome {
                status,
                output: self.output,
                spent: self.spent,
                steps: self.steps,
                report: self.report,
                plan: self.plan,
                limit,
                error,
            };
            return close(outcome, self.pending, effects);
        }
        let deferred = |pending: &Pending| pending.phase == CallPhase::Deferred;
        if !self.pending.is_empty() && self.pending.values().all(deferred) {
            State::AwaitingDeferred(Box::new(self))
        } else {
            State::Running(Box::new(self))
        }
    }

    /// Takes an input. `Some` is the end of the run.
    fn take(&mut self, input: Input, effects: &mut Vec<Effect>) -> Option<End> {
        match input {
            Input::Started => self.next_turn(effects),
            Input::Call(call, origin) => self.call(call, origin, effects),
            Input::Unreadable(note) => {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                None
            }
            Input::Decided {
                id,
                allow,
                reason,
                args,
            } => {
                self.decided(&id, allow, reason, args, effects);
                self.advance(effects)
            }
            Input::Executed { id, answer } => {
                self.answer(&id, CallPhase::Running, answer, effects);
                self.advance(effects)
            }
            Input::ChildEnded { id, answer, spent } => {
                self.spent.add(&spent);
                self.answer(&id, CallPhase::Deferred, answer, effects);
                self.advance(effects)
            }
            Input::TakenBack { id } => {
                self.give_up(
                    |pending| pending.call.id == id,
                    "the provider has taken the call back",
                    effects,
                );
                None
            }
            Input::Spent(spent) => {
                self.spent.add(&spent);
                None
            }
            Input::Output(text) => {
                self.output = text;
                None
            }
            Input::TurnEnded => {
                self.turn_over = true;
                // In a turn with callbacks the text behind the last result is an answer of its own, so it counts as a step.
                self.steps += u32::from(self.answered && !self.awaited);
                // A turn that is over takes no more results: the callbacks have hung up.
                self.give_up(|_| true, "the provider ended its turn without waiting for it", effects);
                self.advance(effects)
            }
            Input::ProviderFailed(error) => Some(End::Failed(error)),
            Input::Cancelled => Some(End::Cancelled),
            Input::TimeUp => Some(self.limit(Limit::TimeoutMs)),
        }
    }

    /// Registers a new call, checks the limits, and admits it.
    fn call(&mut self, call: ToolCall, origin: Origin, effects: &mut Vec<Effect>) -> Option<End> {
        if self.known.contains_key(&call.id) {
            // The same call once more. It has its result, or will get it.
            return None;
        }
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.known.insert(call.id.clone(), number);
        if origin == Origin::Callback && self.answered {
            self.answered = false;
            self.steps += 1;
        }
        self.awaited |= origin == Origin::Turn;
        let kind = self.rules.tools.get(&call.name).map(|tool| tool.kind);
        let id = call.id.clone();
        let (phase, name) = (CallPhase::Asked, call.name.clone());
        let key = (name.clone(), canonical(&call.args));
        self.pending.insert(number, Pending { call, origin, phase });
        // The built-in report and plan are for the caller, and are taken even if no step is left.
        if !matches!(kind, Some(ToolKind::Report | ToolKind::Plan)) {
            self.counted += 1;
            let repeats = self.repeats.entry(key).or_default();
            *repeats += 1;
            let repeats = *repeats;
            let limits = &self.rules.limits;
            let over = |limit: Option<u32>, count: u32| limit.is_some_and(|limit| count > limit);
            if over(limits.max_tool_calls, self.counted) {
                return Some(self.limit(Limit::MaxToolCalls));
            }
            if over(limits.max_repeated_calls, repeats) {
                return Some(self.limit(Limit::MaxRepeatedCalls));
            }
            if let Some(end) = self.no_further_step() {
                return Some(end);
            }
        }
        self.admit(&id, effects);
        self.advance(effects)
    }

    /// Answers a new call, asks about it, or runs it.
    fn admit(&mut self, id: &str, effects: &mut Vec<Effect>) {
        let Some(pending) = self.find(id, CallPhase::Asked) else {
            return;
        };
        let name = pending.call.name.clone();
        let Some(tool) = self.rules.tools.get(&name) else {
            let names: Vec<String> = self.rules.order.iter().map(|name| format!("\"{name}\"")).collect();
            let known = match names.as_slice() {
                [] => "there are none".to_owned(),
                names => format!("the tools are {}", names.join(", ")),
            };
            let answer = ToolResult::error(format!("there is no tool \"{name}\": {known}"));
            return self.answer(id, CallPhase::Asked, answer, effects);
        };
        let verdict = match tool.kind {
            ToolKind::Caller => self.rules.policy.verdict(&name),
            ToolKind::Report | ToolKind::Plan | ToolKind::Handoff => PolicyDecision::Allowed(By::Builtin),
        };
        // Denied tools are checked first, then arguments: a denied call is denied whatever its arguments, and nobody is asked about
        // a call that can't run.
        if let PolicyDecision::Denied(by) = verdict {
            return self.deny(id, by, None, effects);
        }
        if let Some(mistakes) = self.mistakes(id) {
            return self.answer(id, CallPhase::Asked, mistakes, effects);
        }
        match verdict {
            PolicyDecision::Ask => {
                effects.extend(self.find(id, CallPhase::Asked).map(|it| Effect::Ask(it.call.clone())))
            }
            PolicyDecision::Allowed(by) => self.run(id, by, None, None, effects),
            PolicyDecision::Denied(_) => {}
        }
    }

    /// Carries out the decision about a call that was asked about.
    fn decided(
        &mut self,
        id: &str,
        allow: bool,
        reason: Option<String>,
        args: Option<Box<RawValue>>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.find(id, CallPhase::Asked) else {
            return;
        };
        if !allow {
            return self.deny(id, By::Ask, reason, effects);
        }
        if let Some(args) = &args {
            pending.call.args.clone_from(args);
        }
        self.run(id, By::Ask, reason, args, effects);
    }

    /// Runs a call that was permitted.
    fn run(
        &mut self,
        id: &str,
        by: By,
        reason: Option<String>,
        args: Option<Box<RawValue>>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.find(id, CallPhase::Asked) else {
            return;
        };
        let call = pending.call.clone();
        let replaced = args.is_some();
        effects.push(Effect::Permission(Permission {
            id: id.to_owned(),
            name: call.name.clone(),
            allow: true,
            by,
            reason,
            args,
        }));
        if replaced && let Some(mistakes) = self.mistakes(id) {
            return self.answer(id, CallPhase::Asked, mistakes, effects);
        }
        match self.rules.tools.get(&call.name).map(|tool| tool.kind) {
            Some(ToolKind::Report) if self.report.is_some() => {
                let refused = ToolResult::error("refused: there is a completion report already, and it counts");
                self.answer(id, CallPhase::Asked, refused, effects);
            }
            Some(ToolKind::Report) => {
                self.report = Some(call.args);
                self.answer(id, CallPhase::Asked, ToolResult::text("The report was taken."), effects);
            }
            Some(ToolKind::Plan) => {
                self.plan = Some(call.args);
                self.answer(id, CallPhase::Asked, ToolResult::text("The plan was taken."), effects);
            }
            Some(ToolKind::Handoff) => match serde_json::from_str::<Task>(call.args.get()) {
                Ok(task) => {
                    self.enter(id, CallPhase::Deferred);
                    let id = id.to_owned();
                    effects.push(Effect::StartChild { id, task });
                }
                Err(error) => self.answer(id, CallPhase::Asked, ToolResult::error(error.to_string()), effects),
            },
            Some(ToolKind::Caller) | None => {
                self.enter(id, CallPhase::Running);
                effects.push(Effect::Execute(call));
            }
        }
    }

    /// Reports that a call was denied, and answers it with an error.
    fn deny(&mut self, id: &str, by: By, reason: Option<String>, effects: &mut Vec<Effect>) {
        let Some(pending) = self.find(id, CallPhase::Asked) else {
            return;
        };
        let name = pending.call.name.clone();
        let suffix = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        let answer = ToolResult::error(format!("\"{name}\" was not permitted{suffix}"));
        effects.push(Effect::Permission(Permission {
            id: id.to_owned(),
            name,
            allow: false,
            by,
            reason,
            args: None,
        }));
        self.answer(id, CallPhase::Asked, answer, effects);
    }

    /// The result that tells the model what is wrong with the call's arguments; `None` if they are right.
    fn mistakes(&mut self, id: &str) -> Option<ToolResult> {
        let call = self.find(id, CallPhase::Asked)?.call.clone();
        let reason = self.rules.tools.get(&call.name)?.check(&call.args).err()?;
        let text = format!("the arguments of \"{}\" do not fit its schema: {reason}", call.name);
        Some(ToolResult::error(text))
    }

    fn find(&mut self, id: &str, phase: CallPhase) -> Option<&mut Pending> {
        let pending = self.pending.get_mut(self.known.get(id)?)?;
        (pending.phase == phase).then_some(pending)
    }

    fn enter(&mut self, id: &str, phase: CallPhase) {
        if let Some(pending) = self.find(id, CallPhase::Asked) {
            pending.phase = phase;
        }
    }

    /// Gives a call in `phase` its one result. A result for any other call is too late, and is dropped.
    fn answer(&mut self, id: &str, phase: CallPhase, answer: ToolResult, effects: &mut Vec<Effect>) {
        if self.find(id, phase).is_none() {
            return;
        }
        if let Some(Pending { call, .. }) = self.known.get(id).and_then(|number| self.pending.remove(number)) {
            self.answered = self.pending.is_empty();
            effects.push(Effect::Reply { call, answer });
        }
    }

    /// Abandons callbacks whose results are no longer needed, with everything they have started.
    fn give_up(&mut self, which: impl Fn(&Pending) -> bool, why: &str, effects: &mut Vec<Effect>) {
        let (given_up, kept): (BTreeMap<u32, Pending>, _) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(_, pending)| pending.origin == Origin::Callback && which(pending));
        self.pending = kept;
        self.answered |= !given_up.is_empty() && self.pending.is_empty();
        let mut answers = Vec::new();
        give_up(given_up, why, effects, &mut answers);
        effects.append(&mut answers);
    }

    /// Goes on with the run if nothing is waited for.
    fn advance(&mut self, effects: &mut Vec<Effect>) -> Option<End> {
        if !self.turn_over || !self.pending.is_empty() {
            return None;
        }
        if self.awaited || !self.notes.is_empty() {
            return self.next_turn(effects);
        }
        let missing = |need: Need, present: bool| need == Need::Required && !present;
        let report = missing(self.rules.report, self.report.is_some());
        let plan = missing(self.rules.plan, self.plan.is_some());
        let (names, code) = match (report, plan) {
            (false, false) => return Some(End::Completed),
            (true, false) => (format!("\"{REPORT}\""), Code::CompletionReportMissing),
            (false, true) => (format!("\"{PLAN}\""), Code::PlannerOutputMissing),
            (true, true) => (format!("\"{REPORT}\" and \"{PLAN}\""), Code::PlannerOutputMissing),
        };
        if self.reminded {
            let reason = format!("the model ended without calling {names}, though it was reminded");
            return Some(End::missing(&self.rules.provider, code, reason));
        }
        self.reminded = true;
        self.notes.push(format!(
            "You have not called {names} yet. Do that now, then give your last answer again."
        ));
        self.next_turn(effects)
    }

    /// Begins the next turn, if a step is left.
    fn next_turn(&mut self, effects: &mut Vec<Effect>) -> Option<End> {
        if let Some(end) = self.no_further_step() {
            return Some(end);
        }
        self.steps += 1;
        (self.turn_over, self.awaited, self.answered) = (false, false, false);
        let notes = std::mem::take(&mut self.notes);
        effects.push(Effect::NextTurn { notes });
        None
    }

    /// The reason why the model must not be asked again; `None` if it may.
    fn no_further_step(&self) -> Option<End> {
        let limits = &self.rules.limits;
        if self.steps >= limits.max_steps {
            return Some(self.limit(Limit::MaxSteps));
        }
        let cost = self.spent.cost_usd?;
        (cost >= limits.max_cost_usd?).then(|| self.limit(Limit::MaxCostUsd))
    }

    fn limit(&self, limit: Limit) -> End {
        End::limit(&self.rules, limit, &self.spent)
    }
}

/// The arguments in a form that is the same whatever the order of keys and the white space.
fn canonical(args: &RawValue) -> String {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
            Value::Object(map) => {
                let entries: BTreeMap<String, Value> =
                    map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
                Value::Object(entries.into_iter().collect())
            }
            other => other,
        }
    }
    match serde_json::from_str(args.get()) {
        Ok(value) => sorted(value).to_string(),
        // Lone surrogates can't be parsed, so the text is taken unchanged.
        Err(_) => args.get().to_owned(),
    }
}

/// The phase of a call without a result: what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPhase {
    Asked,
    Running,
    Deferred,
}

/// A call without a result.
#[derive(Debug)]
pub(super) struct Pending {
    pub call: ToolCall,
    pub origin: Origin,
    pub phase: CallPhase,
}

/// Abandons calls whose results are no longer needed, and answers them with an error.
fn give_up(open: BTreeMap<u32, Pending>, why: &str, ends: &mut Vec<Effect>, answers: &mut Vec<Effect>) {
    for Pending { call, .. } in open.into_values() {
        ends.push(Effect::Abandon(call.id.clone()));
        let answer = ToolResult::error(format!("\"{}\" has no result: {why}", call.name));
        answers.push(Effect::Reply { call, answer });
    }
}

// The end of a run: every open call is answered, and then there is one [`RunOutcome`].

/// The reason why a run ends.
#[derive(Debug)]
pub(super) enum End {
    /// The model has given its final answer.
    Completed,
    Failed(Box<ProviderError>),
    Cancelled,
    /// A limit was reached.
    Limit(Limit, Box<ProviderError>),
}

impl End {
    /// Status, limit and error of the outcome.
    pub fn parts(self) -> (Status, Option<Limit>, Option<Box<ProviderError>>) {
        match self {
            End::Completed => (Status::Completed, None, None),
            End::Failed(error) => (Status::Failed, None, Some(error)),
            End::Cancelled => (Status::Cancelled, None, None),
            End::Limit(limit, error) => (Status::Limit, Some(limit), Some(error)),
        }
    }

    /// The end of a run whose model did not call a required tool.
    pub fn missing(provider: &str, code: Code, reason: String) -> End {
        let hint = "say in the prompt when to call it, or make it optional";
        End::Failed(Box::new(ProviderError::new(provider, code, reason).with_hint(hint)))
    }

    /// The end of a run that has reached `limit`.
    pub fn limit(rules: &Rules, limit: Limit, spent: &Spent) -> End {
        let limits = &rules.limits;
        let count = |count: Option<u32>| count.unwrap_or_default();
        let reason = match limit {
            Limit::MaxSteps => format!("the model was asked {} times and wants to go on", limits.max_steps),
            Limit::MaxToolCalls => format!("the model wants more than {} tool calls", count(limits.max_tool_calls)),
            Limit::TimeoutMs => format!("the run took longer than {} ms", limits.timeout_ms.unwrap_or_default()),
            Limit::MaxCostUsd => format!(
                "the run has cost {:.4} of {} US dollars and wants to go on",
                spent.cost_usd.unwrap_or_default(),
                limits.max_cost_usd.unwrap_or_default()
            ),
            Limit::MaxRepeatedCalls => format!(
                "the model makes the same call more than {} times",
                count(limits.max_repeated_calls)
            ),
        };
        let hint = format!("raise the limit \"{}\" if that is too few", limit.as_str());
        let error = ProviderError::new(&rules.provider, Code::AgentLimit, reason).with_hint(hint);
        End::Limit(limit, Box::new(error))
    }
}

/// Answers the `open` calls and ends the run with `outcome`.
pub(super) fn close(outcome: RunOutcome, open: BTreeMap<u32, Pending>, effects: &mut Vec<Effect>) -> State {
    let status = outcome.status;
    let why = match (status, outcome.limit) {
        (Status::Cancelled, _) => "the run was cancelled".to_owned(),
        (_, Some(limit)) => format!("the run has reached its limit \"{}\"", limit.as_str()),
        _ => "the run has ended".to_owned(),
    };
    // Tools and agents are ended first, then the model's turn, and only then calls are answered: no answer may cause the model to
    // go on.
    let mut answers = Vec::new();
    give_up(open, &why, effects, &mut answers);
    effects.push(Effect::Stop);
    effects.append(&mut answers);
    effects.push(Effect::Finish(Box::new(outcome)));
    match status {
        Status::Completed => State::Complete,
        Status::Failed | Status::Cancelled | Status::Limit => State::Failed,
    }
}
