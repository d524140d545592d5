//! Finding a program outside of the PATH: a desktop, a service manager or a container starts a host with a PATH that has none of the
//! folders of a user's shell.
//!
//! In: the folders in which installers put programs ([`SearchFolders`]). Out: the newest copy that may be trusted, or the reason for
//! which each copy was not taken. A file is taken if it and every link to it belong to the user or to the system, in folders that
//! nobody else can write to; on Windows their owners and access lists say so. Nothing that lies in a working folder is taken.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The most folders that one pattern stands for: a version manager has a handful.
const MOST_MATCHES: usize = 256;
/// The most links that lead from a name to its file (`ELOOP` of Linux).
const MOST_LINKS: usize = 40;

/// The folders outside of the PATH that are searched for a program. A part of a path that is `*` stands for any folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SearchFolders {
    /// The folders for the program itself.
    pub programs: Vec<PathBuf>,
    /// The folders for the interpreter of a script.
    pub interpreters: Vec<PathBuf>,
    /// Folders of which nothing is taken: the working folders.
    pub never: Vec<PathBuf>,
    /// The user's home, which errors write as `~`.
    pub home: Option<PathBuf>,
}

/// A copy of a program that was not taken, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTaken {
    pub file: PathBuf,
    pub why: String,
}

/// The places outside of the PATH that were searched in vain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Searched {
    /// The first of them in words.
    first: Option<String>,
    pub folders: Vec<PathBuf>,
    pub not_taken: Vec<NotTaken>,
}

impl Searched {
    /// The end of the sentence that a program is not on the PATH, after `start`.
    pub(super) fn end_of(&self, mut start: String) -> String {
        if let Some(first) = &self.first {
            let nor = if start.is_empty() { ", nor in" } else { "; nor is it in" };
            start.push_str(&format!("{nor} {first} and the other places of installers"));
        }
        for NotTaken { file, why } in &self.not_taken {
            start.push_str(&format!(". {} was not taken: {why}", file.display()));
        }
        start
    }
}

/// The version of a file as an installer's folders or the caller know it.
pub type VersionOf<'a> = &'a dyn Fn(&Path) -> Option<[u64; 3]>;

impl SearchFolders {
    /// The newest copy of `program` that may be taken; of two that are as new, or whose version is unknown, the first.
    ///
    /// # Errors
    /// The copies that may not be taken.
    pub(super) fn program(&self, program: &OsStr, version_of: VersionOf) -> Result<PathBuf, Vec<NotTaken>> {
        self.newest(program, &self.programs, version_of)
    }

    /// `folder`, with the home written as `~`.
    fn short(&self, folder: &Path) -> String {
        let below = self.home.as_ref().and_then(|home| folder.strip_prefix(home).ok());
        let short = below.map(|below| Path::new("~").join(below));
        short.as_deref().unwrap_or(folder).display().to_string()
    }

    /// The places for the program, after a search that has found none but `not_taken`.
    pub(super) fn searched(&self, not_taken: Vec<NotTaken>) -> Searched {
        Searched {
            first: self.programs.first().map(|folder| self.short(folder)),
            folders: self.programs.clone(),
            not_taken,
        }
    }

    /// The newest `interpreter`, if there is one that may be taken.
    pub(super) fn interpreter(&self, interpreter: &OsStr) -> Option<PathBuf> {
        self.newest(interpreter, &self.interpreters, &version_of_path).ok()
    }

    /// `file`, if it may be taken.
    pub(super) fn trusted(&self, file: PathBuf) -> Option<PathBuf> {
        refusal(&file, &self.never).is_none().then_some(file)
    }

    fn newest(&self, program: &OsStr, patterns: &[PathBuf], version_of: VersionOf) -> Result<PathBuf, Vec<NotTaken>> {
        let mut best: Option<(Option<[u64; 3]>, PathBuf)> = None;
        let mut not_taken = Vec::new();
        for folder in patterns.iter().flat_map(|pattern| matches(pattern)) {
            let Ok(file) = which::which_in(program, Some(&folder), "/") else {
                continue;
            };
            if let Some(why) = refusal(&file, &self.never) {
                not_taken.push(NotTaken { file, why });
                continue;
            }
            let version = version_of(&file);
            if best.as_ref().is_none_or(|(newest, _)| version > *newest) {
                best = Some((version, file));
            }
        }
        best.map(|(_, file)| file).ok_or(not_taken)
    }
}

/// The folders that `pattern` stands for, in the order of their names.
fn matches(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        if part != Component::Normal(OsStr::new("*")) {
            found.iter_mut().for_each(|folder| folder.push(part));
            continue;
        }
        let below = found.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
        let below: BTreeSet<PathBuf> = below.flatten().flatten().map(|entry| entry.path()).collect();
        found = below.into_iter().take(MOST_MATCHES).collect();
    }
    found
}

/// The version in the name of the nearest folder that has one: `~/.nvm/versions/node/v22.3.0/bin/node`.
pub fn version_of_path(file: &Path) -> Option<[u64; 3]> {
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let version = |name: &OsStr| {
        let name = name.to_str()?;
        // `v22.3.0`, `2.1.332`, `cli-1.0.41`.
        let numbers = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let core = numbers.split(['-', '+', '_']).next()?;
        let numbers: Option<Vec<u64>> = core.split('.').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let found = [real.as_path(), file];
    found.into_iter().find_map(|path| path.iter().rev().find_map(version))
}

/// The reason for which `file` may not be taken, by itself, by a link on the way to it, or by a folder of one of them.
fn refusal(file: &Path, never: &[PathBuf]) -> Option<String> {
    let mut at = file.to_owned();
    for _ in 0..MOST_LINKS {
        let (Some(folder), Some(name)) = (at.parent(), at.file_name()) else {
            return Some(format!("{} is no file", at.display()));
        };
        let folder = match std::fs::canonicalize(folder) {
            Ok(folder) => folder,
            Err(error) => return Some(format!("{} can't be looked at: {error}", folder.display())),
        };
        if let Some(never) = never.iter().find(|never| folder.starts_with(never)) {
            let what = if at == file { "it lies" } else { "it leads" };
            return Some(format!("{what} into the working folder {}", never.display()));
        }
        if let Some(why) = sys::folder_refusal(&folder) {
            return Some(why);
        }
        let here = folder.join(name);
        let found = match std::fs::symlink_metadata(&here) {
            Ok(found) => found,
            Err(error) => return Some(format!("{} can't be looked at: {error}", here.display())),
        };
        if let Some(why) = sys::owner_refusal(&here, &found) {
            return Some(why);
        }
        if !found.is_symlink() {
            return sys::write_refusal(&here, &found);
        }
        match std::fs::read_link(&here) {
            Ok(target) => at = folder.join(target),
            Err(error) => return Some(format!("{} can't be looked at: {error}", here.display())),
        }
    }
    Some("too many links lead to it".to_owned())
}

#[cfg(unix)]
mod sys {
    use std::fs::Metadata;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// The bit of a mode by which only an entry's owner may replace it (`/tmp`).
    const STICKY: u32 = 0o1000;

    /// Returns the reason for which what lies in `folder` may be another user's.
    pub(super) fn folder_refusal(folder: &Path) -> Option<String> {
        folder.ancestors().enumerate().find_map(|(above, folder)| {
            let found = match std::fs::metadata(folder) {
                Ok(found) => found,
                Err(error) => return Some(format!("{} can't be looked at: {error}", folder.display())),
            };
            // An entry that is the user's own stays so in a folder above with this bit.
            let is_kept = above > 0 && found.mode() & STICKY != 0;
            owner_refusal(folder, &found).or_else(|| write_refusal(folder, &found).filter(|_| !is_kept))
        })
    }

    /// Returns the reason if `path` belongs neither to the user nor to the system.
    pub(super) fn owner_refusal(path: &Path, found: &Metadata) -> Option<String> {
        let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
        // Where a namespace has no root, the owner of `/` stands for it.
        let is_systems = || owner == 0 || std::fs::metadata("/").is_ok_and(|root| root.uid() == owner);
        (owner != user && !is_systems()).then(|| {
            format!(
                "{} belongs to the user {owner}, not to you or the system",
                path.display()
            )
        })
    }

    /// Returns the reason if others than the user and the system can write to `path`.
    pub(super) fn write_refusal(path: &Path, found: &Metadata) -> Option<String> {
        if found.mode() & 0o002 != 0 {
            return Some(format!("everybody can write to {}", path.display()));
        }
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        // Homebrew's folders on macOS belong to the group `admin` (80), whose members may become root. A group with the number of
        // its user is the user's own (Debian, Fedora).
        let is_own =
            |gid: u32| gid == 0 || (gid == group && group == user) || (cfg!(target_vendor = "apple") && gid == 80);
        (found.mode() & 0o020 != 0 && !is_own(found.gid()))
            .then(|| format!("the group {} can write to {}", found.gid(), path.display()))
    }
}

#[cfg(windows)]
mod sys {
    use std::fs::Metadata;
    use std::path::Path;

    use crate::access_list::{Part, refusal};

    /// Returns the reason for which what lies in `folder` may be another user's.
    pub(super) fn folder_refusal(folder: &Path) -> Option<String> {
        folder.ancestors().enumerate().find_map(|(above, folder)| {
            let part = match (above, folder.parent()) {
                (0, _) => Part::Folder,
                (_, None) => Part::Root,
                (_, Some(_)) => Part::Above,
            };
            refusal(folder, part)
        })
    }

    /// Returns the reason if `path` belongs neither to the user nor to the system.
    pub(super) fn owner_refusal(path: &Path, _: &Metadata) -> Option<String> {
        refusal(path, Part::Link)
    }

    /// Returns the reason if others than the user and the system can write to `path`.
    pub(super) fn write_refusal(path: &Path, _: &Metadata) -> Option<String> {
        refusal(path, Part::File)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn program(file: &Path) -> PathBuf {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "#!/bin/sh\n").unwrap();
        mode(file, 0o755);
        file.to_owned()
    }

    fn mode(file: &Path, mode: u32) {
        std::fs::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// A folder whose real path is known, and in which nobody else can write.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    fn in_folders(folders: &[PathBuf]) -> SearchFolders {
        SearchFolders {
            programs: folders.to_vec(),
            ..SearchFolders::default()
        }
    }

    #[test]
    fn the_newest_of_several_versions() {
        let (_guard, home) = home();
        let versions = home.join("versions");
        for version in ["v9.11.0", "v22.3.0", "v22.10.1"] {
            program(&versions.join(version).join("bin/cli"));
        }
        let plain = program(&home.join("bin/cli"));
        let known = in_folders(&[home.join("bin"), home.join("none"), versions.join("*/bin")]);
        assert_eq!(
            known.program(OsStr::new("cli"), &version_of_path),
            Ok(versions.join("v22.10.1/bin/cli"))
        );
        assert_eq!(known.program(OsStr::new("cli"), &|_| None), Ok(plain));
        assert_eq!(known.program(OsStr::new("other"), &|_| None), Err(vec![]));
    }

    #[test]
    fn what_others_can_change_is_not_taken_and_said_why() {
        let (_guard, home) = home();
        let (open, work) = (home.join("open"), home.join("work"));
        let in_open = program(&open.join("cli"));
        mode(&open, 0o777);
        program(&work.join("bin/evil"));
        let linked = home.join("linked/cli");
        std::fs::create_dir_all(linked.parent().unwrap()).unwrap();
        symlink(work.join("bin/evil"), &linked).unwrap();
        let writable = program(&home.join("writable/cli"));
        mode(&writable, 0o757);
        // A link on the way stands where others can change it.
        program(&home.join("real/cli"));
        symlink(home.join("real/cli"), open.join("hop")).unwrap();
        let hopped = home.join("hopped/cli");
        std::fs::create_dir_all(hopped.parent().unwrap()).unwrap();
        symlink(open.join("hop"), &hopped).unwrap();
        let folders = ["open", "linked", "writable", "hopped"].map(|name| home.join(name));
        let known = SearchFolders {
            never: vec![work.clone()],
            ..in_folders(&folders)
        };
        let not_taken = known.program(OsStr::new("cli"), &|_| None).unwrap_err();
        let expected = [
            (in_open, format!("everybody can write to {}", open.display())),
            (linked, format!("it leads into the working folder {}", work.display())),
            (
                writable.clone(),
                format!("everybody can write to {}", writable.display()),
            ),
            (hopped, format!("everybody can write to {}", open.display())),
        ];
        assert_eq!(not_taken, expected.map(|(file, why)| NotTaken { file, why }));
    }

    #[test]
    fn another_users_file_is_not_taken() {
        let (_guard, home) = home();
        let file = program(&home.join("bin/cli"));
        // Only root can give a file away.
        if std::os::unix::fs::chown(&file, Some(12_345), None).is_err() {
            return;
        }
        let why = format!("{} belongs to the user 12345, not to you or the system", file.display());
        assert_eq!(
            in_folders(&[home.join("bin")]).program(OsStr::new("cli"), &|_| None),
            Err(vec![NotTaken { file, why }])
        );
    }
}
