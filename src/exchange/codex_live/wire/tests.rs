use std::path::Path;

use serde_json::json;

use super::*;
use crate::exchange::codex_live::inbound::{Inbound, Limits, ThreadEvent, read};

fn value(line: &str) -> Value {
    assert!(line.ends_with('\n') && line.trim_end().lines().count() == 1, "{line:?}");
    serde_json::from_str(line).unwrap()
}

/// The lines of ours in the recording of the whole protocol.
fn recorded() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("__tests__/fixtures/codex-app-server/recipe-whole.stdin");
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
            &TurnStart {
                thread_id: thread,
                input: [],
                effort: None,
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
    assert_eq!(value(&initialized()), *of("initialized"));
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
    assert_eq!(value(&answer(&id, &ours)), answered);
    let image = ContentItem::InputImage {
        image_url: "data:image/png;base64,AAAA".to_owned(),
    };
    assert_eq!(
        serde_json::to_value(image).unwrap(),
        json!({"type": "inputImage", "imageUrl": "data:image/png;base64,AAAA"})
    );
    assert_eq!(value(&refusal(&id, "x/y"))["error"]["code"], json!(-32601));
}

/// Pitfall 16: its numbers and ours are separate.
#[test]
fn what_has_a_method_and_a_number_is_the_servers_request() {
    let line =
        r#"{"method":"item/tool/call","id":0,"params":{"threadId":"t","callId":"c","tool":"add","arguments":{}}}"#;
    let Inbound::Request {
        id,
        thread,
        event: ThreadEvent::ToolCall { call, .. },
        ..
    } = read(line)
    else {
        panic!("no call");
    };
    assert_eq!((id.get(), thread.as_deref(), call.as_str()), ("0", Some("t"), "c"));
    assert!(matches!(
        read(r#"{"id":0,"result":{}}"#),
        Inbound::Answer { id: 0, result: Ok(_) }
    ));
    let refused = read(r#"{"id":3,"error":{"code":-32600,"message":"no"}}"#);
    let Inbound::Answer { result: Err(error), .. } = refused else {
        panic!("no error")
    };
    assert_eq!((error.code, error.message.as_str()), (-32600, "no"));
}

#[test]
fn other_lines_are_nothing() {
    for line in [
        "",
        "[]",
        "\u{feff}{}",
        "{}",
        "no JSON",
        r#"{"method":"thread/started","params":{}}"#,
        r#"{"method":7}"#,
    ] {
        assert!(matches!(read(line), Inbound::Nothing), "{line}");
    }
    // A user's text may say anything.
    let started = r#"{"method":"item/started","params":{"threadId":"t","item":{"type":"userMessage","text":"contextCompaction"}}}"#;
    assert!(matches!(read(started), Inbound::Nothing));
}

#[test]
fn the_accounts_limits_are_those_of_the_fuller_window() {
    let line = r#"{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","primary":{"usedPercent":12.5,"windowDurationMins":300,"resetsAt":100},"secondary":{"usedPercent":100.0,"windowDurationMins":10080,"resetsAt":200},"rateLimitReachedType":"weekly"}}}"#;
    let Inbound::Limits(limits) = read(line) else {
        panic!("no limits")
    };
    assert_eq!(
        limits,
        Limits {
            fullest: Some((1.0, Some(200))),
            reached: Some("weekly".to_owned())
        }
    );
}
