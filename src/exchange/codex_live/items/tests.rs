use serde_json::json;

use super::*;
use crate::codex_live::settings::CodexChoices;
use crate::codex_live::settings::CodexForm;

fn origin() -> Origin {
    Origin {
        provider: "codex".to_owned(),
        login: None,
        model: "m".to_owned(),
    }
}

fn setup() -> CodexSetup {
    CodexSetup::with("", &[])
}

fn messages(messages: &Value) -> Vec<Message> {
    serde_json::from_str(&messages.to_string()).unwrap()
}

fn history(thread: &Value) -> Vec<Value> {
    of_history(&messages(thread), &setup(), &HashMap::new(), &origin())
}

fn message(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" {
        "output_text"
    } else {
        "input_text"
    };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

#[test]
fn a_history_is_the_apis_own_items() {
    assert_eq!(
        history(&json!([
            {"type": "human", "content": "$skill /x !y @z"},
            {"type": "ai", "content": "Two.", "tool_calls": [{"id": "a", "name": "add", "args": {"b": 1.0, "a": 2}}, {"id": "b", "name": "add", "args": {}}]},
            {"type": "tool", "tool_call_id": "b", "content": "no", "is_error": true},
            {"type": "tool", "tool_call_id": "a", "content": "3"},
            {"type": "system", "content": "be quick"},
            {"type": "critic", "content": "hm"},
            {"type": "ai", "content": "3"},
        ])),
        [
            message("user", "$skill /x !y @z"),
            message("assistant", "Two."),
            json!({"type": "function_call", "call_id": "a", "name": "add", "arguments": "{\"b\":1.0,\"a\":2}"}),
            json!({"type": "function_call", "call_id": "b", "name": "add", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "b", "output": "Error: no"}),
            json!({"type": "function_call_output", "call_id": "a", "output": "3"}),
            // Pitfall 11: "system" would vanish.
            message("developer", "be quick"),
            message("user", "hm"),
            message("assistant", "3"),
        ]
    );
}

/// Pitfall 11: orphan outputs would be dropped, and orphan calls be answered by codex.
#[test]
fn nothing_is_left_to_codex() {
    assert_eq!(
        history(&json!([
            {"type": "human", "content": "go"},
            {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}]},
            {"type": "human", "content": "never mind"},
            {"type": "tool", "tool_call_id": "lost", "content": "7"},
        ])),
        [
            message("user", "go"),
            json!({"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "a", "output": NO_RESULT}),
            message("user", "never mind"),
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "The result of an earlier tool call:"}, {"type": "input_text", "text": "7"}]}),
        ]
    );
}

#[test]
fn ids_that_are_missing_or_come_again_are_made_unique() {
    let thread = json!([
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}, {"id": "", "name": "add", "args": {}}]},
        {"type": "tool", "tool_call_id": "a", "content": "1"},
        {"type": "tool", "tool_call_id": "", "content": "2"},
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}]},
        {"type": "tool", "tool_call_id": "a", "content": "3"},
    ]);
    let ids: Vec<Value> = history(&thread).iter().map(|item| item["call_id"].clone()).collect();
    assert_eq!(
        ids,
        ["a", "call_df_1", "a", "call_df_1", "call_df_2", "call_df_2"].map(Value::from)
    );
}

#[test]
fn images_go_over_as_data() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let thread = json!([
        {"type": "human", "content": [{"type": "text", "text": "see"}, image]},
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}]},
        {"type": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}, image]},
    ]);
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
    let items = history(&thread);
    assert_eq!(
        items[0]["content"],
        json!([{"type": "input_text", "text": "see"}, picture])
    );
    // codex adds the detail to a picture in an answer (0.169.0).
    let seen = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"});
    assert_eq!(items[2]["output"], json!([{"type": "input_text", "text": "x"}, seen]));
    let answer = answer(&messages(&thread)[2]);
    assert_eq!(
        serde_json::to_value(answer).unwrap(),
        json!({"contentItems": [{"type": "inputText", "text": "x"}, {"type": "inputImage", "imageUrl": "data:image/png;base64,AAAA"}], "success": true})
    );
}

/// Pitfall 6: an empty result is refused, and only its text can tell that a tool failed.
#[test]
fn results_say_that_they_are_failures_and_are_never_nothing() {
    let answered = |content: &str, is_error: bool| {
        let message = json!([{"type": "tool", "tool_call_id": "a", "content": content, "is_error": is_error}]);
        serde_json::to_value(answer(&messages(&message)[0])).unwrap()["contentItems"].take()
    };
    assert_eq!(answered("", false), json!([{"type": "inputText", "text": ""}]));
    assert_eq!(
        answered("it broke", true),
        json!([{"type": "inputText", "text": "Error: it broke"}])
    );
    assert_eq!(
        answered("error: it broke", true),
        json!([{"type": "inputText", "text": "error: it broke"}])
    );
    assert_eq!(
        answered("", true),
        json!([{"type": "inputText", "text": "Error: the tool failed"}])
    );
}

#[test]
fn what_the_model_said_goes_over_as_it_came_with_the_callers_ids() {
    let reply = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED", "content": null}),
        json!({"type": "function_call", "id": "fc_0", "call_id": "nope", "name": "nope", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "nope", "output": "unsupported call: nope"}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "api", "name": "add", "arguments": "{ }",
               "internal_chat_message_metadata_passthrough": {"turn_id": "t"}, "status": "completed"}),
    ];
    let recalled = RecalledItems::new(reply.iter().map(plain).collect(), vec!["api".to_owned()]);
    let thread = messages(&json!([
        {"type": "ai", "content": "", "tool_calls": [{"id": "call-1", "name": "add", "args": {}}]},
        {"type": "tool", "tool_call_id": "call-1", "content": "3"},
    ]));
    assert_eq!(
        of_history(&thread, &setup(), &HashMap::from([(0, recalled)]), &origin()),
        [
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}),
            reply[1].clone(),
            reply[2].clone(),
            json!({"type": "function_call", "id": "fc_1", "call_id": "call-1", "name": "add", "arguments": "{ }", "status": "completed"}),
            json!({"type": "function_call_output", "call_id": "call-1", "output": "3"}),
        ]
    );
}

/// The replies in codex's threads `threads` to a thread of three questions, the first of which has a call.
fn in_threads(threads: [Option<&str>; 3]) -> Option<KnownCodexThread> {
    let thread = messages(&json!([
        {"type": "human", "content": "1"},
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}]},
        {"type": "tool", "tool_call_id": "a", "content": "3"},
        {"type": "ai", "content": "two"},
        {"type": "human", "content": "2"},
        {"type": "ai", "content": "three"},
        {"type": "human", "content": "3"},
    ]));
    let setup = CodexSetup::with("S", &[]);
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "a", "name": "add", "arguments": "{}"});
    let said = |id: &str| json!({"type": "message", "id": id, "role": "assistant", "content": []});
    let told = |id: &str, role: &str| ToldItem::of(&json!({"type": "message", "role": role, "id": id})).unwrap();
    let output = ToldItem::of(&json!({"type": "function_call_output", "call_id": "a", "id": "fco_1"}));
    let told = [
        vec![told("msg_s", "developer"), told("msg_1", "user")],
        output.into_iter().collect(),
        // What was said behind the thread is no part of it.
        vec![told("msg_2", "user"), told("msg_note", "developer")],
    ];
    let recalled = [
        (1, vec![call]),
        (3, vec![said("msg_two")]),
        (5, vec![said("msg_three")]),
    ];
    let recalled = recalled.into_iter().zip(threads.into_iter().zip(told));
    let recalled = recalled.map(|((at, items), (thread, told))| {
        let recalled = RecalledItems::new(items, vec!["a".to_owned()]);
        let in_thread = |id: &str| recalled.clone().in_thread(id.to_owned(), told);
        (at, thread.map_or(recalled.clone(), in_thread))
    });
    of_thread(&thread, &setup, &recalled.collect(), &origin())
}

/// The ids of the items but the last, which has a random one.
fn ids(known: &KnownCodexThread) -> Vec<&str> {
    let last = known.items.last().map(ToldItem::of).unwrap();
    assert_eq!(known.told, Vec::from_iter(last));
    let ids = known.items.iter().map(|item| item["id"].as_str().unwrap_or("-"));
    ids.take(known.items.len() - 1).collect()
}

#[test]
fn a_thread_that_codex_has_had_gets_its_id_and_those_of_its_items_back() {
    let known = in_threads([Some("T"); 3]).unwrap();
    assert_eq!(known.id, "T");
    assert_eq!(
        ids(&known),
        ["msg_s", "msg_1", "fc_1", "fco_1", "msg_two", "msg_2", "msg_three"]
    );
    assert_eq!(
        known.items[0],
        json!({"type": "message", "id": "msg_s", "role": "developer", "content": [{"type": "input_text", "text": "S"}]})
    );
    assert!(known.items[7]["id"].as_str().unwrap().starts_with("msg_"));
    // It is the thread of the last reply, where earlier ones were given in others.
    let known = in_threads([Some("U"), None, Some("T")]).unwrap();
    assert_eq!((known.id.as_str(), ids(&known).len()), ("T", 7));
    assert_eq!(in_threads([Some("T"), Some("T"), None]), None);
}

/// An API may give one id to several calls, of which the caller gets those alone that a tool can take.
#[test]
fn a_reply_is_as_long_as_what_is_told_of_it() {
    let thread = messages(&json!([
        {"type": "human", "content": "1"},
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}]},
        {"type": "tool", "tool_call_id": "a", "content": "3"},
        {"type": "ai", "content": "two"},
        {"type": "human", "content": "2"},
    ]));
    let call =
        |arguments: &str| json!({"type": "function_call", "call_id": "a", "name": "add", "arguments": arguments});
    let said = json!({"type": "message", "role": "assistant", "id": "msg_two", "content": []});
    let reply = |items: Vec<Value>, callers: &[&str]| {
        let callers = callers.iter().map(|id| (*id).to_owned()).collect();
        RecalledItems::new(items, callers).in_thread("T".to_owned(), Vec::new())
    };
    let recalled = HashMap::from([
        (1, reply(vec![call("{}"), call("[1]"), call("[2]")], &["a"])),
        (3, reply(vec![said], &[])),
    ]);
    let setup = CodexSetup::with("S", &[]);
    let known = of_thread(&thread, &setup, &recalled, &origin()).unwrap();
    assert_eq!(ids(&known), ["-", "-", "-", "-", "msg_two"]);
}

#[test]
fn calls_of_a_namespace_say_so() {
    let setup = setup().choosing(CodexChoices {
        form: CodexForm::Namespace,
        ..CodexChoices::default()
    });
    let thread =
        messages(&json!([{"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {}}]}]));
    assert_eq!(
        of_history(&thread, &setup, &HashMap::new(), &origin())[0]["namespace"],
        json!("df")
    );
}

#[test]
fn sealed_reasoning_goes_before_what_it_led_to_and_only_to_its_own_account() {
    let thread = |fields: Value, content: &str| {
        let mut reasoning = json!({"provider": "codex", "model": "m", "details": [
            {"type": "reasoning.summary", "summary": "Hm.", "format": "openai-responses-v1", "id": "rs_1"},
            {"type": "reasoning.encrypted", "data": "ENC", "format": "openai-responses-v1", "id": "rs_1"},
            {"type": "reasoning.encrypted", "data": "x", "format": "anthropic-claude-v1", "id": "rs_2"},
        ]});
        reasoning
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!([{"type": "ai", "content": content, "reasoning": reasoning}])
    };
    let kinds = |thread: &Value| -> Vec<String> {
        let items = history(thread);
        items
            .iter()
            .map(|item| item["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        history(&thread(json!({}), "Yes."))[0],
        json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "ENC"})
    );
    assert_eq!(kinds(&thread(json!({}), "Yes.")), ["reasoning", "message"]);
    for other in [
        json!({"login": "/b"}),
        json!({"model": "n"}),
        json!({"provider": "claude"}),
        json!({"details": [7]}),
    ] {
        assert_eq!(kinds(&thread(other, "Yes.")), ["message"]);
    }
    // The API takes no reasoning that nothing follows.
    assert_eq!(kinds(&thread(json!({}), "")), [""; 0]);
}
