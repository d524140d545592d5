//! Private folders on Windows: an access list instead of a mode, a file of the host instead of a watchdog, and links without the
//! right to make them.
//!
//! A host that is killed leaves its folders, with the system prompts in them. So a host that has any holds a file open beside
//! them that Windows removes when the host ends, in whichever way, and its private folders carry the same name. Folders whose
//! host's file is gone belong to nobody any more, and the next host removes them when it makes its own first one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};
use windows_sys::Win32::Storage::FileSystem::{CreateDirectoryW, FILE_FLAG_DELETE_ON_CLOSE};

/// The beginning of the names of private folders; the host's name follows.
const FOLDER: &str = "deep-factor-";
/// The beginning of the name of a host's file.
const HOST: &str = "deep-factor-host-";
/// The length of a host's name, and of a folder's own name after it, in hexadecimal digits.
const DIGITS: usize = 16;
/// The number of tries, [`PAUSE`] apart, to remove a folder that could not be removed: five seconds in all.
const TRIES: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// This process's host in each folder for temporary files that it has used.
type Known = HashMap<PathBuf, Weak<LivingHost>>;
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// A living host: held by its private folders, so that a host without folders holds nothing open.
#[derive(Debug)]
pub(super) struct LivingHost {
    name: String,
    /// Open as long as the host lives, and removed with it.
    _file: File,
}

impl LivingHost {
    /// Makes the file, which nobody else can open or remove.
    fn begin(temporary: &Path) -> io::Result<LivingHost> {
        let name = digits()?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .share_mode(0)
            .custom_flags(FILE_FLAG_DELETE_ON_CLOSE)
            .open(temporary.join(format!("{HOST}{name}")))?;
        Ok(LivingHost { name, _file: file })
    }
}

/// Makes a new folder in the one for temporary files that nobody but the user can look into or change, and names its host.
pub(super) fn new_folder() -> io::Result<(PathBuf, Option<Arc<LivingHost>>)> {
    let temporary = std::env::temp_dir();
    // If no file can be held open, the folder is made all the same; no other host removes it.
    let host = host_in(&temporary).ok();
    let own = digits()?;
    let name = match &host {
        Some(host) => format!("{FOLDER}{}-{own}", host.name),
        None => format!("{FOLDER}{own}"),
    };
    let path = temporary.join(name);
    create_private(&path)?;
    Ok((path, host))
}

/// This host in a folder for temporary files. The first time, a thread removes the folders that dead hosts have left there.
fn host_in(temporary: &Path) -> io::Result<Arc<LivingHost>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = known.get(temporary);
    if let Some(host) = before.and_then(Weak::upgrade) {
        return Ok(host);
    }
    let is_first = before.is_none();
    let host = Arc::new(LivingHost::begin(temporary)?);
    known.insert(temporary.to_owned(), Arc::downgrade(&host));
    drop(known);
    if is_first {
        let temporary = temporary.to_owned();
        // If no thread can be started, the next host removes them.
        let _ = std::thread::Builder::new().spawn(move || remove_orphans(&temporary));
    }
    Ok(host)
}

/// Tries in a thread, while `host` lives, to remove a folder that is still held by somebody. A folder that is held for longer is
/// removed by the next host.
pub(super) fn remove_soon(host: Option<Arc<LivingHost>>, remove: impl Fn() -> bool + Send + 'static) {
    let tries = move || {
        for _ in 0..TRIES {
            std::thread::sleep(PAUSE);
            if remove() {
                break;
            }
        }
        drop(host);
    };
    let _ = std::thread::Builder::new().spawn(tries);
}

/// Removes the private folders whose host is gone. Those of other users can't be removed, and stay.
fn remove_orphans(temporary: &Path) {
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(host) = name.to_str().and_then(host_of) else {
            continue;
        };
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && matches!(temporary.join(format!("{HOST}{host}")).try_exists(), Ok(false)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The host to which a private folder of this name belongs.
fn host_of(name: &str) -> Option<&str> {
    let (host, own) = name.strip_prefix(FOLDER)?.split_once('-')?;
    let is_ours = |text: &str| text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_ours(host) && is_ours(own)).then_some(host)
}

/// Random digits that nobody can predict.
fn digits() -> io::Result<String> {
    let number = crate::random::bits()? as u64;
    Ok(format!("{number:0DIGITS$x}"))
}

/// Makes a folder whose access list names the user alone, and is inherited by what is made in it: the folder for temporary files
/// may be one that others can read. Fails if anything of this name exists.
fn create_private(path: &Path) -> io::Result<()> {
    // Protected from the access list of the folder above; full access for the user, for folders and files in it, too.
    let list = wide(format!("D:P(A;OICI;FA;;;{})", dfp_process::user_sid()?).as_ref());
    let name = wide(path.as_os_str());
    let mut descriptor: PSECURITY_DESCRIPTOR = std::ptr::null_mut();
    #[expect(unsafe_code, reason = "the standard library makes no access lists")]
    // SAFETY: both texts end with a zero; the descriptor is made by the first call, outlives the second and is freed once.
    unsafe {
        let made = ConvertStringSecurityDescriptorToSecurityDescriptorW(
            list.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor,
            std::ptr::null_mut(),
        );
        if made == 0 {
            return Err(io::Error::last_os_error());
        }
        let attributes = SECURITY_ATTRIBUTES {
            nLength: u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or_default(),
            lpSecurityDescriptor: descriptor,
            bInheritHandle: 0,
        };
        let done = CreateDirectoryW(name.as_ptr(), &raw const attributes);
        let outcome = if done == 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        };
        LocalFree(descriptor);
        outcome
    }
}

fn wide(text: &std::ffi::OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}

/// Makes a link to the file `target`. Symbolic links take a right of their own, which few have, and Wine says that it has made
/// one where there is none; a second name of the file takes no right.
pub(super) fn make_link(target: &Path, path: &Path) -> io::Result<()> {
    if std::os::windows::fs::symlink_file(target, path).is_ok() && path.symlink_metadata().is_ok() {
        return Ok(());
    }
    if !target.exists() {
        return Ok(());
    }
    std::fs::hard_link(target, path).map_err(|error| match error.kind() {
        io::ErrorKind::CrossesDevices => io::Error::new(
            error.kind(),
            format!(
                "{} is on another drive, and this account may make no symbolic links: set TEMP to a folder on that drive, or turn \
                 on Windows' developer mode",
                target.display()
            ),
        ),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_hosts_go_and_others_stay() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        let living = LivingHost::begin(temporary.path()).unwrap();
        let of_living = at(&format!("{FOLDER}{}-{}", living.name, digits().unwrap()));
        let of_dead = at(&format!("{FOLDER}{}-{}", digits().unwrap(), digits().unwrap()));
        let foreign = [at("deep-factor-Ab12Cd"), at("deep-factor-notes-of-mine"), at("other")];
        for folder in foreign.iter().chain([&of_living, &of_dead]) {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("system.md"), "private").unwrap();
        }
        let there = || foreign.iter().filter(|folder| folder.exists()).count();
        remove_orphans(temporary.path());
        assert_eq!((of_living.exists(), of_dead.exists(), there()), (true, false, 3));
        drop(living);
        remove_orphans(temporary.path());
        assert_eq!((of_living.exists(), there()), (false, 3));
    }

    #[test]
    fn a_private_folder_is_made_once_and_can_be_used() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("private");
        create_private(&path).unwrap();
        std::fs::write(path.join("file"), "text").unwrap();
        assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "text");
        assert_eq!(create_private(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_link_reads_and_writes_the_file_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("auth.json"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        make_link(&file, &link).unwrap();
        std::fs::write(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        make_link(&folder.path().join("nowhere"), &folder.path().join("none")).unwrap();
    }
}
