use super::*;

#[test]
fn lines_are_written_whole() {
    assert_eq!(
        request(1, "session/new", &session_new(Path::new("/run"))),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/run\",\"mcpServers\":[]}}\n"
    );
    assert_eq!(
        request(2, "session/prompt", &session_prompt("s", "a\n\"b\"")),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\",\"prompt\":[{\"type\":\"text\",\
         \"text\":\"a\\n\\\"b\\\"\"}]}}\n"
    );
    assert_eq!(
        session_cancel("s"),
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\"}}\n"
    );
}

/// The agent's side may say anything: it gets no tool, no file and no terminal.
#[test]
fn what_the_agent_asks_for_is_refused() {
    let answer = |line: &str| match read(line) {
        Inbound::Request { id, method } => refusal(&id, &method),
        other => format!("{other:?}"),
    };
    assert_eq!(
        answer(
            r#"{"jsonrpc":"2.0","id":"x","method":"session/request_permission","params":{"options":[{"optionId":"allow"}]}}"#
        ),
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n"
    );
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "anything"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"path":"/etc/passwd"}}}}"#);
        assert_eq!(
            answer(&line),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{{\"code\":-32601,\"message\":\"deep-factor-providers has no {method} for \
                 this agent\"}}}}\n"
            )
        );
    }
}

#[test]
fn updates_are_text_thoughts_and_figures() {
    let update = |update: &str| {
        let line = format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
        match read(&line) {
            Inbound::Update { session, update } => Some((session, update)),
            _ => None,
        }
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
fn answers_have_a_session_figures_or_a_reason() {
    let answer = |line: &str| match read(line) {
        Inbound::Answer { id, result } => Some((id, result)),
        _ => None,
    };
    let (id, result) =
        answer(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","models":{"currentModelId":"m"}}}"#).unwrap();
    let session: Session = serde_json::from_str(result.unwrap().get()).unwrap();
    assert_eq!(
        (id, session.session_id.as_str(), session.models.current()),
        (2, "s", Some("m"))
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
    let (_, result) =
        answer(r#"{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"401 bad key"}}}"#)
            .unwrap();
    let error = result.unwrap_err();
    assert_eq!((error.code, error.reason()), (-32_603, "401 bad key"));
    // What can't be read, and numbers that are not ours.
    assert!(answer(r#"{"id":"x","result":{}}"#).is_none() && answer("no JSON").is_none() && answer("[1]").is_none());
}
