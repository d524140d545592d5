//! The shims of npm, pnpm and yarn are read on every system; files are looked for with Unix permissions.

#[cfg(unix)]
mod files;

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
        parse_shim(text),
        shim(Some("node"), &[], "node_modules\\@google\\gemini-cli\\dist\\index.js")
    );
}

#[test]
fn npm_script_with_node_flags() {
    let text = "SET \"_prog=node\"\n\"%_prog%\" --no-warnings=DEP0040 \"%dp0%\\node_modules\\x y\\cli.mjs\" %*";
    assert_eq!(
        parse_shim(text),
        shim(Some("node"), &["--no-warnings=DEP0040"], "node_modules\\x y\\cli.mjs")
    );
}

#[test]
fn npm_native_program() {
    let text =
        "@ECHO off\r\nCALL :find_dp0\r\n\"%dp0%\\node_modules\\@anthropic-ai\\claude-code\\bin\\claude.exe\"   %*\r\n";
    assert_eq!(
        parse_shim(text),
        shim(None, &[], "node_modules\\@anthropic-ai\\claude-code\\bin\\claude.exe")
    );
}

#[test]
fn pnpm_script() {
    let text = "@SETLOCAL\r\n@IF EXIST \"%~dp0\\node.exe\" (\r\n  \"%~dp0\\node.exe\"  \"%~dp0\\..\\cli\\cli.js\" %*\r\n) ELSE (\r\n\
          @SET PATHEXT=%PATHEXT:;.JS;=;%\r\n  node  \"%~dp0\\..\\cli\\cli.js\" %*\r\n)\r\n";
    assert_eq!(parse_shim(text), shim(Some("node"), &[], "..\\cli\\cli.js"));
}

#[test]
fn other_batch_files_are_not_shims() {
    assert_eq!(parse_shim("@echo off\r\npython C:\\tools\\x.py %*\r\n"), None);
    assert_eq!(parse_shim("@echo off\r\necho hello\r\n"), None);
    assert_eq!(parse_shim(""), None);
}
