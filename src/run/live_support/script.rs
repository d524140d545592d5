//! Tells a script that starts a CLI with the script's own arguments from one that only acts like the CLI.
//!
//! In: the text of a script. Out: yes or no. A shell's launcher hands all its arguments on to a program that it names (`exec
//! "$HOME/.claude/local/node_modules/.bin/claude" "$@"`). A test double reads or prints them instead, and must not be started more
//! often than it expects, so a script that can't be recognised as a launcher counts as a double.

use std::path::{Path, PathBuf};

/// The text of a file that begins with `head`, if it is a script.
pub fn text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head was cut in the middle of a character.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// The spellings of "all arguments" in the shells' and Windows' command language.
const ALL_ARGUMENTS: [&str; 6] = ["\"$@\"", "$@", "${@}", "\"$*\"", "$*", "%*"];
/// Returns whether the script `text` starts `program` with its own arguments.
pub fn starts(program: &str, text: &str) -> bool {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| !is_comment(line))
        .any(|line| is_launch(program, line))
}

fn is_comment(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["#", "rem ", "::", "@rem "].iter().any(|mark| line.starts_with(mark))
}

/// Returns whether a line of a shell's script names `program` and hands all arguments on behind it.
fn is_launch(program: &str, line: &str) -> bool {
    launched(line).any(|word| names(program, word))
}

/// The words of a line before all the arguments that it hands on; none if it hands on none.
fn launched(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    let at = ALL_ARGUMENTS.iter().filter_map(|all| line.find(all)).min();
    let command = at.map_or("", |at| &line[..at]);
    // Only the command that has the arguments counts: `claude --version; echo "$@"` is no launch.
    let command = command.rsplit([';', '|', '&', '(', '`']).next().unwrap_or_default();
    let first = command.split_whitespace().next();
    // A text that is printed is not started.
    let is_printed = matches!(first, Some("echo" | "printf" | "set" | "for" | "case" | "test" | "["));
    let command = if is_printed { "" } else { command };
    command.split_whitespace().map(|word| word.trim_matches(['"', '\'']))
}

/// The files to which the script `text` in `folder` hands all its arguments, the last first: as pnpm writes launchers, `exec node
/// "$basedir/../@openai/codex/bin/codex.js" "$@"`.
pub fn handed_to(text: &str, folder: &Path) -> Vec<PathBuf> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !is_comment(line));
    let words = lines.flat_map(|line| launched(line).rev().map(str::to_owned).collect::<Vec<_>>());
    let files = words.filter_map(|word| {
        let beside = BASE_FOLDERS.iter().find_map(|base| word.strip_prefix(base));
        match beside {
            Some(below) => Some(folder.join(below.trim_start_matches('/'))),
            None => Some(PathBuf::from(&word)).filter(|file| file.is_absolute()),
        }
    });
    files.filter(|file| file.is_file()).collect()
}

/// The names that launchers of npm and pnpm have for the folder that they are in.
const BASE_FOLDERS: [&str; 2] = ["$basedir/", "${basedir}/"];

/// Returns whether `word` is the program, a path to it, its npm package, or a variable named after it.
fn names(program: &str, word: &str) -> bool {
    if let Some(variable) = word.strip_prefix('$') {
        let variable = variable.trim_matches(['{', '}']);
        let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name(variable) {
            return variable.to_lowercase().contains(program);
        }
    }
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.strip_prefix('.').unwrap_or(name);
    // `.claude-wrapped` (Nix), `claude.exe`, `@anthropic-ai/claude-code@latest`.
    let rest = name
        .strip_prefix(program)
        .map(|rest| rest.split('@').next().unwrap_or_default());
    matches!(
        rest,
        Some("" | ".exe" | ".cmd" | "-code" | "-wrapped" | "-real" | "-original")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(text(b"\x7fELF\x02\x01\x01\0\0"), None);
        assert_eq!(text(b"MZ\x90\0"), None);
        assert_eq!(text(b"#!/bin/sh\necho \xc3"), Some("#!/bin/sh\necho "));
    }
}
