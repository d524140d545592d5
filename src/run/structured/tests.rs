use serde_json::json;

use super::*;
use dfp_model::message::{InvalidToolCall, ToolCall};

fn check() -> FitsSchema {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    FitsSchema {
        schema: Arc::new(Schema::new(&schema.to_string()).unwrap()),
        provider: "test".to_owned(),
        cli_asks_again: false,
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn says(content: &str, structured: Option<Value>) -> Reply {
    Reply {
        content: content.to_owned(),
        structured,
        ..Reply::default()
    }
}

#[test]
fn a_value_is_the_text_or_stands_beside_it() {
    for (content, structured, expected) in [
        ("{\"n\":1}", None, "{\"n\":1}"),
        ("```json\n{\"n\":1}\n```", None, "```json\n{\"n\":1}\n```"),
        ("Here you are.", Some(json!({"n": 1})), "{\"n\":1}"),
    ] {
        let reply = check().check(says(content, structured)).unwrap();
        assert_eq!(
            (reply.structured, reply.content.as_str()),
            (Some(json!({"n": 1})), expected)
        );
    }
}

#[test]
fn what_does_not_fit_is_told_with_the_schema() {
    for (content, structured, reason) in [
        ("one", None, "the reply is not JSON: expected value at line 1 column 1"),
        (
            "{\"n\":1}",
            Some(json!({"n": "1"})),
            "/n: the value is not of type \"integer\"",
        ),
    ] {
        let RejectedReply { reply, messages, error } = *check().check(says(content, structured)).unwrap_err();
        assert_eq!(
            (error.code, error.should_retry, error.should_fallback),
            (Code::OutputInvalid, false, true)
        );
        let begin = format!("the reply does not fit `outputSchema`: {reason}. ");
        assert!(error.message.starts_with(&begin), "{}", error.message);
        assert_eq!(messages[0].content.as_text(), content);
        let asked = messages[1].content.as_text();
        assert!(
            asked.contains(reason) && asked.ends_with(check().schema.text()),
            "{asked}"
        );
        assert_eq!(reply.structured, None);
    }
}

#[test]
fn calls_come_first() {
    let call = ToolCall {
        name: "t".to_owned(),
        args: raw(&json!({})),
        id: "1".to_owned(),
    };
    let mut reply = says("Let me see.", Some(json!({"n": 1})));
    reply.tool_calls.push(call);
    let reply = check().check(reply).unwrap();
    assert_eq!((reply.structured, reply.content.as_str()), (None, "Let me see."));
    let mut reply = says("{", None);
    reply.invalid_tool_calls.push(InvalidToolCall {
        name: None,
        args: "{".to_owned(),
        id: None,
        error: "cut".to_owned(),
    });
    assert!(check().check(reply).is_ok());
}

#[test]
fn a_schema_is_that_of_an_object() {
    for schema in [
        json!({"type": "array"}),
        json!({"anyOf": []}),
        json!(true),
        json!({"type": ["object", "null"]}),
        json!({"$ref": "http://a/"}),
    ] {
        let reason = look(&raw(&schema)).unwrap_err();
        assert!(reason.starts_with("the call's option \"outputSchema\" "), "{reason}");
    }
}

#[test]
fn flags_of_the_user_s_own_are_found() {
    let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    assert_eq!(own_flag(&args(&["--a", "--json-schema={}"])), Some("--json-schema"));
    assert_eq!(own_flag(&args(&["--output-schema", "f"])), Some("--output-schema"));
    assert_eq!(own_flag(&args(&["--json-schemas"])), None);
}

#[tokio::test]
async fn one_text_is_compiled_once() {
    let text = r#"{"type":"object","title":"one_text_is_compiled_once"}"#;
    let (first, second) = tokio::join!(compiled(text), compiled(text));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&first, &compiled(text).await.unwrap()));
    assert_eq!(times(text), 1);
    // A schema that is known to be invalid is refused again without being compiled.
    let wrong = r#"{"type":"objec","title":"one_text_is_compiled_once"}"#;
    let told = compiled(wrong).await.unwrap_err();
    assert_eq!((compiled(wrong).await.unwrap_err(), times(wrong)), (told, 1));
    assert!(
        compiled(&format!("{{\"not\":{wrong}"))
            .await
            .unwrap_err()
            .starts_with("it can't be read")
    );
}

#[test]
fn the_cache_is_bounded_and_keeps_what_was_asked_for_last() {
    let mut cache = Cache::default();
    let asked_for = cache.entry("often");
    for at in 0..10 * KEPT {
        cache.entry(&format!("{at}"));
        assert!(Arc::ptr_eq(&asked_for, &cache.entry("often")));
    }
    assert_eq!(cache.entries.len(), KEPT);
    for at in 0..20 {
        cache.entry(&format!("{at}{}", "x".repeat(KEPT_BYTES / 10)));
    }
    assert!(cache.bytes <= KEPT_BYTES && cache.entries.len() < 11);
    assert_eq!(cache.bytes, cache.entries.keys().map(String::len).sum::<usize>());
}

/// A small schema does not wait for places that large ones may hold for long.
#[tokio::test]
async fn a_small_schema_waits_for_no_large_one() {
    let _large = PLACES.acquire_many(u32::try_from(AT_A_TIME).unwrap()).await.unwrap();
    let small = r#"{"type":"object","title":"a_small_schema","properties":{"a":{"pattern":"^[a-z]+$"}}}"#;
    assert!(compiled(small).await.is_ok());
    let large = format!(r#"{{"title":"{}"}}"#, "x".repeat(SMALL));
    assert!(timeout(Duration::from_millis(50), compiled(&large)).await.is_err());
    assert!(!is_small(r#"{"pattern":"^\\p{L}{1,64}$"}"#));
}

#[tokio::test]
async fn what_nobody_waits_for_is_ended() {
    let patterns: Vec<String> = (0..150)
        .map(|at| format!("\"p{at}\":{{\"pattern\":\"^\\\\p{{L}}{{1,6{}}}{at}$\"}}", at % 5))
        .collect();
    let text = format!("{{\"properties\":{{{}}}}}", patterns.join(","));
    let waited = timeout(Duration::from_millis(50), compiled(&text)).await;
    assert!(waited.is_err(), "{waited:?}");
    // The compiling thread gives its place back after the present pattern, without compiling the others.
    let all = PLACES.acquire_many(u32::try_from(AT_A_TIME).unwrap()).await.unwrap();
    drop(all);
}
