use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::hash::Hash;

use super::*;
use crate::live::history::print;

#[test]
fn an_environment_is_the_same_after_a_restart_and_another_with_another_login() {
    let env = |vars: &[(&str, &str)]| {
        let vars = vars
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        print_of_env(&vars.collect())
    };
    let own = env(&[("HOME", "/home/a"), ("SHLVL", "1"), ("API_KEY", "k")]);
    assert_eq!(
        own,
        env(&[
            ("API_KEY", "k"),
            ("HOME", "/home/a"),
            ("SHLVL", "2"),
            ("npm_package_name", "x")
        ])
    );
    assert_ne!(own, env(&[("API_KEY", "other"), ("HOME", "/home/a")]));
    assert_ne!(own, env(&[("HOME", "/home/a")]));
}

fn place(number: usize) -> Fingerprint {
    print(|state| number.hash(state))
}

/// The memory that `replies` have allocated: the table with all its places (a byte each beside the entry, and an eighth is
/// never used), the order, and each entry's JSON.
fn held(replies: &Replies) -> usize {
    let table = (replies.replies.capacity() * 8).div_ceil(7) * (size_of::<(Fingerprint, Box<str>)>() + 1);
    let order = replies.order.capacity() * size_of::<Fingerprint>();
    let json: usize = replies.replies.values().map(|json| json.len()).sum();
    table + order + json
}

fn keep_many(replies: &mut Replies, count: usize, text: &str) {
    (0..count).for_each(|number| replies.keep(place(number), text.to_owned()));
}

#[test]
fn all_that_they_hold_is_bounded() {
    for (count, text) in [
        (300_000, "ok".to_owned()),
        (60_000, "r".repeat(2_000)),
        (5, "x".repeat(MOST_BYTES / 2 - 2 * ENTRY_BYTES)),
        (2, "x".repeat(MOST_BYTES)),
    ] {
        let mut replies = Replies::default();
        keep_many(&mut replies, count, &text);
        assert!(held(&replies) <= MOST_BYTES, "{} of {count}", held(&replies));
        let entries: usize = replies.replies.values().map(|json| json.len() + ENTRY_BYTES).sum();
        assert_eq!((replies.bytes(), replies.order.len()), (entries, replies.len()));
        let in_order: HashSet<Fingerprint> = replies.order.iter().copied().collect();
        assert!(replies.replies.keys().all(|print| in_order.contains(print)));
    }
}

#[test]
fn the_oldest_goes_where_there_is_too_much() {
    let mut replies = Replies::default();
    keep_many(&mut replies, 3, &"x".repeat(MOST_BYTES / 2 - 2 * ENTRY_BYTES));
    assert_eq!(
        [0, 1, 2].map(|number| replies.get(&place(number)).is_some()),
        [false, true, true]
    );
}

#[test]
fn a_closed_one_holds_nothing_and_keeps_nothing() {
    let mut replies = Replies::default();
    keep_many(&mut replies, 1, "early");
    replies.close();
    keep_many(&mut replies, 3, "late");
    assert_eq!((held(&replies), replies.bytes(), replies.is_empty()), (0, 0, true));
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn files(store: &Store) -> Vec<PathBuf> {
    let entries = fs::read_dir(store.folder().join("replies")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_reply_is_found_again_by_its_fingerprint_alone_and_is_no_plain_text() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("made");
    let store = Store::new(inside.to_str().unwrap(), DAY);
    assert_eq!(store.read(&place(1)), Ok(None));
    store.write(&place(1), "\"CANARY\"").unwrap();
    store.write(&place(1), "\"another\"").unwrap();
    let again = Store::new(inside.to_str().unwrap(), DAY);
    assert_eq!(again.read(&place(1)), Ok(Some("\"CANARY\"".to_owned())));
    assert_eq!(again.read(&place(2)), Ok(None));
    let [file] = &files(&store)[..] else {
        panic!("one file");
    };
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(HEAD.as_bytes()));
    assert!(!bytes.windows(6).any(|part| part == b"CANARY"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            [mode(&inside), mode(&inside.join("replies")), mode(file)],
            [0o700, 0o700, 0o600]
        );
    }
}

/// A file of version 1, as this package has first written it.
#[test]
fn a_file_of_today_is_read_for_as_long_as_the_format_has_its_number() {
    let print = Fingerprint::of_halves(7, 11);
    let bytes = include_bytes!("fixture-1").to_vec();
    assert_eq!(opened(&print, bytes), Ok("{\"thought\":\"kept\"}".to_owned()));
}

#[test]
fn what_is_damaged_or_of_another_version_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_str().unwrap(), DAY);
    store.write(&place(1), "\"text\"").unwrap();
    let path = store.path(&place(1));
    let whole = fs::read(&path).unwrap();
    let newer = "it is of version 2, and this package knows version 1";
    let damaged = "the file was damaged or edited after it was written";
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    for (bytes, why) in [
        (b"{\"session\":2}\nabc".to_vec(), newer),
        (changed, damaged),
        (whole[..HEAD.len() + 3].to_vec(), damaged),
        (whole[..whole.len() - 1].to_vec(), damaged),
        (Vec::new(), damaged),
        (b"no line".repeat(50), damaged),
    ] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(store.read(&place(1)), Err(format!("{}: {why}", path.display())));
    }
}

#[test]
fn what_is_too_old_or_too_much_is_removed_the_oldest_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_str().unwrap(), DAY);
    let now = SystemTime::now();
    for number in 0..4 {
        store.write(&place(number), "\"text\"").unwrap();
        let age = [30, 3, 2, 1][number] * Duration::from_secs(3600);
        let file = File::options().append(true).open(store.path(&place(number))).unwrap();
        file.set_modified(now - age).unwrap();
    }
    let there = || [0, 1, 2, 3].map(|number| store.path(&place(number)).exists());
    assert_eq!(store.read(&place(0)), Ok(None), "it is too old");
    let replies = folder.path().join("replies");
    purge(&replies, DAY, MOST_ROOM, now).unwrap();
    assert_eq!(there(), [false, true, true, true]);
    purge(&replies, DAY, 2 * BLOCK, now).unwrap();
    assert_eq!(there(), [false, false, true, true]);
}

#[test]
fn a_reply_that_is_used_gets_no_older() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_str().unwrap(), DAY);
    store.write(&place(1), "\"text\"").unwrap();
    let path = store.path(&place(1));
    let file = File::options().append(true).open(&path).unwrap();
    let early = SystemTime::now() - Duration::from_secs(20 * 3600);
    file.set_modified(early).unwrap();
    assert!(store.read(&place(1)).unwrap().is_some());
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > early + Duration::from_secs(19 * 3600));
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_not_the_users_alone_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| Store::new(path.to_str().unwrap(), DAY).open().unwrap_err().to_string();
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    assert_eq!(open(&link), "it is a symbolic link: name the folder itself");
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(open(&shared), "others may write to it (its mode is 777)");
}
