//! The file of a transcript, for a process that is started with it.
//!
//! In: the lines, and the process's command line. Out: the command line with `--resume`. On Linux the lines are in memory alone: the
//! name in the private folder is a link to them, and they are gone with the last descriptor. Elsewhere they are a private file.
//! Either is taken away when the CLI has answered: it reads its transcript once, at the start (2.1.197 to 2.1.332).

use std::path::PathBuf;

use dfp_provider::command::{Arg, CommandLine};

/// The name in the private folder. The CLI takes a path only if it ends like this.
const NAME: &str = "thread.jsonl";

/// The place of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Memory,
    Disk,
}

/// A file that has no name, with `lines` in it.
#[cfg(target_os = "linux")]
fn in_memory(lines: &str) -> std::io::Result<std::fs::File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::Write;
    let mut memory = std::fs::File::from(memfd_create("thread", MemfdFlags::CLOEXEC)?);
    memory.write_all(lines.as_bytes())?;
    Ok(memory)
}

/// A transcript that a process is to read. It is taken away on drop.
#[derive(Debug)]
pub struct ThreadFile {
    #[cfg(target_os = "linux")]
    _memory: Option<std::fs::File>,
    disk: Option<PathBuf>,
}

impl ThreadFile {
    /// Has the process of `line` resume `lines`, which are at `place`, or on disk where the system has no such memory.
    pub fn attach(line: &mut CommandLine, lines: &str, place: Place) -> ThreadFile {
        line.args.push(Arg::Text("--resume".to_owned()));
        line.args.push(Arg::File(NAME));
        #[cfg(target_os = "linux")]
        if place == Place::Memory
            && let Ok(memory) = in_memory(lines)
        {
            use std::os::fd::AsRawFd;
            // The process doesn't inherit the descriptor, so it is named as this process's.
            let target = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
            line.links.push(dfp_provider::command::PrivateLink {
                name: NAME.to_owned(),
                target: target.into(),
            });
            return ThreadFile {
                _memory: Some(memory),
                disk: None,
            };
        }
        let _ = place;
        line.files.push(dfp_provider::command::PrivateFile {
            name: NAME,
            content: lines.to_owned(),
        });
        ThreadFile {
            #[cfg(target_os = "linux")]
            _memory: None,
            disk: Some(PathBuf::from(NAME)),
        }
    }

    /// Notes the private folder in which the file is.
    pub fn is_in(&mut self, folder: &std::path::Path) {
        self.disk = self.disk.take().map(|name| folder.join(name));
    }
}

impl Drop for ThreadFile {
    fn drop(&mut self) {
        // A file that can't be removed here goes with the private folder.
        if let Some(path) = self.disk.take().filter(|path| path.is_absolute()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use dfp_provider::claude::CLAUDE;
    use dfp_provider::command::{self, Mode};
    use dfp_provider::options::Options;

    /// The private folder of a process that resumes `lines`, and the file.
    fn attached(place: Place) -> (Scratch, ThreadFile, PathBuf) {
        let options = Options::parse(&CLAUDE, "{}").unwrap();
        let mut line = command::build(&CLAUDE, &options, Mode::Live, false, &command::Installed::default()).unwrap();
        let mut file = ThreadFile::attach(&mut line, "{}\n", place);
        let scratch = Scratch::for_line(&line, u64::MAX - 7).unwrap().unwrap();
        file.is_in(&scratch.path());
        let path = scratch.file(NAME);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
        (scratch, file, path)
    }

    #[test]
    fn the_lines_can_be_read_until_they_are_taken_away() {
        for place in [Place::Memory, Place::Disk] {
            let (_scratch, file, path) = attached(place);
            drop(file);
            assert!(std::fs::read_to_string(path).is_err(), "{place:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_of_them_is_on_disk() {
        let (_scratch, _file, path) = attached(Place::Memory);
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert!(found.is_symlink());
        assert!(std::fs::read_link(path).unwrap().starts_with("/proc"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_the_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (_scratch, _file, path) = attached(Place::Disk);
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.is_file(), found.permissions().mode() & 0o777), (true, 0o600));
    }
}
