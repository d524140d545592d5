use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use dfp_process::Resolved;
use dfp_provider::find;

#[test]
fn what_was_tried_is_known_for_ten_minutes() {
    let support = LiveSupport::unserved(Basis::Trial, "it ended");
    let since = Instant::now();
    let known = Remembered(support.clone(), since);
    let after = |seconds: u64| known.at(since + Duration::from_secs(seconds)).cloned();
    assert_eq!([after(0), after(599)], [Some(support.clone()), Some(support)]);
    assert_eq!(after(600), None);
}

fn binary(name: &str) -> Binary {
    let file = std::env::temp_dir().join(name);
    let resolved = Resolved {
        file,
        prefix: Vec::new(),
        interpreter: None,
        called_with: None,
        also_on_path: None,
    };
    Binary::new(resolved, None)
}

#[test]
fn a_refused_schema_is_known_of_that_schema_and_of_so_many() {
    let binary = binary("deep-factor-capabilities-no-such-schema");
    remember_refused_schema(&binary, "{}", "odd");
    assert_eq!(schema_refusal(&binary, "{}").as_deref(), Some("odd"));
    assert_eq!(schema_refusal(&binary, "{ }"), None);
    for n in 0..2 * MAX_SCHEMAS {
        remember_refused_schema(&binary, &n.to_string(), "odd");
    }
    assert_eq!(facts()[&binary].refused_schemas.len(), MAX_SCHEMAS);
}

#[test]
fn what_was_tried_belongs_to_the_surroundings_and_overrules_no_reply() {
    let [one, other, replied] =
        [1, 2, 3].map(|surroundings| binary("deep-factor-capabilities-no-such-settings").in_surroundings(surroundings));
    remember_reply(EngineUsed::Live, &replied);
    for refused in [&one, &replied] {
        remember_not_begun(EngineUsed::Live, refused, "it refuses");
    }
    let refused = LiveSupport::unserved(Basis::Trial, "it refuses");
    let known = [&one, &other, &replied].map(|binary| known(EngineUsed::Live, binary));
    assert_eq!(known, [Some(refused), None, None]);
}

#[test]
fn so_is_a_refused_flag() {
    let binary = binary("deep-factor-capabilities-no-such-file");
    let since = Instant::now();
    remember_refused(&binary, "--some");
    let after = |seconds: u64| refused_at(&binary, since + Duration::from_secs(seconds)).len();
    // The flag was refused a moment after `since`.
    assert_eq!([after(0), after(599), after(601)], [1, 1, 0]);
}

/// The first bytes of a file that is no script.
const PROGRAM: &[u8] = b"\x7fELF\x02\x01\x01\0\0";

fn check() -> EngineCheck {
    find("claude").and_then(|provider| provider.checks.live).unwrap()
}

fn write(root: &TempDir, path: &str, content: &[u8]) -> PathBuf {
    let file = root.path().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, content).unwrap();
    file
}

fn package(root: &TempDir, folder: &str, name: &str, version: &str) {
    let json = format!(r#"{{"name":"{name}","version":"{version}"}}"#);
    write(root, &format!("{folder}/package.json"), json.as_bytes());
}

fn seen(file: &Path) -> &'static str {
    match look(&check(), file) {
        LiveSupport::Served(_) => "served",
        LiveSupport::Unknown(_) => "unknown",
        LiveSupport::Unserved(_) => "unserved",
    }
}

#[test]
fn the_vendors_package_says_what_it_is() {
    for (name, version, expected) in [
        ("@anthropic-ai/claude-code", "2.1.330", "served"),
        ("@anthropic-ai/claude-code", "2.1.197", "served"),
        ("@anthropic-ai/claude-code", "3.0.0-beta.1", "served"),
        ("@anthropic-ai/claude-code-linux-x64", "2.1.330", "served"),
        ("@anthropic-ai/claude-code", "2.1.196", "unserved"),
        ("@anthropic-ai/claude-code", "newest", "unserved"),
        // The package of another author, with a binary that has the CLI's name.
        ("@anthropic-ai/claude-codex", "2.1.330", "unknown"),
        ("my-agent", "2.1.330", "unknown"),
    ] {
        let root = TempDir::new().unwrap();
        package(&root, "lib", name, version);
        for file in ["lib/claude", "lib/bin/claude.exe"] {
            assert_eq!(seen(&write(&root, file, PROGRAM)), expected, "{name} {version} {file}");
        }
    }
}

#[test]
fn a_package_above_another_one_says_nothing_of_it() {
    let root = TempDir::new().unwrap();
    package(&root, "lib", "@anthropic-ai/claude-code", "2.1.330");
    package(&root, "lib/mine", "mine", "1.0.0");
    assert_eq!(
        seen(&write(&root, "lib/mine/claude", b"#!/bin/sh\necho hi")),
        "unserved"
    );
}

#[test]
fn an_installers_path_names_the_version() {
    for (path, expected) in [
        (".local/share/claude/versions/2.1.330", "served"),
        ("Caskroom/claude-code/2.1.330/claude", "served"),
        (".local/share/claude/versions/1.0.85", "unserved"),
        ("claude/versions/latest", "unserved"),
        ("versions/2.1.330", "unserved"),
    ] {
        let root = TempDir::new().unwrap();
        assert_eq!(seen(&write(&root, path, PROGRAM)), expected, "{path}");
    }
    // An installed grok is named after its version.
    let grok = find("grok").and_then(|provider| provider.checks.warm).unwrap();
    for (path, expected) in [
        (".grok/bin/grok-1.0.41", true),
        (".grok/bin/grok-1.0.42", false),
        (".grok/bin/grok", false),
        ("bin/grok-1.0.41", false),
    ] {
        let root = TempDir::new().unwrap();
        let found = look(&grok, &write(&root, path, PROGRAM));
        assert_eq!(matches!(found, LiveSupport::Served(_)), expected, "{path}");
    }
    // A script in the place of the program is not the installer's file.
    let root = TempDir::new().unwrap();
    let file = write(
        &root,
        "claude/versions/2.1.330",
        b"#!/bin/sh\necho '2.1.330 (Claude Code)'",
    );
    assert_eq!(seen(&file), "unserved");
}

#[cfg(unix)]
#[test]
fn a_link_is_what_it_leads_to() {
    let root = TempDir::new().unwrap();
    let file = write(&root, "share/claude/versions/2.1.330", PROGRAM);
    let link = root.path().join("claude");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(seen(&link), "served");
}

#[test]
fn what_nothing_tells_of_is_tried_only_under_the_clis_name() {
    let root = TempDir::new().unwrap();
    assert_eq!(seen(&write(&root, "bin/claude", PROGRAM)), "unknown");
    assert_eq!(seen(&write(&root, "bin/fake-cli", PROGRAM)), "unserved");
    assert_eq!(
        seen(&write(&root, "bin/claude-2", b"#!/bin/sh\nexec claude \"$@\"")),
        "unknown"
    );
    assert_eq!(seen(&root.path().join("nowhere")), "unserved");
}

#[test]
fn reasons_are_sentences_for_people() {
    let root = TempDir::new().unwrap();
    package(&root, "lib", "@anthropic-ai/claude-code", "2.0.1");
    assert_eq!(
        look(&check(), &write(&root, "lib/claude", PROGRAM)),
        LiveSupport::unserved(
            Basis::Version,
            "it is @anthropic-ai/claude-code 2.0.1, says its package.json: 2.1.197 is the oldest that serves sessions"
        )
    );
    assert!(is_too_old(&check(), "2.0.1") && !is_too_old(&check(), "2.1.330") && !is_too_old(&check(), "?"));
}

/// The launcher is written as pnpm 10 writes it beside a package's folder.
#[test]
fn the_file_that_a_launcher_hands_its_arguments_to_says_what_it_is() {
    let pnpm = |target: &str| {
        format!(
            "#!/bin/sh\nbasedir=$(dirname \"$(echo \"$0\" | sed -e 's,\\\\,/,g')\")\n\ncase `uname` in\n    *CYGWIN*|*MINGW*|*MSYS*)\n        \
             basedir=`cygpath -w \"$basedir\"`\n    ;;\nesac\n\nif [ -x \"$basedir/node\" ]; then\n  exec \"$basedir/node\"  \
             \"$basedir/{target}\" \"$@\"\nelse\n  exec node  \"$basedir/{target}\" \"$@\"\nfi\n"
        )
    };
    for (id, package_name, script, version) in [
        ("codex", "@openai/codex", "bin/codex.js", "0.169.0"),
        ("gemini", "@google/gemini-cli", "dist/index.js", "0.61.0"),
        ("qwen", "@qwen-code/qwen-code", "cli.js", "0.24.4"),
        ("claude", "@anthropic-ai/claude-code", "cli.js", "2.1.330"),
    ] {
        let root = TempDir::new().unwrap();
        let folder = format!("global/node_modules/{package_name}");
        package(&root, &folder, package_name, version);
        write(
            &root,
            &format!("{folder}/{script}"),
            b"#!/usr/bin/env node\nimport './main.js';\n",
        );
        let text = pnpm(&format!("../global/node_modules/{package_name}/{script}"));
        let launcher = write(&root, &format!("bin/{id}"), text.as_bytes());
        // A script that starts that launcher, by its path.
        let behind = format!("#!/bin/sh\nexport PROXY=x\nexec '{}' \"$@\"\n", launcher.display());
        let behind = write(&root, "own/start", behind.as_bytes());
        let provider = find(id).unwrap();
        let check = provider.checks.live.or(provider.checks.warm).unwrap();
        for file in [&launcher, &behind] {
            assert!(
                matches!(look(&check, file), LiveSupport::Served(_)),
                "{id}: {:?}",
                look(&check, file)
            );
            assert_eq!(
                super::version_in_file(&check, file).map(super::text).as_deref(),
                Some(version),
                "{id}"
            );
        }
        // A script that hands on nothing, or hands it on to itself, is judged by itself.
        let alone = write(&root, "bin/own", b"#!/bin/sh\nexec \"$basedir/own\" \"$@\"\n");
        assert!(matches!(look(&check, &alone), LiveSupport::Unserved(_)), "{id}");
    }
}

#[test]
fn launchers_are_told_from_doubles() {
    for launcher in [
        "#!/bin/bash\nexec \"/home/me/.claude/local/node_modules/.bin/claude\" \"$@\"",
        "#!/bin/sh\n# sets a proxy\nexport HTTPS_PROXY=http://proxy\nexec /opt/node_modules/claude-code-newest/bin/claude.exe --verbose \"$@\"\n",
        "#!/bin/sh\nexec \"$REAL_CLAUDE\" \"$@\"",
        "#!/bin/sh\nexec ${CLAUDE_BIN} $@",
        "#!/usr/bin/env bash\nexec asdf exec \"claude\" \"$@\"",
        "#!/bin/sh\nexec npx -y @anthropic-ai/claude-code@2.1.330 \"$@\"",
        "#!/bin/sh\ndocker run --rm -i image claude \\\n  \"$@\"",
        "#! /nix/store/x-bash/bin/bash -e\nexport DISABLE_AUTOUPDATER='1'\nexec -a \"$0\" \"/nix/store/y/bin/.claude-wrapped\"  \"$@\"",
        "@echo off\r\n\"C:\\tools\\claude.exe\" %*\r\n",
    ] {
        assert!(starts("claude", launcher), "{launcher}");
    }
    for double in [
        "#!/bin/sh\necho 2.1.330 '(Claude Code)'",
        "#!/bin/sh\n# a fake claude\nprintf '%s\\n' \"$@\" > args.txt\ncat > /dev/null\necho hello",
        "#!/bin/sh\ncase \"$*\" in *--version*) echo 2.1.330;; esac\necho claude",
        "#!/bin/sh\necho claude \"$@\"",
        "#!/bin/sh\nFAKE_CLI='@/tmp/dfp/claude.state/scenario.json' exec '/target/debug/fake-cli' \"$@\"",
        "#!/usr/bin/env node\nrequire('node:fs').writeFileSync('argv.json', JSON.stringify(process.argv));\nconsole.log('claude');",
        "#!/usr/bin/env node\nif (process.argv.includes('--version')) console.log('2.1.330 (Claude Code)');\nelse console.log(JSON.stringify({ model: 'claude-sonnet-4-5' }));",
        // A launcher in another language is not recognised, so print form is used.
        "#!/usr/bin/env node\nrequire('node:child_process').spawn('/opt/claude', process.argv.slice(2), { stdio: 'inherit' });",
        "",
    ] {
        assert!(!starts("claude", double), "{double}");
    }
}

#[test]
fn a_program_is_no_script() {
    assert_eq!(script_text(b"\x7fELF\x02\x01\x01\0\0"), None);
    assert_eq!(script_text(b"MZ\x90\0"), None);
    assert_eq!(script_text(b"#!/bin/sh\necho \xc3"), Some("#!/bin/sh\necho "));
}
