//! Files of checkpoints: what is read again, whatever a crash has left, and who is refused.

use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn texts(loaded: &Loaded) -> Vec<&str> {
    loaded.entries.iter().map(|entry| entry.get()).collect()
}

#[test]
fn entries_are_there_again_with_the_next_token_until_the_run_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made");
    let mut first = load(&folder, "job:7").unwrap();
    assert_eq!((first.token, first.entries.len(), first.result.is_none()), (1, 0, true));
    let file = first.file.as_mut().unwrap();
    file.append(vec![raw(&json!({"a": 1.50})), raw(&json!("b\n"))]).unwrap();
    drop(first);
    let second = load(&folder, "job:7").unwrap();
    assert_eq!((second.token, texts(&second)), (2, vec![r#"{"a":1.5}"#, r#""b\n""#]));
    second.file.unwrap().finish(raw(&json!({"output": "done"}))).unwrap();
    for _ in 0..2 {
        let finished = load(&folder, "job:7").unwrap();
        assert!(finished.file.is_none());
        assert_eq!(finished.result.unwrap().get(), r#"{"output":"done"}"#);
    }
    assert!(folder.join("job%3A7.jsonl").is_file());
}

#[test]
fn a_run_at_work_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let held = load(folder.path(), "one").unwrap();
    let refused = load(folder.path(), "one").unwrap_err();
    assert!(matches!(&refused, Refused::Locked(id, _) if id == "one"), "{refused}");
    assert!(load(folder.path(), "two").is_ok());
    drop(held);
    assert_eq!(load(folder.path(), "one").unwrap().token, 2);
}

#[cfg(unix)]
#[test]
fn it_is_its_owners_alone_and_no_link_is_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("made");
    drop(load(&inside, "one").unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inside), mode(&inside.join("one.jsonl"))), (0o700, 0o600));

    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, inside.join("two.jsonl")).unwrap();
    fs::hard_link(&target, inside.join("three.jsonl")).unwrap();
    let linked = folder.path().join("linked");
    symlink(&inside, &linked).unwrap();
    for (folder, id) in [(&inside, "two"), (&inside, "three"), (&linked, "four")] {
        let refused = load(folder, id).unwrap_err();
        assert!(matches!(refused, Refused::Unsafe(..)), "{refused}");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(load(&inside, "one").unwrap_err(), Refused::Unsafe(..)));
}

#[test]
fn what_is_no_checkpoint_of_this_run_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    for (text, reason) in [
        (
            "{\"checkpoint\":2,\"runId\":\"one\"}\n",
            "it is of version 2, and this package knows versions up to 1",
        ),
        ("{\"checkpoint\":1,\"runId\":\"One\"}\n", "it is of another run"),
        ("{\"lease\":1}\n", "it is no checkpoint"),
        ("hello\n", "line 1: "),
        (
            "{\"checkpoint\":1,\"runId\":\"one\"}\nbroken\n{\"lease\":1}\n",
            "line 2: ",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let refused = load(folder.path(), "one").unwrap_err();
        assert!(
            matches!(&refused, Refused::Invalid(_, why) if why.starts_with(reason)),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn ids_are_what_can_be_a_name() {
    for id in ["a", "job-7", "0a:b@c_d.e"] {
        assert!(is_run_id(id), "{id}");
    }
    for id in ["", ".", "..", "-a", "a/b", "a b", "ä", "a\n", &"a".repeat(129)] {
        assert!(!is_run_id(id), "{id}");
    }
}

proptest! {
    /// Cut off anywhere, the entries whose lines are whole are there, and new ones come behind them.
    #[test]
    fn a_torn_line_is_as_if_it_had_never_been_written(count in 0_usize..6, cut in 0_usize..400) {
        let folder = tempfile::tempdir().unwrap();
        let mut loaded = load(folder.path(), "one").unwrap();
        let entries: Vec<String> = (0..count).map(|number| json!({"number": number}).to_string()).collect();
        let raws = entries.iter().map(|entry| RawValue::from_string(entry.clone()).unwrap()).collect();
        loaded.file.as_mut().unwrap().append(raws).unwrap();
        drop(loaded);
        let path = folder.path().join("one.jsonl");
        let bytes = fs::read(&path).unwrap();
        let cut = cut.min(bytes.len());
        fs::write(&path, &bytes[..cut]).unwrap();
        let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        let left = lines.saturating_sub(2);
        let mut again = load(folder.path(), "one").unwrap();
        prop_assert_eq!(texts(&again), entries[..left].iter().map(String::as_str).collect::<Vec<_>>());
        again.file.as_mut().unwrap().append(vec![raw(&json!("new"))]).unwrap();
        drop(again);
        let last = load(folder.path(), "one").unwrap();
        let entries = texts(&last);
        prop_assert_eq!(entries.last(), Some(&"\"new\""));
    }
}
