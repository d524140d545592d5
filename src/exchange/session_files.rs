//! A thread as a session of the CLI's own, written where the CLI looks for its sessions: for a CLI that takes no foreign text as
//! a prompt.
//!
//! In: a [`PrivateSession`], the private folder of a process, and the folder that the process runs in. Out: the session's files.

use std::io;
use std::path::{Path, PathBuf};

use super::scratch;
use dfp_provider::command::PrivateSession;

/// Writes the files of a session that somebody else removes: those of a process for one call go with its private folder.
pub(super) fn write(session: &PrivateSession, private: &Path, cwd: &Path) -> io::Result<()> {
    let place = Path::new(session.folder).join(session.place(&real(cwd)?));
    let mut files = session.files.iter();
    files.try_for_each(|file| scratch::write_below(private, &place.join(file.name), file.content.as_bytes()))
}

/// The folder's path as the CLI knows it: the real path. On Windows that would be spelled differently here, so the path stays as
/// it is.
pub(super) fn real(cwd: &Path) -> io::Result<PathBuf> {
    match cfg!(windows) {
        true => Ok(cwd.to_owned()),
        false => std::fs::canonicalize(cwd),
    }
}

/// The files of a session among others; they are removed on drop.
#[derive(Debug)]
pub(super) struct SessionFiles {
    folder: PathBuf,
}

impl SessionFiles {
    /// Writes the files of `session`.
    pub fn write(session: &PrivateSession, private: &Path, cwd: &Path) -> io::Result<SessionFiles> {
        let files = SessionFiles {
            folder: private.join(session.folder).join(session.place(&real(cwd)?)),
        };
        write(session, private, cwd)?;
        Ok(files)
    }
}

impl Drop for SessionFiles {
    fn drop(&mut self) {
        // Files that can't be removed here go with the private folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_provider::command::PrivateFile;

    fn session() -> PrivateSession {
        PrivateSession {
            folder: "home/sessions",
            id: "s1".to_owned(),
            model: None,
            effort: None,
            files: vec![PrivateFile {
                name: "history",
                content: "the thread".to_owned(),
            }],
        }
    }

    #[test]
    fn a_session_is_nobody_elses_and_goes_with_its_call() {
        let private = tempfile::tempdir().unwrap();
        let cwd = private.path().join("empty");
        std::fs::create_dir(&cwd).unwrap();
        let place = private
            .path()
            .join("home/sessions")
            .join(session().place(&real(&cwd).unwrap()));
        let files = SessionFiles::write(&session(), private.path(), &cwd).unwrap();
        assert_eq!(std::fs::read_to_string(place.join("history")).unwrap(), "the thread");
        #[cfg(unix)]
        {
            let mode = |path: &Path| {
                let mode = std::fs::metadata(path).unwrap().permissions();
                std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777
            };
            assert_eq!((mode(&place.join("history")), mode(&place)), (0o600, 0o700));
        }
        // A session of the same name is not ours.
        assert!(write(&session(), private.path(), &cwd).is_err());
        drop(files);
        assert!(!place.exists() && place.parent().unwrap().exists());
    }

    #[test]
    fn a_private_folder_that_is_gone_stays_gone() {
        let gone = tempfile::tempdir().unwrap().keep();
        std::fs::remove_dir(&gone).unwrap();
        assert!(SessionFiles::write(&session(), &gone, Path::new("/")).is_err());
        assert!(!gone.exists());
    }
}
