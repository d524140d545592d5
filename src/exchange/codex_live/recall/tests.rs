use std::ffi::OsString;

use serde_json::json;

use super::*;
use crate::codex_live::settings::CodexChoices;
use crate::codex_live::tools::CodexForm;
use dfp_model::message::{Content, MessageFields, ToolSpec};
use dfp_process::Vars;

fn messages(messages: &Value) -> Vec<Message> {
    serde_json::from_str(&messages.to_string()).unwrap()
}

fn tool(name: &str) -> ToolSpec {
    serde_json::from_value(json!({"name": name, "schema": {"type": "object"}})).unwrap()
}

fn setup() -> CodexSetup {
    CodexSetup::with("S", &[tool("add")])
}

fn key(setup: CodexSetup, vars: &[(&str, &str)]) -> SessionKey<CodexSetup> {
    let vars: Vars = (vars.iter())
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect();
    SessionKey {
        setup: Arc::new(setup),
        env: Arc::new(vars),
    }
}

fn own_key() -> SessionKey<CodexSetup> {
    key(setup(), &[("CODEX_HOME", "/home/user/work")])
}

fn scope(key: &SessionKey<CodexSetup>) -> RecallScope<'_> {
    RecallScope {
        key,
        login: None,
        model: "m",
        owner: KeptReplies::default().owner(),
    }
}

fn thread(question: &str) -> Vec<Message> {
    messages(&json!([
        {"type": "human", "content": question},
        {"type": "ai", "content": "Wait.", "tool_calls": [{"id": "a", "name": "add", "args": {"x": 1, "y": 2}}]},
        {"type": "tool", "tool_call_id": "a", "content": "3"},
    ]))
}

fn recall() -> Recall {
    let recall = Recall::default();
    let thread = thread("go");
    let whole: Vec<&Message> = thread[..2].iter().collect();
    let items = vec![
        json!({"type": "reasoning", "encrypted_content": "SEALED"}),
        json!({"type": "message", "content": [{"type": "output_text", "text": "Wait.\n"}]}),
        json!({"type": "function_call", "call_id": "a"}),
    ];
    recall.keep(
        &scope(&own_key()),
        &whole,
        &RecalledItems::new(items, vec!["a".to_owned()]),
    );
    recall
}

/// The indexes in `thread` for which `recall` has an entry.
fn places(recall: &Recall, scope: &RecallScope, thread: &[Message]) -> Vec<usize> {
    recall.look_up(scope, thread).into_keys().collect()
}

const NOWHERE: [usize; 0] = [];

#[test]
fn a_reply_is_recalled_behind_the_same_beginning_alone() {
    let (recall, key) = (recall(), own_key());
    let own = scope(&key);
    let found = recall.look_up(&own, &thread("go"));
    let items = found.get(&1).map(|recalled| Value::from(recalled.items().to_vec()));
    assert_eq!(
        items,
        Some(json!([
            {"type": "reasoning", "encrypted_content": "SEALED"},
            {"type": "message", "content": [{"type": "output_text", "text": "Wait.\n"}]},
            {"type": "function_call", "call_id": "a"},
        ]))
    );
    assert!(found[&1].is_callers("a") && !found[&1].is_callers("b"));
    assert_eq!(places(&recall, &own, &thread("go, please")), NOWHERE);
    let mut reworded = thread("go");
    reworded[1] = Message::from(MessageFields {
        content: Content::Text("Go on.".to_owned()),
        ..MessageFields::clone(&reworded[1])
    });
    assert_eq!(places(&recall, &own, &reworded), NOWHERE);
    // The thread as agents rewrite it: without its prose, the arguments' keys in another order.
    let mut rewritten = thread("go");
    rewritten[1] = messages(&json!([
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {"y": 2.0, "x": 1}}]}
    ]))
    .remove(0);
    assert_eq!(places(&recall, &own, &rewritten), [1]);
    let mut edited = thread("go");
    edited[1] = messages(&json!([
        {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {"x": 2, "y": 2}}]}
    ]))
    .remove(0);
    assert_eq!(places(&recall, &own, &edited), NOWHERE);
}

#[test]
fn a_reply_whose_words_codex_could_not_write_is_not_recalled() {
    let (recall, key) = (Recall::default(), own_key());
    let answered = messages(&json!([
        {"type": "human", "content": "go"},
        {"type": "ai", "content": "Wait."},
    ]));
    let whole: Vec<&Message> = answered.iter().collect();
    let said = json!({"type": "message", "content": [{"type": "output_text", "text": "Wait."}]});
    for items in [vec![], vec![json!({"type": "reasoning"})]] {
        recall.keep(&scope(&key), &whole, &RecalledItems::new(items, Vec::new()));
        assert_eq!(places(&recall, &scope(&key), &answered), NOWHERE);
    }
    recall.keep(&scope(&key), &whole, &RecalledItems::new(vec![said], Vec::new()));
    assert_eq!(places(&recall, &scope(&key), &answered), [1]);
}

#[test]
fn no_other_conversation_gets_the_reasoning_of_one() {
    let (recall, thread) = (recall(), thread("go"));
    let home = [("CODEX_HOME", "/home/user/work")];
    let foreign = [
        key(
            CodexSetup {
                system: Some("another".to_owned()),
                ..setup()
            },
            &home,
        ),
        key(
            CodexSetup {
                own_instructions: true,
                ..setup()
            },
            &home,
        ),
        key(CodexSetup::with("S", &[]), &home),
        key(CodexSetup::with("S", &[tool("add"), tool("sub")]), &home),
        key(
            setup().choosing(CodexChoices {
                form: CodexForm::Namespace,
                ..CodexChoices::default()
            }),
            &home,
        ),
        key(setup(), &[("CODEX_HOME", "/home/user/private")]),
    ];
    for key in &foreign {
        assert_eq!(places(&recall, &scope(key), &thread), NOWHERE, "{key:?}");
    }
    let own = own_key();
    let login = Some("/home/user/private");
    assert_eq!(places(&recall, &RecallScope { login, ..scope(&own) }, &thread), NOWHERE);
    assert_eq!(
        places(
            &recall,
            &RecallScope {
                model: "another",
                ..scope(&own)
            },
            &thread
        ),
        NOWHERE
    );
    // The conversation continues with another effort, or another form of the answer.
    for key in [
        key(
            setup().choosing(CodexChoices {
                effort: Some("high".to_owned()),
                ..CodexChoices::default()
            }),
            &home,
        ),
        key(
            setup().choosing(CodexChoices {
                output: Some(json!({"type": "object"})),
                ..CodexChoices::default()
            }),
            &home,
        ),
    ] {
        assert_eq!(places(&recall, &scope(&key), &thread), [1]);
    }
}

#[test]
fn a_reply_is_stored_with_its_thread_and_one_of_an_older_version_without() {
    let told = ToldItem::of(&json!({"type": "message", "role": "user", "id": "msg_1"})).unwrap();
    let recalled = RecalledItems::new(vec![json!({"type": "message"})], Vec::new());
    let there = unpack(&pack(&recalled.clone().in_thread("T".to_owned(), vec![told.clone()])).unwrap()).unwrap();
    assert_eq!(there.thread(), Some(("T", [told].as_slice())));
    let older = r#"{"items":[{"type":"message"}],"callers":[]}"#;
    assert_eq!(pack(&recalled).unwrap(), older);
    assert_eq!(unpack(older).unwrap().thread(), None);
}

#[test]
fn a_closed_one_holds_nothing_and_keeps_nothing() {
    let recall = recall();
    recall.0.close();
    let thread = thread("go");
    let whole: Vec<&Message> = thread[..2].iter().collect();
    let key = own_key();
    recall.keep(
        &scope(&key),
        &whole,
        &RecalledItems::new(vec![json!("late")], vec!["a".to_owned()]),
    );
    assert_eq!(places(&recall, &scope(&key), &thread), NOWHERE);
}

/// What older versions of this package have stored is found by this fingerprint.
#[test]
fn the_fingerprint_of_a_scope_stays_as_it_is() {
    let namespace = setup().choosing(CodexChoices {
        form: CodexForm::Namespace,
        ..CodexChoices::default()
    });
    let beginning = |setup: CodexSetup| {
        let key = key(setup, &[("CODEX_HOME", "/home/user/work")]);
        let own = RecallScope {
            login: Some("work"),
            ..scope(&key)
        };
        let mut chain = own.chain();
        let prints = thread("go")
            .iter()
            .map(|message| chain.push(message))
            .collect::<Vec<_>>();
        format!("{:?}", prints[1])
    };
    let all = [
        setup(),
        namespace,
        CodexSetup {
            own_instructions: true,
            model: Some("m".to_owned()),
            ..CodexSetup::with("", &[])
        },
    ]
    .map(beginning);
    assert_eq!(
        all,
        [
            "Fingerprint(13860422519296752919, 2512764155986985913)",
            "Fingerprint(4676774847491391345, 7529123532385143597)",
            "Fingerprint(14914666947954575222, 16989235887503546441)",
        ]
    );
}
