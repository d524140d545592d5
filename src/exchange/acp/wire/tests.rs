use serde_json::json;
use serde_json::value::RawValue;

use super::*;

#[test]
fn requests_have_the_protocols_shape() {
    let server = http_server("df", "http://127.0.0.1:1/mcp", "t");
    assert_eq!(
        session_new(Path::new("/run"), &[server]),
        json!({"cwd": "/run", "mcpServers": [{"type": "http", "name": "df", "url": "http://127.0.0.1:1/mcp",
            "headers": [{"name": "Authorization", "value": "Bearer t"}]}]})
    );
    assert_eq!(
        session_prompt("s", "a\n\"b\""),
        json!({"sessionId": "s", "prompt": [{"type": "text", "text": "a\n\"b\""}]})
    );
    assert_eq!(session_cancel("s"), json!({"sessionId": "s"}));
    // For a session that holds the thread, the prompt is a sentence of ours, as it is.
    assert_eq!(
        session_load("s", Path::new("/run")),
        json!({"sessionId": "s", "cwd": "/run", "mcpServers": []})
    );
    assert_eq!(
        verbatim_prompt("s", "Go on.", Some(r#"{"type":"object"}"#))["_meta"],
        json!({"verbatim": true, "outputSchema": {"type": "object"}})
    );
    assert_eq!(
        verbatim_prompt("s", "Go on.", None),
        json!({"sessionId": "s", "prompt": [{"type": "text", "text": "Go on."}], "_meta": {"verbatim": true}})
    );
    assert_eq!(session_close("s"), json!({"sessionId": "s"}));
}

#[test]
fn an_agents_version_stands_where_the_protocol_has_it_or_grok() {
    for json in [
        r#"{"protocolVersion":1,"agentInfo":{"name":"x","version":"1.2.3"},"_meta":{"agentVersion":"9"}}"#,
        r#"{"protocolVersion":1,"_meta":{"agentVersion":"1.2.3"}}"#,
    ] {
        let agent: InitializeResponse = serde_json::from_str(json).unwrap();
        assert_eq!(
            (agent.is_understood(), agent.version().as_deref()),
            (true, Some("1.2.3"))
        );
    }
}

/// The agent's side may send anything: it gets no tool, no file and no terminal.
#[test]
fn what_the_agent_asks_for_is_refused() {
    let id = RawValue::from_string("7".to_owned()).unwrap();
    let answer = |method: &'static str| {
        Acp::refusal(&Request {
            id: &id,
            method: method.into(),
            params: r#"{"path":"/etc/passwd","options":[{"optionId":"allow"}]}"#,
        })
    };
    assert_eq!(
        answer("session/request_permission"),
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n"
    );
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "anything"] {
        assert_eq!(
            answer(method),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32601,\"message\":\"deep-factor-providers knows no request \
                 {method}\"}}}}\n"
            )
        );
    }
}

/// No words of the model decide which tool a call is for.
#[test]
fn a_call_of_the_callers_tools_is_permitted_once_and_in_its_session() {
    let acp = Acp::default();
    acp.is_agent("gemini-cli");
    acp.permit("s", vec!["mcp_df_add".to_owned(), "mcp__df__add".to_owned()]);
    let id = RawValue::from_string("7".to_owned()).unwrap();
    let both = r#"[{"optionId":"a","kind":"allow_always"},{"optionId":"o","kind":"allow_once"}]"#;
    let asked = |session: &str, call: &str, options: &str| {
        let params = format!(r#"{{"sessionId":"{session}","toolCall":{call},"options":{options}}}"#);
        let asked = acp.asked(&Request {
            id: &id,
            method: "session/request_permission".into(),
            params: &params,
        });
        match asked {
            Asked::Answered(answer) => answer["outcome"]["optionId"].as_str().map(str::to_owned),
            Asked::Refused(None) => None,
            other => panic!("{other:?}"),
        }
    };
    let once = Some("o".to_owned());
    // The request of gemini 0.61.0, and the update of qwen 0.15.10.
    let (gemini, qwen) = (
        r#"{"toolCallId":"mcp_df_add__c1","kind":"other"}"#,
        r#"{"toolCallId":"c2","_meta":{"toolName":"mcp__df__add"}}"#,
    );
    assert_eq!((asked("s", gemini, both), asked("s", qwen, both)), (once.clone(), once));
    for other in [
        r#"{"toolCallId":"c1","title":"mcp_df_add__c1"}"#,
        r#"{"toolCallId":"mcp_df_addendum__c1"}"#,
        r#"{"toolCallId":"mcp_df_add"}"#,
        r#"{"toolCallId":"mcp_df_add__c1","_meta":{"toolName":"run_shell_command"}}"#,
        r#"{"toolCallId":7}"#,
        "{}",
        "7",
    ] {
        assert_eq!(asked("s", other, both), None, "{other}");
    }
    assert_eq!(asked("another", gemini, both), None);
    assert_eq!(asked("s", gemini, r#"[{"optionId":"a","kind":"allow_always"}]"#), None);
    acp.permit_none("s");
    assert_eq!(asked("s", gemini, both), None);
}

#[test]
fn what_an_agent_can_is_told_by_its_handshake() {
    let agent = |capabilities: &str| {
        let json = format!(r#"{{"protocolVersion":1,"agentCapabilities":{capabilities}}}"#);
        let agent: InitializeResponse = serde_json::from_str(&json).unwrap();
        (agent.is_understood(), agent.takes_servers(), agent.closes())
    };
    let opencode = r#"{"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"close":{},"list":{}}}"#;
    assert_eq!(agent(opencode), (true, true, true));
    for none in [
        "{}",
        "null",
        "7",
        r#"{"mcpCapabilities":{"sse":true}}"#,
        r#"{"mcpCapabilities":{"http":"yes"}}"#,
    ] {
        assert_eq!(agent(none), (true, false, false), "{none}");
    }
}

#[test]
fn updates_are_text_thoughts_and_figures() {
    let update = |update: &str| {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        Acp::default().notification("session/update", &params)
    };
    let of = |update: Update| Some(("s".to_owned(), update));
    assert_eq!(
        update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi"}}"#),
        of(Update {
            text: Some("Hi".to_owned()),
            ..Update::default()
        })
    );
    assert_eq!(
        update(r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hm"}}"#),
        of(Update {
            thought: Some("Hm".to_owned()),
            ..Update::default()
        })
    );
    // A call of a tool of the agent's own is no part of the answer, but something that was done.
    for acts in [
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"rm","content":[{"type":"content"}]}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":7,"status":"completed"}"#,
    ] {
        let acted = Update {
            acts: true,
            ..Update::default()
        };
        assert_eq!(update(acts), of(acted), "{acts}");
    }
    // An echo of the prompt is no part of the answer, either.
    for other in [
        r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"Hi"}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AA=="}}"#,
        "{}",
    ] {
        assert_eq!(update(other), of(Update::default()), "{other}");
    }
    assert_eq!(update("7"), None);
    let qwen = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},
        "_meta":{"usage":{"inputTokens":20,"outputTokens":7,"totalTokens":27,"thoughtTokens":3,"cachedReadTokens":5}}}"#;
    assert_eq!(
        update(qwen).and_then(|(_, update)| update.usage),
        Some(Usage {
            input_tokens: 20,
            output_tokens: 7,
            total_tokens: 27,
            cache_read_tokens: Some(5),
            reasoning_tokens: Some(3),
            ..Usage::default()
        })
    );
}

#[test]
fn answers_have_a_session_or_figures() {
    let session: crate::acp::choices::AcpSession =
        serde_json::from_str(r#"{"sessionId":"s","models":{"currentModelId":"m"}}"#).unwrap();
    assert_eq!(
        (session.session_id.as_str(), session.models.current()),
        ("s", Some("m"))
    );
    let gemini = r#"{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":20,"output_tokens":7},
        "model_usage":[{"model":"a","token_count":{"output_tokens":1}},{"model":"b","token_count":{"output_tokens":6}}]}}}"#;
    let answered: Answered = serde_json::from_str(gemini).unwrap();
    let usage = answered
        .meta
        .usage()
        .map(|usage| (usage.input_tokens, usage.output_tokens, usage.total_tokens));
    assert_eq!(
        (answered.stop_reason.as_deref(), usage, answered.meta.model().as_deref()),
        (Some("end_turn"), Some((20, 7, 27)), Some("b"))
    );
    let bare: Answered = serde_json::from_str(r#"{"stopReason":"end_turn"}"#).unwrap();
    assert_eq!((bare.meta.usage(), bare.meta.model()), (None, None));
}

fn may(naming: ToolNaming, told: &[Value], asked: Value) -> bool {
    let read = |call: &Value| serde_json::from_value::<AcpCall>(call.clone()).unwrap();
    let mut calls = SessionCalls::new(vec!["mcp__df__add".to_owned(), "mcp_df_add".to_owned()]);
    for call in told {
        calls.note(&read(call), naming);
    }
    calls.may(&read(&asked), naming)
}

#[test]
fn a_call_is_the_callers_by_a_name_of_the_agents_alone() {
    let name = |name: &str| json!({"toolCallId": "c1", "name": name});
    let meta = |name: &str| json!({"toolCallId": "c1", "_meta": {"toolName": name}});
    let title = |title: &str| json!({"toolCallId": "c1", "title": title, "kind": "other"});
    let kind = |kind: &str| json!({"toolCallId": "c1", "name": "mcp__df__add", "kind": kind});
    let (named, by_id, by_title) = (ToolNaming::Name, ToolNaming::Id, ToolNaming::FirstTitle);
    let gemini = json!({"toolCallId": "mcp_df_add__c1", "title": "add", "kind": "other"});
    for (naming, told, asked, expected) in [
        (named, vec![], name("mcp__df__add"), true),
        (named, vec![], meta("mcp__df__add"), true),
        (
            named,
            vec![],
            json!({"toolCallId": "c1", "_meta": {"x.ai/tool": {"name": "mcp__df__add"}}}),
            true,
        ),
        (named, vec![name("mcp__df__add")], json!({"toolCallId": "c1"}), true),
        (named, vec![], name("bash"), false),
        // The name decides, whatever else the call is called.
        (
            by_id,
            vec![],
            json!({"toolCallId": "mcp_df_add__c1", "name": "bash"}),
            false,
        ),
        (by_title, vec![meta("bash")], title("mcp__df__add"), false),
        (named, vec![meta("bash")], name("mcp__df__add"), false),
        (named, vec![], kind("other"), true),
        (named, vec![kind("other")], kind("read"), true),
        // An id comes from whoever answers as the API, except for the agent that makes its own ids.
        (named, vec![], gemini.clone(), false),
        (by_title, vec![], gemini.clone(), false),
        (by_id, vec![], gemini, true),
        (by_id, vec![], json!({"toolCallId": "mcp_df_addendum"}), false),
        (
            by_id,
            vec![],
            json!({"toolCallId": "mcp_df_add__c1", "kind": "execute"}),
            false,
        ),
        // A title may be the model's words, except for the agent whose first title is the tool's name.
        (named, vec![title("mcp__df__add")], title("mcp__df__add"), false),
        (by_title, vec![title("mcp__df__add")], json!({"toolCallId": "c1"}), true),
        (by_title, vec![title("bash")], title("mcp__df__add"), false),
        (
            by_title,
            vec![],
            json!({"toolCallId": "c1", "title": "mcp__df__add"}),
            false,
        ),
    ] {
        assert_eq!(
            may(naming, &told, asked.clone()),
            expected,
            "{naming:?} {told:?} {asked}"
        );
    }
    for own in OWN_KINDS {
        assert!(!may(named, &[], kind(own)), "{own}");
        assert!(!may(named, &[kind(own)], kind("other")), "{own}");
    }
}

#[test]
fn no_more_calls_are_remembered_than_a_session_may_have_open() {
    let mut calls = SessionCalls::new(vec!["add".to_owned()]);
    let call = |number: usize, status: &str| AcpCall {
        tool_call_id: number.to_string(),
        name: Some("add".to_owned()),
        status: Some(status.to_owned()),
        ..AcpCall::default()
    };
    for number in 0..2 * MOST_CALLS {
        assert!(calls.note(&call(number, "pending"), ToolNaming::Name));
    }
    assert_eq!(calls.known.len(), MOST_CALLS);
    for number in 0..MOST_CALLS {
        calls.note(&call(number, "completed"), ToolNaming::Name);
    }
    assert!(calls.known.is_empty());
}
