//! Tests of checkpoint files: they are read back after any crash, and refused where they must be.

use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn load(folder: &Path, run_id: &str) -> Result<Loaded, CheckpointError> {
    super::load(folder, run_id, 0)
}

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
    assert!(
        matches!(&refused, CheckpointError::Locked(id, _) if id == "one"),
        "{refused}"
    );
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
        assert!(matches!(refused, CheckpointError::Unsafe(..)), "{refused}");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = load(&inside, "one").unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::Writable(folder, 0o777) if *folder == inside),
        "{refused}"
    );
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
            "{\"checkpoint\":1,\"runId\":\"one\"}\n{\"lease\":18446744073709551615}\n",
            "line 2: the lease 18446744073709551615 is none of this package's",
        ),
        (
            "{\"checkpoint\":1,\"runId\":\"one\"}\n{\"lease\":9007199254740991}\n",
            "line 2: the lease 9007199254740991 is none of this package's",
        ),
        (
            "{\"checkpoint\":1,\"runId\":\"one\"}\nbroken\n{\"lease\":1}\n",
            "line 2: ",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let refused = load(folder.path(), "one").unwrap_err();
        assert!(
            matches!(&refused, CheckpointError::Invalid(_, why) if why.starts_with(reason)),
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

#[test]
fn a_last_line_whose_blocks_never_came_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let mut loaded = load(folder.path(), "one").unwrap();
    let file = loaded.file.as_mut().unwrap();
    file.append(vec![raw(&json!("kept")), raw(&json!("torn by the crash"))])
        .unwrap();
    drop(loaded);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 40..end - 20].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(texts(&load(folder.path(), "one").unwrap()), ["\"kept\""]);
}

#[test]
fn a_devices_name_is_no_files() {
    for (id, name) in [
        ("CON", "%43ON.jsonl"),
        ("nul.txt", "%6Eul.txt.jsonl"),
        ("com7:job", "%63om7%3Ajob.jsonl"),
        ("lpt0.", "%6Cpt0..jsonl"),
        ("COM10", "COM10.jsonl"),
        ("console", "console.jsonl"),
        ("a.con", "a.con.jsonl"),
    ] {
        assert_eq!(file_name(id), name, "{id}");
    }
    let folder = tempfile::tempdir().unwrap();
    drop(load(folder.path(), "CON").unwrap());
    assert_eq!(load(folder.path(), "CON").unwrap().token, 2);
}

#[test]
fn what_another_attempt_has_is_not_written_by_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let open = OpenFiles::default();
    let take = || {
        let loaded = super::load(folder.path(), "one", open.token("one"))?;
        open.put("one", loaded.file.unwrap());
        Ok::<_, CheckpointError>(loaded.token)
    };
    let append = |token| open.with("one", token, |file| file.append(vec![raw(&json!(token))]));
    let first = take().unwrap();
    append(first).unwrap();
    open.close("one", first, |_| Ok(())).unwrap();
    assert!(matches!(append(first).unwrap_err(), CheckpointError::Closed(_)));
    let second = take().unwrap();
    for refused in [
        append(first),
        open.close("one", first, |file| file.finish(raw(&json!(1)))),
    ] {
        assert!(matches!(refused.unwrap_err(), CheckpointError::Stale(id, 1) if id == "one"));
    }
    append(second).unwrap();
    open.close("one", second, |file| file.finish(raw(&json!("done"))))
        .unwrap();
    let last = load(folder.path(), "one").unwrap();
    let result = last.result.as_ref().unwrap().get();
    assert_eq!((texts(&last), result), (vec!["1", "2"], "\"done\""));
}

#[cfg(unix)]
#[test]
fn a_file_that_was_removed_or_replaced_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let open = OpenFiles::default();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let loaded = super::load(folder.path(), "one", open.token("one")).unwrap();
        assert!(loaded.entries.is_empty());
        tokens.push(loaded.token);
        open.put("one", loaded.file.unwrap());
        let token = loaded.token;
        open.with("one", token, |file| file.append(vec![raw(&json!("kept"))]))
            .unwrap();
        fs::remove_file(&path).unwrap();
        // An attempt that only checks its file gets the same error.
        for entries in [vec![], vec![raw(&json!("lost"))]] {
            let refused = open.with("one", token, |file| file.append(entries)).unwrap_err();
            assert!(
                matches!(&refused, CheckpointError::Lost(id, _) if id == "one"),
                "{refused}"
            );
        }
    }
    assert_eq!(tokens, [1, 2, 3]);
}

/// New lines behind a cut once stood behind a hole of zeros, and the next attempt read a run that had done less.
#[cfg(unix)]
#[test]
fn a_file_that_was_cut_or_added_to_takes_nothing_more_and_says_why() {
    for (name, change) in [("cut", -1_i64), ("emptied", i64::MIN), ("longer", 7)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.jsonl");
        let mut file = load(folder.path(), "one").unwrap().file.unwrap();
        file.append(vec![raw(&json!("kept"))]).unwrap();
        let before = fs::metadata(&path).unwrap().len();
        let now = before.saturating_add_signed(change);
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(now)
            .unwrap();
        let left = fs::read(&path).unwrap();
        let refused = file.append(vec![]).unwrap_err();
        assert!(
            matches!(&refused, CheckpointError::Resized(id, _, was, is) if id == "one" && (*was, *is) == (before, now)),
            "{name}: {refused}"
        );
        assert!(file.append(vec![raw(&json!("lost"))]).is_err(), "{name}");
        assert_eq!(fs::read(&path).unwrap(), left, "{name}");
    }
}

#[test]
fn lines_of_an_earlier_version_have_no_checksum_and_new_ones_behind_them_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let old = "{\"checkpoint\":1,\"runId\":\"one\"}\n{\"lease\":1}\n{\"entry\":\"old\"}\n";
    fs::write(&path, old).unwrap();
    let mut loaded = load(folder.path(), "one").unwrap();
    assert_eq!((loaded.token, texts(&loaded)), (2, vec!["\"old\""]));
    loaded.file.as_mut().unwrap().append(vec![raw(&json!("new"))]).unwrap();
    drop(loaded);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(old), "{text}");
    assert_eq!(text.matches("\"sum\":").count(), 2);
    fs::write(&path, format!("{text}{{\"entry\":\"slipped in\"}}\n")).unwrap();
    let refused = load(folder.path(), "one").unwrap_err().to_string();
    assert!(
        refused.ends_with("line 6 has no checksum: the file was damaged or edited after it was written"),
        "{refused}"
    );
}

proptest! {
    /// A file with one flipped bit in any complete line is refused, and never read as something else.
    #[test]
    fn a_flipped_bit_is_refused(place in 0_usize..1000, bit in 0_u8..8, count in 1_usize..4) {
        let folder = tempfile::tempdir().unwrap();
        let mut loaded = load(folder.path(), "one").unwrap();
        let entries: Vec<String> = (0..count).map(|number| json!({"cents": 100 + number, "to": "Ann"}).to_string()).collect();
        let raws = entries.iter().map(|entry| RawValue::from_string(entry.clone()).unwrap()).collect();
        loaded.file.as_mut().unwrap().append(raws).unwrap();
        drop(loaded);
        let path = folder.path().join("one.jsonl");
        let mut bytes = fs::read(&path).unwrap();
        // The last line break is left alone: without it, the line counts as torn by a crash.
        let place = place % (bytes.len() - 1);
        bytes[place] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();
        match load(folder.path(), "one") {
            Err(refused) => prop_assert!(matches!(refused, CheckpointError::Invalid(..)), "{}", refused),
            // The flipped bit was in the checksum's own name.
            Ok(loaded) => prop_assert_eq!(texts(&loaded), entries.iter().map(String::as_str).collect::<Vec<_>>()),
        }
    }

    /// In a file that is cut anywhere, the entries of complete lines are there, and new ones come behind them.
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
