//! Tests of whole requests, of whole answers, however their bytes are cut, of the verdicts on them, of failures, and of lists of models.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::{Answer, Body};
use super::request::{Format, Request};
use super::settings::{Key, Settings};
use super::{failure_of, read_models, refused};
use crate::choices::CallChoices;
use crate::declare::Tools;
use crate::judge::{CliRules, Context, Evidence, HttpEnd, HttpEvidence, judge};
use crate::models::{ListedModel, ModelPrice};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{Event, Reply};
use dfp_model::message::{Message, ToolSpec};
use dfp_text::fold::Fold;
use dfp_text::redact::Redactor;
use dfp_text::toolcall::TextCalls;

fn settings(json: &str) -> Settings {
    Settings::parse(json).unwrap()
}

fn body(options: &str, messages: &str, tools: &[(&str, &str)]) -> String {
    let messages: Vec<Message> = serde_json::from_str(messages).unwrap();
    let spec = |(name, schema): &(&str, &str)| ToolSpec {
        name: (*name).to_owned(),
        description: None,
        schema: RawValue::from_string((*schema).to_owned()).unwrap(),
    };
    let tools: Vec<ToolSpec> = tools.iter().map(spec).collect();
    Request::new(
        &settings(options),
        &CallChoices::default(),
        &messages,
        &tools,
        Format::Text,
    )
    .body
}

#[test]
fn a_request_is_the_thread_and_nothing_is_respelled() {
    let messages = r#"[
        {"type":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"type":"critic","content":"hm"},
        {"type":"ai","content":"","tool_calls":[{"id":"","name":"t","args":{"z":1.0,"a":1e3}},{"id":"x","name":"t","args":{}}]},
        {"type":"tool","content":"one","tool_call_id":""},
        {"type":"tool","content":"error: two","tool_call_id":"x","is_error":true},
        {"type":"tool","content":[{"n":1.0}],"tool_call_id":"x","is_error":true},
        {"type":"ai","content":[{"type":"text","text":"He"},{"type":"text","text":"llo"}]}
    ]"#;
    assert_eq!(
        body(
            r#"{"model":"m","stream":false,"toolChoice":"required"}"#,
            messages,
            &[("t", r#"{"type":"object","x":1.0}"#)]
        ),
        [
            r#"{"model":"m","messages":["#,
            r#"{"role":"system","content":"ab"},"#,
            r#"{"role":"user","content":"hm"},"#,
            r#"{"role":"assistant","content":null,"tool_calls":["#,
            r#"{"id":"call_df_1","type":"function","function":{"name":"t","arguments":"{\"z\":1.0,\"a\":1e3}"}},"#,
            r#"{"id":"x","type":"function","function":{"name":"t","arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"call_df_1","content":"one"},"#,
            r#"{"role":"tool","tool_call_id":"x","content":"error: two"},"#,
            r#"{"role":"tool","tool_call_id":"x","content":"Error: [{\"n\":1.0}]"},"#,
            r#"{"role":"assistant","content":"Hello"}],"#,
            r#""tools":[{"type":"function","function":{"name":"t","parameters":{"type":"object","x":1.0}}}],"#,
            r#""tool_choice":"required","stream":false}"#,
        ]
        .concat()
    );
}

/// LangChain keeps calls that could not be read apart from the others. Their error comes back as a tool's result, which no API
/// takes alone.
#[test]
fn a_call_that_could_not_be_read_is_told_with_its_answer() {
    let messages = r#"[
        {"type":"human","content":"go"},
        {"type":"ai","content":"","tool_calls":[{"id":"a","name":"t","args":{}}],
         "invalid_tool_calls":[{"id":"b","name":"t","args":"{\"n\":","error":"no JSON"}]},
        {"type":"tool","content":"Error: write JSON","tool_call_id":"b","is_error":true},
        {"type":"tool","content":"one","tool_call_id":"a"},
        {"type":"ai","content":"Hm.","invalid_tool_calls":[{"id":"c","args":"","error":""}]},
        {"type":"tool","content":"no","tool_call_id":"c"}
    ]"#;
    let body: Value = serde_json::from_str(&body(r#"{"model":"m"}"#, messages, &[("t", "{}")])).unwrap();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "user", "content": "Your tool call of \"t\" could not be read: no JSON. You wrote:\n\n{\"n\":\n\nThe answer to it:\n\nError: write JSON"},
            {"role": "assistant", "content": "Hm."},
            {"role": "user", "content": "Your tool call could not be read. You wrote:\n\n\n\nThe answer to it:\n\nno"},
        ])
    );
}

#[test]
fn what_a_server_put_beside_a_call_goes_back_to_it_and_to_no_other() {
    let messages = |provider: &str| {
        let beside = json!({"extra_content": {"google": {"thought_signature": "S"}}}).to_string();
        let details = json!([{"type": "reasoning.encrypted", "format": "openai-tool-call-v1", "id": "b", "index": 1, "data": beside}]);
        let call = |id: &str| json!({"id": id, "name": "t", "args": {}});
        json!([{"type": "ai", "content": "", "tool_calls": [call("a"), call("b_2")], "reasoning": {"provider": provider, "details": details}}])
    };
    let sent = |options: &str, provider: &str| -> Value {
        let body: Value = serde_json::from_str(&body(options, &messages(provider).to_string(), &[])).unwrap();
        body["messages"][0].clone()
    };
    let function = json!({"name": "t", "arguments": "{}"});
    let signed = json!({"id": "b_2", "type": "function", "function": function, "extra_content": {"google": {"thought_signature": "S"}}});
    let plain = |id: &str| json!({"id": id, "type": "function", "function": function});
    let own = settings(r#"{"model":"m"}"#).id;
    for options in [
        r#"{"model":"m"}"#,
        r#"{"model":"m","sendReasoning":"reasoning_details"}"#,
    ] {
        let message = json!({"role": "assistant", "content": null, "tool_calls": [plain("a"), signed]});
        assert_eq!(sent(options, &own), message, "{options}");
    }
    assert_eq!(
        sent(r#"{"model":"m"}"#, "another")["tool_calls"],
        json!([plain("a"), plain("b_2")])
    );
}

/// DeepSeek and Kimi refuse a thread if a message of the model lacks the field.
#[test]
fn reasoning_content_is_in_every_message_of_the_models() {
    let own = settings(r#"{"model":"m"}"#).id;
    let messages = json!([
        {"type": "ai", "content": "a", "reasoning": {"provider": own, "details": [{"type": "reasoning.text", "text": "hm"}]}},
        {"type": "ai", "content": "b"},
        {"type": "human", "content": "c"},
    ])
    .to_string();
    for (field, filler) in [
        ("reasoning_content", Some(" ")),
        ("reasoning", None),
        ("reasoning_details", None),
    ] {
        let options = json!({"model": "m", "sendReasoning": field}).to_string();
        let body: Value = serde_json::from_str(&body(&options, &messages, &[])).unwrap();
        let of = |at: usize| body["messages"][at].get(field);
        assert!(of(0).is_some(), "{field}");
        assert_eq!((of(1).and_then(Value::as_str), of(2)), (filler, None), "{field}");
    }
}

#[test]
fn tools_options_go_only_with_tools_and_null_takes_a_field_away() {
    let options = r#"{"model":"m","toolChoice":"auto","parallelToolCalls":true,"maxTokens":5,
                      "extraBody":{"stream_options":null,"max_tokens":null,"model":"n"}}"#;
    assert_eq!(
        body(options, r#"[{"type":"human","content":"hi"}]"#, &[]),
        r#"{"messages":[{"role":"user","content":"hi"}],"stream":true,"model":"n"}"#
    );
}

#[test]
fn where_requests_go_and_with_which_key() {
    let table = [
        (
            r#"{}"#,
            "https://api.openai.com/v1/chat/completions",
            Key::Env("OPENAI_API_KEY".to_owned()),
        ),
        (
            r#"{"baseURL":"http://127.0.0.1:8080"}"#,
            "http://127.0.0.1:8080/chat/completions",
            Key::Nobody,
        ),
        (
            r#"{"baseURL":"https://h.test/a/v1//?v=1","apiKeyEnv":"X"}"#,
            "https://h.test/a/v1/chat/completions?v=1",
            Key::Env("X".to_owned()),
        ),
    ];
    for (options, url, key) in table {
        let mut options: Value = serde_json::from_str(options).unwrap();
        options["model"] = json!("m");
        let settings = settings(&options.to_string());
        assert_eq!((settings.chat.to_string(), settings.key), (url.to_owned(), key));
    }
    let settings =
        settings(r#"{"baseURL":"https://h.test/v1?key=0123456789abcdef","model":"m","apiKey":"fedcba9876543210"}"#);
    assert_eq!(settings.place(), "https://h.test/v1");
    assert!(!format!("{:?}", settings.key).contains("fedcba"));
    let redactor = settings.redactor(None);
    assert_eq!(redactor.redact_values("?key=0123456789abcdef"), "?key=[redacted]");
}

/// The outcome of the bytes: the public events as JSON, and the end.
fn read(pieces: &[&[u8]], whole: bool) -> (Vec<String>, Body, Result<Reply, Box<ProviderError>>) {
    let redactor = Redactor::new([], ["a-secret-of-16-b"]);
    let mut answer = Answer::new(Tools::default(), redactor.clone());
    let mut fold = Fold::new(HashSet::new(), TextCalls::Off);
    let (mut decoded, mut events) = (Vec::new(), Vec::new());
    for piece in pieces {
        if !answer.is_over() {
            answer.push(piece, &mut decoded);
        }
    }
    let body = answer.finish(whole, &mut decoded);
    decoded.into_iter().for_each(|event| fold.push(event, &mut events));
    let folded = fold.finish(&mut events);
    let ending = match whole {
        true => HttpEnd::Answered(body.clone()),
        false => HttpEnd::Lost("reset".to_owned()),
    };
    let context = Context {
        provider: "mine",
        rules: CliRules::default(),
        now_ms: 1_790_000_000_000,
        local_offset_min: None,
    };
    let evidence = Evidence::Http(HttpEvidence {
        origin: "http://h.test".to_owned(),
        end: ending,
        status: None,
        diagnostics: answer.diagnostics().to_vec(),
        redactor,
    });
    let shown = |event: &Event| serde_json::to_string(event).unwrap_or_else(|error| error.to_string());
    (
        events.iter().map(shown).collect(),
        body,
        judge(&context, evidence, folded),
    )
}

fn code(body: &str) -> Code {
    read(&[body.as_bytes()], true).2.unwrap_err().code
}

const STREAM: &str = concat!(
    "\u{FEFF}: hello\r\n\r\n",
    r#"data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm","reasoning_content":"hm"}}]}"#,
    "\n\n",
    r#"data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"Hé \ud83e"}},{"index":1,"delta":{"content":"no"}}]}"#,
    "\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ndata: what?\n\n",
    r#"data: {"choices":[{"delta":{"content":"\udd80 a-secret-of-16-b","tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{\"a\""}}]}}]}"#,
    "\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\ndata: \"function\":{\"arguments\":\":1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\r\r",
    r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#,
    "\n\ndata: [DONE]\n\ndata: {\"error\":\"too late\"}\n\n",
);

#[test]
fn a_stream_with_everything_in_it() {
    let (events, body, verdict) = read(&[STREAM.as_bytes()], true);
    assert_eq!(
        events,
        [
            r#"{"type":"session","model":"m"}"#,
            r#"{"type":"thinking_delta","messageId":"c1","text":"hm"}"#,
            r#"{"type":"text_delta","messageId":"c1","text":"Hé "}"#,
            r#"{"type":"other","kind":"ping","raw":{"type":"ping"}}"#,
            r#"{"type":"text_delta","messageId":"c1","text":"🦀 [redacted]"}"#,
            r#"{"type":"message","id":"c1","content":"Hé 🦀 [redacted]"}"#,
            r#"{"type":"tool_call","toolCall":{"id":"t","name":"f","args":{"a":1}}}"#,
            r#"{"type":"usage","usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5},"rawStopReason":"tool_calls"}"#,
        ]
    );
    let reply = verdict.unwrap();
    assert_eq!(
        (
            body,
            reply.stop_reason.as_deref(),
            reply.model.as_deref(),
            &reply.diagnostics[..]
        ),
        (
            Body::Complete,
            Some("tool_calls"),
            Some("m"),
            &["no JSON object: what?".to_owned()][..]
        )
    );
}

#[test]
fn a_stream_cut_anywhere_is_a_failure_that_keeps_what_came() {
    let end = STREAM.find(r#""finish_reason":"tool_calls""#).unwrap();
    for at in (0..end).filter(|at| STREAM.is_char_boundary(*at)) {
        for whole in [true, false] {
            let (events, body, verdict) = read(&[&STREAM.as_bytes()[..at]], whole);
            let error = verdict.unwrap_err();
            let is_expected = matches!(
                error.code,
                Code::ConnectionLost | Code::EmptyResponse | Code::MalformedResponse
            );
            assert!(is_expected && body != Body::Complete, "{at}: {error:?}");
            assert_eq!(error.provider, "mine");
            let calls = events.iter().filter(|event| event.contains("tool_call")).count();
            assert_eq!(calls, 0, "a call that may be half of one went out");
            let streamed = events.iter().any(|event| event.contains("text_delta"));
            assert!(!streamed || error.partial.unwrap().text.starts_with("Hé"));
        }
    }
}

#[test]
fn bodies_that_are_no_answer() {
    for (body, expected) in [
        ("", Code::EmptyResponse),
        (" \n ", Code::EmptyResponse),
        ("{\"choices\":[{\"mess", Code::MalformedResponse),
        ("[1,2]", Code::MalformedResponse),
        ("{}", Code::MalformedResponse),
        (r#"{"choices":[]}"#, Code::EmptyResponse),
        (r#"{"choices":[{"message":{"content":null}}]}"#, Code::EmptyResponse),
        (
            r#"{"error":{"message":"no","code":"rate_limit_exceeded"}}"#,
            Code::RateLimited,
        ),
        (r#"{"object":"error","message":"no","code":404}"#, Code::NotFound),
        ("data: {\"error\":\"Rate limit reached\"}\n\n", Code::RateLimited),
        (
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\n\n",
            Code::ServerError,
        ),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"insufficient_system_resource\"}]}\n\n",
            Code::ServerError,
        ),
        ("data: [DONE]\n\n", Code::EmptyResponse),
    ] {
        assert_eq!(code(body), expected, "{body}");
    }
    // An end that is well makes no answer of nothing.
    let silent = r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#;
    assert_eq!(code(silent), Code::EmptyResponse);
}

/// The facts of a refusal with this header: (code, retryAfterMs, resetsAt).
fn waits(status: u16, header: &str) -> (Code, Option<u64>, Option<u64>) {
    let ending = HttpEnd::Refused {
        status,
        reason: String::new(),
        body: String::new(),
        retry_after: Some(header.to_owned()),
        location: None,
    };
    let context = Context {
        provider: "mine",
        rules: CliRules::default(),
        // 2026-11-21T21:00:00Z.
        now_ms: 1_795_294_800_000,
        local_offset_min: None,
    };
    let evidence = Evidence::Http(HttpEvidence {
        origin: "http://h.test".to_owned(),
        end: ending,
        status: None,
        diagnostics: Vec::new(),
        redactor: Redactor::default(),
    });
    let error = judge(
        &context,
        evidence,
        Fold::new(HashSet::new(), TextCalls::Off).finish(&mut Vec::new()),
    )
    .unwrap_err();
    (error.code, error.retry_after_ms, error.resets_at)
}

#[test]
fn a_server_is_waited_for_as_long_as_it_says() {
    let date = "retry-after: Sat, 21 Nov 2026 21:00:30 GMT";
    let then = Some(1_795_294_830_000);
    assert_eq!(waits(429, "retry-after: 7"), (Code::RateLimited, Some(7_000), None));
    assert_eq!(waits(429, "retry-after-ms: 70"), (Code::RateLimited, Some(70), None));
    assert_eq!(waits(429, date), (Code::RateLimited, Some(30_000), then));
    assert_eq!(waits(503, date), (Code::ServerError, Some(30_000), None));
    assert_eq!(waits(429, "retry-after: soon"), (Code::RateLimited, Some(1_000), None));
    assert_eq!(waits(400, "retry-after: 7"), (Code::InvalidRequest, None, None));
}

fn outcome(pieces: &[&[u8]]) -> (Vec<String>, Body, Result<Reply, String>) {
    let (events, body, verdict) = read(pieces, true);
    (events, body, verdict.map_err(|error| format!("{error:?}")))
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_events(cuts in prop::collection::vec(0..STREAM.len(), 0..12)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&STREAM.as_bytes()[from..cut]);
            from = cut;
        }
        pieces.push(&STREAM.as_bytes()[from..]);
        prop_assert_eq!(outcome(&pieces), outcome(&[STREAM.as_bytes()]));
    }

    #[test]
    fn any_bytes_are_survived_however_they_are_cut(
        body in prop::collection::vec(prop::sample::select(vec![
            &b"data: "[..], b"\n\n", b"\r", b"[DONE]", b"{\"choices\":[", b"{\"delta\":",
            b"{\"message\":", b"{\"content\":\"", b"\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"",
            b"{\"error\":{\"message\":\"x\"}}", b"\"}", b"}]}", b"\"finish_reason\":\"stop\"", b",",
            b"\xFF\xEF\xBB\xBF", b"\\ud800", b"null", b" ", b"<html>",
            b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
        ]), 0..24),
        size in 1usize..9,
    ) {
        let body = body.concat();
        let pieces: Vec<&[u8]> = body.chunks(size).collect();
        prop_assert_eq!(outcome(&pieces), outcome(&[&body]));
    }
}

fn read_failure(body: &str) -> (String, Option<String>, Option<u16>) {
    let redactor = Redactor::new([], ["very-secret-word"]);
    let failure = refused(400, "Bad Request", body, &redactor);
    (failure.message, failure.kind, failure.http_status)
}

#[test]
fn every_way_to_say_it() {
    for (body, message, kind) in [
        (
            r#"{"error":{"message":"No very-secret-word.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            "No [redacted].",
            Some("invalid_api_key"),
        ),
        (
            r#"{"error":{"message":"bad","type":"invalid_request_error","code":null}}"#,
            "bad",
            Some("invalid_request_error"),
        ),
        (r#"{"error":"model 'x' not found"}"#, "model 'x' not found", None),
        (
            r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
            "too long",
            Some("BadRequestError"),
        ),
        (r#"{"detail":"Not Found"}"#, "Not Found", None),
        (
            r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]"#,
            "API key not valid",
            Some("INVALID_ARGUMENT"),
        ),
        (r#"{"error":{"code":"overloaded"}}"#, "overloaded", Some("overloaded")),
        (r#"{"x":1}"#, r#"{"x":1}"#, None),
        ("", "HTTP status 400 Bad Request", None),
        ("upstream\ngone", "HTTP status 400 Bad Request: upstream\ngone", None),
        (
            "<html><TITLE>\n502  Bad Gateway</TITLE></html>",
            "HTTP status 400 Bad Request: a web page, \"502 Bad Gateway\"",
            None,
        ),
        ("<p>", "HTTP status 400 Bad Request: a web page", None),
        (r#"{"cut": "#, "HTTP status 400 Bad Request: {\"cut\":", None),
    ] {
        assert_eq!(
            read_failure(body),
            (message.to_owned(), kind.map(str::to_owned), Some(400)),
            "{body}"
        );
    }
}

#[test]
fn every_word_of_a_body_is_kept() {
    let body = r#"{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT","type":"t","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    let failure = refused(400, "Bad Request", body, &Redactor::default());
    assert_eq!(failure.kind.as_deref(), Some("t"));
    assert_eq!(failure.more_kinds, ["INVALID_ARGUMENT", "API_KEY_INVALID"]);
}

#[test]
fn the_wait_of_a_limit_is_read_wherever_its_details_stand() {
    let details = r#"[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"RequestsPerMinute"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]"#;
    let google =
        format!(r#"{{"error":{{"code":429,"message":"No.","status":"RESOURCE_EXHAUSTED","details":{details}}}}}"#);
    let quoted = serde_json::to_string(&google).unwrap();
    for body in [
        google.clone(),
        format!("[{google}]"),
        format!(r#"{{"error":{{"message":"Provider returned error","code":429,"metadata":{{"raw":{quoted}}}}}}}"#),
    ] {
        let failure = refused(429, "", &body, &Redactor::default());
        assert_eq!(failure.retry_after_ms, Some(34_075), "{body}");
        assert_eq!(
            failure.more_kinds.last().map(String::as_str),
            Some("RequestsPerMinute"),
            "{body}"
        );
    }
    let none = r#"{"error":{"message":"No.","details":[{"retryDelay":"soon"}]}}"#;
    assert_eq!(refused(429, "", none, &Redactor::default()).retry_after_ms, None);
}

#[test]
fn a_status_is_read_within_a_stream() {
    let failure = failure_of(r#"{"error":{"message":"x","code":502}}"#, None, &Redactor::default());
    assert_eq!((failure.http_status, failure.message.as_str()), (Some(502), "x"));
}

#[test]
fn lists_are_read_with_what_they_tell() {
    let router = br#"{"data":[{"id":"a/b","name":"B","context_length":200000,"description":"",
        "architecture":{"input_modalities":["text","image"]},"top_provider":{"max_completion_tokens":64000},
        "pricing":{"prompt":"0.000003","completion":"0.000015","input_cache_read":"0.0000003"}},{"id":""},7]}"#;
    let model = ListedModel {
        id: "a/b".to_owned(),
        name: Some("B".to_owned()),
        input_modalities: Some(vec!["text".to_owned(), "image".to_owned()]),
        context_window: Some(200_000),
        max_output_tokens: Some(64_000),
        price: Some(ModelPrice {
            input: Some(3.0),
            output: Some(15.0),
            cache_read: Some(0.3),
            cache_write: None,
        }),
        ..ListedModel::default()
    };
    assert_eq!(read_models(router), Some(vec![model]));
    let bare = read_models(br#"[{"id":"m","object":"model","owned_by":"me","architecture":7}]"#);
    assert_eq!(bare.map(|models| models[0].id.clone()), Some("m".to_owned()));
    assert_eq!((read_models(br#"{"models":{}}"#), read_models(b"<html>")), (None, None));
}
