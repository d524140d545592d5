//! Programs are found on the PATH and beside it, with real files.

use std::os::unix::fs::PermissionsExt;

use super::super::*;

fn write(folder: &Path, name: &str, mode: u32, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    file
}

#[test]
fn first_executable_on_the_childs_path() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(one.path(), "cli", 0o644, "#!/bin/sh\n");
    let file = write(two.path(), "cli", 0o755, "#!/bin/sh\n");
    let path = std::env::join_paths([one.path(), two.path()]).unwrap();
    let found = resolve(OsStr::new("cli"), Some(&path)).unwrap();
    assert_eq!(
        found,
        Resolved {
            file,
            prefix: vec![],
            interpreter: Some("/bin/sh".into()),
            called_with: None,
            also_on_path: None,
        }
    );
}

#[test]
fn a_remembered_file_that_vanished_is_searched_again() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = write(one.path(), "cli", 0o755, "#!/bin/sh\n");
    let second = write(two.path(), "cli", 0o755, "#!/bin/sh\n");
    let path = std::env::join_paths([one.path(), two.path()]).unwrap();
    assert_eq!(resolve(OsStr::new("cli"), Some(&path)).unwrap().file, first);
    std::fs::remove_file(&first).unwrap();
    assert_eq!(resolve(OsStr::new("cli"), Some(&path)).unwrap().file, second);
}

#[test]
fn what_is_wrong_has_errors_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().as_os_str();
    let plain = write(folder.path(), "plain", 0o644, "");
    let script = write(folder.path(), "script", 0o755, "#!/no/such/interpreter -x\n");
    let by_env = write(
        folder.path(),
        "by-env",
        0o755,
        "#!/usr/bin/env -S no-such-node --flag\n",
    );
    let say = |program: &OsStr| resolve(program, Some(path)).map_err(|error| error.to_string());
    let at = |file: &Path| file.display().to_string();
    assert_eq!(
        say("none".as_ref()),
        Err("none is not in any folder of the PATH".to_owned())
    );
    assert_eq!(say("/none/x".as_ref()), Err("/none/x does not exist".to_owned()));
    assert_eq!(say("plain".as_ref()), Err(format!("{} is not executable", at(&plain))));
    assert_eq!(say(plain.as_os_str()), Err(format!("{} is not executable", at(&plain))));
    assert_eq!(
        say(folder.path().as_os_str()),
        Err(format!("{} is a folder", at(folder.path())))
    );
    let missing = |file: &Path, what: &str| Err(format!("{} needs {what}, which is missing", at(file)));
    assert_eq!(say("script".as_ref()), missing(&script, "/no/such/interpreter"));
    assert_eq!(say("by-env".as_ref()), missing(&by_env, "no-such-node"));
    assert_eq!(say("".as_ref()), Err("the program's name is empty".to_owned()));
}

#[test]
fn shebang_lines() {
    let with = |path: &str, name: Option<&str>, args: &[&str]| {
        Some(Shebang {
            path: path.to_owned(),
            env_name: name.map(str::to_owned),
            env_args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        })
    };
    let line = |path: &str, name: Option<&str>| with(path, name, &[]);
    assert_eq!(shebang(b"#! /bin/sh -e\nx"), line("/bin/sh", None));
    assert_eq!(shebang(b"#!/usr/bin/env node\r\n"), line("/usr/bin/env", Some("node")));
    assert_eq!(
        shebang(b"#!/usr/bin/env -S node --x\n"),
        with("/usr/bin/env", Some("node"), &["--x"])
    );
    assert_eq!(
        shebang(b"#!/usr/bin/env A=1 node\n"),
        with("/usr/bin/env", None, &["node"])
    );
    assert_eq!(shebang(b"\x7fELF"), None);
    assert_eq!(shebang(b"#!\n"), None);
}

#[test]
fn a_shim_leads_to_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let node = write(folder.path(), "node", 0o755, "#!/bin/sh\n");
    let script = write(folder.path(), "cli.js", 0o644, "");
    let shim = write(
        folder.path(),
        "cli.cmd",
        0o755,
        "@\"%~dp0\\node.exe\" --x \"%~dp0\\cli.js\" %*\n",
    );
    write(folder.path(), "cli.ps1", 0o755, "");
    let expected = Resolved {
        prefix: vec!["--x".into(), script.into()],
        ..Resolved::direct(node)
    };
    let more = SearchFolders::default();
    let nowhere = Folders::of(OsStr::new(""), &more);
    assert_eq!(behind_shim(shim, &nowhere, false).unwrap(), expected);
    assert_eq!(
        behind_shim(folder.path().join("cli.ps1"), &nowhere, false).unwrap(),
        expected
    );
}

/// Makes a folder inside the tests' working folder, the package's own, so that a relative path can name it.
fn folder_here() -> tempfile::TempDir {
    tempfile::tempdir_in("../../target").unwrap()
}

#[test]
fn empty_and_relative_folders_of_the_path_are_skipped() {
    let (here, absolute) = (folder_here(), tempfile::tempdir().unwrap());
    let relative = Path::new("../../target").join(here.path().file_name().unwrap());
    assert!(relative.is_dir() && relative.is_relative());
    let near = write(here.path(), "cli", 0o755, "#!/bin/sh\n");
    let far = write(absolute.path(), "cli", 0o755, "#!/bin/sh\n");
    let say = |program: &str, folders: &[&Path]| {
        let path = std::env::join_paths(folders).unwrap();
        resolve(OsStr::new(program), Some(&path))
            .map(|found| found.file)
            .map_err(|error| error.to_string())
    };
    let nothing = Path::new("");
    assert_eq!(
        say("cli", &[nothing, &relative, Path::new("."), absolute.path()]),
        Ok(far)
    );
    let only = std::env::current_dir().unwrap().join(&relative).join("cli");
    assert_eq!(
        say("cli", &[absolute.path().parent().unwrap(), &relative]),
        Err(format!(
            "cli is not in any folder of the PATH: its empty and relative folders are skipped, so {} was not taken",
            only.display()
        ))
    );
    // Cargo.toml stands in the working folder, and is not executable.
    for path in [&[nothing][..], &[Path::new(".")]] {
        assert_eq!(
            say("Cargo.toml", path),
            Err("Cargo.toml is not in any folder of the PATH".to_owned())
        );
    }
    // A path with a separator is taken as it is, also a relative one.
    let named = relative.join("cli");
    assert_eq!(
        say(named.to_str().unwrap(), &[nothing]).map(|file| file.canonicalize().unwrap()),
        Ok(near.canonicalize().unwrap())
    );
}

#[test]
fn the_interpreter_of_a_script_is_not_the_working_folders() {
    let (here, absolute) = (folder_here(), tempfile::tempdir().unwrap());
    let relative = Path::new("../../target").join(here.path().file_name().unwrap());
    write(here.path(), "made-up-node", 0o755, "#!/bin/sh\n");
    let script = write(absolute.path(), "cli", 0o755, "#!/usr/bin/env -S made-up-node --flag\n");
    let path = std::env::join_paths([relative.as_path(), absolute.path()]).unwrap();
    let found = resolve(OsStr::new("cli"), Some(&path)).map_err(|error| error.to_string());
    assert_eq!(
        found,
        Err(format!("{} needs made-up-node, which is missing", script.display()))
    );
    let node = write(absolute.path(), "made-up-node", 0o755, "#!/bin/sh\n");
    let found = resolve(OsStr::new("cli"), Some(&path)).unwrap();
    assert_eq!(found.file, script);
    // `env` would look into the folder that is skipped.
    assert_eq!(found.command(), (node, vec!["--flag".into(), script.clone().into()]));
    let found = resolve(OsStr::new("cli"), Some(absolute.path().as_os_str())).unwrap();
    assert_eq!(found.command(), (script, vec![]));
}

#[test]
fn what_the_path_lacks_is_found_off_it_with_its_interpreter() {
    let (on_path, away, nodes) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let more = SearchFolders {
        programs: vec![away.path().to_owned()],
        interpreters: vec![nodes.path().to_owned()],
        ..SearchFolders::default()
    };
    let find = |more: &SearchFolders| {
        let path = Some(on_path.path().as_os_str());
        resolve_also_in(OsStr::new("cli"), path, more, &|_| None)
    };
    let script = write(away.path(), "cli", 0o755, "#!/usr/bin/env -S made-up-runtime --flag\n");
    assert_eq!(
        find(&more).map_err(|error| error.to_string()),
        Err(format!("{} needs made-up-runtime, which is missing", script.display()))
    );
    let runtime = write(nodes.path(), "made-up-runtime", 0o755, "#!/bin/sh\n");
    let found = find(&more).unwrap();
    assert_eq!(found.also_on_path.as_deref(), Some(nodes.path()));
    assert_eq!(found.command(), (runtime, vec!["--flag".into(), script.clone().into()]));
    // Another interpreter beside the script is the one that it was installed with, also before the PATH's.
    write(on_path.path(), "made-up-runtime", 0o755, "#!/bin/sh\n");
    let beside = write(away.path(), "made-up-runtime", 0o755, "#!/bin/sh\n");
    let again = SearchFolders {
        never: vec!["/nowhere".into()],
        ..more.clone()
    };
    assert_eq!(find(&again).unwrap().interpreter, Some(beside));
    // The PATH comes first.
    let file = write(on_path.path(), "cli", 0o755, "#!/bin/sh\n");
    let third = SearchFolders {
        never: vec!["/nowhere/else".into()],
        ..more
    };
    assert_eq!(find(&third).unwrap().command(), (file, vec![]));
}

#[test]
fn the_error_names_the_places_and_what_was_not_taken() {
    let (home, open) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = write(open.path(), "cli", 0o755, "#!/bin/sh\n");
    std::fs::set_permissions(open.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let more = SearchFolders {
        programs: vec![home.path().join("*/bin"), open.path().to_owned()],
        home: Some(home.path().to_owned()),
        ..SearchFolders::default()
    };
    let none = Some(OsStr::new("/nonexistent"));
    let found = resolve_also_in(OsStr::new("cli"), none, &more, &|_| None);
    assert_eq!(
        found.map_err(|error| error.to_string()),
        Err(format!(
            "cli is not in any folder of the PATH, nor in ~/*/bin and the other places of installers. {file} was not taken: \
             everybody can write to {open}",
            open = open.path().display(),
            file = file.display(),
        ))
    );
}
