//! Tests of a described CLI or agent, and of the refusal of a wrong description.

use serde_json::json;

use super::super::tests::argv::line;
use super::*;
use crate::options::Options;

/// The example of the document.
fn document() -> Value {
    json!({
        "providerId": "new-provider",
        "command": "new-cli",
        "defaultArgs": ["--print"],
        "outputFormat": "stream-json",
        "promptStyle": "stdin",
        "models": [{"modelId": "default", "name": "Default Model"}],
        "defaultModel": "default",
        "maxTokens": 4096,
        "timeout": 120_000,
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut config = document();
    config[field] = value;
    config
}

fn refusal(config: &Value) -> String {
    let error = provider(&config.to_string()).unwrap_err();
    assert_eq!(error.code, Code::InvalidConfig);
    error.message.trim_end_matches(". Correct the config").to_owned()
}

#[test]
fn the_documents_example_is_a_provider() {
    let provider = provider(&document().to_string()).unwrap();
    let line = line(&provider, "{}");
    assert_eq!((line.argv().as_str(), line.0.stdin.as_str()), ("--print", "PROMPT"));
    assert_eq!((line.0.program.as_str(), line.0.wire), ("new-cli", Wire::GenericStream));
    let options = Options::parse(&provider, "{}").unwrap();
    assert_eq!(options.choices.model.as_deref(), Some("default"));
    assert_eq!(options.timeout.unwrap().as_millis(), 120_000);
}

#[test]
fn the_model_goes_where_its_place_is_or_last() {
    for (args, expected) in [
        (json!(["--model={model}", "-v"]), "--print --model=default -v PROMPT"),
        (json!(["-m"]), "--print -m default PROMPT"),
        (json!([]), "--print PROMPT"),
    ] {
        let mut config = with("modelArgs", args);
        config["promptStyle"] = json!("arg");
        let provider = provider(&config.to_string()).unwrap();
        assert_eq!(line(&provider, "{}").argv(), expected);
    }
}

#[test]
fn its_environment_goes_below_the_users() {
    let provider = provider(&with("env", json!({"A": "1", "B": null})).to_string()).unwrap();
    assert_eq!(
        line(&provider, r#"{"env":{"A":"2"}}"#).0.user_env,
        [
            ("A".to_owned(), Some("1".to_owned())),
            ("B".to_owned(), None),
            ("A".to_owned(), Some("2".to_owned()))
        ]
    );
}

#[test]
fn without_models_any_will_do_and_none_need_be_named() {
    let mut config = with("modelArgs", json!(["--model"]));
    config
        .as_object_mut()
        .unwrap()
        .retain(|name, _| name != "models" && name != "defaultModel");
    for models in [None, Some(json!([]))] {
        for default_model in [None, Some(json!(""))] {
            let mut config = config.clone();
            for (name, value) in [("models", &models), ("defaultModel", &default_model)] {
                if let Some(value) = value {
                    config[name] = value.clone();
                }
            }
            let provider = provider(&config.to_string()).unwrap();
            assert_eq!(line(&provider, "{}").argv(), "--print", "{config}");
            assert_eq!(line(&provider, r#"{"model":""}"#).argv(), "--print");
            assert_eq!(line(&provider, r#"{"model":"big"}"#).argv(), "--print --model big");
        }
    }
    // With several models, one has to be named.
    let mut config = document();
    config.as_object_mut().unwrap().remove("defaultModel");
    assert_eq!(
        refusal(&config),
        "config.defaultModel is missing: it must be the modelId of one of config.models (default)"
    );
}

#[test]
fn a_model_that_is_none_of_its_models_is_refused() {
    let provider = provider(&document().to_string()).unwrap();
    assert_eq!(
        Options::parse(&provider, r#"{"model":"big"}"#).unwrap_err().message,
        "option \"model\" must be one of the config's models (default); given: \"big\""
    );
    let none = Options::parse(&provider, r#"{"model":""}"#).unwrap();
    assert_eq!(none.choices.model.as_deref(), Some("default"));
}

#[test]
fn every_field_is_refused_by_name_with_what_was_given_and_what_is_allowed() {
    for spec in REQUIRED {
        let mut config = document();
        config.as_object_mut().unwrap().remove(spec.name);
        assert!(
            refusal(&config).starts_with(&format!("config.{} is missing: it must be ", spec.name)),
            "{}",
            refusal(&config)
        );
    }
    for (field, value, expected) in [
        (
            "providerId",
            json!("my cli"),
            r#"config.providerId must be at most 64 letters, digits and "-", "_", "."; given: "my cli""#,
        ),
        (
            "command",
            json!(""),
            r#"config.command must be a string that is not empty; given: """#,
        ),
        (
            "defaultArgs",
            json!("-p"),
            r#"config.defaultArgs must be an array of strings; given: "-p""#,
        ),
        (
            "outputFormat",
            json!("yaml"),
            r#"config.outputFormat must be one of "text", "json", "stream-json"; given: "yaml""#,
        ),
        (
            "promptStyle",
            json!(true),
            r#"config.promptStyle must be one of "stdin", "arg"; given: true"#,
        ),
        (
            "models",
            json!({}),
            "config.models must be an array; given: an object {  }",
        ),
        (
            "models",
            json!(["a"]),
            r#"config.models[0] must be an object { modelId, name }; given: "a""#,
        ),
        (
            "models",
            json!([{"modelId": "a"}]),
            "config.models[0].name must be a string that is not empty; given: null",
        ),
        (
            "defaultModel",
            json!("big"),
            r#"config.defaultModel must be the modelId of one of config.models (default); given: "big""#,
        ),
        (
            "maxTokens",
            json!(0),
            "config.maxTokens must be a whole number from 1 to 9007199254740992; given: 0",
        ),
        (
            "timeout",
            json!(-1),
            "config.timeout must be a whole number of ms from 0 to 2147483647; given: -1",
        ),
        (
            "versionArgs",
            json!([1]),
            "config.versionArgs must be an array of strings; given: an array [a number]",
        ),
        (
            "errorRules",
            json!([{"pattern": "x"}]),
            "config.errorRules[0] must have either a code or a category",
        ),
        (
            "errorRules",
            json!([{"pattern": "x", "code": "NOPE"}]),
            r#"config.errorRules[0].code must be an error code (docs/reference/errors.md), like "RATE_LIMITED"; given: "NOPE""#,
        ),
        (
            "errorRules",
            json!([{"pattern": "(", "code": "UNKNOWN"}]),
            r#"config.errorRules[0].pattern must be a regular expression; given: "(": error: unclosed group"#,
        ),
        (
            "errorRules",
            json!([{"category": "server"}]),
            "config.errorRules[0].pattern is missing: it must be a regular expression",
        ),
        (
            "errorRules",
            json!([{"pattern": "x", "category": "meh"}]),
            r#"config.errorRules[0].category must be one of quota, rate_limit, authentication, validation, network, server, timeout, not_found, configuration, unknown; given: "meh""#,
        ),
    ] {
        assert_eq!(refusal(&with(field, value)), expected);
    }
    assert!(refusal(&with("model", json!("x"))).starts_with("unknown field config.model; allowed: providerId, "));
    assert_eq!(refusal(&json!([])), "config must be an object; given: an array []");
}

#[test]
fn every_category_has_a_code_of_its_own() {
    for category in Category::ALL {
        assert_eq!(code_of(category.as_str()).map(Code::category), Some(category));
    }
}

#[test]
fn what_starts_an_agent_and_nothing_else() {
    let made = agent(r#"{"command":"some-agent","args":["--acp"],"name":"mine"}"#).unwrap();
    assert_eq!(
        (&*made.id, &*made.command, made.engines()),
        ("mine", "some-agent", &["live", "warm", "auto"][..])
    );
    assert!(!made.has_print() && made.is_agent());
    for (json, reason) in [
        (
            "{}",
            "config.command is missing: it must be the program that is the agent",
        ),
        (r#"{"command":"a","x":1}"#, "unknown field config.x"),
        (
            r#"{"command":"a","name":"../x"}"#,
            "config.name must be at most 64 letters, digits and \"-\", \"_\", \".\"; given: \"../x\"",
        ),
    ] {
        let error = agent(json).unwrap_err();
        assert_eq!(error.code, Code::InvalidConfig);
        assert!(error.message.starts_with(reason), "{}", error.message);
    }
}
