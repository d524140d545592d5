//! Every rule of every table holds for its example, and no rule before it does.

use regex::Regex;

use super::super::channel;
use super::super::rules;
use crate::errors::{Condition, Facts, Pass, Rule, Table, pattern, spaced};

fn tables() -> Vec<(&'static str, &'static Table)> {
    rules::ALL
        .iter()
        .map(|known| (known.id, &known.table))
        .chain([
            ("full", &rules::FULL),
            ("common", &rules::TABLE),
            ("finer", &rules::FINER),
        ])
        .collect()
}

/// The facts of a run that the rule is made for: its conditions, and its example.
fn facts_of(rule: &Rule) -> Facts {
    let mut facts = Facts {
        text: spaced(rule.like),
        ..Facts::default()
    };
    for when in rule.when {
        match *when {
            Condition::Kind(kind) => facts.kinds.push(kind.to_owned()),
            // A status in the range that no other rule names.
            Condition::Statuses(first, _) => facts.status = Some(first + 17),
            Condition::Status(status) => facts.status = Some(status),
            Condition::Terminal(word) => facts.terminal = Some(word.to_owned()),
            Condition::Subtype(word) => facts.subtype = Some(word.to_owned()),
            Condition::Stop(word) => facts.stop = Some(word.to_owned()),
            Condition::NoTurns => facts.no_turns = true,
            Condition::PlanLimit => facts.plan_limit = true,
            Condition::NoPlan => facts.no_plan = true,
            Condition::Soon => facts.soon = true,
            Condition::Exit(code) => facts.exit = Some(code),
            Condition::Signal(signal) => facts.signal = Some(signal.to_owned()),
            Condition::AnySignal => facts.signal = Some("SIGUSR1".to_owned()),
            Condition::Is(code) => facts.is = Some(code),
            Condition::Text(_) | Condition::Silent => {}
        }
    }
    facts
}

#[test]
fn every_rule_decides_its_own_case() {
    for (name, table) in tables() {
        for (row, rule) in table.rules().iter().enumerate() {
            let first = table.first(rule.pass(), &facts_of(rule));
            assert!(
                first.is_some_and(|f| std::ptr::eq(f, rule)),
                "{name} row {row}: {:?} like {:?} is decided by {:?}",
                rule.when,
                rule.like,
                first.map(|f| (f.when, f.code))
            );
        }
    }
}

#[test]
fn every_pattern_compiles_and_is_never_met_by_nothing() {
    // The signs that `pattern` expands would mean something else inside a character class.
    let in_class = Regex::new(r"\[[^\]]*[_<>'][^\]]*\]").unwrap();
    for (name, table) in tables() {
        for when in table.rules().iter().flat_map(|rule| rule.when) {
            if let Condition::Text(source) = when {
                assert!(!in_class.is_match(source), "{name}: {source}");
                let compiled = pattern(source);
                assert!(compiled.is_ok(), "{name}: {source}: {compiled:?}");
                assert_eq!(compiled.map(|p| p.is_match("")), Ok(false), "{name}: {source}");
            }
        }
    }
}

/// The example of a rule must not be taken for noise on its way to the rule.
#[test]
fn no_rule_waits_for_noise() {
    for (name, table) in tables() {
        for rule in table.rules().iter().filter(|r| r.pass() == Pass::Text) {
            let text = channel::stderr(rule.like);
            assert_eq!(spaced(&text.text), spaced(rule.like), "{name}");
        }
    }
}

/// The reason and advice of a rule must fit into the text that `ProviderError` puts around them.
#[test]
fn wordings_are_short_and_unpunctuated() {
    for (name, table) in tables() {
        for wording in table.rules().iter().flat_map(|r| [r.say, r.hint]).flatten() {
            assert!(wording.len() <= 140 && !wording.ends_with('.'), "{name}: {wording}");
        }
    }
}
