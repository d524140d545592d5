//! The lines are those of 0.169.0, shortened.

use std::io::Write;

use super::*;

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
    appended(&item(&json!({"type": "reasoning", "id": "rs_1"})));
    let call = item(&json!({"type": "function_call", "id": "fc_1"}));
    let (begin, end) = call.split_at(30);
    appended(begin);
    assert_eq!(next(&mut rollout).as_deref(), Some("t fco_1"));
    assert_eq!(next(&mut rollout), None);
    rollout.is_told("rs_1".to_owned());
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

#[tokio::test(start_paused = true)]
async fn all_of_a_turn_is_due_at_its_end() {
    let private = tempfile::tempdir().unwrap();
    let mut rollout = Rollout::write(private.path(), &parts(&[])).unwrap();
    append(
        private.path(),
        &item(&json!({"type": "message", "role": "assistant", "id": "msg_1"})),
    );
    let end = json!({"type": "event_msg", "payload": {"type": "task_complete", "turn_id": "t"}});
    append(private.path(), &format!("{end}\n"));
    assert_eq!(next(&mut rollout), None);
    let began = Instant::now();
    rollout.is_over("t").await;
    assert_eq!(
        (next(&mut rollout).as_deref(), began.elapsed()),
        (Some("t msg_1"), Duration::ZERO)
    );
    // A turn whose end is never written is not waited for.
    rollout.is_over("u").await;
    assert!(began.elapsed() >= LATE);
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
