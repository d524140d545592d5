//! The watchdog: a shell that ends the runs of a host which was killed. Unix only.
//!
//! In: process groups, each for as long as its run goes on, and private folders, from before they are made until they are gone. Out:
//! one tiny shell beside all of them, which waits for the end of its input. The host holds the other end, so the input ends
//! when the host does, in whichever way: SIGKILL, an unhandled SIGINT or SIGTERM, a crash. Then the shell ends the groups
//! (SIGTERM, the grace, SIGKILL) and removes the private folders. On Linux it also looks for processes with the host's mark in
//! their environment, which have left their group for a session of their own.
//!
//! The shell exists while any run or folder does. The first folder starts it, before the folder is made; for a
//! run without a folder a thread starts it, beside the run's process. That process gets its input only when the shell knows of
//! it: if the host is killed earlier, the process finds its input at an end.
//!
//! A watchdog is needed where a process does not heed the end of its own input: claude in print form has read all of it by the
//! time it asks the API, and outlives its host until the answer comes (claude 2.1.197 and 2.1.330).
//!
//! The shell acts within a moment of the host's death and stops when the groups are empty, so a group's id would have to be
//! reused within that moment to hit another process. While the host lives, no leader is reaped before the shell is told to
//! forget its group, and the shell reads that before it can see the end of its input.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::Notify;

use super::env::host_mark;

/// The shell's program. It reads lines: `group tenths` to guard a group, with the grace in tenths of a second; `f<number> -
/// folder/` for a folder to remove; `group` or `f<number>` alone to forget it. Its argument is the mark of every process of the
/// host's runs ([`host_mark`]).
const SCRIPT: &str = r#"trap '' HUP INT TERM
mark=$1
groups=
folders=
# Sends a signal to all with the mark, but not to members of the groups: many a CLI takes being asked twice for "at once".
escapees() {
  cd /proc || return
  for path in $(grep -lsF -e "$mark" [0-9]*/environ); do
    read -r stat <"${path%/*}/stat" || continue
    set -- "$1" ${stat##*) }
    case " $all " in *" $4 "*) continue ;; esac
    kill -s "$1" -- "${path%/*}" && found=1
  done
}
while read -r name tenths folder; do
  case $name in
  f*)
    if [ -n "$folder" ]; then
      folders="$folders $name"
      eval "path_$name=\$folder"
    else
      left=
      for each in $folders; do [ "$each" = "$name" ] || left="$left $each"; done
      folders=$left
      unset "path_$name"
    fi
    ;;
  *)
    if [ -n "$tenths" ]; then
      groups="$groups $name"
      eval "tenths_$name=\$tenths"
    else
      left=
      for each in $groups; do [ "$each" = "$name" ] || left="$left $each"; done
      groups=$left
      unset "tenths_$name"
    fi
    ;;
  esac
done
longest=0
for group in $groups; do
  eval "tenths=\$tenths_$group"
  [ "$tenths" -le "$longest" ] || longest=$tenths
  kill -s TERM -- "-$group" && kill -s CONT -- "-$group"
done
all=$groups
escapees TERM
now=0
while :; do
  left=
  found=
  for group in $groups; do
    eval "tenths=\$tenths_$group"
    if kill -s 0 -- "-$group"; then
      if [ "$now" -lt "$tenths" ]; then
        left="$left $group"
        continue
      fi
      kill -s KILL -- "-$group"
    fi
  done
  groups=$left
  if [ "$now" -lt "$longest" ]; then escapees 0; else escapees KILL; fi
  # What is there so long after SIGKILL sleeps in the kernel.
  [ -n "$groups$found" ] && [ "$now" -lt $((longest + 50)) ] || break
  sleep 0.1
  now=$((now + 1))
done
# Now nobody is left who would write into them.
for name in $folders; do
  eval "folder=\$path_$name"
  rm -rf -- "$folder"
done"#;

/// A run's share in the shell: while any share exists, there is a shell, or one about to start. It guards the run's group from
/// [`Watchdog::guard`] on until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// `None` until the run has been started.
    group: Option<i32>,
}

impl Watchdog {
    /// Has a thread start the shell, if there is none. Call it before starting the run's own process, so that both start side
    /// by side. Needs a tokio runtime.
    pub fn spawn() -> Watchdog {
        let mut registry = registry();
        registry.shares += 1;
        if registry.shell.is_none() {
            registry.spawn_shell();
        }
        Watchdog { group: None }
    }

    /// Has `group` ended when the host is. `false` means that the shell is still starting and knows of the group after
    /// [`watchdog_started`]. If no shell can be started, the run goes on without one.
    pub fn guard(&mut self, group: Pid, grace: Duration) -> bool {
        let group = group.as_raw_nonzero().get();
        self.group = Some(group);
        let mut registry = registry();
        let guarded = Guarded::Group(group);
        registry.orders.insert(guarded, order_of_group(group, grace));
        let sent = registry.send(guarded);
        if !sent {
            registry.spawn_shell();
        }
        sent
    }

    /// Ends the guard. Afterwards no shell is left, or about to start, that nothing needs.
    pub async fn dismiss(self) {
        drop(self);
        let needed = || registry().shares > 0;
        while !needed() && registry().starting {
            watchdog_started().await;
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        registry().forget(self.group.map(Guarded::Group));
    }
}

/// A private folder's share in the shell: if the host ends before this is dropped, the shell removes the folder.
#[derive(Debug)]
pub struct FolderGuard(Guarded);

impl FolderGuard {
    /// Guards the folder at `path`, which is made next. If there is no shell, it is started here, or another thread's start of it
    /// is awaited, which takes a millisecond. The folder does not outlive the host, whenever that is killed.
    pub fn new(path: &Path) -> FolderGuard {
        let mut registry = registry();
        registry.shares += 1;
        registry.next_folder += 1;
        let guarded = Guarded::Folder(registry.next_folder);
        if let Some(order) = order_of_folder(guarded, path) {
            registry.orders.insert(guarded, order);
        }
        if !registry.send(guarded) {
            if registry.starting {
                let waited = FOLDERS.wait_timeout_while(registry, START, |registry| registry.starting);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            } else {
                registry.starting = true;
                drop(registry);
                Registry::start();
            }
        }
        FolderGuard(guarded)
    }
}

impl Drop for FolderGuard {
    fn drop(&mut self) {
        registry().forget(Some(self.0));
    }
}

/// A guarded thing, under the name that the shell knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Guarded {
    Group(i32),
    Folder(u64),
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guarded::Group(group) => write!(f, "{group}"),
            Guarded::Folder(number) => write!(f, "f{number}"),
        }
    }
}

/// Resolves when no shell is about to start: it is there and knows every group, or it can't be started.
pub(super) async fn watchdog_started() {
    loop {
        let started = STARTED.notified();
        if !registry().starting {
            return;
        }
        started.await;
    }
}

/// The line that tells the shell to guard a group.
fn order_of_group(group: i32, grace: Duration) -> Vec<u8> {
    format!("{group} {}\n", grace.as_millis().div_ceil(100)).into_bytes()
}

/// The line that tells the shell to remove a folder. `None` for a name with a line feed, which can't be sent: the system's own
/// cleaning removes that folder.
fn order_of_folder(guarded: Guarded, folder: &Path) -> Option<Vec<u8>> {
    let path = folder.as_os_str().as_bytes();
    if path.contains(&b'\n') {
        return None;
    }
    let mut line = format!("{guarded} - ").into_bytes();
    line.extend_from_slice(path);
    // The final slash keeps blanks at the end, which `read` would strip.
    line.extend_from_slice(b"/\n");
    Some(line)
}

/// The shell, and the groups and folders registered with it.
#[derive(Debug, Default)]
struct Registry {
    shell: Option<Shell>,
    /// True while a thread is starting the shell.
    starting: bool,
    /// The number of runs and folders that need the shell.
    shares: usize,
    /// The line sent for each guarded group or folder.
    orders: HashMap<Guarded, Vec<u8>>,
    /// The number of the last folder.
    next_folder: u64,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// Notified when an attempt to start the shell is over.
static STARTED: Notify = Notify::const_new();

/// Notified like [`STARTED`], for threads that wait outside of a task.
static FOLDERS: Condvar = Condvar::new();

/// The time for which a thread waits for a shell that another thread starts: that start may have been given up with its runtime.
const START: Duration = Duration::from_secs(1);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Has a thread start a shell, if none is doing so.
    fn spawn_shell(&mut self) {
        if !self.starting {
            self.starting = true;
            tokio::task::spawn_blocking(Registry::start);
        }
    }

    /// Ends a share, and with it the guard of its group or folder.
    fn forget(&mut self, guarded: Option<Guarded>) {
        self.shares -= 1;
        let guarded = guarded.filter(|guarded| self.orders.remove(guarded).is_some());
        if self.shares == 0 {
            self.shell = None;
        } else if let (Some(guarded), Some(shell)) = (guarded, &mut self.shell) {
            // If the write fails the shell is gone, and the next run gets another.
            let _ = shell.write(format!("{guarded}\n").as_bytes());
        }
    }

    /// Tells the shell to guard a group or folder; `false` if there is no shell, or none any more.
    fn send(&mut self, guarded: Guarded) -> bool {
        let Some(shell) = &mut self.shell else {
            return false;
        };
        // Without a line the folder's name can't be sent.
        let Some(order) = self.orders.get(&guarded) else {
            return true;
        };
        let sent = shell.write(order).is_ok();
        if !sent {
            self.shell = None;
        }
        sent
    }

    /// Starts a shell and sends it everything that is guarded. Blocks, since starting a process does.
    fn start() {
        let shell = Shell::start(&host_mark());
        let mut registry = registry();
        registry.starting = false;
        let informed = shell.and_then(|mut shell| {
            registry.orders.values().try_for_each(|order| shell.write(order))?;
            Ok(shell)
        });
        // All runs may be over by now. If the shell can't be started, they go on without it.
        if let Ok(shell) = informed {
            registry.shell = (registry.shares > 0).then_some(shell);
        }
        drop(registry);
        STARTED.notify_waiters();
        FOLDERS.notify_all();
    }
}

/// The shell's process. Dropping it dismisses the shell.
#[derive(Debug)]
struct Shell {
    child: Child,
    orders: ChildStdin,
}

impl Shell {
    /// Starts the shell, in a group of its own, so that a signal to the host's group does not reach it.
    fn start(mark: &str) -> io::Result<Shell> {
        use std::os::unix::process::CommandExt;
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "deep-factor-watchdog", mark])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let orders = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let shell = Shell { child, orders };
        // A shell that does not read must not block the host.
        let flags = rustix::fs::fcntl_getfl(shell.orders.as_fd())?;
        rustix::fs::fcntl_setfl(shell.orders.as_fd(), flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(shell)
    }

    /// # Errors
    /// Fails if the line was not written whole.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self.orders.write(line)? {
            written if written == line.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The child is not reaped yet, so the id is its own. SIGKILL can't be ignored, so the wait is short. It may be gone
        // already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(pid: u32) -> bool {
        Pid::from_raw(pid.cast_signed()).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }

    /// The shell ends the groups it still guards when its input ends; `cat` stands for a CLI that waits for ever.
    #[test]
    fn ends_the_groups_that_it_still_guards() {
        use std::os::unix::process::CommandExt;
        let mut cats: Vec<Child> = (0..3)
            .map(|_| {
                let mut cat = Command::new("/bin/cat");
                cat.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
                cat.spawn().unwrap()
            })
            .collect();
        let folders = tempfile::tempdir().unwrap();
        let folder = |name: &str| folders.path().join(name);
        for name in ["kept", " blank \\n ' \" "] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        // This process is in a group unknown to the shell, as after `setsid`: only the mark tells whose it is.
        let mark = format!("{}=test-{}-", super::super::RUN_VARIABLE, std::process::id());
        let marked = |value: &str, ignores: &str| {
            let mut cat = Command::new("/bin/sh");
            cat.args(["-c", &format!("trap '' {ignores}; echo; exec cat")]);
            cat.env(super::super::RUN_VARIABLE, value);
            cat.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut cat = cat.spawn().unwrap();
            io::Read::read_exact(cat.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            cat
        };
        let own = format!("test-{}-", std::process::id());
        let mut escapees = [marked(&format!("{own}1"), "INT"), marked(&format!("{own}22"), "TERM")];
        let mut others = marked(&format!("other-{own}1"), "INT");
        let mut shell = Shell::start(&mark).unwrap();
        let ids: Vec<i32> = cats.iter().map(|cat| cat.id().cast_signed()).collect();
        let grace = Duration::from_millis(200);
        for id in &ids {
            shell.write(&order_of_group(*id, grace)).unwrap();
        }
        for (number, name) in [(1, "kept"), (22, " blank \\n ' \" ")] {
            let order = order_of_folder(Guarded::Folder(number), &folder(name)).unwrap();
            shell.write(&order).unwrap();
        }
        shell.write(format!("{}\n", ids[0]).as_bytes()).unwrap();
        shell.write(b"f1\n").unwrap();
        // This is the state after the host's death: the input ends, and nobody kills the shell.
        let Shell { child, orders } = &mut shell;
        let (read, write) = io::pipe().unwrap();
        drop((
            read,
            std::mem::replace(orders, ChildStdin::from(std::os::fd::OwnedFd::from(write))),
        ));
        child.wait().unwrap();

        let signals: Vec<Option<i32>> = cats[1..]
            .iter_mut()
            .map(|cat| std::os::unix::process::ExitStatusExt::signal(&cat.wait().unwrap()))
            .collect();
        assert_eq!(signals, [Some(15), Some(15)]);
        if cfg!(target_os = "linux") {
            let signals = escapees
                .each_mut()
                .map(|cat| std::os::unix::process::ExitStatusExt::signal(&cat.wait().unwrap()));
            assert_eq!(signals, [Some(15), Some(9)]);
        }
        assert!(running(others.id()), "the mark is another host's");
        for cat in escapees.iter_mut().chain([&mut others]) {
            let _ = cat.kill();
            cat.wait().unwrap();
        }
        assert!(running(cats[0].id()), "it was made to forget this one");
        cats[0].kill().unwrap();
        cats[0].wait().unwrap();
        let left: Vec<_> = folders
            .path()
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["kept"]);
    }

    #[test]
    fn a_folder_that_cannot_be_sent_is_left_out() {
        let guarded = Guarded::Folder(7);
        assert_eq!(order_of_folder(guarded, Path::new("/a b")).unwrap(), b"f7 - /a b/\n");
        assert_eq!(order_of_folder(guarded, Path::new("/a\nb")), None);
        assert_eq!(order_of_group(7, Duration::from_millis(150)), b"7 2\n");
        assert_eq!(order_of_group(7, Duration::ZERO), b"7 0\n");
    }
}
