use std::time::Duration;

use super::*;
use crate::claude::CLAUDE;
use dfp_model::error::Code;
use dfp_model::retry::{BreakerSettings, Policy};

fn refusal(json: &str) -> String {
    let error = Options::parse(&CLAUDE, json).unwrap_err();
    assert_eq!(error.code, Code::InvalidOption);
    error.message
}

/// The engines to choose from follow from the forms that a provider has.
#[test]
fn engines_are_those_that_a_provider_has() {
    let refused = |id: &str, engine: &str| {
        let provider = crate::find(id).unwrap();
        let error = Options::parse(provider, &format!(r#"{{"engine":"{engine}"}}"#)).err()?;
        Some(format!("{:?}: {}", error.code, error.message))
    };
    for (id, engine) in [
        ("claude", "live"),
        ("codex", "auto"),
        ("gemini", "warm"),
        ("gemini", "auto"),
        ("glm", "print"),
    ] {
        assert_eq!(refused(id, engine), None, "{id} {engine}");
    }
    assert_eq!(
        refused("claude", "warm").unwrap(),
        "UnsupportedOption: option \"engine\" can't be \"warm\" with claude, which takes \"print\", \"live\", \"auto\"; those that take \
         it: gemini, qwen, grok"
    );
    assert!(refused("glm", "live").unwrap().starts_with(
        "UnsupportedOption: option \"engine\" can't be \"live\" with glm, which takes \"print\"; those that take it: claude, codex"
    ));
    let gemini = |json: &str| Options::parse(crate::find("gemini").unwrap(), json).unwrap();
    assert_eq!(
        (gemini("{}").engine, gemini("{}").keep_alive.as_secs()),
        (EngineKind::Auto, 60)
    );
    for json in [
        r#"{"outputFormat":"json"}"#,
        r#"{"disableBuiltInTools":false}"#,
        r#"{"textToolCalls":"lenient"}"#,
        r#"{"extraArgs":["--prompt=x"]}"#,
    ] {
        assert_eq!(gemini(json).engine, EngineKind::Print, "{json}");
    }
    for (json, names) in [
        (
            r#"{"engine":"warm","outputFormat":"json"}"#,
            "\"outputFormat\" and \"engine\"",
        ),
        (
            r#"{"engine":"warm","disableBuiltInTools":false}"#,
            "\"disableBuiltInTools\" and \"engine\"",
        ),
        (r#"{"engine":"print","keepAlive":1}"#, "\"keepAlive\" and \"engine\""),
    ] {
        let refused = Options::parse(crate::find("gemini").unwrap(), json).unwrap_err();
        assert!(refused.message.contains(names), "{}", refused.message);
    }
    let spares = Options::parse(crate::find("qwen").unwrap(), r#"{"engine":"warm","spares":1}"#).unwrap_err();
    assert_eq!(
        spares.message,
        "options \"spares\" and \"engine\" contradict each other: one warm process serves many calls, and none is kept beside it; \
         given: spares: 1, engine: \"warm\""
    );
    assert_eq!(
        refused("gemini", "fast").unwrap(),
        "InvalidOption: option \"engine\" must be one of \"print\", \"warm\", \"auto\"; given: \"fast\""
    );
}

#[test]
fn defaults_are_the_documents() {
    let options = Options::parse(&CLAUDE, "{}").unwrap();
    assert_eq!(options.timeout, Some(Duration::from_millis(120_000)));
    assert_eq!(options.max_buffer, 10 * 1024 * 1024);
    assert_eq!(options.input_encoding, InputEncoding::Xml);
    assert_eq!(options.prompt_style, PromptStyle::Stdin);
    assert_eq!(options.output_format, OutputFormat::StreamJson);
    assert_eq!(options.system_prompt, SystemPrompt::Default);
    assert!(!options.built_in_tools && !options.no_input && options.idle_timeout.is_none());
}

#[test]
fn an_option_is_named_with_what_was_given_and_what_is_allowed() {
    for (json, expected) in [
        (
            r#"{"timeout":"5"}"#,
            r#"option "timeout" must be a whole number of ms from 0 to 2147483647; given: "5""#,
        ),
        (
            r#"{"timeout":1.5}"#,
            r#"option "timeout" must be a whole number of ms from 0 to 2147483647; given: 1.5"#,
        ),
        (
            r#"{"timeout":{"$notJson":"NaN"}}"#,
            r#"option "timeout" must be a whole number of ms from 0 to 2147483647; given: NaN"#,
        ),
        (
            r#"{"inputEncoding":"yaml"}"#,
            r#"option "inputEncoding" must be one of "xml", "text"; given: "yaml""#,
        ),
        (
            r#"{"model":"--x"}"#,
            r#"option "model" must be a string that does not begin with "-"; given: "--x""#,
        ),
        (
            r#"{"time_out":1}"#,
            r#"unknown option "time_out": did you mean "timeout"?"#,
        ),
        (
            r#"{"env":{"A":1}}"#,
            "option \"env\" must be an object of strings (undefined removes a variable; no \"=\" in names); given: an \
             object { A: a number }",
        ),
        (r#"[]"#, "options must be an object; given: an array []"),
    ] {
        assert_eq!(refusal(json), expected);
    }
    assert!(
        refusal(r#"{"frequencyPenalty":1}"#)
            .starts_with(r#"unknown option "frequencyPenalty"; allowed: model, cliPath, cliSearch, "#)
    );
}

#[test]
fn retry_is_a_policy_whose_fields_are_named() {
    let retry = |json: &str| Options::parse(&CLAUDE, json).unwrap().retry;
    assert_eq!(retry("{}"), Policy::default());
    assert_eq!(retry(r#"{"retry":false}"#), Policy::NEVER);
    let expected = Policy {
        own_limits: true,
        ..Policy::default()
    };
    assert_eq!(retry(r#"{"retry":{"jitter":true}}"#), expected);
    assert_eq!(
        retry(r#"{"retry":{"maxAttempts":5,"baseDelayMs":1,"maxDelayMs":2,"jitter":false,"maxElapsedMs":0}}"#),
        Policy {
            max_attempts: 5,
            base_delay_ms: 1,
            max_delay_ms: 2,
            jitter: 0.0,
            max_elapsed_ms: u64::MAX,
            own_limits: true,
        }
    );
    for (json, expected) in [
        (
            r#"{"retry":{"maxAttempts":0}}"#,
            r#"option "retry.maxAttempts" must be a whole number from 1 to 100; given: 0"#,
        ),
        (
            r#"{"retry":{"jitter":1.5}}"#,
            r#"option "retry.jitter" must be a number from 0 to 1, true or false; given: 1.5"#,
        ),
        (
            r#"{"retry":{"maxattempts":2}}"#,
            r#"unknown option "retry.maxattempts": did you mean "retry.maxAttempts"?"#,
        ),
        (
            r#"{"retry":true}"#,
            "option \"retry\" must be false, or an object of maxAttempts, baseDelayMs, maxDelayMs, jitter, \
             maxElapsedMs; given: true",
        ),
    ] {
        assert_eq!(refusal(json), expected);
    }
}

#[test]
fn contradictions_name_both_options() {
    for (json, first, second) in [
        (
            r#"{"includePartialMessages":true,"outputFormat":"json"}"#,
            "includePartialMessages",
            "outputFormat",
        ),
        (r#"{"verbose":false}"#, "verbose", "outputFormat"),
        (r#"{"idleTimeout":2000,"timeout":1000}"#, "idleTimeout", "timeout"),
        (r#"{"engine":"live","promptStyle":"arg"}"#, "promptStyle", "engine"),
        (r#"{"engine":"live","outputFormat":"json"}"#, "outputFormat", "engine"),
        (r#"{"engine":"live","noInput":true}"#, "noInput", "engine"),
        (r#"{"engine":"print","keepAlive":1}"#, "keepAlive", "engine"),
        (r#"{"engine":"print","spares":1}"#, "spares", "engine"),
    ] {
        let message = refusal(json);
        assert!(
            message.contains(&format!("{first:?}")) && message.contains(&format!("{second:?}")),
            "{message}"
        );
    }
}

#[test]
fn a_live_session_has_limits_of_its_own() {
    let options = Options::parse(
        &CLAUDE,
        r#"{"engine":"live","outputFormat":"stream-json","noInput":false,"spares":2}"#,
    )
    .unwrap();
    assert_eq!(
        (options.engine, options.spares, options.keep_alive),
        (EngineKind::Live, 2, Duration::from_secs(300))
    );
    assert_eq!(
        (options.idle_timeout, options.live_idle_timeout),
        (None, Some(Duration::from_secs(120)))
    );
    assert!(Options::parse(&CLAUDE, r#"{"engine":"print","spares":0,"keepAlive":0}"#).is_ok());
}

#[test]
fn auto_is_the_default_and_print_where_an_option_wants_that() {
    let engine = |json: &str| {
        let options = Options::parse(&CLAUDE, json).unwrap();
        (options.engine, options.print_because, options.keep_alive.as_secs())
    };
    let auto = (EngineKind::Auto, None, 60);
    let print = |why: &str| (EngineKind::Print, Some(why.to_owned()), 300);
    for json in [
        "{}",
        r#"{"engine":"auto"}"#,
        r#"{"promptStyle":"stdin","outputFormat":"stream-json","noInput":false,"textToolCalls":"marked"}"#,
        r#"{"extraArgs":["--effort","low"],"spares":1}"#,
    ] {
        assert_eq!(engine(json), auto, "{json}");
    }
    for (json, why) in [
        (r#"{"promptStyle":"arg"}"#, "the option `promptStyle` is \"arg\""),
        (
            r#"{"engine":"auto","outputFormat":"text"}"#,
            "the option `outputFormat` is \"text\"",
        ),
        (r#"{"noInput":true}"#, "the option `noInput` is true"),
        (
            r#"{"textToolCalls":"lenient"}"#,
            "the option `textToolCalls` is \"lenient\"",
        ),
        (
            r#"{"extraArgs":["--verbose","--resume","x"]}"#,
            "the option `extraArgs` has --resume",
        ),
        (
            r#"{"disableBuiltInTools":false}"#,
            "the option `disableBuiltInTools` is false",
        ),
        (
            r#"{"extraArgs":["--max-turns=1"]}"#,
            "the option `extraArgs` has --max-turns",
        ),
    ] {
        assert_eq!(engine(json), print(why), "{json}");
    }
    assert_eq!(engine(r#"{"engine":"print"}"#), (EngineKind::Print, None, 300));
    assert_eq!(
        engine(r#"{"engine":"live","keepAlive":5000}"#),
        (EngineKind::Live, None, 5)
    );
    assert_eq!(engine(r#"{"keepAlive":5000}"#).2, 5);
}

#[test]
fn env_null_removes_and_order_is_kept() {
    let options = Options::parse(&CLAUDE, r#"{"env":{"B":"1","A":null},"timeout":0,"systemPrompt":null}"#).unwrap();
    assert_eq!(
        options.env,
        [("B".to_owned(), Some("1".to_owned())), ("A".to_owned(), None)]
    );
    assert_eq!((options.timeout, options.system_prompt), (None, SystemPrompt::Cli));
}

#[test]
fn a_fallback_providers_options_are_read_or_refused_by_name() {
    assert_eq!(breaker_settings("{}").unwrap(), Some(BreakerSettings::default()));
    assert_eq!(breaker_settings(r#"{"breaker":false}"#).unwrap(), None);
    let settings = breaker_settings(r#"{"breaker":{"failureThreshold":2,"resetMs":7}}"#).unwrap();
    let expected = BreakerSettings {
        failure_threshold: 2,
        reset_ms: 7,
        ..BreakerSettings::default()
    };
    assert_eq!(settings, Some(expected));
    for (json, expected) in [
        (
            r#"{"breaker":true}"#,
            "option \"breaker\" must be false, or an object of failureThreshold, windowMs, resetMs; given: true",
        ),
        (
            r#"{"breaker":{"failureThreshold":0}}"#,
            "option \"breaker.failureThreshold\" must be a whole number from 1 to 1000; given: 0",
        ),
        (
            r#"{"fallbackOnRateLimit":"yes"}"#,
            "option \"fallbackOnRateLimit\" must be true or false; given: \"yes\"",
        ),
        (
            r#"{"breakers":{}}"#,
            "unknown option \"breakers\": did you mean \"breaker\"?",
        ),
    ] {
        assert_eq!(breaker_settings(json).unwrap_err().message, expected);
    }
}
