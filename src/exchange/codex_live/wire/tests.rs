use std::path::Path;

use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::codex_live::inbound::{CodexProtocol, LimitWindow, Notice, RateLimits, ThreadEvent, asked, read};
use crate::rpc::Protocol;
use crate::rpc::message::{self, Message, answer, notification, refusal};

fn request(id: u64, method: &str, params: &impl Serialize) -> String {
    message::request(None, id, method, params)
}

fn value(line: &str) -> Value {
    assert!(line.ends_with('\n') && line.trim_end().lines().count() == 1, "{line:?}");
    serde_json::from_str(line).unwrap()
}

/// Our lines in the recording of the whole protocol.
fn recorded() -> Vec<Value> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/codex-app-server/recipe-whole.stdin");
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.map(|(_, raw)| serde_json::from_str(raw).unwrap()).collect()
}

#[test]
fn requests_have_the_recorded_shape() {
    let sent = recorded();
    let of = |method: &str| sent.iter().find(|line| line["method"] == method).unwrap();
    let thread = of("thread/inject_items")["params"]["threadId"].as_str().unwrap();
    let items = of("thread/inject_items")["params"]["items"].as_array().unwrap();
    assert_eq!(
        value(&request(
            4,
            "thread/inject_items",
            &InjectItems {
                thread_id: thread,
                items
            }
        )),
        *of("thread/inject_items")
    );
    assert_eq!(
        value(&request(
            5,
            "turn/start",
            &CodexTurnStart {
                thread_id: thread,
                environments: None,
                input: [],
                effort: None,
                service_tier: None,
                output_schema: None,
            }
        )),
        *of("turn/start")
    );
    let unsubscribe = of("thread/unsubscribe");
    assert_eq!(
        value(&request(9, "thread/unsubscribe", &Unsubscribe { thread_id: thread })),
        *unsubscribe
    );
    let resume = ThreadResume {
        thread_id: thread,
        cwd: "/empty",
        approval_policy: "never",
        sandbox: "read-only",
        base_instructions: Some(""),
        developer_instructions: (),
        exclude_turns: true,
        config: &serde_json::Map::new(),
        model: None,
        model_provider: Some("df"),
    };
    // As in the recording `codex-app-server-sessions/resume-written-developer-item-param-null`.
    assert_eq!(
        serde_json::to_value(resume).unwrap(),
        json!({"threadId": thread, "cwd": "/empty", "approvalPolicy": "never", "sandbox": "read-only", "baseInstructions": "",
               "developerInstructions": null, "excludeTurns": true, "config": {}, "modelProvider": "df"})
    );
    let interrupt = &of("turn/interrupt")["params"];
    let (thread_id, turn_id) = (
        interrupt["threadId"].as_str().unwrap(),
        interrupt["turnId"].as_str().unwrap(),
    );
    assert_eq!(
        value(&request(16, "turn/interrupt", &Interrupt { thread_id, turn_id }))["params"],
        *interrupt
    );
    assert_eq!(
        value(&request(
            2,
            "config/read",
            &ConfigRead {
                cwd: "/home/user/empty"
            }
        )),
        *of("config/read")
    );
    assert_eq!(
        value(&notification::<()>(None, "initialized", None)),
        *of("initialized")
    );
    let start = &of("thread/start")["params"];
    let tools: Vec<DynamicTool> = start["dynamicTools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| DynamicTool::Function {
            name: tool["name"].as_str().unwrap().to_owned(),
            description: tool["description"].as_str().unwrap().to_owned(),
            input_schema: tool["inputSchema"].clone(),
        })
        .collect();
    let ours = ThreadStart {
        cwd: "/home/user/empty",
        approval_policy: "never",
        sandbox: "read-only",
        base_instructions: Some(""),
        developer_instructions: "SYSTEM PROMPT",
        ephemeral: true,
        environments: [],
        experimental_raw_events: true,
        config: start["config"].as_object().unwrap(),
        model: Some("gpt-6-luna"),
        model_provider: None,
        dynamic_tools: &tools,
    };
    assert_eq!(value(&request(3, "thread/start", &ours)), *of("thread/start"));
}

/// Pitfall 6: always a result, always with content.
#[test]
fn results_have_the_recorded_shape() {
    let answered = recorded().into_iter().find(|line| !line["result"].is_null()).unwrap();
    let text = answered["result"]["contentItems"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    let id = RawValue::from_string(answered["id"].to_string()).unwrap();
    let ours = ToolAnswer {
        content_items: vec![ContentItem::InputText { text }],
        success: true,
    };
    assert_eq!(value(&answer(None, &id, &ours)), answered);
    let image = ContentItem::InputImage {
        image_url: "data:image/png;base64,AAAA".to_owned(),
    };
    assert_eq!(
        serde_json::to_value(image).unwrap(),
        json!({"type": "inputImage", "imageUrl": "data:image/png;base64,AAAA"})
    );
    assert_eq!(value(&refusal(None, &id, "x/y"))["error"]["code"], json!(-32601));
}

#[test]
fn a_call_is_of_a_thread() {
    let line =
        r#"{"method":"item/tool/call","id":0,"params":{"threadId":"t","callId":"c","tool":"add","arguments":{}}}"#;
    let Message::Request(request) = message::read(line) else {
        panic!("no request");
    };
    let (Some(thread), ThreadEvent::ToolCall { call, .. }) = asked(&request) else {
        panic!("no call");
    };
    assert_eq!((thread.as_str(), call.as_str()), ("t", "c"));
}

#[test]
fn other_notifications_are_nothing() {
    assert!(read("thread/started", "{}").is_none() && read("turn/started", "7").is_none());
    // A user's text may contain anything.
    let item = r#"{"threadId":"t","item":{"type":"userMessage","text":"contextCompaction"}}"#;
    assert!(read("item/started", item).is_none());
}

#[test]
fn the_accounts_limits_are_its_windows_the_fullest_last() {
    let params = r#"{"rateLimits":{"limitId":"codex","primary":{"usedPercent":12.5,"windowDurationMins":300,"resetsAt":100},"secondary":{"usedPercent":100.0,"windowDurationMins":10080,"resetsAt":200},"rateLimitReachedType":"weekly"}}"#;
    let Some(Notice::RateLimits(limits)) = read("account/rateLimits/updated", params) else {
        panic!("no limits")
    };
    assert_eq!(
        limits,
        RateLimits {
            windows: vec![
                LimitWindow {
                    minutes: Some(300),
                    used: 0.125,
                    resets_at: Some(100),
                },
                LimitWindow {
                    minutes: Some(10_080),
                    used: 1.0,
                    resets_at: Some(200),
                },
            ],
            reached: Some("weekly".to_owned())
        }
    );
    let names: Vec<_> = limits.windows.iter().map(LimitWindow::name).collect();
    assert_eq!(names, [Some("five_hour".to_owned()), Some("seven_day".to_owned())]);
}

/// A result comes as a raw item, and a second time when its call is complete: it must not count twice.
#[test]
fn only_what_is_told_in_pieces_is_told_to_be_complete() {
    let completed = |kind: &str| {
        let item = json!({"type": kind, "id": "i", "contentItems": [{"type": "inputText", "text": "long"}]});
        let params = json!({"threadId": "t", "turnId": "u", "item": item, "completedAtMs": 1});
        match read("item/completed", &params.to_string()) {
            Some(Notice::Thread(_, ThreadEvent::ItemCompleted { item, .. })) => Some(item),
            None => None,
            other => panic!("{other:?}"),
        }
    };
    let told = [
        "agentMessage",
        "reasoning",
        "dynamicToolCall",
        "userMessage",
        "webSearch",
    ]
    .map(completed);
    assert_eq!(told.map(|item| item.is_some()), [true, true, false, false, false]);
}

#[tokio::test(start_paused = true)]
async fn an_id_is_had_by_one_thread_until_its_file_is_gone_and_the_server_has_forgotten_it() {
    let codex = CodexProtocol::default();
    let closed = |codex: &CodexProtocol| drop(codex.notification("thread/closed", r#"{"threadId":"t"}"#));
    assert!(codex.take("t").await && !codex.take("t").await);
    // Nothing came of it.
    codex.left("t");
    assert!(codex.take("t").await);
    codex.opened("t");
    assert!(!codex.take("t").await);
    codex.closing("t");
    closed(&codex);
    // The file is still there.
    assert!(!codex.take("t").await);
    let (taken, ()) = tokio::join!(codex.take("t"), async { codex.left("t") });
    assert!(taken);
    codex.opened("t");
    codex.closing("t");
    codex.left("t");
    // The server still has it.
    assert!(!codex.take("t").await);
    let (taken, ()) = tokio::join!(codex.take("t"), async { closed(&codex) });
    assert!(taken);
    // One that was not resumed has no file.
    codex.opened("u");
    assert!(!codex.take("u").await);
    drop(codex.notification("thread/deleted", r#"{"threadId":"u"}"#));
    assert!(codex.take("u").await);
}
