//! What a claude process says of its surroundings by itself, in the first message of a conversation.
//!
//! In: the process's command line and environment. Out: the [`Opening`](super::memory::Opening), as its transcripts have it (2.1.330, 2.1.332, on Linux; the
//! words of other systems were not seen, so there the CLI tells them anew).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::print;
use crate::session_files::real;
use dfp_model::time::iso;
use dfp_process::{Vars, local_offset_min};
use dfp_provider::command::CommandLine;

/// The local date at `now_ms`, `2026-11-25`; `None` where the time zone is not known.
pub fn date(now_ms: u64) -> Option<String> {
    let offset = i64::from(local_offset_min(now_ms)?) * 60_000;
    let local = now_ms.saturating_add_signed(offset);
    iso(local).get(..10).map(str::to_owned)
}

/// The folder, the system and the shell of a process of `line` that runs in `cwd`; `None` where its words are not known.
pub fn environment(line: &CommandLine, env: &Arc<Vars>, cwd: &Path) -> Option<Value> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let cwd = real(cwd).ok()?;
    let is_git_repo = is_git_repo(&cwd)?;
    let of_system = |name: &str| {
        let text = std::fs::read_to_string(PathBuf::from("/proc/sys/kernel").join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    let shell = print::variable(line, env, "SHELL").unwrap_or_default();
    let shell = Path::new(&shell).file_name().unwrap_or_default().to_string_lossy();
    let shell = match shell.as_ref() {
        "" | "bash" => "bash".to_owned(),
        login => format!("bash (login shell: {login})"),
    };
    Some(json!({
        "workingDirectory": cwd.to_str()?, "isWorktree": false, "isGitRepo": is_git_repo, "additionalWorkingDirectories": [],
        "platform": "linux", "shell": shell, "osVersion": format!("{} {}", of_system("ostype")?, of_system("osrelease")?),
    }))
}

/// Returns whether a folder is in a repository; `None` for a worktree, of which the CLI says more.
fn is_git_repo(cwd: &Path) -> Option<bool> {
    let found = cwd
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.exists());
    match found {
        None => Some(false),
        Some(git) => git.is_dir().then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_date_is_the_local_one() {
        let date = date(1_795_294_800_000).unwrap();
        assert!(["2026-11-21", "2026-11-22"].contains(&date.as_str()), "{date}");
    }

    #[test]
    fn a_folder_is_in_a_repository_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        assert_eq!(is_git_repo(&inner), Some(false));
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        assert_eq!(is_git_repo(&inner), Some(true));
        std::fs::write(inner.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(is_git_repo(&inner), None);
    }
}
