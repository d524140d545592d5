use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::super::wire::Acp;
use super::*;
use crate::rpc::Protocol;
use crate::rpc::message::{self, Message};

fn error(code: i64, message: &str, data: serde_json::Value) -> RpcError {
    RpcError {
        code,
        message: message.to_owned(),
        data,
    }
}

/// The errors of gemini 0.61.0 and qwen 0.24.4.
#[test]
fn an_errors_code_is_a_status_where_it_is_one() {
    let read = |errors, error: RpcError| {
        let failure = failure(errors, &error);
        (failure.http_status, failure.kind, failure.message)
    };
    let status = AcpErrors::HttpStatus;
    let unauthenticated = r#"{"error":{"code":401,"message":"bad key","status":"UNAUTHENTICATED"}}"#;
    assert_eq!(
        read(status, error(429, "slow down", json!(null))),
        (Some(429), None, "slow down".to_owned())
    );
    let (found, _, message) = read(status, error(401, unauthenticated, json!(null)));
    assert_eq!((found, message.as_str()), (Some(401), "bad key"));
    assert_eq!(
        read(status, error(500, "terminated", json!(null))),
        (None, None, "terminated".to_owned())
    );
    assert_eq!(
        read(status, error(-32_000, "Authentication required", json!(null))),
        (
            None,
            Some("auth_required".to_owned()),
            "Authentication required".to_owned()
        )
    );
    let details = error(-32_603, "Internal error", json!({"details": "401 bad key"}));
    assert_eq!(
        read(AcpErrors::Details, details),
        (Some(401), None, "401 bad key".to_owned())
    );
}

/// The recordings of grok 1.0.41 (`__tests__/fixtures/grok-acp`), and the reason for each. Their results are in `replies.txt`;
/// `UPDATE_GOLDENS=1` writes it anew.
const RECORDINGS: &[(&str, &str)] = &[
    (
        "foreign-history",
        "three sessions that were loaded: reasoning, text, figures",
    ),
    ("no-usage", "an API that tells no figures"),
    ("length", "an answer that reached its limit"),
    ("content-filter", "an answer that was stopped"),
    ("empty", "no answer"),
    ("error-in-stream", "an error in the middle of the text"),
    ("err-400", "an error with a status"),
    ("err-401", "a key that is none"),
    ("err-429", "too many requests"),
];

/// The results of the lines of a recording: each line is the time in ms, a tab, and grok's message.
fn replies(recorded: &str) -> String {
    let mut told = String::new();
    for line in recorded.lines().filter_map(|line| line.split_once('\t')) {
        match message::read(line.1) {
            Message::Notification { method, params } => {
                let Some((_, update)) = Acp::default().notification(&method, params) else {
                    continue;
                };
                for (what, text) in [("text", update.text), ("thought", update.thought)] {
                    if let Some(text) = text {
                        writeln!(told, "{what} {text}").unwrap();
                    }
                }
                assert_eq!(update.usage, None);
            }
            Message::Answer { result: Err(error), .. } => {
                let Failure {
                    kind,
                    more_kinds,
                    message,
                    http_status,
                    ..
                } = failure(AcpErrors::Data, &error);
                writeln!(told, "failure {kind:?} {more_kinds:?} {http_status:?} {message}").unwrap();
            }
            Message::Answer { result: Ok(result), .. } => {
                let answered: Answered = serde_json::from_str(result.get()).unwrap();
                if answered.stop_reason.is_some() {
                    let figures = answered.meta.counted().map(|usage| {
                        let Usage {
                            input_tokens,
                            output_tokens,
                            cache_read_tokens,
                            reasoning_tokens,
                            ..
                        } = usage;
                        (input_tokens, output_tokens, cache_read_tokens, reasoning_tokens)
                    });
                    writeln!(told, "answer {:?} {figures:?}", answered.stop_reason).unwrap();
                } else if let Ok(Loaded { models, .. }) = serde_json::from_str(result.get())
                    && let Some(model) = models.current()
                {
                    writeln!(told, "session of {model}").unwrap();
                }
            }
            Message::Request(_) | Message::Nothing => {}
        }
    }
    told
}

#[test]
fn recordings_come_to_these_replies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/grok-acp");
    let mut golden = String::new();
    for (case, why) in RECORDINGS {
        let recorded = std::fs::read_to_string(folder.join(format!("{case}.stdout"))).unwrap();
        golden += &format!("# {case}: {why}\n{}", replies(&recorded));
    }
    let file = folder.join("replies.txt");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&file, &golden).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), golden);
}
