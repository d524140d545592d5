//! The tests of `process`, the same ones for every system: on Unix with `cargo test`, on Windows under Wine, too (`npm run test:windows`).
//! What a system can't do is ignored there, and says why in one word. What can't even be compiled there is of one file alone.
//!
//! Here is what they share: the fake CLI, folders where fakes leave their ids, and looking for survivors.

mod contract;
mod crowd;
mod end;
mod io;
// Counts what is in /proc.
#[cfg(target_os = "linux")]
mod leaks;
mod start;
#[cfg(unix)]
mod unix;
// Windows needs none: a job ends with its host.
#[cfg(unix)]
mod watchdog;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deep_factor_providers::process::{self, End, EnvPlan, Exit, Output, ProcessLimits, Spec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::LONG;

/// An owner of processes that no other test has.
pub fn next_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The fake CLI. Where these tests run on another machine than they were built on, a variable says where it is.
pub fn program() -> PathBuf {
    std::env::var_os("DFP_FAKE_CLI").map_or_else(|| env!("CARGO_BIN_EXE_fake-cli").into(), PathBuf::from)
}

/// A run of the fake CLI with these steps, that nothing ends.
pub fn fake(steps: Value) -> Spec {
    Spec {
        env: env_of(steps),
        ..Spec::new(program())
    }
}

pub fn env_of(steps: Value) -> EnvPlan {
    EnvPlan {
        set: vec![("FAKE_CLI".into(), steps.to_string().into())],
        ..EnvPlan::default()
    }
}

pub async fn output(spec: Spec) -> Output {
    process::output(spec, CancellationToken::new()).await.unwrap()
}

pub fn start(spec: Spec) -> process::Running {
    process::start(spec, CancellationToken::new()).unwrap()
}

/// (end, code, signal)
pub type How<'a> = (End, Option<i32>, Option<&'a str>);

pub fn how(exit: &Exit) -> How<'_> {
    (exit.end, exit.code, exit.signal.as_deref())
}

/// How a process ends that was asked to, and has nothing to say to it. Windows has no way to ask: its job is ended, with 1.
pub fn asked(end: End) -> How<'static> {
    if cfg!(windows) {
        killed(end)
    } else {
        (end, None, Some("SIGTERM"))
    }
}

/// How a process ends that heard nothing.
pub fn killed(end: End) -> How<'static> {
    if cfg!(windows) {
        (end, Some(1), None)
    } else {
        (end, None, Some("SIGKILL"))
    }
}

/// A child that signs in and runs `steps`.
pub fn child(scene: &Scene, stdio: &str, steps: &[Value]) -> Value {
    let steps = [&[scene.sign_in()], steps].concat();
    json!({"spawn": {"steps": steps, "stdio": stdio}})
}

pub fn ignoring_term() -> Value {
    json!({"onSignal": {"TERM": [], "HUP": [], "INT": []}})
}

pub fn limits(timeout: Option<u64>, kill_grace: u64) -> ProcessLimits {
    ProcessLimits {
        timeout: timeout.map(Duration::from_millis),
        kill_grace: Duration::from_millis(kill_grace),
        ..ProcessLimits::default()
    }
}

/// Reads stdout until `text` has come.
pub async fn until(running: &mut process::Running, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let chunk = tokio::time::timeout(LONG, running.next())
            .await
            .expect("the fake is silent");
        seen.extend_from_slice(&chunk.expect("stdout ended"));
    }
}

/// A folder where the fakes of one test leave their ids.
pub struct Scene {
    folder: PathBuf,
    /// Who removes it.
    _owner: Option<tempfile::TempDir>,
}

impl Scene {
    pub fn new() -> Self {
        let owner = tempfile::tempdir().unwrap();
        Scene {
            folder: owner.path().to_owned(),
            _owner: Some(owner),
        }
    }

    /// Another process's.
    pub fn at(folder: PathBuf) -> Self {
        Scene { folder, _owner: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The step with which a fake signs in.
    pub fn sign_in(&self) -> Value {
        json!({"writeFile": {"path": self.path("{{pid}}.pid"), "text": ""}})
    }

    /// The step that makes `name` appear; another fake or the test waits for it.
    pub fn flag(&self, name: &str) -> Value {
        json!({"writeFile": {"path": self.path(name), "text": ""}})
    }

    pub fn wait_flag(&self, name: &str) -> Value {
        json!({"waitFile": self.path(name)})
    }

    pub async fn flagged(&self, name: &str) {
        let since = Instant::now();
        while !self.path(name).exists() {
            assert!(since.elapsed() < LONG, "{name} does not come");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The ids of all who have signed in.
    pub fn pids(&self) -> Vec<i32> {
        let names = std::fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        names
            .filter(|path| path.extension().is_some_and(|e| e == "pid"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap())
            .collect()
    }

    /// Who has signed in and lives.
    pub fn living(&self) -> Vec<i32> {
        self.pids().into_iter().filter(|&pid| lives(pid)).collect()
    }

    /// Waits until all who have signed in are gone. There must be `count` of them.
    pub async fn all_gone(&self, count: usize) {
        assert_eq!(self.pids().len(), count, "who has signed in");
        let since = Instant::now();
        while !self.living().is_empty() {
            assert!(since.elapsed() < LONG, "left behind: {:?}", self.living());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Whether a process is there and no zombie.
#[cfg(unix)]
pub fn lives(pid: i32) -> bool {
    let exists = rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_ok();
    let zombie = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    });
    exists && !zombie
}

#[cfg(unix)]
pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A process by its id, or `None` where there is none.
#[cfg(windows)]
fn open(pid: i32) -> Option<std::os::windows::io::OwnedHandle> {
    use std::os::windows::io::{FromRawHandle, OwnedHandle};
    use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE};

    #[expect(unsafe_code, reason = "the standard library opens no process")]
    // SAFETY: a handle that is not null is ours alone.
    unsafe {
        let handle = OpenProcess(PROCESS_SYNCHRONIZE | PROCESS_TERMINATE, 0, pid.cast_unsigned());
        (!handle.is_null()).then(|| OwnedHandle::from_raw_handle(handle))
    }
}

/// Whether a process is there. One that has ended is, as long as somebody holds it.
#[cfg(windows)]
pub fn lives(pid: i32) -> bool {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::Foundation::WAIT_TIMEOUT;
    use windows_sys::Win32::System::Threading::WaitForSingleObject;

    open(pid).is_some_and(|process| {
        #[expect(unsafe_code, reason = "the standard library waits for its own children only")]
        // SAFETY: the handle is open.
        unsafe {
            WaitForSingleObject(process.as_raw_handle(), 0) == WAIT_TIMEOUT
        }
    })
}

#[cfg(windows)]
pub fn kill(pid: i32) {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::System::Threading::TerminateProcess;

    let process = open(pid).unwrap();
    #[expect(unsafe_code, reason = "the standard library ends its own children only")]
    // SAFETY: the handle is open.
    let done = unsafe { TerminateProcess(process.as_raw_handle(), 1) };
    assert_ne!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Waits until the leader is reaped: its id is nobody's.
pub async fn reaped(owner: u64) {
    let since = Instant::now();
    while !process::live_leaders(owner).is_empty() {
        assert!(since.elapsed() < LONG, "not reaped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
