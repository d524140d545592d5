//! Recordings of every CLI (`npm run record`) are judged today as they were when they were made.

use std::fs;

use serde_json::{Value, json};

use super::{Run, judged};
use dfp_model::error::ProviderError;
use dfp_model::event::Reply;
use dfp_text::decode::golden::{decode, fixtures, wire_of};

/// The verdict on a recording without the parts that are added later: usage, which may be an estimate, and the advice in the
/// message.
fn essence(verdict: &Value) -> Value {
    let error = &verdict["error"];
    if error.is_object() {
        let fields = ["code", "category", "httpStatus", "retryAfterMs"];
        return fields.iter().map(|name| (*name, error[*name].clone())).collect();
    }
    let reply = &verdict["reply"];
    json!({"content": reply["content"], "tool_calls": reply["tool_calls"], "model": reply["model"]})
}

fn of_reply(reply: &Reply) -> Value {
    json!({"reply": {"content": reply.content, "tool_calls": reply.tool_calls, "model": reply.model}})
}

fn of_error(error: &ProviderError) -> Value {
    json!({"error": {
        "code": error.code, "category": error.category, "httpStatus": error.http_status, "retryAfterMs": error.retry_after_ms,
    }})
}

fn check(set: &str) {
    let folder = fixtures().join("drift").join(set);
    let cli = set.split('-').next().unwrap();
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| {
            Some(
                entry
                    .unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(".meta.json")?
                    .to_owned(),
            )
        })
        .collect();
    names.sort_unstable();
    let mut judged_runs = 0;
    for name in names {
        let read = |kind: &str| fs::read_to_string(folder.join(format!("{name}.{kind}")));
        let meta: Value = serde_json::from_str(&read("meta.json").unwrap()).unwrap();
        // A recording that the provider ended can't be judged again.
        let Some(exit_code) = meta["exit_code"].as_i64() else {
            continue;
        };
        let argv: Vec<String> = serde_json::from_value(meta["argv"].clone()).unwrap();
        let wire = wire_of(cli, &argv).unwrap();
        let (stdout, stderr) = (read("stdout").unwrap_or_default(), read("stderr").unwrap_or_default());
        let (events, decoder) = decode(wire, [stdout.as_bytes()]);
        let flags: Vec<String> = argv.into_iter().filter(|arg| arg.starts_with("--")).collect();
        let run = Run {
            provider: cli,
            wire,
            flags: &flags,
            exit_code: i32::try_from(exit_code).ok(),
            stdout: stdout.as_bytes(),
            stderr: &stderr,
        };
        let verdict = match judged(&run, events, &decoder) {
            Ok(reply) => of_reply(&reply),
            Err(error) => of_error(&error),
        };
        assert_eq!(essence(&verdict), essence(&meta["verdict"]), "{set}/{name}");
        judged_runs += 1;
    }
    assert!(judged_runs >= 10, "{set}: {judged_runs}");
}

#[test]
fn recordings_are_judged_as_they_were() {
    let sets = fs::read_dir(fixtures().join("drift")).unwrap();
    let mut sets: Vec<String> = sets
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    sets.sort_unstable();
    for set in sets {
        check(&set);
    }
}
