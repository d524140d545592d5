//! Every rule of a config is applied, and the exported schema says the same.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::complaints;
use crate::claude_code::CONFIG_SCHEMA;
use crate::claude_code::context::{self, Config, PermissionMode, Prompt};

fn read(config: &Value) -> Result<Config, Vec<(String, String)>> {
    let mut problems = Vec::new();
    let read = context::read_config(config.as_object().unwrap(), &mut problems);
    let listed = problems.into_iter().map(|problem| (problem.field, problem.message));
    read.ok_or_else(|| listed.collect())
}

fn fields(config: &Value) -> Vec<String> {
    read(config).map_or_else(
        |problems| problems.into_iter().map(|(field, _)| field).collect(),
        |_| Vec::new(),
    )
}

/// Configs that break no rule. Some of them the document's patterns refuse, but the real CLI takes them.
fn good() -> Vec<Value> {
    let longest = |count: usize| "ä".repeat(count);
    vec![
        json!({"prompt": "x"}),
        json!({"prompt": longest(1_000_000)}),
        json!({"prompt": " /review\n"}),
        json!({"prompt_file": "p.md"}),
        json!({"prompt_file": "./p.md"}),
        json!({"prompt_file": ".prompts/a..b.md"}),
        json!({"prompt_file": "..a/b.."}),
        json!({"prompt_file": "a\n..b.md"}),
        json!({"prompt_file": "é:b.md"}),
        json!({"prompt_file": longest(500)}),
        json!({"prompt": "x", "agent_name": "code-reviewer_2"}),
        json!({"prompt": "x", "agent_name": "a".repeat(100)}),
        json!({"prompt": "x", "model": "claude-sonnet-4-5-20250929"}),
        json!({"prompt": "x", "model": "sonnet"}),
        json!({"prompt": "x", "model": "claude-opus-4-8[1m]"}),
        json!({"prompt": "x", "model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0"}),
        json!({"prompt": "x", "append_system_prompt": longest(10_000), "system_prompt": longest(50_000)}),
        json!({"prompt": "x", "append_system_prompt": "", "system_prompt": ""}),
        json!({"prompt": "x", "permission_mode": "auto"}),
        json!({"prompt": "x", "permission_mode": "plan"}),
        json!({"prompt": "x", "permission_mode": "ask"}),
        json!({"prompt": "x", "allowed_tools": []}),
        json!({"prompt": "x", "allowed_tools": ["Read", "Bash(git *)", "mcp__files__*", "mcp__a-b__read", "Edit(/src/**)"]}),
        json!({"prompt": "x", "max_tokens": 1, "temperature": 0}),
        json!({"prompt": "x", "max_tokens": 200_000, "temperature": 1}),
        json!({"prompt": "x", "max_tokens": 1000.0, "temperature": 0.5}),
    ]
}

/// Configs that break one rule each, and the field that is blamed.
fn bad() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "prompt"),
        (json!({"prompt": "x", "prompt_file": "p.md"}), "prompt"),
        (json!({"prompt": "x".repeat(1_000_001)}), "prompt"),
        (json!({"prompt": 7}), "prompt"),
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": " \n\t"}), "prompt"),
        (json!({"prompt_file": ""}), "prompt_file"),
        (json!({"prompt_file": "/etc/passwd"}), "prompt_file"),
        (json!({"prompt_file": "\\\\server\\share"}), "prompt_file"),
        (json!({"prompt_file": "C:\\p.md"}), "prompt_file"),
        (json!({"prompt_file": ".."}), "prompt_file"),
        (json!({"prompt_file": "../p.md"}), "prompt_file"),
        (json!({"prompt_file": "a/../../p.md"}), "prompt_file"),
        (json!({"prompt_file": "a\\..\\p.md"}), "prompt_file"),
        (json!({"prompt_file": "a/.."}), "prompt_file"),
        (json!({"prompt_file": "\n/.."}), "prompt_file"),
        (json!({"prompt_file": "\n:p.md"}), "prompt_file"),
        (json!({"prompt_file": "a\u{0}b"}), "prompt_file"),
        (json!({"prompt_file": "p".repeat(501)}), "prompt_file"),
        (json!({"prompt_file": ["p.md"]}), "prompt_file"),
        (json!({"prompt": "x", "agent_name": ""}), "agent_name"),
        (json!({"prompt": "x", "agent_name": "a b"}), "agent_name"),
        (json!({"prompt": "x", "agent_name": "../a"}), "agent_name"),
        (json!({"prompt": "x", "agent_name": "ä"}), "agent_name"),
        (json!({"prompt": "x", "agent_name": "a".repeat(101)}), "agent_name"),
        (json!({"prompt": "x", "model": ""}), "model"),
        (
            json!({"prompt": "x", "model": "--dangerously-skip-permissions"}),
            "model",
        ),
        (json!({"prompt": "x", "model": "a b"}), "model"),
        (json!({"prompt": "x", "model": "claude-opus[1m"}), "model"),
        (json!({"prompt": "x", "model": "claude-opus[]"}), "model"),
        (json!({"prompt": "x", "model": "m".repeat(201)}), "model"),
        (
            json!({"prompt": "x", "append_system_prompt": "a".repeat(10_001)}),
            "append_system_prompt",
        ),
        (
            json!({"prompt": "x", "system_prompt": "a".repeat(50_001)}),
            "system_prompt",
        ),
        (json!({"prompt": "x", "system_prompt": null}), "system_prompt"),
        (
            json!({"prompt": "x", "permission_mode": "bypassPermissions"}),
            "permission_mode",
        ),
        (json!({"prompt": "x", "permission_mode": true}), "permission_mode"),
        (json!({"prompt": "x", "allowed_tools": "Read"}), "allowed_tools"),
        (
            json!({"prompt": "x", "allowed_tools": ["Read", "a b"]}),
            "allowed_tools[1]",
        ),
        (json!({"prompt": "x", "allowed_tools": ["--tools"]}), "allowed_tools[0]"),
        (json!({"prompt": "x", "allowed_tools": ["Bash()"]}), "allowed_tools[0]"),
        (
            json!({"prompt": "x", "allowed_tools": ["Bash(ls\n)"]}),
            "allowed_tools[0]",
        ),
        (json!({"prompt": "x", "allowed_tools": ["Bash(ls"]}), "allowed_tools[0]"),
        (json!({"prompt": "x", "allowed_tools": [1]}), "allowed_tools[0]"),
        (json!({"prompt": "x", "max_tokens": 0}), "max_tokens"),
        (json!({"prompt": "x", "max_tokens": -1}), "max_tokens"),
        (json!({"prompt": "x", "max_tokens": 1.5}), "max_tokens"),
        (json!({"prompt": "x", "max_tokens": 200_001}), "max_tokens"),
        (json!({"prompt": "x", "max_tokens": "100"}), "max_tokens"),
        (json!({"prompt": "x", "temperature": -0.1}), "temperature"),
        (json!({"prompt": "x", "temperature": 1.1}), "temperature"),
        (
            json!({"prompt": "x", "temperature": {"$notJson": "NaN"}}),
            "temperature",
        ),
        (json!({"prompt": "x", "allowedTools": ["Read"]}), "allowedTools"),
    ]
}

#[test]
fn what_keeps_the_rules_passes_and_fits_the_schema() {
    for config in good() {
        let shown = config.to_string().chars().take(120).collect::<String>();
        assert_eq!(fields(&config), Vec::<String>::new(), "{shown}");
        assert_eq!(complaints(CONFIG_SCHEMA, &config), Vec::<String>::new(), "{shown}");
    }
}

#[test]
fn what_breaks_one_is_refused_by_its_name_and_by_the_schema() {
    for (config, field) in bad() {
        let shown = config.to_string().chars().take(120).collect::<String>();
        assert_eq!(fields(&config), [field], "{shown}");
        assert_ne!(complaints(CONFIG_SCHEMA, &config), Vec::<String>::new(), "{shown}");
    }
}

#[test]
fn every_violation_is_reported_at_once_with_its_value() {
    let config =
        json!({"promt": "x", "permission_mode": "yolo", "temperature": 2, "allowed_tools": ["a b", "Read", 3]});
    let problems: Vec<String> = read(&config)
        .unwrap_err()
        .into_iter()
        .map(|(field, message)| format!("{field} {message}"))
        .collect();
    assert_eq!(
        problems,
        [
            "promt there is no such field: did you mean \"prompt\"?",
            "prompt exactly one of prompt and prompt_file must be given; given: neither",
            "permission_mode must be one of \"auto\", \"plan\", \"ask\"; given: \"yolo\"",
            "allowed_tools[0] must be a tool's name, or a name with a rule in brackets, such as \"Read\", \"Bash(git *)\" or \
             \"mcp__files__*\"; given: \"a b\"",
            "allowed_tools[2] must be a tool's name, or a name with a rule in brackets, such as \"Read\", \"Bash(git *)\" or \
             \"mcp__files__*\"; given: 3",
            "temperature must be a number from 0 to 1; given: 2",
        ]
    );
}

/// A prompt may hold anything, even a key, so an error shows only its length.
#[test]
fn long_texts_are_not_repeated() {
    let problems = read(&json!({"prompt": "secret ".repeat(200_000)})).unwrap_err();
    assert_eq!(
        problems[0].1,
        "must be a string of 1 to 1000000 characters that is not only white space; given: a string of 1400000 characters"
    );
}

#[test]
fn a_config_is_read_whole() {
    let config = json!({
        "prompt_file": "p.md", "agent_name": "a", "model": "sonnet", "append_system_prompt": "A", "permission_mode": "ask",
        "allowed_tools": ["Read"], "system_prompt": "S", "max_tokens": 5, "temperature": 0.5
    });
    let expected = Config {
        prompt: Prompt::File("p.md".to_owned()),
        agent_name: Some("a".to_owned()),
        model: Some("sonnet".to_owned()),
        append_system_prompt: Some("A".to_owned()),
        permission_mode: Some(PermissionMode::Ask),
        allowed_tools: vec!["Read".to_owned()],
        system_prompt: Some("S".to_owned()),
        max_tokens: Some(5),
        temperature: Some(0.5),
    };
    assert_eq!(read(&config).unwrap(), expected);
}

#[test]
fn a_context_has_its_rules_too() {
    let problems_of = |json: &str| {
        let mut problems = Vec::new();
        let context = context::read(json, &mut problems);
        assert_eq!(context.is_some(), problems.is_empty());
        problems.into_iter().map(|problem| problem.field).collect::<Vec<_>>()
    };
    let absolute = if cfg!(windows) { "C:/w" } else { "/w" };
    let good = r#"{"workspaceDir":"/w","config":{"prompt":"x"},"timeout":0,"env":{"A":"b","C":null}}"#;
    assert_eq!(problems_of(&good.replace("/w", absolute)), [""; 0]);
    assert_eq!(problems_of("{}"), ["workspaceDir", "config"]);
    assert_eq!(problems_of("[]"), ["context"]);
    assert_eq!(
        problems_of(
            r#"{"workspaceDir":"w","repoDir":1,"artifactsDir":"a","config":[],"timeout":-1,"env":{"A=":"b"},"timeOut":1}"#
        ),
        [
            "timeOut",
            "workspaceDir",
            "repoDir",
            "artifactsDir",
            "timeout",
            "env",
            "config"
        ]
    );
}

/// Texts of the pieces that paths, tools and models are made of, in any order.
fn foreign() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "..", ".", "/", "\\", "-", "_", "*", "(", ")", "[1m]", "[", " ", "C:", ":", "claude", "é", "\u{0}", "\n",
    ]);
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The exported schema and the rules in code must accept the same values.
    #[test]
    fn the_schema_agrees(text in foreign(), field in 0_usize..4) {
        let config = match field {
            0 => json!({"prompt_file": text}),
            1 => json!({"prompt": "x", "model": text}),
            2 => json!({"prompt": "x", "agent_name": text}),
            _ => json!({"prompt": "x", "allowed_tools": [text]}),
        };
        let complaints = complaints(CONFIG_SCHEMA, &config);
        prop_assert_eq!(read(&config).is_ok(), complaints.is_empty(), "{:?} {:?}", config, complaints);
    }
}
