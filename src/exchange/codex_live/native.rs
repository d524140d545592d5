//! The program behind npm's `codex`, which is a script that starts another program and waits for it.
//!
//! In: the file that a command line would execute. Out: the file of the program itself, found in the same way as by that script.
//! A server lives long: without the script in between there is one process instead of two, whose memory is codex's own, and which
//! is gone when it is killed.

use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};

use dfp_provider::command::CommandLine;

/// Replaces the script in `line`, which executes `file`, by the program itself.
pub fn direct(line: CommandLine, file: &Path) -> CommandLine {
    match program(file) {
        Some(program) => CommandLine {
            program: program.to_string_lossy().into_owned(),
            ..line
        },
        None => line,
    }
}

/// The program behind `file`, if that is npm's script (`@openai/codex` 0.150.0 and 0.169.0).
fn program(file: &Path) -> Option<PathBuf> {
    let script = std::fs::canonicalize(file).ok()?;
    let package = script.parent()?.parent()?;
    if !script.ends_with("@openai/codex/bin/codex.js") {
        return None;
    }
    let (platform, triple) = target()?;
    let beside = package.parent()?.join(platform);
    let within = package.join("node_modules/@openai").join(platform);
    let name = if cfg!(windows) { "codex.exe" } else { "codex" };
    let of_package = |folder: PathBuf| folder.join("vendor").join(triple).join("bin").join(name);
    [within, beside, package.to_owned()]
        .into_iter()
        .map(of_package)
        .find(|program| program.is_file())
}

/// The package of this platform, and the name of the folder in it.
fn target() -> Option<(&'static str, &'static str)> {
    Some(match (OS, ARCH) {
        ("linux" | "android", "x86_64") => ("codex-linux-x64", "x86_64-unknown-linux-musl"),
        ("linux" | "android", "aarch64") => ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => ("codex-darwin-x64", "x86_64-apple-darwin"),
        ("macos", "aarch64") => ("codex-darwin-arm64", "aarch64-apple-darwin"),
        ("windows", "x86_64") => ("codex-win32-x64", "x86_64-pc-windows-msvc"),
        ("windows", "aarch64") => ("codex-win32-arm64", "aarch64-pc-windows-msvc"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn the_program_is_found_beside_the_package_or_in_it() {
        let Some((platform, triple)) = target() else { return };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let script = root.join("node_modules/@openai/codex/bin/codex.js");
        put(&script);
        assert_eq!(program(&script), None);
        let name = if cfg!(windows) { "codex.exe" } else { "codex" };
        for place in [
            root.join("node_modules/@openai"),
            root.join("node_modules/@openai/codex/node_modules/@openai"),
        ] {
            let binary = place.join(platform).join("vendor").join(triple).join("bin").join(name);
            put(&binary);
            assert_eq!(program(&script), Some(binary));
        }
        let other = root.join("codex.js");
        put(&other);
        assert_eq!(program(&other), None);
        assert_eq!(program(&root.join("nowhere")), None);
    }
}
