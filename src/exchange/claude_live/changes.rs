//! The choices that a running claude takes on between its turns: effort, no reasoning, fast mode, output limit, texts that end an
//! answer, the schema of an answer.
//!
//! In: the choices of the next turn. Out: control lines that change the process, if it has others, and whether its user line must wait
//! for their answers. They take 2 to 14 ms, leave the beginning of the conversation as it is for the API's cache, and no trace
//! in its text (2.1.197 to 2.1.332). A model is not among them: the CLI would write the change into the conversation.
//!
//! A variable that is set so stays until it is null, and is then missing even if the user's settings have it; named no more, it is what
//! they say. So all of them are null first, and then those that are wanted are set.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::form::value_of;
use super::wire;
use crate::live::setup::Changeable;
use crate::print;
use dfp_process::Vars;
use dfp_provider::claude::fields::{EXTRA_BODY, with_fields};
use dfp_provider::claude::{EFFORT_LEVEL, MAX_OUTPUT_TOKENS};
use dfp_provider::command::CommandLine;

/// The variable of the budget for thinking, tokens.
const THINKING_TOKENS: &str = "MAX_THINKING_TOKENS";
/// The beginning of the ids of our requests.
const ID: &str = "df-change-";

/// The choices of a process: its effort, whether its model is not to think, and its variables for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct InForce {
    effort: Option<String>,
    /// Never so at the start: `--settings` could not be taken back.
    thinks_not: bool,
    /// `None` is as the process was started.
    fast: Option<bool>,
    variables: BTreeMap<&'static str, String>,
}

/// The choices that are in force in a process.
#[derive(Debug)]
pub struct Changes {
    /// The budget of the user's own variable: 2.1.197 forgets it once it had another one.
    own_budget: Option<u64>,
    started: InForce,
    now: InForce,
    /// The number of requests that are not answered.
    unanswered: usize,
    sent: usize,
    /// The user line that waits for the answers.
    line: Option<String>,
}

impl From<InForce> for Changes {
    fn from(started: InForce) -> Changes {
        Changes {
            own_budget: None,
            now: started.clone(),
            started,
            unanswered: 0,
            sent: 0,
            line: None,
        }
    }
}

impl Changes {
    /// Those of a process that is started with `line` in the environment `env`.
    pub fn of(line: &CommandLine, env: &Arc<Vars>) -> Changes {
        let variable = |name: &'static str| {
            let value = print::variable(line, env, name)?;
            Some((name, value.to_string_lossy().into_owned()))
        };
        let started = InForce {
            effort: value_of(line, "--effort"),
            thinks_not: false,
            fast: None,
            variables: [EFFORT_LEVEL, MAX_OUTPUT_TOKENS, EXTRA_BODY]
                .into_iter()
                .filter_map(variable)
                .collect(),
        };
        Changes {
            own_budget: variable(THINKING_TOKENS).and_then(|(_, tokens)| tokens.parse().ok()),
            ..Changes::from(started)
        }
    }

    /// The effort that is in force.
    pub fn effort(&self) -> Option<&str> {
        self.now.effort.as_deref()
    }

    /// The lines that put `wanted` into force; "" if it is.
    pub fn lines(&mut self, wanted: &Changeable) -> String {
        let mut then = self.started.clone();
        if let Some(effort) = &wanted.effort {
            then.effort = Some(effort.clone());
            // It would win over the effort.
            then.variables.insert(EFFORT_LEVEL, String::new());
        }
        then.thinks_not = wanted.reasoning_off;
        then.fast = wanted.fast;
        if let Some(limit) = wanted.max_output_tokens {
            then.variables.insert(MAX_OUTPUT_TOKENS, limit.to_string());
        }
        if !wanted.fields.is_empty() {
            let before = then.variables.get(EXTRA_BODY).map(String::as_str);
            let body = with_fields(before, &wanted.fields);
            then.variables.insert(EXTRA_BODY, body);
        }
        if then == self.now {
            return String::new();
        }
        let none: Map<String, Value> = [EFFORT_LEVEL, MAX_OUTPUT_TOKENS, EXTRA_BODY]
            .map(|name| (name.to_owned(), Value::Null))
            .into_iter()
            .collect();
        let settings = |env: Value| {
            let thinks = (then.effort.is_some() && !then.thinks_not).then_some(true);
            json!({"effortLevel": then.effort, "alwaysThinkingEnabled": thinks, "fastMode": then.fast, "env": env})
        };
        let mut lines = String::new();
        for env in [Value::Object(none), json!(then.variables)] {
            lines.push_str(&wire::flag_settings(&self.next_id(), &settings(env)));
        }
        // As `--thinking-display` with `--effort`: whoever chooses the reasoning wants to read it.
        if then.effort.is_some() != self.now.effort.is_some() {
            let display = then.effort.is_some().then_some("summarized");
            lines.push_str(&wire::thinking_display(&self.next_id(), display));
        }
        if then.thinks_not != self.now.thinks_not {
            let budget = if then.thinks_not { Some(0) } else { self.own_budget };
            lines.push_str(&wire::thinking_budget(&self.next_id(), budget));
        }
        self.now = then;
        lines
    }

    fn next_id(&mut self) -> String {
        self.sent += 1;
        self.unanswered += 1;
        format!("{ID}{}", self.sent)
    }

    /// Returns whether a user line must wait.
    pub fn waits(&self) -> bool {
        self.unanswered > 0
    }

    /// Keeps the user line until all requests are answered.
    pub fn hold(&mut self, line: String) {
        self.line = Some(line);
    }

    /// The user line, once it may be sent.
    pub fn line(&mut self) -> Option<String> {
        let is_free = !self.waits();
        self.line.take_if(|_| is_free)
    }

    /// Forgets the user line, which nobody waits for any more.
    pub fn give_up(&mut self) {
        self.line = None;
    }

    /// Notes an answer; returns whether it is one to our requests.
    pub fn answered(&mut self, request_id: &str) -> bool {
        let is_ours = request_id.starts_with(ID);
        self.unanswered -= usize::from(is_ours && self.unanswered > 0);
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(effort: Option<&str>) -> Changes {
        Changes::from(InForce {
            effort: effort.map(str::to_owned),
            thinks_not: false,
            fast: None,
            variables: BTreeMap::from([(MAX_OUTPUT_TOKENS, "5000".to_owned())]),
        })
    }

    fn wanted(effort: &str, limit: u64) -> Changeable {
        Changeable {
            effort: Some(effort.to_owned()),
            max_output_tokens: Some(limit),
            ..Changeable::default()
        }
    }

    fn requests(lines: &str) -> Vec<Value> {
        let request = |line| serde_json::from_str::<Value>(line).unwrap()["request"].clone();
        lines.lines().map(request).collect()
    }

    #[test]
    fn a_process_is_changed_and_changed_back() {
        let mut changes = changes(None);
        assert_eq!(changes.lines(&Changeable::default()), "");
        let there = requests(&changes.lines(&wanted("low", 700)));
        assert_eq!(
            there[1]["settings"],
            json!({"effortLevel": "low", "alwaysThinkingEnabled": true, "fastMode": null,
                   "env": {"CLAUDE_CODE_EFFORT_LEVEL": "", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "700"}})
        );
        assert_eq!(
            there[2],
            json!({"subtype": "set_max_thinking_tokens", "thinking_display": "summarized"})
        );
        assert_eq!(changes.lines(&wanted("low", 700)), "");
        let back = requests(&changes.lines(&Changeable::default()));
        assert_eq!(back[0]["settings"]["env"]["CLAUDE_CODE_EFFORT_LEVEL"], Value::Null);
        assert_eq!(
            back[1]["settings"],
            json!({"effortLevel": null, "alwaysThinkingEnabled": null, "fastMode": null, "env": {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5000"}})
        );
        assert_eq!(back[2]["thinking_display"], Value::Null);
    }

    #[test]
    fn a_model_that_is_not_to_think_is_told_so_and_no_longer() {
        let mut changes = changes(None);
        let off = Changeable {
            reasoning_off: true,
            ..Changeable::default()
        };
        let last = |lines: &str| requests(lines).pop().unwrap();
        let told = |tokens: Value| json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens});
        assert_eq!(last(&changes.lines(&off)), told(json!(0)));
        assert_eq!(changes.lines(&off), "");
        assert_eq!(last(&changes.lines(&Changeable::default())), told(Value::Null));
    }

    #[test]
    fn the_user_line_waits_for_all_answers() {
        let mut changes = changes(Some("high"));
        // The thinking is shown already.
        assert_eq!(requests(&changes.lines(&wanted("low", 5000))).len(), 2);
        changes.hold("line".to_owned());
        assert!(changes.answered("df-change-1") && !changes.answered("df-initialize"));
        assert_eq!(changes.line(), None);
        assert!(changes.answered("df-change-2"));
        assert_eq!(changes.line().as_deref(), Some("line"));
        assert_eq!((changes.line(), changes.waits()), (None, false));
    }

    #[test]
    fn a_turn_that_was_given_up_is_not_asked_late() {
        let mut changes = changes(Some("high"));
        changes.lines(&wanted("low", 5000));
        changes.hold("line".to_owned());
        changes.give_up();
        assert!(changes.answered("df-change-1") && changes.answered("df-change-2"));
        assert_eq!((changes.line(), changes.waits()), (None, false));
    }
}
