//! What the tests of `process` share: the fake CLI, folders where fakes leave their ids, and looking for survivors.

mod crowd;
mod end;
mod io;
#[cfg(target_os = "linux")]
mod leaks;
mod start;
mod watchdog;

use std::path::{Path, PathBuf};
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

/// A run of the fake CLI with these steps, that nothing ends.
pub fn fake(steps: Value) -> Spec {
    Spec {
        env: env_of(steps),
        ..Spec::new(env!("CARGO_BIN_EXE_fake-cli"))
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
pub fn how(exit: &Exit) -> (End, Option<i32>, Option<&str>) {
    (exit.end, exit.code, exit.signal.as_deref())
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
    folder: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Self {
        Scene {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
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
        let names = std::fs::read_dir(self.folder.path())
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
pub fn lives(pid: i32) -> bool {
    let exists = rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_ok();
    let zombie = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    });
    exists && !zombie
}

/// Waits until the leader is reaped: its id is nobody's.
pub async fn reaped(owner: u64) {
    let since = Instant::now();
    while !process::registry::live(owner).is_empty() {
        assert!(since.elapsed() < LONG, "not reaped");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn write_executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}
