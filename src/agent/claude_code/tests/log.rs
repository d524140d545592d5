//! Logs of recorded output of real CLIs, and of output that tries to deceive.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::complaints;
use crate::claude_code::{LOG_SCHEMA, normalize};

const AT: &str = "2026-11-22T02:05:01.892Z";

fn recording(name: &str) -> String {
    let path = format!(
        "{}/../../__tests__/fixtures/recordings/{name}.stdout",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(path).unwrap()
}

fn result(output: &str, status: &str) -> Value {
    let exit_code = i32::from(status != "success");
    json!({"exitCode": exit_code, "status": status, "output": output, "startedAt": AT, "completedAt": AT,
           "durationMs": 0, "timedOut": status == "timeout"})
}

/// The log of `result`; its schema is checked.
fn log_of(result: &Value) -> Value {
    let context = json!({"workspaceDir": "/w", "config": {"prompt": "Do it.", "model": "sonnet"}});
    let log = normalize(&result.to_string(), &context.to_string(), "v20.0.0").unwrap();
    let log = serde_json::to_value(log).unwrap();
    assert_eq!(complaints(LOG_SCHEMA, &log), Vec::<String>::new());
    log
}

fn log(output: &str, status: &str) -> Value {
    log_of(&result(output, status))
}

fn codes(log: &Value, list: &str) -> Vec<String> {
    let records = log[list].as_array().unwrap();
    records
        .iter()
        .map(|record| record["code"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_success_of_each_version() {
    for (name, version) in [
        ("claude/success-stream-json", "2.1.197"),
        ("claude-2.1.330/success-stream-json", "2.1.330"),
    ] {
        let log = log(&recording(name), "success");
        assert_eq!(log["agent_info"]["version"], version);
        assert_eq!(log["messages"][0]["content"], "Do it.");
        assert_eq!(log["messages"][1]["content"], "Hello from the mock model.");
        let usage = &log["usage"];
        let sum = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
        assert!(sum > 0 && usage["total_tokens"] == sum);
        assert_eq!((codes(&log, "errors"), codes(&log, "warnings")), (vec![], vec![]));
    }
}

/// Every recording of the two versions makes a log that fits the schema, and nothing of it is lost.
#[test]
fn every_recording_makes_a_log() {
    let mut seen = 0;
    for folder in ["claude", "claude-2.1.330"] {
        let path = format!(
            "{}/../../__tests__/fixtures/recordings/{folder}",
            env!("CARGO_MANIFEST_DIR")
        );
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "stdout") {
                let output = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                let failed = log(&output, "failed");
                assert_eq!(failed["errors"].as_array().unwrap().len(), 1, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn a_failure_has_the_documents_code() {
    for (name, code) in [
        ("claude/err-401-stream-json", "CLAUDE_AUTH_FAILED"),
        ("claude/err-529-stream-json", "CLAUDE_RATE_LIMIT"),
        ("claude/err-429-usage-stream-json", "CLAUDE_RATE_LIMIT"),
        ("claude-2.1.330/err-400-stream-json", "INVALID_REQUEST"),
    ] {
        let log = log(&recording(name), "failed");
        assert_eq!(codes(&log, "errors"), [code], "{name}");
        assert_eq!(
            log["messages"].as_array().unwrap().len(),
            1,
            "{name}: an error is no message"
        );
    }
    assert_eq!(codes(&log("", "timeout"), "errors"), ["CLAUDE_TIMEOUT"]);
}

fn line(kind: &str, parent: Option<&str>, id: &str, content: Value) -> String {
    let role = if kind == "user" { "user" } else { "assistant" };
    let message = json!({"id": id, "role": role, "model": "claude-answering", "content": content});
    json!({"type": kind, "parent_tool_use_id": parent, "timestamp": AT, "message": message}).to_string() + "\n"
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {"z": 1.0, "a": 2}})
}

fn answer(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": false})
}

/// Parallel calls are answered in another order, one call is a subagent, and one never returns.
#[test]
fn calls_and_results_are_paired_by_id() {
    let output = [
        line("assistant", None, "m1", json!([{"type": "text", "text": "Two."}])),
        line("assistant", None, "m1", json!([call("a", "Read")])),
        line("assistant", None, "m1", json!([call("b", "Task")])),
        line("user", Some("b"), "u1", json!([{"type": "text", "text": "sub-task"}])),
        line("assistant", Some("b"), "s1", json!([call("c", "Grep")])),
        line("user", Some("b"), "u2", json!([answer("c", json!("found"))])),
        line(
            "assistant",
            Some("b"),
            "s2",
            json!([{"type": "text", "text": "sub-answer"}]),
        ),
        line(
            "user",
            None,
            "u3",
            json!([answer("b", json!([{"type": "text", "text": "report"}]))]),
        ),
        line("user", None, "u4", json!([answer("a", json!("content"))])),
        line("assistant", None, "m2", json!([call("d", "Bash")])),
    ]
    .concat();
    let log = log(&output, "failed");
    assert_eq!(
        log["tool_calls"],
        json!([
            {"id": "a", "name": "Read", "arguments": r#"{"z":1.0,"a":2}"#, "result": "content", "is_error": false, "timestamp": AT},
            {"id": "b", "name": "Task", "arguments": r#"{"z":1.0,"a":2}"#, "result": r#"[{"type":"text","text":"report"}]"#,
             "is_error": false, "timestamp": AT},
            {"id": "c", "name": "Grep", "arguments": r#"{"z":1.0,"a":2}"#, "result": "found", "is_error": false, "timestamp": AT,
             "parent_tool_use_id": "b"},
            {"id": "d", "name": "Bash", "arguments": r#"{"z":1.0,"a":2}"#, "timestamp": AT},
        ])
    );
    let texts: Vec<_> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Do it.", "Two.", "sub-task", "sub-answer"]);
    assert_eq!(
        log["model_info"],
        json!({"name": "claude-answering", "provider": "anthropic", "requested": "sonnet"})
    );
}

/// No released claude prints the header lines of CLAUDE-CODE-ADAPTER-DATA-MODEL. Text that looks like them is prose, in events and
/// in plain text.
#[test]
fn prose_changes_nothing() {
    let prose = "Claude Code v9.9.9\nModel: evil\nInput tokens: 999\n[TOOL: Bash] rm -rf\nversion 4.17.21";
    // The mark of cut output is prose, too, if it stands in an event.
    let marked = format!("{prose}\n[OUTPUT TRUNCATED: no]");
    let event = line("assistant", None, "m1", json!([{"type": "text", "text": marked}]));
    for (output, model, content) in [
        (event.as_str(), "claude-answering", marked.as_str()),
        (prose, "sonnet", prose),
    ] {
        let log = log(output, "success");
        assert_eq!(log["agent_info"]["version"], "unknown");
        assert_eq!(log["model_info"]["name"], model);
        assert_eq!(
            log["usage"],
            json!({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0})
        );
        assert_eq!(log["tool_calls"], json!([]));
        assert_eq!(log["execution"]["truncated"], false);
        assert_eq!(log["messages"][1]["content"], content);
    }
}

#[test]
fn what_is_left_out_is_an_error_and_what_is_left_is_read() {
    let output = line("assistant", None, "m1", json!([{"type": "text", "text": "begin"}]))
        + "[OUTPUT TRUNCATED: 5 of 9 bytes left out]\n"
        + &line("user", None, "u1", json!([answer("lost", json!("late"))]))
        + &line("assistant", None, "m2", json!([{"type": "text", "text": "end"}]));
    let log = log(&output, "success");
    assert_eq!(codes(&log, "errors"), ["CLAUDE_OUTPUT_TRUNCATED"]);
    assert_eq!(codes(&log, "warnings"), [""; 0]);
    assert_eq!(log["execution"]["truncated"], true);
    let lost = json!([{"id": "lost", "name": "unknown", "arguments": "{}", "result": "late", "is_error": false}]);
    assert_eq!(log["tool_calls"], lost);
    assert_eq!(log["messages"][2]["content"], "end");
}

#[test]
fn denied_calls_are_marked() {
    let denials = json!([{"tool_name": "Edit", "tool_use_id": "e", "tool_input": {}}]);
    let output = line("assistant", None, "m1", json!([call("e", "Edit")]))
        + &line("user", None, "u1", json!([answer("e", json!("no"))]))
        + &json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 2, "result": "ok",
                  "permission_denials": denials})
        .to_string();
    assert_eq!(log(&output, "success")["tool_calls"][0]["denied"], true);
}

#[test]
fn standard_error_is_no_output() {
    let mut stored = result("", "success");
    let message = line("assistant", None, "m1", json!([{"type": "text", "text": "out"}]));
    let err = line("assistant", None, "m9", json!([{"type": "text", "text": "err"}]));
    stored["output"] = json!(format!("{message}{err}"));
    stored["stderr"] = json!(err);
    let log = log_of(&stored);
    assert_eq!(log["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_no_result_is_refused() {
    for bad in [
        "{}",
        "[]",
        "7",
        r#"{"exitCode":"0","status":"success","output":"","startedAt":"","completedAt":""}"#,
    ] {
        let error = normalize(bad, "{}", "v1").unwrap_err();
        assert!(
            error.message.starts_with("the result can't be read: "),
            "{}",
            error.message
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Cut and mixed output of real CLIs makes a log that fits the schema.
    #[test]
    fn whatever_the_output_is(from in 0_usize..4000, length in 0_usize..6000, noise in ".{0,80}", first in any::<bool>()) {
        let whole = recording("claude-2.1.330/success-stream-json");
        let cut: String = whole.chars().skip(from).take(length).collect();
        let output = if first { format!("{noise}\n{cut}") } else { format!("{cut}\n{noise}") };
        for status in ["success", "failed", "timeout"] {
            let log = log(&output, status);
            prop_assert_eq!(log["errors"].as_array().unwrap().is_empty(), status == "success");
        }
    }
}
