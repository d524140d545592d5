//! The command lines of claude, word by word, and what they must never contain.

use super::*;
use crate::SYSTEM_PROMPT_FILE;
use crate::claude::CLAUDE;

fn line(options: &str, partial: bool, without: &[&str]) -> CommandLine {
    let options = Options::parse(&CLAUDE, options).unwrap();
    let installed = Installed {
        refused: without.iter().map(|flag| (*flag).to_owned()).collect(),
        ..Installed::default()
    };
    build(&CLAUDE, &options, Mode::Print("PROMPT"), partial, &installed).unwrap()
}

fn argv(line: &CommandLine) -> Vec<String> {
    line.args
        .iter()
        .map(|arg| match arg {
            Arg::Text(text) if text == CLAUDE.system_prompt => "SYSTEM".to_owned(),
            Arg::Text(text) => text.clone(),
            Arg::File(name) => format!("file:{name}"),
            Arg::FileSetting(key, name) => format!("{key}=file:{name}"),
            Arg::MediaFile(prefix, name) => format!("{prefix}file:{name}"),
        })
        .collect()
}

fn set(line: &CommandLine, name: &str) -> Option<String> {
    line.set_env
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| match value {
            EnvText::Text(text) => text.clone(),
            other => format!("{other:?}"),
        })
}

/// The pure pipe that CLI-FACTS 1.4 recommends.
#[test]
fn default_is_the_pure_pipe() {
    let line = line(r#"{"model":"sonnet"}"#, false, &[]);
    assert_eq!(
        argv(&line).join(" "),
        "-p --output-format stream-json --verbose --include-partial-messages --model sonnet --safe-mode --settings file:settings.json --setting-sources user --tools  \
         --strict-mcp-config --no-session-persistence --disable-slash-commands --system-prompt SYSTEM"
    );
    assert_eq!(
        (line.program.as_str(), line.stdin.as_str(), &line.cwd),
        ("claude", "PROMPT", &Cwd::Private)
    );
    assert_eq!(line.wire, Wire::ClaudeStream);
    assert_eq!(set(&line, "CLAUDE_CODE_MAX_RETRIES").as_deref(), Some("0"));
    assert_eq!(set(&line, "TERM").as_deref(), Some("dumb"));
    assert!(line.drop_env.contains(&"CLAUDECODE") && !line.drop_env.contains(&"ANTHROPIC_API_KEY"));
}

#[test]
fn a_model_that_searches_has_that_tool_alone() {
    let own = |options: &str, mode: Mode| {
        let options = Options::parse(&CLAUDE, options).unwrap();
        let line = build(&CLAUDE, &options, mode, true, &crate::command::Installed::default()).unwrap();
        let words = argv(&line);
        let of = |flag: &str| {
            words
                .iter()
                .position(|word| word == flag)
                .map(|at| words[at + 1].clone())
        };
        (of("--tools"), of("--allowedTools"), set(&line, "ENABLE_TOOL_SEARCH"))
    };
    let some = |text: &str| Some(text.to_owned());
    let (web, tools) = (r#"{"webSearch":true}"#, r#"{"tools":{"search":true}}"#);
    let both = r#"{"webSearch":true,"tools":{"search":true}}"#;
    assert_eq!(own("{}", Mode::Live), (some(""), None, some("false")));
    let searches_web = (some("WebSearch"), some("WebSearch"), some("false"));
    assert_eq!(own(web, Mode::Live), searches_web);
    assert_eq!(own(web, Mode::Print("PROMPT")), searches_web);
    assert_eq!(own(tools, Mode::Live), (some("ToolSearch"), None, some("true")));
    // Print has no declared tools among which to search.
    assert_eq!(own(tools, Mode::Print("PROMPT")), (some(""), None, some("false")));
    assert_eq!(
        own(both, Mode::Live),
        (some("WebSearch,ToolSearch"), some("WebSearch"), some("true"))
    );
}

/// The verified recipe of CLI-FACTS 1.7. `--allowedTools` is not needed, because the CLI never runs a tool itself (1b §7).
#[test]
fn live_is_the_recipe_for_sessions() {
    let options = Options::parse(&CLAUDE, r#"{"engine":"live","model":"sonnet","systemPrompt":"S"}"#).unwrap();
    let line = build(
        &CLAUDE,
        &options,
        Mode::Live,
        true,
        &crate::command::Installed::default(),
    )
    .unwrap();
    assert_eq!(
        argv(&line).join(" "),
        "-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages --model sonnet \
         --safe-mode --settings file:settings.json --setting-sources user --tools  --strict-mcp-config --no-session-persistence"
    );
    assert_eq!(
        (
            line.stdin.as_str(),
            line.files.iter().map(|file| file.name).collect::<Vec<_>>(),
            &line.cwd
        ),
        ("", vec!["settings.json"], &Cwd::Private)
    );
    assert_eq!(set(&line, "ENABLE_TOOL_SEARCH").as_deref(), Some("false"));
}

#[test]
fn the_specs_own_form_is_exact() {
    let spec = r#""promptStyle":"arg","outputFormat":"text","noInput":true"#;
    let line_of = |more: &str| line(&format!("{{{spec}{more}}}"), false, &[]);
    assert_eq!(argv(&line_of("")), ["-p", "PROMPT", "--no-input"]);
    assert_eq!(
        argv(&line_of(r#","model":"sonnet""#)),
        ["-p", "PROMPT", "--no-input", "--model", "sonnet"]
    );
    assert_eq!((line_of("").stdin, line_of("").cwd), (String::new(), Cwd::Inherit));
}

#[test]
fn with_built_in_tools_the_cli_is_left_as_it_is() {
    let line = line(
        r#"{"disableBuiltInTools":false,"permissionMode":"bypassPermissions"}"#,
        true,
        &[],
    );
    assert_eq!(
        argv(&line).join(" "),
        "-p --output-format stream-json --verbose --include-partial-messages --settings file:settings.json \
         --no-session-persistence --disable-slash-commands --permission-mode bypassPermissions"
    );
    assert_eq!(
        (line.cwd.clone(), set(&line, "CLAUDE_CODE_DISABLE_ATTACHMENTS")),
        (Cwd::Inherit, None)
    );
}

#[test]
fn bypass_is_not_passed_on_without_tools_and_other_modes_are() {
    assert!(
        !argv(&line(r#"{"permissionMode":"bypassPermissions"}"#, false, &[])).contains(&"--permission-mode".into())
    );
    assert!(
        argv(&line(r#"{"permissionMode":"plan"}"#, false, &[])).ends_with(&["--permission-mode".into(), "plan".into()])
    );
}

#[test]
fn a_custom_system_prompt_travels_in_a_file() {
    let line = line(r#"{"systemPrompt":"secret plan"}"#, false, &[]);
    assert!(argv(&line).ends_with(&["--system-prompt-file".into(), format!("file:{SYSTEM_PROMPT_FILE}")]));
    assert!(!argv(&line).contains(&"SYSTEM".to_owned()));
    assert_eq!(
        line.files.first(),
        Some(&PrivateFile {
            name: SYSTEM_PROMPT_FILE,
            content: "secret plan".into()
        })
    );
    assert!(
        !argv(&super::tests::line(r#"{"systemPrompt":null}"#, false, &[]))
            .iter()
            .any(|a| a.contains("system"))
    );
}

#[test]
fn refused_optional_flags_are_left_out_and_user_args_come_last() {
    let line = line(
        r#"{"extraArgs":["--safe-mode"]}"#,
        false,
        &["--safe-mode", "--setting-sources"],
    );
    let argv = argv(&line);
    assert_eq!(argv.iter().filter(|arg| *arg == "--safe-mode").count(), 1);
    assert!(argv.ends_with(&["--safe-mode".into()]) && !argv.contains(&"user".into()));
    assert!(!line.optional_flags.contains(&"--safe-mode".to_owned()));
}

#[test]
fn a_prompt_that_looks_like_a_command_is_guarded() {
    let options = Options::parse(&CLAUDE, "{}").unwrap();
    assert_eq!(
        build(
            &CLAUDE,
            &options,
            Mode::Print("/clear"),
            false,
            &crate::command::Installed::default()
        )
        .unwrap()
        .stdin,
        "\n/clear"
    );
}

#[test]
fn a_prompt_too_long_for_argv_is_refused_with_the_limit() {
    let options = Options::parse(&CLAUDE, r#"{"promptStyle":"arg"}"#).unwrap();
    let error = build(
        &CLAUDE,
        &options,
        Mode::Print(&"x".repeat(MAX_ARG_BYTES + 1)),
        false,
        &crate::command::Installed::default(),
    )
    .unwrap_err();
    assert_eq!(error.code, Code::PromptTooLong);
    assert!(
        error
            .message
            .starts_with("the prompt has 131072 bytes and promptStyle \"arg\" takes 131071")
    );
}

#[test]
fn subscription_drops_keys_and_the_users_env_is_kept_apart() {
    let line = line(
        r#"{"auth":"subscription","env":{"CI":null,"CLAUDE_CODE_MAX_RETRIES":"3","ANTHROPIC_API_KEY":"sk","ANTHROPIC_AUTH_TOKEN":"t"}}"#,
        false,
        &[],
    );
    assert!(line.drop_env.contains(&"ANTHROPIC_API_KEY"));
    assert!(line.drop_env.contains(&"ANTHROPIC_AUTH_TOKEN"));
    assert_eq!(
        line.user_env,
        [
            ("CI".into(), None),
            ("CLAUDE_CODE_MAX_RETRIES".into(), Some("3".into()))
        ]
    );
}

#[test]
fn what_is_chosen_wins_over_the_users_variables() {
    let line = line(
        r#"{"reasoning":{"effort":"low"},"maxOutputTokens":7,"stop":["A\"B"],
            "env":{"CLAUDE_CODE_MAX_OUTPUT_TOKENS":"5","CLAUDE_CODE_EXTRA_BODY":"{\"top_k\":3,\"stop_sequences\":[]}","MINE":"1"}}"#,
        false,
        &[],
    );
    assert!(argv(&line).join(" ").contains(" --effort low "));
    assert_eq!(set(&line, "CLAUDE_CODE_MAX_OUTPUT_TOKENS").as_deref(), Some("7"));
    assert_eq!(
        set(&line, "CLAUDE_CODE_EXTRA_BODY").as_deref(),
        Some(r#"{"top_k":3,"stop_sequences":["A\"B"]}"#)
    );
    assert_eq!(line.user_env, [("MINE".into(), Some("1".into()))]);
}

#[test]
fn nothing_is_chosen_by_default() {
    let line = line(r#"{"stop":[],"env":{"CLAUDE_CODE_EXTRA_BODY":"{}"}}"#, false, &[]);
    assert!(!argv(&line).contains(&"--effort".to_owned()));
    assert_eq!(set(&line, "CLAUDE_CODE_EXTRA_BODY"), None);
    assert_eq!(line.user_env, [("CLAUDE_CODE_EXTRA_BODY".into(), Some("{}".into()))]);
}
