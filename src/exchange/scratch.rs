//! Private folders of runs: an empty folder to run in, and files that must not show in argv. They are removed at the end of the
//! run, or of the run's owner.
//!
//! In: a [`CommandLine`]. Out: paths. A folder is made and listed for [`remove_all`] in one step: after that call, no folder of
//! the owner is left and no new one can be made, though the threads that run its calls may still go on for a moment.
//!
//! A CLI may get a home in place of the user's (`prepare_home`): a private folder with links to the user's login, and nothing else of
//! theirs. A CLI that takes no foreign text as a prompt finds the thread as a session of its own, written where it looks for its sessions
//! (`write_session`).

#[cfg(windows)]
mod windows;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfp_provider::PrivateHome;
use dfp_provider::command::{CommandLine, Cwd, EnvText, PrivateLink, PrivateSession, RUN_FOLDER};

#[cfg(unix)]
use dfp_process::FolderGuard;

/// The number of tries, 5 ms apart, to remove a folder into which a killed process has just written.
const REMOVE_TRIES: u32 = 10;

/// The folders of one owner.
#[derive(Debug, Default)]
struct Folders {
    ended: bool,
    live: HashSet<PathBuf>,
}

static OWNERS: LazyLock<Mutex<HashMap<u64, Arc<Mutex<Folders>>>>> = LazyLock::new(Mutex::default);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folders(owner: u64) -> Arc<Mutex<Folders>> {
    locked(&OWNERS).entry(owner).or_default().clone()
}

/// Removes every folder of `owner` and refuses new ones. Blocks, for milliseconds as a rule; needs no runtime. The owner's
/// processes must have been killed before.
pub fn remove_all(owner: u64) {
    let folders = folders(owner);
    let mut folders = locked(&folders);
    folders.ended = true;
    for path in folders.live.drain() {
        for _ in 0..REMOVE_TRIES {
            if remove(&path) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes the file or folder, and returns whether nothing is there any more.
fn remove(path: &Path) -> bool {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => std::fs::remove_file(path),
        _ => std::fs::remove_dir_all(path),
    };
    match removed {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A private folder (mode 0700) of one run: an empty folder to run in, and files (mode 0600) beside it, or in it by name.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    /// The files and folders that were made in it, in this order: listing a folder takes a descriptor, and there may be none
    /// left.
    made: Vec<PathBuf>,
    owner: Arc<Mutex<Folders>>,
    /// The guard that removes the folder if the host is killed.
    #[cfg(unix)]
    _guard: Option<FolderGuard>,
    /// Tells, as long as it is held, to which host the folder belongs.
    #[cfg(windows)]
    host: Option<Arc<windows::LivingHost>>,
}

/// A file elsewhere that the CLI leaves behind when it is killed, removed like a [`Scratch`].
#[derive(Debug)]
pub(super) struct Leftover {
    /// Held only for its drop.
    _file: Scratch,
}

impl Leftover {
    /// Takes over the file at `path`, which the run of `owner` has made.
    pub fn adopt(path: PathBuf, owner: u64) -> Leftover {
        let owner = folders(owner);
        locked(&owner).live.insert(path.clone());
        Leftover {
            _file: Scratch {
                path,
                made: Vec::new(),
                owner,
                #[cfg(unix)]
                _guard: None,
                #[cfg(windows)]
                host: None,
            },
        }
    }
}

impl Scratch {
    /// Makes the folder and the files that `line` needs; `None` if it needs none.
    pub fn for_line(line: &CommandLine, owner: u64) -> io::Result<Option<Scratch>> {
        let folders_of_env = line.set_env.iter().filter_map(|(_, value)| match value {
            EnvText::Folder(name) => Some(*name),
            _ => None,
        });
        let further: Vec<&str> = folders_of_env.collect();
        let no_files =
            line.files.is_empty() && line.media.is_empty() && line.links.is_empty() && line.session.is_none();
        if line.cwd != Cwd::Private && no_files && further.is_empty() {
            return Ok(None);
        }
        let made = Scratch::made(owner, |making| {
            for name in further {
                making.folder(&making.path.join(name))?;
            }
            for file in &line.files {
                making.file(&making.path.join(file.name), file.content.as_bytes())?;
            }
            for file in &line.media {
                making.file(&making.path.join(&file.name), &file.bytes)?;
            }
            for link in &line.links {
                making.link(&link.target, &making.path.join(&link.name))?;
            }
            Ok(())
        });
        made.map(Some)
    }

    /// A private folder with nothing but an empty folder to run in.
    pub fn empty(owner: u64) -> io::Result<Scratch> {
        Scratch::made(owner, |_| Ok(()))
    }

    /// Makes a folder, whose files and folders beside the one to run in `fill` makes.
    fn made(owner: u64, fill: impl FnOnce(&mut Making) -> io::Result<()>) -> io::Result<Scratch> {
        let owner = folders(owner);
        let mut listed = locked(&owner);
        if listed.ended {
            return Err(io::Error::other("the environment that asked for it has ended"));
        }
        // Until everything is there, an error removes it again.
        let mut making = Making::begin()?;
        making.folder(&making.path.join(RUN_FOLDER))?;
        fill(&mut making)?;
        #[cfg(unix)]
        let guard = making.guard.take();
        #[cfg(windows)]
        let host = making.host.take();
        let (path, made) = making.keep();
        listed.live.insert(path.clone());
        drop(listed);
        Ok(Scratch {
            path,
            made,
            owner,
            #[cfg(unix)]
            _guard: guard,
            #[cfg(windows)]
            host,
        })
    }

    /// Writes a file at `path` below the folder `name`.
    pub fn write(&self, name: &str, path: &Path, content: &[u8]) -> io::Result<()> {
        write_below(&self.path, &Path::new(name).join(path), content)
    }

    /// The whole private folder.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The folder to run in.
    pub fn folder(&self) -> PathBuf {
        self.path.join(RUN_FOLDER)
    }

    /// The file, or the further empty folder, of this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder is taken off the list only when it is gone: listed folders are removed when the owner ends.
        let is_gone = take_away(&self.path, &self.made);
        if is_gone {
            locked(&self.owner).live.remove(&self.path);
        }
        // A process that has just exited, or a virus scanner, may still hold the folder for a moment.
        #[cfg(windows)]
        if !is_gone {
            let (path, owner) = (self.path.clone(), Arc::clone(&self.owner));
            windows::remove_soon(self.host.take(), move || {
                let is_gone = remove(&path);
                if is_gone {
                    locked(&owner).live.remove(&path);
                }
                is_gone
            });
        }
    }
}

/// Removes the folder at `path`, or the file. Mostly the CLI has left nothing in the folder it ran in, and there is nothing else:
/// then nothing has to be listed. If no descriptor is left to list with, the paths in `made` are removed one by one.
fn take_away(path: &Path, made: &[PathBuf]) -> bool {
    let emptied = std::fs::remove_dir(path.join(RUN_FOLDER)).is_ok() && std::fs::remove_dir(path).is_ok();
    if emptied || remove(path) {
        return true;
    }
    for inner in made.iter().rev() {
        let _ = std::fs::remove_file(inner).or_else(|_| std::fs::remove_dir(inner));
    }
    std::fs::remove_dir(path).is_ok()
}

/// A private folder in the making: if it is dropped before it is complete, it is removed with its content.
struct Making {
    path: PathBuf,
    made: Vec<PathBuf>,
    kept: bool,
    #[cfg(unix)]
    guard: Option<FolderGuard>,
    #[cfg(windows)]
    host: Option<Arc<windows::LivingHost>>,
}

impl Making {
    /// Makes a folder that nobody else can look into or change, whatever the umask is: with a folder of mode 0777 anybody could
    /// put another system prompt in the place of the run's.
    #[cfg(unix)]
    fn begin() -> io::Result<Making> {
        use std::os::unix::fs::DirBuilderExt;
        let mut builder = tempfile::Builder::new();
        builder.prefix("deep-factor-");
        // The guard knows the name before the folder exists: a host that is killed in between would leave the folder.
        let made = builder.make_in(std::path::absolute(std::env::temp_dir())?, |path| {
            let guard = FolderGuard::new(path);
            std::fs::DirBuilder::new().mode(0o700).create(path)?;
            Ok(guard)
        })?;
        let (guard, path) = made.keep().map_err(io::Error::from)?;
        let making = Making {
            path,
            made: Vec::new(),
            kept: false,
            guard: Some(guard),
        };
        make_private(&making.path)?;
        Ok(making)
    }

    /// Makes a folder that nobody else can look into or change; what is made in it is the user's alone, too.
    #[cfg(windows)]
    fn begin() -> io::Result<Making> {
        let (path, host) = windows::new_folder()?;
        Ok(Making {
            path,
            made: Vec::new(),
            kept: false,
            host,
        })
    }

    /// Makes a folder inside of it, with the folders above that. A file's name may lead into the folder the CLI runs in.
    fn folder(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        std::fs::create_dir(path)?;
        self.made.push(path.to_owned());
        set_mode(path, 0o700)
    }

    fn file(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        self.made.push(path.to_owned());
        write_private(path, content)
    }

    fn link(&mut self, target: &Path, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.folder(parent)?;
        }
        self.made.push(path.to_owned());
        make_link(target, path)
    }

    fn keep(mut self) -> (PathBuf, Vec<PathBuf>) {
        self.kept = true;
        (std::mem::take(&mut self.path), std::mem::take(&mut self.made))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.kept && std::fs::remove_dir(&self.path).is_err() {
            take_away(&self.path, &self.made);
        }
    }
}

/// Checks that the folder at `path` is one of ours and no link, and sets its mode to 0700.
#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty())?;
    if fstat(&folder)?.st_uid != rustix::process::geteuid().as_raw() {
        let why = "the folder that was made there belongs to somebody else now";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(fchmod(&folder, Mode::RWXU)?)
}

/// Makes a link to the file `target`, which is neither read nor changed, nor removed with the folder.
fn make_link(target: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(windows)]
    return windows::make_link(target, path);
}

/// Sets the mode that the umask has reduced. `path` is in a private folder, where nobody else can put a link.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}

/// Writes a file (mode 0600) at `path` below `private`, a private folder, and the folders between (0700). A private folder that
/// is gone is not made again: nobody would remove it.
pub(super) fn write_below(private: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut folder = private.to_owned();
    for name in path.parent().into_iter().flatten() {
        folder.push(name);
        match std::fs::create_dir(&folder) {
            Ok(()) => set_mode(&folder, 0o700)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    write_private(&private.join(path), content)
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = io::Write::write_all(&mut file, content).and_then(|()| set_mode(path, 0o600));
    if written.is_err() {
        drop(file);
        // Nobody knows of a part of a file, and so nobody would remove it.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Gives `line` its private home. `variable` looks up a variable of the process.
pub(super) fn prepare_home(line: &mut CommandLine, variable: impl Fn(&CommandLine, &str) -> Option<OsString>) {
    let Some(home) = line.home.take() else { return };
    let users = users_home(&home, |name| variable(line, name));
    if let Some(users) = &users {
        let rest = home.rest.iter().filter(|name| users.join(name).exists());
        // The linked file may not exist yet: a login may come later.
        line.links.extend(home.login.iter().chain(rest).map(|name| PrivateLink {
            name: format!("{}/{name}", home.folder),
            target: users.join(name),
        }));
    }
    // A file that the user names by this variable has precedence, as has a call that must not have a login.
    if let Some(((variable, file), users)) = home.named.zip(users)
        && line.set_env.iter().all(|(set, _)| *set != variable)
    {
        line.set_env
            .push((variable, EnvText::Text(users.join(file).to_string_lossy().into_owned())));
    }
    line.user_env.retain(|(name, _)| name != home.variable);
    line.set_env.push((home.variable, EnvText::Folder(home.folder)));
}

/// The home that the CLI would take by itself.
fn users_home(home: &PrivateHome, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    #[cfg(not(windows))]
    let own = || value("HOME");
    #[cfg(windows)]
    let own = || match home.by_system {
        true => dfp_process::profile_folder(),
        false => value("USERPROFILE"),
    };
    value(home.variable).or_else(|| Some(own()?.join(home.users)))
}

/// Writes the files of a session that somebody else removes: those of a process for one call go with its private folder.
pub(super) fn write_session(session: &PrivateSession, private: &Path, cwd: &Path) -> io::Result<()> {
    let place = Path::new(session.folder).join(session.place(&real_path(cwd)?));
    let mut files = session.files.iter();
    files.try_for_each(|file| write_below(private, &place.join(file.name), file.content.as_bytes()))
}

/// The folder's path as the CLI knows it: the real path. On Windows that would be spelled differently here, so the path stays as
/// it is.
pub(super) fn real_path(cwd: &Path) -> io::Result<PathBuf> {
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
            folder: private.join(session.folder).join(session.place(&real_path(cwd)?)),
        };
        write_session(session, private, cwd)?;
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
    use dfp_provider::Provider;
    use dfp_provider::claude::CLAUDE;
    use dfp_provider::command::{self, PrivateFile};
    use dfp_provider::glm::GLM;
    use dfp_provider::options::Options;

    fn line(options: &str) -> CommandLine {
        line_of(&CLAUDE, options)
    }

    fn line_of(provider: &'static Provider, options: &str) -> CommandLine {
        let options = Options::parse(provider, options).unwrap();
        command::build(
            provider,
            &options,
            command::Mode::Print("PROMPT"),
            false,
            &dfp_provider::command::Installed::default(),
        )
        .unwrap()
    }

    #[test]
    fn gone_with_the_run() {
        let scratch = Scratch::for_line(&line(r#"{"systemPrompt":"S"}"#), u64::MAX)
            .unwrap()
            .unwrap();
        let (folder, file) = (scratch.folder(), scratch.file(dfp_provider::SYSTEM_PROMPT_FILE));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "S");
        drop(scratch);
        assert!(!folder.parent().unwrap().exists());
        assert!(locked(&folders(u64::MAX)).live.is_empty());
    }

    #[test]
    fn gone_with_the_owner_which_gets_no_more() {
        let owner = u64::MAX - 1;
        let scratch = Scratch::for_line(&line("{}"), owner).unwrap().unwrap();
        std::fs::write(scratch.folder().join("left behind"), "x").unwrap();
        remove_all(owner);
        assert!(!scratch.path.exists());
        assert!(Scratch::for_line(&line("{}"), owner).is_err());
        drop(scratch);
    }

    #[test]
    fn leftovers_go_with_the_run_and_with_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let (one, two) = (file("1.sock"), file("2.sock"));
        drop(Leftover::adopt(one.clone(), u64::MAX - 2));
        let _kept = Leftover::adopt(two.clone(), u64::MAX - 2);
        assert!(!one.exists() && two.exists());
        remove_all(u64::MAX - 2);
        assert!(!two.exists());
    }

    #[test]
    fn none_where_none_is_needed() {
        assert!(
            Scratch::for_line(&line_of(&GLM, r#"{"cwd":"/"}"#), u64::MAX)
                .unwrap()
                .is_none()
        );
    }

    fn session() -> PrivateSession {
        PrivateSession {
            folder: "home/sessions",
            id: "s1".to_owned(),
            model: None,
            effort: None,
            schema: None,
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
            .join(session().place(&real_path(&cwd).unwrap()));
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
        assert!(write_session(&session(), private.path(), &cwd).is_err());
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
