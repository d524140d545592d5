//! Tests of a store's file: it is read back after any crash, and refused where it must be.

use std::fs;

use proptest::prelude::*;

use super::super::*;
use super::NOW;

fn budget(requests: u64, per: Per) -> Budget {
    Budget {
        requests: Some(requests),
        tokens: None,
        cost_usd: None,
        plan: None,
        per,
        store: None,
    }
}

fn update<T>(path: &Path, per: Per, change: impl FnOnce(&mut Window) -> T) -> Result<T, Unusable> {
    looked_at(path, per, None, change).map(|(changed, _)| changed)
}

fn looked_at<T>(
    path: &Path,
    per: Per,
    seen: Option<Seen>,
    change: impl FnOnce(&mut Window) -> T,
) -> Result<(T, Seen), Unusable> {
    let is_abandoned = &AtomicBool::new(false);
    update_store(path, per, Look { seen, is_abandoned }, change)
}

fn admit(path: &Path, requests: u64, per: Per) -> Result<bool, String> {
    let admitted = update(path, per, |window| window.admit(&budget(requests, per), NOW).is_ok());
    admitted.map_err(|unusable| unusable.why)
}

fn window(path: &Path, per: Per) -> Window {
    update(path, per, |window| *window).unwrap()
}

#[test]
fn windows_of_each_length_are_counted_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.json");
    let used = Used {
        tokens: 7,
        cost_usd: Some(0.25),
        answered: true,
    };
    assert_eq!(admit(&path, 1, Per::Hour), Ok(true));
    update(&path, Per::Hour, |window| window.add(used, Per::Hour, NOW + 1)).unwrap();
    assert_eq!(admit(&path, 1, Per::Hour), Ok(false));
    assert_eq!(admit(&path, 1, Per::Day), Ok(true));
    let hour = Window {
        number: 1,
        from: NOW,
        requests: 1,
        tokens: 7,
        cost_usd: 0.25,
        without_cost: 0,
    };
    let day = Window {
        tokens: 0,
        cost_usd: 0.0,
        ..hour
    };
    let seen = Per::NAMES.map(|name| window(&path, Per::named(name).unwrap()));
    assert_eq!(seen, [Window::default(), hour, day]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 2 * LINE as u64);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn the_longest_numbers_fit_a_line() {
    let longest = Window {
        number: u64::MAX,
        from: u64::MAX,
        requests: u64::MAX,
        tokens: u64::MAX,
        cost_usd: -f64::MIN_POSITIVE,
        without_cost: u64::MAX,
    };
    let counts = Counts {
        budget: VERSION,
        serial: u64::MAX,
        minute: longest,
        hour: longest,
        day: longest,
    };
    let line = counts.line().unwrap();
    assert_eq!(line.len(), LINE);
    assert_eq!(parse_line(&line, 1), Ok(counts));
}

#[test]
fn what_is_no_store_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.json");
    let of = |serial: u64, text: &str, with: &str| {
        let line = Counts::of_nobody(serial).line().unwrap();
        let object = String::from_utf8(line).unwrap();
        let object = object.split(",\"sum\"").next().unwrap().replace(text, with) + "}";
        let mut line = Vec::new();
        checkpoint::write_with_sum(object.into_bytes(), &mut line);
        line.pop();
        line.resize(LINE - 1, b' ');
        line.push(b'\n');
        String::from_utf8(line).unwrap()
    };
    let both = |text: &str, with: &str| of(0, text, with) + &of(1, text, with);
    for (text, reason) in [
        ("hello\n".to_owned(), "it is no store of budgets"),
        ("x".repeat(5_000), "it is no store of budgets"),
        ("\0".repeat(2 * LINE), "it is no store of budgets"),
        (
            both("", "").replace("\"requests\":0", "\"requests\":1"),
            "line 1 does not fit its checksum: the file was damaged or edited after it was written",
        ),
        (
            both("\"budget\":1", "\"budget\":2"),
            "it is of version 2, and this package knows version 1",
        ),
        // A newer version has written one line, and this version would count the other.
        (
            of(0, "", "") + &of(1, "\"budget\":1", "\"budget\":2"),
            "it is of version 2, and this package knows version 1",
        ),
        (
            of(0, "\"budget\":1", "\"budget\":2") + &of(1, "", ""),
            "it is of version 2, and this package knows version 1",
        ),
        (
            both("\"requests\":0", "\"requests\":-1"),
            "line 1, the field \"minute\": invalid value: integer `-1`, expected u64",
        ),
        (
            both("\"day\"", "\"night\""),
            "line 1, the field \"day\": invalid type: null, expected struct Window",
        ),
        (
            of(1, "", "") + &of(0, "", ""),
            "line 1, the field \"serial\": 1 is the other line's",
        ),
    ] {
        fs::write(&path, &text).unwrap();
        let refused = admit(&path, 1, Per::Day).unwrap_err();
        assert_eq!(refused, format!("{}: {reason}", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[cfg(unix)]
#[test]
fn links_and_missing_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::write(&target, "precious").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let refused = admit(&link, 1, Per::Day).unwrap_err();
    assert_eq!(
        refused,
        format!("{}: it is not a file, or a link to one", link.display())
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    let missing = folder.path().join("no/store");
    let refused = admit(&missing, 1, Per::Day).unwrap_err();
    assert!(refused.starts_with(&format!("{}: ", missing.display())), "{refused}");
}

/// Emptying a file in use would give all processes the whole budget again.
#[cfg(unix)]
#[test]
fn a_file_that_is_emptied_while_it_is_in_use_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.json");
    let count = |seen| {
        looked_at(&path, Per::Day, seen, |window| {
            window.admit(&budget(9, Per::Day), NOW).is_ok()
        })
    };
    let (_, seen) = count(None).unwrap();
    let whole = fs::read(&path).unwrap();
    for (bytes, why) in [
        (
            &whole[..0],
            "it was emptied while it was in use, so nobody knows what was used: remove it to begin anew",
        ),
        (&whole[..LINE + 10], "it was cut: it has 1034 bytes of 2048"),
    ] {
        fs::write(&path, bytes).unwrap();
        let Unusable { why: told, kind } = count(Some(seen)).unwrap_err();
        assert_eq!((told, kind), (format!("{}: {why}", path.display()), Trouble::Passing));
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // The file can be used again once it is put back. A file in its place is another process's, or a new one.
    fs::write(&path, &whole).unwrap();
    assert!(count(Some(seen)).unwrap().0);
    assert_eq!(window(&path, Per::Day).requests, 2);
    // It is moved, for the number of a removed file may be the new one's.
    fs::rename(&path, folder.path().join("other")).unwrap();
    assert!(count(Some(seen)).unwrap().0);
    assert_eq!(window(&path, Per::Day).requests, 1);
}

#[cfg(unix)]
#[test]
fn what_the_system_lacks_passes() {
    use rustix::io::Errno;
    for (errno, kind) in [
        (Errno::NOSPC, Trouble::Passing),
        (Errno::DQUOT, Trouble::Passing),
        (Errno::MFILE, Trouble::Passing),
        (Errno::NFILE, Trouble::Passing),
        (Errno::NOMEM, Trouble::Passing),
        (Errno::ACCESS, Trouble::Unfit),
        (Errno::ROFS, Trouble::Unfit),
        (Errno::NOTDIR, Trouble::Unfit),
    ] {
        assert_eq!(kind_of(&errno.into()), kind, "{errno:?}");
    }
}

/// If the caller gives up while another process has the lock, its call must not be counted later.
#[test]
fn nobody_waits_for_a_lock_for_a_caller_that_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.json");
    assert_eq!(admit(&path, 9, Per::Day), Ok(true));
    let held = checkpoint::lock(&path).unwrap().unwrap();
    let is_abandoned = &AtomicBool::new(true);
    let look = Look {
        seen: None,
        is_abandoned,
    };
    let refused = update_store(&path, Per::Day, look, |window| *window).unwrap_err();
    assert_eq!(refused.kind, Trouble::Busy);
    drop(held);
    assert_eq!(window(&path, Per::Day).requests, 1);
}

#[test]
fn many_at_once_do_not_pass_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = Arc::new(folder.path().join("store.json"));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let path = Arc::clone(&path);
            // Each thread opens the file anew, like a process of its own.
            std::thread::spawn(move || (0..5).filter(|_| admit(&path, 17, Per::Day).unwrap()).count())
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((admitted, window(&path, Per::Day).requests), (17, 17));
}

proptest! {
    /// A process that is killed in the middle of a change leaves its line torn anywhere. Everything counted before is there.
    #[test]
    fn a_torn_line_leaves_what_was_counted_before(changes in 1_u64..6, cut in 0_usize..LINE) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.json");
        for _ in 0..changes {
            admit(&path, 100, Per::Day).unwrap();
        }
        let before = fs::read(&path).unwrap();
        admit(&path, 100, Per::Day).unwrap();
        let after = fs::read(&path).unwrap();
        let changed = before.chunks(LINE).zip(after.chunks(LINE)).position(|(old, new)| old != new).unwrap();
        let mut torn = before.clone();
        torn[changed * LINE..changed * LINE + cut].copy_from_slice(&after[changed * LINE..changed * LINE + cut]);
        fs::write(&path, &torn).unwrap();
        // A line without its trailing blanks is complete, too.
        let requests = window(&path, Per::Day).requests;
        let is_whole = torn == after;
        prop_assert_eq!(requests, changes + u64::from(is_whole));
        prop_assert_eq!(admit(&path, 100, Per::Day), Ok(true));
        prop_assert_eq!(window(&path, Per::Day).requests, requests + 1);
    }

    /// A process that is killed while it makes the file leaves a new file.
    #[test]
    fn a_file_that_was_being_made_is_a_new_one(cut in 0_usize..2 * LINE) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.json");
        fs::write(&path, &initial().unwrap()[..cut]).unwrap();
        prop_assert_eq!(admit(&path, 1, Per::Day), Ok(true));
        prop_assert_eq!(admit(&path, 1, Per::Day), Ok(false));
    }
}
