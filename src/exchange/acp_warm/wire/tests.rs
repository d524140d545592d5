use serde_json::value::RawValue;

use super::*;

#[test]
fn requests_have_the_protocols_shape() {
    assert_eq!(session_new(Path::new("/run")), json!({"cwd": "/run", "mcpServers": []}));
    assert_eq!(
        session_prompt("s", "a\n\"b\""),
        json!({"sessionId": "s", "prompt": [{"type": "text", "text": "a\n\"b\""}]})
    );
    assert_eq!(session_cancel("s"), json!({"sessionId": "s"}));
    // Of a session that holds the thread: what is prompted is a sentence of ours, as it is.
    assert_eq!(
        session_load("s", Path::new("/run")),
        json!({"sessionId": "s", "cwd": "/run", "mcpServers": []})
    );
    assert_eq!(
        verbatim_prompt("s", "Go on."),
        json!({"sessionId": "s", "prompt": [{"type": "text", "text": "Go on."}], "_meta": {"verbatim": true}})
    );
    assert_eq!(session_set_model("s", "m"), json!({"sessionId": "s", "modelId": "m"}));
    assert_eq!(session_close("s"), json!({"sessionId": "s"}));
}

#[test]
fn an_agents_version_stands_where_the_protocol_has_it_or_grok() {
    for json in [
        r#"{"protocolVersion":1,"agentInfo":{"name":"x","version":"1.2.3"},"_meta":{"agentVersion":"9"}}"#,
        r#"{"protocolVersion":1,"_meta":{"agentVersion":"1.2.3"}}"#,
    ] {
        let agent: Agent = serde_json::from_str(json).unwrap();
        assert_eq!(
            (agent.is_understood(), agent.version().as_deref()),
            (true, Some("1.2.3"))
        );
    }
}

/// The agent's side may say anything: it gets no tool, no file and no terminal.
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

#[test]
fn updates_are_text_thoughts_and_figures() {
    let update = |update: &str| {
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        Acp.notification("session/update", &params)
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
    // Neither a call of a tool nor an echo of the prompt is anything of the answer's.
    for other in [
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"rm","content":[{"type":"content"}]}"#,
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
    let session: Session = serde_json::from_str(r#"{"sessionId":"s","models":{"currentModelId":"m"}}"#).unwrap();
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
