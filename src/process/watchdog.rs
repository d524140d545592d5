//! Ending runs whose host was killed. Unix only.
//!
//! In: process groups, each as long as its run goes on, and private folders, from the moment they are made until they are gone. Out: one
//! tiny shell beside all of them, which waits for the end of its input. The host holds the other end, so the input ends when the host does, in whichever way: SIGKILL, an unhandled
//! SIGINT or SIGTERM, a crash. Then the shell has the groups gone (SIGTERM, the grace, SIGKILL) and removes the
//! private folders; on Linux it looks for processes with the host's mark in their environment as well, which have left their group
//! for a session of their own. It is there while any run or folder is. The first folder starts it, before anything is written into the folder; for a run without one a
//! thread does, beside the run's process. That gets its input only when the shell knows of it: killed earlier, the host leaves a process that
//! finds its input at an end.
//!
//! It is needed where the process does not heed the end of its own input: claude in print form has read all of it by the
//! time it asks the API, and outlives its host until the answer comes (claude 2.1.197 and 2.1.330).
//!
//! The shell acts within a moment of the host's death and stops when the groups are empty: an id of a group that became
//! somebody else's would have to do so within that moment. While the host lives, no leader is reaped before the shell is
//! made to forget its group, and the shell has read that before it can see the end of its input.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::Notify;

use super::mark::host_mark;

/// Reads lines: `group tenths` to guard a group, with the grace in tenths of a second; `f<number> - folder/` for a folder to remove;
/// `group` or `f<number>` alone to forget it. Its argument is what marks every process of the host's runs ([`host_mark`]).
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

/// A run's share in the shell: while there is one, there is a shell, or one that is about to start. It guards the run's group
/// from [`Watchdog::guard`] on until it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// `None` as long as the run has not been started.
    group: Option<i32>,
}

impl Watchdog {
    /// Has a thread start the shell, if there is none: before the run's own process, so that both start side by side. Needs
    /// a tokio runtime.
    pub fn spawn() -> Watchdog {
        let mut registry = registry();
        registry.shares += 1;
        if registry.shell.is_none() {
            registry.spawn_shell();
        }
        Watchdog { group: None }
    }

    /// Has `group` ended with the host. `false`: the shell is still starting, and knows of it when [`watchdog_started`] is over. Where no shell can be
    /// started the run goes on without.
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

/// A private folder's share in the shell: it is removed with the host until this is dropped.
#[derive(Debug)]
pub struct FolderGuard(Guarded);

impl FolderGuard {
    /// Guards the folder at `path`, which has just been made and is empty. Where there is no shell it is started here, which takes a
    /// millisecond: what is written into the folder afterwards does not outlive the host.
    pub fn new(path: &Path) -> FolderGuard {
        let mut registry = registry();
        registry.shares += 1;
        registry.next_folder += 1;
        let guarded = Guarded::Folder(registry.next_folder);
        if let Some(order) = order_of_folder(guarded, path) {
            registry.orders.insert(guarded, order);
        }
        if !registry.send(guarded) && !registry.starting {
            registry.starting = true;
            drop(registry);
            Registry::start();
        }
        FolderGuard(guarded)
    }
}

impl Drop for FolderGuard {
    fn drop(&mut self) {
        registry().forget(Some(self.0));
    }
}

/// What the shell is told of, by the name that it has for it.
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

/// Until no shell is about to start: it is there and knows every group, or can't be started.
pub(super) async fn watchdog_started() {
    loop {
        let started = STARTED.notified();
        if !registry().starting {
            return;
        }
        started.await;
    }
}

/// The line that has the shell guard a group.
fn order_of_group(group: i32, grace: Duration) -> Vec<u8> {
    format!("{group} {}\n", grace.as_millis().div_ceil(100)).into_bytes()
}

/// The line that has the shell remove a folder. `None`: a name with a line feed in it can't be sent, and its folder is left to the system's
/// own cleaning.
fn order_of_folder(guarded: Guarded, folder: &Path) -> Option<Vec<u8>> {
    let path = folder.as_os_str().as_bytes();
    if path.contains(&b'\n') {
        return None;
    }
    let mut line = format!("{guarded} - ").into_bytes();
    line.extend_from_slice(path);
    // Keeps blanks at the end, which `read` would strip.
    line.extend_from_slice(b"/\n");
    Some(line)
}

/// The shell, and what is registered with it.
#[derive(Debug, Default)]
struct Registry {
    shell: Option<Shell>,
    /// Somebody is starting it.
    starting: bool,
    /// How many runs and folders need it.
    shares: usize,
    /// The line for each of them that is guarded.
    orders: HashMap<Guarded, Vec<u8>>,
    /// The number of the last folder.
    next_folder: u64,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// Notified when whoever was starting the shell is done.
static STARTED: Notify = Notify::const_new();

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

    /// Ends a share, and with it the guard of what it was for.
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

    /// Has the shell guard it; `false` where there is no shell, or none any more.
    fn send(&mut self, guarded: Guarded) -> bool {
        let Some(shell) = &mut self.shell else {
            return false;
        };
        // None: it can't be said.
        let Some(order) = self.orders.get(&guarded) else {
            return true;
        };
        let sent = shell.write(order).is_ok();
        if !sent {
            self.shell = None;
        }
        sent
    }

    /// Starts a shell and sends it all that is guarded. Blocks, as starting a process does.
    fn start() {
        let shell = Shell::start(&host_mark());
        let mut registry = registry();
        registry.starting = false;
        let informed = shell.and_then(|mut shell| {
            registry.orders.values().try_for_each(|order| shell.write(order))?;
            Ok(shell)
        });
        // All runs may be over by now. Where it can't be started they go on without.
        if let Ok(shell) = informed {
            registry.shell = (registry.shares > 0).then_some(shell);
        }
        STARTED.notify_waiters();
    }
}

/// The process. Dropping it dismisses it.
#[derive(Debug)]
struct Shell {
    child: Child,
    orders: ChildStdin,
}

impl Shell {
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
        // A shell that does not read must hold up nobody.
        let flags = rustix::fs::fcntl_getfl(shell.orders.as_fd())?;
        rustix::fs::fcntl_setfl(shell.orders.as_fd(), flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(shell)
    }

    /// # Errors
    /// The line did not go over whole.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self.orders.write(line)? {
            written if written == line.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Not reaped yet, so the id is its own. SIGKILL can't be ignored, so the wait is short.
        // It may be gone already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(pid: u32) -> bool {
        Pid::from_raw(pid.cast_signed()).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }

    /// What the shell makes of its orders when its input ends: `cat` stands for a CLI that waits for ever.
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
        // In a group that it does not know of, as after `setsid`: only the mark tells whose it is.
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
        // As when the host is gone: the end of the input, and nobody who kills the shell.
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
