//! Parsing the `.cmd` files that npm, pnpm and yarn put on the PATH on Windows, so that their program runs without a shell.
//!
//! In: the text of a shim. Out: the program or script behind it. Pure, so it is tested on every platform.
//!
//! A shim forwards `%*` to a target below its own folder, either a native program or a script for `node`. Running it
//! through `cmd.exe` would open it to that shell's quoting rules; the target itself needs none.

/// The command behind a shim, relative to the folder that the shim lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shim {
    /// The program that runs `target`, such as `node`; `None` if `target` is a program itself.
    pub runtime: Option<String>,
    /// Arguments the shim puts between the runtime and the target.
    pub runtime_args: Vec<String>,
    /// The file behind the shim, with `\` between folders.
    pub target: String,
}

/// Reads the shim that [cmd-shim](https://www.npmjs.com/package/cmd-shim) or pnpm's fork of it wrote; `None` for
/// anything else.
pub(super) fn parse(text: &str) -> Option<Shim> {
    // The last line with %* is the one for "no node.exe beside the shim"; the target is the same in both.
    let line = text.lines().rev().find(|line| line.contains("%*"))?;
    let command = line.split("%*").next()?;
    // npm's line does some housekeeping first: `endLocal & goto … || title %COMSPEC% & "%_prog%" "…"`.
    let command = command.rsplit('&').next()?.trim().trim_start_matches('@');
    let mut arguments = split_arguments(command);
    let target = beside_shim(&arguments.pop()?)?.to_owned();
    if arguments.is_empty() {
        return Some(Shim {
            runtime: None,
            runtime_args: Vec::new(),
            target,
        });
    }
    let first = arguments.remove(0);
    let runtime = match beside_shim(&first) {
        Some(local) => local.trim_end_matches(".exe").to_owned(),
        None if first == "%_prog%" => prog(text)?,
        None => first,
    };
    Some(Shim {
        runtime: Some(runtime),
        runtime_args: arguments,
        target,
    })
}

/// The value that `SET "_prog=node"` sets, in the branch without a folder.
fn prog(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| {
            line.split_once("_prog=")
                .map(|(_, value)| value.trim().trim_end_matches('"'))
        })
        .find(|value| !value.contains('%'))
        .map(str::to_owned)
}

/// The path below the shim's folder, if `word` is one.
fn beside_shim(word: &str) -> Option<&str> {
    ["%~dp0\\", "%dp0%\\", "%~dp0", "%dp0%"]
        .iter()
        .find_map(|prefix| word.strip_prefix(prefix))
}

/// Splits at blanks outside of double quotes and removes the quotes.
fn split_arguments(command: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    arguments.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        arguments.push(word);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shim(runtime: Option<&str>, runtime_args: &[&str], target: &str) -> Option<Shim> {
        Some(Shim {
            runtime: runtime.map(str::to_owned),
            runtime_args: runtime_args.iter().map(|&a| a.to_owned()).collect(),
            target: target.to_owned(),
        })
    }

    #[test]
    fn npm_script() {
        let text = "@ECHO off\r\nGOTO start\r\n:find_dp0\r\nSET dp0=%~dp0\r\nEXIT /b\r\n:start\r\nSETLOCAL\r\nCALL :find_dp0\r\n\r\n\
            IF EXIST \"%dp0%\\node.exe\" (\r\n  SET \"_prog=%dp0%\\node.exe\"\r\n) ELSE (\r\n  SET \"_prog=node\"\r\n  SET PATHEXT=%PATHEXT:;.JS;=;%\r\n)\r\n\r\n\
            endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & \"%_prog%\"  \"%dp0%\\node_modules\\@google\\gemini-cli\\dist\\index.js\" %*\r\n";
        assert_eq!(
            parse(text),
            shim(Some("node"), &[], "node_modules\\@google\\gemini-cli\\dist\\index.js")
        );
    }

    #[test]
    fn npm_script_with_node_flags() {
        let text = "SET \"_prog=node\"\n\"%_prog%\" --no-warnings=DEP0040 \"%dp0%\\node_modules\\x y\\cli.mjs\" %*";
        assert_eq!(
            parse(text),
            shim(Some("node"), &["--no-warnings=DEP0040"], "node_modules\\x y\\cli.mjs")
        );
    }

    #[test]
    fn npm_native_program() {
        let text = "@ECHO off\r\nCALL :find_dp0\r\n\"%dp0%\\node_modules\\@anthropic-ai\\claude-code\\bin\\claude.exe\"   %*\r\n";
        assert_eq!(
            parse(text),
            shim(None, &[], "node_modules\\@anthropic-ai\\claude-code\\bin\\claude.exe")
        );
    }

    #[test]
    fn pnpm_script() {
        let text = "@SETLOCAL\r\n@IF EXIST \"%~dp0\\node.exe\" (\r\n  \"%~dp0\\node.exe\"  \"%~dp0\\..\\cli\\cli.js\" %*\r\n) ELSE (\r\n\
              @SET PATHEXT=%PATHEXT:;.JS;=;%\r\n  node  \"%~dp0\\..\\cli\\cli.js\" %*\r\n)\r\n";
        assert_eq!(parse(text), shim(Some("node"), &[], "..\\cli\\cli.js"));
    }

    #[test]
    fn other_batch_files_are_not_shims() {
        assert_eq!(parse("@echo off\r\npython C:\\tools\\x.py %*\r\n"), None);
        assert_eq!(parse("@echo off\r\necho hello\r\n"), None);
        assert_eq!(parse(""), None);
    }
}
