use proptest::prelude::*;
use serde_json::json;

use super::*;

const DAY: u64 = 1_000_000;

fn add(lines: &[String]) -> Spending {
    let mut adder = Adder::new(DAY);
    for line in lines {
        adder.line(line.as_bytes());
    }
    adder.finish()
}

fn header(run: &str, provider: &str) -> String {
    format!(r#"{{"format":"deep-factor-run","version":1,"runId":"{run}","provider":"{provider}","startedAt":1}}"#)
}

fn event(run: &str, at: u64, event: &str) -> String {
    format!(r#"{{"at":{at},"t":1,"run":"{run}","event":{event}}}"#)
}

fn done(input: u64, output: u64, rest: &str) -> String {
    let total = input + output;
    format!(
        r#"{{"type":"done","reply":{{"content":"x","usage":{{"inputTokens":{input},"outputTokens":{output},"totalTokens":{total}}}{rest}}}}}"#
    )
}

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input + output,
        ..Usage::default()
    }
}

#[test]
fn calls_are_added_up_by_provider_and_model() {
    let priced = r#","model":"opus","costUsd":0.25"#;
    let spending = add(&[
        header("r1", "claude"),
        event("r1", DAY, &done(10, 2, priced)),
        header("r2", "claude"),
        event("r2", DAY + 1, &done(5, 1, r#","model":"opus""#)),
        // A run of the day before.
        header("r3", "claude"),
        event("r3", DAY - 1, &done(100, 100, priced)),
        header("r4", "codex"),
        event("r4", DAY + 2, r#"{"type":"session","model":"gpt"}"#),
        event(
            "r4",
            DAY + 2,
            r#"{"type":"usage","usage":{"inputTokens":7,"outputTokens":0,"totalTokens":7}}"#,
        ),
        format!(r#"{{"at":{DAY},"t":3,"run":"r4","end":{{"status":"failed","error":{{}}}}}}"#),
        // Torn by a crash: it counts with the usage that it reported.
        header("r5", "codex"),
        event(
            "r5",
            DAY + 2,
            r#"{"type":"usage","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}"#,
        ),
        r#"{"at":5,"t":3,"run":"r5","event":{"type":"done","reply":{"con"#.to_owned(),
    ]);
    let spent = |provider: &str, model: Option<&str>, calls, failed_calls, usage, cost_usd, calls_without_cost| Spent {
        provider: provider.to_owned(),
        model: model.map(str::to_owned),
        calls,
        failed_calls,
        usage,
        cost_usd,
        calls_without_cost,
    };
    assert_eq!(
        spending,
        Spending {
            spent: vec![
                spent("claude", Some("opus"), 2, 0, usage(15, 3), 0.25, 1),
                spent("codex", None, 0, 1, usage(1, 1), 0.0, 1),
                spent("codex", Some("gpt"), 0, 1, usage(7, 0), 0.0, 1),
            ],
            rate_limits: Vec::new(),
            unreadable_lines: 1,
        }
    );
}

#[test]
fn what_an_agent_adds_up_itself_is_not_added_again() {
    let spending = add(&[
        header("agent", "agent"),
        event("agent", DAY, r#"{"type":"run_started"}"#),
        header("turn", "claude"),
        event("turn", DAY, &done(10, 2, "")),
        event(
            "agent",
            DAY,
            r#"{"type":"usage","usage":{"inputTokens":10,"outputTokens":2,"totalTokens":12}}"#,
        ),
        event(
            "agent",
            DAY,
            r#"{"type":"run_completed","usage":{"inputTokens":10,"outputTokens":2,"totalTokens":12}}"#,
        ),
    ]);
    let all: Vec<_> = spending
        .spent
        .iter()
        .map(|spent| (spent.provider.as_str(), spent.usage.total_tokens))
        .collect();
    assert_eq!(all, [("claude", 12)]);
}

#[test]
fn the_latest_word_of_a_limit_counts_whenever_it_was_said() {
    let limit = |status: &str, resets_at: u64| {
        json!({"type": "rate_limit", "status": status, "limitType": "five_hour", "resetsAt": resets_at}).to_string()
    };
    let spending = add(&[
        header("r1", "claude"),
        event("r1", 20, &limit("allowed", 2)),
        event("r1", 10, &limit("rejected", 1)),
    ]);
    let limits: Vec<_> = spending
        .rate_limits
        .iter()
        .map(|limit| (limit.status.as_str(), limit.resets_at))
        .collect();
    assert_eq!(limits, [("allowed", Some(2))]);
}

#[test]
fn foreign_names_and_figures_are_not_shown() {
    let spending = add(&[
        header("r1", "\\u001b[2J"),
        event("r1", DAY, &done(1, 1, "")),
        header("r2", "claude"),
        event("r2", DAY, &done(1, 1, r#","model":"a\u001bb","costUsd":-3"#)),
        event("never begun", DAY, &done(1, 1, "")),
    ]);
    let all: Vec<_> = spending
        .spent
        .iter()
        .map(|spent| (spent.provider.as_str(), spent.model.as_deref(), spent.cost_usd))
        .collect();
    assert_eq!(all, [("claude", None, 0.0)]);
}

proptest! {
    #[test]
    fn no_line_is_too_odd(lines in prop::collection::vec(".{0,80}", 0..8), at in any::<u64>()) {
        let mut all = vec![header("r1", "claude")];
        for line in &lines {
            all.push(line.clone());
            all.push(event("r1", at, &format!(r#"{{"type":"usage","usage":{line}}}"#)));
            all.push(event("r1", at, &format!(r#"{{"type":"done","reply":{line}}}"#)));
        }
        let spending = add(&all);
        prop_assert!(spending.spent.len() <= 1);
    }
}
