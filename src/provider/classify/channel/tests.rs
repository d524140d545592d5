//! Tests of what is read from an error channel: its text, its bodies, a status, and refusals.

use proptest::prelude::*;

use super::*;

#[test]
fn noise_is_neither_matched_nor_shown() {
    let found = stderr(
        "(node:404) Warning: 429 rate limit\n\
         Warning: timeout option is deprecated\n\
         Ripgrep is not available. Falling back to GrepTool.\n\
         Ripgrep not available: spawn /opt/rg EACCES. Falling back to built-in grep.\n\
         [STARTUP] Phase 'x' 500\n\
         \x1b[91mError: \x1b[0mSession not found\n\
         \u{20}   at run (file:///opt/x.js:500:16)\n\
         Usage: x [options]\n  --timeout  401\n",
    );
    assert_eq!(found.text, "Error: Session not found");
    assert_eq!(found.reason, "Session not found");
}

/// The crash reports of claude 2.1.332 and of a script in Node.
#[test]
fn the_code_of_a_crash_is_no_reason() {
    let bun = stderr(
        "11 | ${t} fails with 401 rate limit\n12 | \n13 | import{De}from\"/$bunfs/root/chunk.js\";throw x;\n                ^\n\
         ENOENT: no such file or directory, uv_os_homedir\n syscall: \"uv_os_homedir\",\n   errno: -2,\n    code: \"ENOENT\"\n\n      \
         at /$bunfs/root/chunk.js:5:312\n\nBun v1.4.6 (Linux x64)\n",
    );
    assert_eq!(bun.reason, "ENOENT: no such file or directory, uv_os_homedir");
    let node = stderr(
        "node:internal/modules/run_main:107\n    triggerUncaughtException(err);\n    ^\n\nTypeError: x is not a function\n    at \
         run (file:///opt/x.js:500:16)\n\nNode.js v22.11.0\n",
    );
    assert_eq!(
        (node.reason.as_str(), node.text.as_str()),
        ("TypeError: x is not a function", "TypeError: x is not a function")
    );
    let named = stderr("/opt/cli/x.js:12\n  throw new Error(`429`)\n  ^\n\nError: no key\n");
    assert_eq!(named.reason, "no key");
}

#[test]
fn the_echo_of_a_prompt_is_not_matched() {
    let found = stderr(
        "OpenAI Codex v0.169.0\n--------\nmodel: m\n--------\nuser\nwhy do I get 429 rate limit timeouts?\n\
         ERROR: Quota exceeded.\nERROR: Quota exceeded.\n",
    );
    assert_eq!(found.text, "ERROR: Quota exceeded.\nERROR: Quota exceeded.");
    assert_eq!(found.reason, "Quota exceeded.");
}

#[test]
fn bodies_are_read() {
    let table = [
        (
            r#"{"error": {"message": "Bad param", "type": "invalid_request_error", "code": "bad", "param": null}}"#,
            ("Bad param", vec!["bad", "invalid_request_error"], None),
        ),
        (
            r#"x {"session_id":"s","error":{"type":"Error","message":"{\"error\":{\"code\":400,\"message\":\"API key not valid.\",\"status\":\"INVALID_ARGUMENT\",\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}","code":400}}"#,
            (
                "API key not valid.",
                vec!["invalid_argument", "api_key_invalid", "error"],
                Some(400),
            ),
        ),
        (
            r#"{"name":"APIError","data":{"message":"boom","statusCode":500}}"#,
            ("boom", vec!["api_error"], Some(500)),
        ),
        (r#"{"error":"no such model"}"#, ("no such model", vec![], None)),
        ("nothing {here}", ("nothing {here}", vec![], None)),
        (
            "[API Error: You have exhausted your quota.]\nTry later",
            ("API Error: You have exhausted your quota. Try later", vec![], None),
        ),
    ];
    for (text, (reason, kinds, status)) in table {
        let found = message(text);
        assert_eq!(
            (found.reason.as_str(), found.kinds, found.status),
            (reason, kinds.into_iter().map(str::to_owned).collect(), status),
            "{text}"
        );
    }
}

#[test]
fn a_huge_channel_keeps_its_ends() {
    let found = message(&format!("head {} tail", "é".repeat(200_000)));
    assert!(found.text.starts_with("head") && found.text.ends_with("tail") && found.text.len() <= LIMIT + 8);
}

proptest! {
    #[test]
    fn any_text_is_survived(text in r#"(?s)(\PC|\{"error":|\{|\}|"|:|[0-9]{3}|\n|Error: |\[API Error: |\]){0,120}"#) {
        let (a, b) = (stderr(&text), message(&text));
        prop_assert!(!a.reason.chars().any(char::is_control));
        prop_assert!(!b.reason.chars().any(char::is_control));
    }
}

#[test]
fn a_number_in_context_is_a_status() {
    let table = [
        ("429", 429),
        ("  503 \n", 503),
        ("\"404\"", 404),
        ("HTTP 429", 429),
        ("HTTP/1.1 502 Bad Gateway", 502),
        ("HTTP error 500", 500),
        ("status 429", 429),
        ("status: 503", 503),
        ("status=429", 429),
        ("status code 404", 404),
        ("statusCode: 401", 401),
        ("last status: 429 Too Many Requests", 429),
        ("unexpected status 401 Unauthorized: Incorrect API key", 401),
        ("Request rejected (429) · rate limit.", 429),
        ("429 Too Many Requests", 429),
        ("504 Gateway Timeout", 504),
        ("API Error: 529 Overloaded", 529),
        ("API Error: 400 messages: text content blocks must be non-empty", 400),
        ("[API Error: 401 Incorrect API key provided]", 401),
        ("Error: 503", 503),
        ("error 404", 404),
        ("error code 403", 403),
        (r#"{"code": 404}"#, 404),
        (r#"{"code":429,"x":1}"#, 429),
        ("  status: 500\n}", 500),
        ("the server returned 503", 503),
        ("responded with a 502", 502),
        ("upstream responded with status 504", 504),
        ("failed\n429\n", 429),
        ("429 You exceeded your current quota", 429),
        (r#"400 {"type":"error"}"#, 400),
    ];
    for (text, expected) in table {
        assert_eq!(status_in(text), Some(expected), "{text:?}");
    }
}

#[test]
fn a_number_out_of_context_is_none() {
    let table = [
        "line 500",
        "error on line 401",
        "(node:404) Warning: something",
        "$400",
        "costs 400$ a month",
        "404 files",
        "404 Files",
        "I read 404 Rows",
        "Error: 404 files missing",
        "took 429 ms",
        "got 500 tokens",
        "received 503 bytes",
        "retry after 500ms",
        "port 5000",
        "127.0.0.1:500",
        "main.rs:404:12",
        "foo.c(404): wrong",
        "v4.0.3",
        "version 4.500",
        "HTTP 200",
        "exit code 401",
        "exited with code 500",
        "error 500.5",
        "500,000 errors",
        "sk-401",
        "#404",
        "id 401f",
        "error 400-500",
        "at 429%",
    ];
    for text in table {
        assert_eq!(status_in(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_status_is_found_or_not_in_any_text(text in r"(?s)(\PC|[45][0-9]{2}|status |error: |\(|\)|\n){0,80}") {
        if let Some(status) = status_in(&text) {
            prop_assert!((400..600).contains(&status));
            prop_assert!(text.contains(&status.to_string()));
        }
    }
}

#[test]
fn a_schema_is_refused_with_a_reason() {
    let dialect = "--json-schema is not a valid JSON Schema: no schema with key or ref \"https://a/\"";
    let root = "--json-schema root must accept object-typed values";
    let table = [
        ("claude", format!("Error: {dialect}\n"), Some(dialect)),
        ("qwen", format!("\x1b[31m{dialect}\x1b[0m\n"), Some(dialect)),
        ("qwen", format!("\x1b[31m{root}\x1b[0m\n"), Some(root)),
        // This is a warning of a run that goes on.
        (
            "claude",
            "strict mode: \"items\" is 1-tuple, but minItems".to_owned(),
            None,
        ),
        ("claude", "error: unknown option '--json-schema'\n".to_owned(), None),
        ("codex", dialect.to_owned(), None),
    ];
    for (provider, stderr, expected) in table {
        assert_eq!(refused_schema(provider, &stderr).as_deref(), expected, "{stderr:?}");
    }
    assert_eq!(SCHEMA_REFUSALS.len(), 2);
}

#[test]
fn every_parser_is_understood() {
    let table = [
        ("claude", "error: unknown option '--no-input'\n", Some("--no-input")),
        ("claude", "error: unknown option '--hello there'\n", Some("--hello")),
        ("claude", "error: unknown option '-x'", Some("-x")),
        (
            "codex",
            "error: unexpected argument '--no-input' found\n\n  tip: …",
            Some("--no-input"),
        ),
        ("codex", "Error: Unknown feature flag: goals", Some("--disable goals")),
        ("gemini", "Unknown argument: input\nUsage: gemini", Some("--input")),
        (
            "qwen",
            "\x1b[31mUnknown arguments: core-tools, coreTools\x1b[0m",
            Some("--core-tools"),
        ),
        ("gemini", "Unknown argument: z", Some("-z")),
        ("mine", "x: error: unrecognized arguments: --frob", Some("--frob")),
        ("mine", "flag provided but not defined: -frob", Some("-frob")),
        ("mine", "Error: unknown flag: --frob", Some("--frob")),
        ("opencode", "opencode run [message..]\n\nOptions:\n", None),
        ("claude", "Error: Input must be provided", None),
        ("claude", "Unknown argument: input", None),
        ("claude", "", None),
    ];
    for (provider, stderr, expected) in table {
        assert_eq!(unsupported_flag(provider, stderr).as_deref(), expected, "{stderr:?}");
    }
    assert!(
        REFUSALS
            .iter()
            .all(|(refusal, compiled)| wording(refusal, compiled).is_some())
    );
}
