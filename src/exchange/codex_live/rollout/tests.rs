//! The lines of rollouts are those of 0.169.0, shortened.

use std::ffi::OsString;
use std::io::Write;

use serde_json::json;

use super::*;
use crate::codex_live::settings::CodexChoices;
use crate::codex_live::settings::CodexForm;
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

const ID: &str = "01a2183a-4acd-7610-b303-df06a2413b31";

fn parts(items: &[Value]) -> ThreadParts<'_> {
    ThreadParts {
        id: ID,
        items,
        tools: &[],
        cwd: "/empty",
        version: "0.169.0",
        model_provider: "df",
        time: "2026-11-25T17:55:33.250Z",
    }
}

fn append(private: &Path, line: &str) {
    let mut file = File::options().append(true).open(place(private)).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

fn place(private: &Path) -> PathBuf {
    private.join(format!(
        "codex-home/sessions/2026/11/25/rollout-2026-11-25T17-55-33-{ID}.jsonl"
    ))
}

fn item(item: &Value) -> String {
    let mut item = item.clone();
    item["internal_chat_message_metadata_passthrough"] = json!({"turn_id": "t"});
    format!("{}\n", json!({"type": "response_item", "payload": item}))
}

/// The id of the item in the event, or the tokens of a response's input.
fn next(rollout: &mut Rollout) -> Option<String> {
    Some(match rollout.event()? {
        ThreadEvent::RawItem { turn, item } => format!("{turn} {}", item["id"].as_str().unwrap()),
        ThreadEvent::ResponseCompleted { turn, usage } => format!("{turn} {}", usage.unwrap().input_tokens),
        other => panic!("{other:?}"),
    })
}

#[test]
fn the_file_is_the_users_alone_has_all_of_the_thread_and_goes_with_it() {
    let private = tempfile::tempdir().unwrap();
    let items = [
        json!({"type": "message", "role": "developer"}),
        json!({"type": "reasoning"}),
    ];
    let rollout = Rollout::write(private.path(), &parts(&items)).unwrap();
    let path = place(private.path());
    let lines = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |kind: &str, payload: &Value| json!({"timestamp": "2026-11-25T17:55:33.250Z", "type": kind, "payload": payload});
    let meta = json!({
        "id": ID, "timestamp": "2026-11-25T17:55:33.250Z", "cwd": "/empty", "originator": "deep_factor_providers",
        "cli_version": "0.169.0", "source": "vscode", "model_provider": "df", "dynamic_tools": [],
    });
    assert_eq!(
        lines,
        [
            line("session_meta", &meta),
            line("response_item", &items[0]),
            line("response_item", &items[1])
        ]
    );
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    // A thread is in one file.
    assert!(Rollout::write(private.path(), &parts(&[])).is_err());
    drop(rollout);
    assert!(!path.exists());
}

#[test]
fn what_is_told_in_pieces_comes_behind_them() {
    let private = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::write(private.path(), &parts(&[])).unwrap();
    let appended = |line: &str| append(private.path(), line);
    appended(&item(&json!({"type": "function_call_output", "id": "fco_1"})));
    let summary = json!([{"type": "summary_text", "text": "Hm."}]);
    appended(&item(&json!({"type": "reasoning", "id": "rs_1", "summary": summary})));
    let call = item(&json!({"type": "function_call", "id": "fc_1"}));
    let (begin, end) = call.split_at(30);
    appended(begin);
    assert_eq!(next(&mut rollout).as_deref(), Some("t fco_1"));
    assert_eq!(next(&mut rollout), None);
    rollout.is_told("rs_1".to_owned(), String::new());
    assert_eq!(next(&mut rollout).as_deref(), Some("t rs_1"));
    assert_eq!(next(&mut rollout), None);
    appended(end);
    let usage = json!({"input_tokens": 7, "output_tokens": 1, "total_tokens": 8});
    let record = json!({"type": "token_usage_record", "payload": {"turn_id": "t", "usage": usage}});
    appended(&format!("no JSON\n{record}\n"));
    assert_eq!(next(&mut rollout).as_deref(), Some("t fc_1"));
    assert_eq!(next(&mut rollout).as_deref(), Some("t 7"));
    assert_eq!(next(&mut rollout), None);
}

#[test]
fn what_has_no_pieces_holds_nothing_up() {
    let private = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::write(private.path(), &parts(&[])).unwrap();
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}),
        json!({"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "refusal", "refusal": "no"}]}),
        json!({"type": "function_call", "id": "fc_1"}),
        json!({"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "Hm."}]}),
    ];
    items.iter().for_each(|it| append(private.path(), &item(it)));
    let come: Vec<String> = std::iter::from_fn(|| next(&mut rollout)).collect();
    assert_eq!(come, ["t rs_1", "t msg_1", "t fc_1"]);
    // Of an item without an id nobody can tell.
    rollout.is_told("rs_2".to_owned(), String::new());
    assert_eq!(next(&mut rollout).as_deref(), Some("t rs_2"));
    append(
        private.path(),
        &item(&json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]})),
    );
    assert!(matches!(rollout.event(), Some(ThreadEvent::RawItem { .. })));
}

#[test]
fn no_more_is_read_than_there_is_room_for() {
    let private = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::write(private.path(), &parts(&[])).unwrap();
    let call = item(&json!({"type": "function_call", "id": "fc_1"}));
    append(private.path(), &call);
    rollout.text.waiting_bytes = MOST_WAITING;
    assert_eq!(next(&mut rollout), None);
    // What was not read stays in the file.
    rollout.text.waiting_bytes = 0;
    assert_eq!(next(&mut rollout).as_deref(), Some("t fc_1"));
    assert_eq!((rollout.text.waiting_bytes, rollout.has_lost()), (0, false));
    rollout.lines = Lines::with_limit(call.len());
    append(private.path(), &format!("{}\n{call}", "x".repeat(200)));
    assert_eq!(next(&mut rollout).as_deref(), Some("t fc_1"));
    assert!(rollout.has_lost());
}

#[test]
fn all_of_a_turn_is_due_at_its_end() {
    let private = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::write(private.path(), &parts(&[])).unwrap();
    let content = json!([{"type": "output_text", "text": "ok"}]);
    let message = json!({"type": "message", "role": "assistant", "id": "msg_1", "content": content});
    append(private.path(), &item(&message));
    let end = json!({"type": "event_msg", "payload": {"type": "task_complete", "turn_id": "t"}});
    append(private.path(), &format!("{end}\n"));
    assert_eq!(next(&mut rollout), None);
    assert!(rollout.has_ended("t") && !rollout.has_ended("u"));
    rollout.is_told("another".to_owned(), String::new());
    rollout.is_over();
    assert_eq!(next(&mut rollout).as_deref(), Some("t msg_1"));
    // What was told of a turn is of no use in another.
    rollout.begins();
    assert!(rollout.told.is_empty());
    append(private.path(), &item(&message));
    assert_eq!(next(&mut rollout), None);
}

#[test]
fn only_an_id_of_codexs_becomes_a_name() {
    assert!(is_thread_id(ID));
    for other in [
        "",
        "01a2-1",
        "../../../../../../../../../../etc/x1",
        &ID.replace('b', "/"),
    ] {
        assert!(!is_thread_id(other), "{other}");
    }
}

#[test]
fn a_message_that_was_told_and_never_written_is_taken_as_it_was_told() {
    let private = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::write(private.path(), &parts(&[])).unwrap();
    let message = |id: &str| json!({"type": "message", "role": "assistant", "id": id, "content": [{"type": "output_text", "text": "ok"}]});
    append(private.path(), &item(&message("msg_1")));
    for (id, text) in [("msg_1", "ok"), ("rs_1", ""), ("msg_2", "ok")] {
        rollout.is_told(id.to_owned(), text.to_owned());
    }
    rollout.is_over();
    assert_eq!(next(&mut rollout).as_deref(), Some("t msg_1"));
    rollout.take_unwritten("t");
    match rollout.event() {
        Some(ThreadEvent::RawItem { turn, item }) => assert_eq!((turn.as_str(), item), ("t", message("msg_2"))),
        other => panic!("{other:?}"),
    }
    assert_eq!(next(&mut rollout), None);
}
