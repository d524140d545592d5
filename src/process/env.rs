//! The surroundings of a process: the child's environment, and what the operating system knows of this machine and its user.
//!
//! In: an [`EnvPlan`] and a base environment. Out: the whole environment of the child as pairs: the host's own, minus what confuses a
//! CLI, plus what the provider and the user set. Pure. Each child also gets marks: the run that it belongs to, and its owner.
//!
//! At the end of the file are memory, the time zone, and the profile's folder, which no variable tells reliably.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use super::activity::Label;

/// A whole environment, as pairs of name and value.
pub type Vars = Vec<(OsString, OsString)>;

/// The recipe for the child's environment. Later steps win: `base`, minus `drop`, plus `set`, then `user`.
#[derive(Debug, Clone, Default)]
pub struct EnvPlan {
    /// The environment to start from; `None` reads the host's own when the process is started.
    ///
    /// The addon hands in a copy taken on the JavaScript thread: `process.env.X = …` there calls `setenv`, which may
    /// not run while another thread reads the environment.
    pub base: Option<Arc<Vars>>,
    /// Names taken out of the base, such as `CLAUDECODE`.
    pub drop: Vec<OsString>,
    /// Pairs that the provider sets, such as `TERM=dumb`.
    pub set: Vec<(OsString, OsString)>,
    /// The user's own changes: `Some` sets a variable, `None` removes it, whoever had set it.
    pub user: Vec<(OsString, Option<OsString>)>,
}

impl EnvPlan {
    /// The child's whole environment, sorted by name.
    pub fn vars(&self) -> Vars {
        match &self.base {
            Some(base) => self.apply(base.iter().cloned(), cfg!(windows)),
            None => self.apply(std::env::vars_os(), cfg!(windows)),
        }
    }

    /// The value that the child's environment has for `name`, without building the rest as [`EnvPlan::vars`] does.
    pub fn get(&self, name: &str) -> Option<OsString> {
        let same = |other: &OsStr| is_same(other, name);
        if let Some((_, value)) = self.user.iter().rfind(|(other, _)| same(other)) {
            return value.clone();
        }
        if let Some((_, value)) = self.set.iter().rfind(|(other, _)| same(other)) {
            return Some(value.clone());
        }
        if self.drop.iter().any(|other| same(other)) {
            return None;
        }
        match &self.base {
            Some(base) => base
                .iter()
                .rfind(|(other, _)| same(other))
                .map(|(_, value)| value.clone()),
            None => std::env::var_os(name),
        }
    }

    /// Returns whether `set` or `user` names the variable `name`.
    pub fn mentions(&self, name: &OsStr) -> bool {
        self.set.iter().any(|(n, _)| n == name) || self.user.iter().any(|(n, _)| n == name)
    }

    /// The first name in `set` or `user` that no environment can hold (empty, with `=` or with NUL), or whose value has NUL.
    pub fn invalid(&self) -> Option<&OsStr> {
        let set = self.set.iter().map(|(name, value)| (name, Some(value)));
        let user = self.user.iter().map(|(name, value)| (name, value.as_ref()));
        set.chain(user)
            .find(|(name, value)| {
                let bytes = name.as_encoded_bytes();
                let nul_inside = value.is_some_and(|v| v.as_encoded_bytes().contains(&0));
                bytes.is_empty() || bytes.iter().any(|b| matches!(b, 0 | b'=')) || nul_inside
            })
            .map(|(name, _)| name.as_os_str())
    }

    /// Applies the plan to `base`. With `ignore_case`, as on Windows, names that differ only in case are one variable.
    fn apply(&self, base: impl Iterator<Item = (OsString, OsString)>, ignore_case: bool) -> Vars {
        // Windows spells PATH "Path" and means the same variable: keys are compared without case, and the last spelling stays.
        let key = |name: &OsStr| {
            if ignore_case {
                name.to_ascii_uppercase()
            } else {
                name.to_owned()
            }
        };
        let mut vars: BTreeMap<OsString, (OsString, OsString)> =
            base.map(|(name, value)| (key(&name), (name, value))).collect();
        for name in &self.drop {
            vars.remove(&key(name));
        }
        for (name, value) in &self.set {
            vars.insert(key(name), (name.clone(), value.clone()));
        }
        for (name, value) in &self.user {
            match value {
                Some(value) => vars.insert(key(name), (name.clone(), value.clone())),
                None => vars.remove(&key(name)),
            };
        }
        vars.into_values().collect()
    }
}

/// The value of `name` in `vars`, as the platform compares names.
pub fn variable(vars: &Vars, name: &str) -> Option<OsString> {
    lookup(vars, name).map(OsStr::to_owned)
}

/// The value of `name` in `vars`, as the platform compares names.
pub(super) fn lookup<'a>(vars: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    vars.iter()
        .find(|(other, _)| is_same(other, name))
        .map(|(_, value)| value.as_os_str())
}

/// Returns whether `name` is the variable with the folders of programs.
pub(super) fn is_path(name: &OsStr) -> bool {
    is_same(name, "PATH")
}

fn is_same(one: &OsStr, other: &str) -> bool {
    match cfg!(windows) {
        true => one.eq_ignore_ascii_case(other),
        false => one == other,
    }
}

// The mark by which a run's processes are recognised.

/// The variable that marks every process of a run with the run's id. It still finds a process that forked twice and left both
/// its group and its parents (Linux; not if the process cleared its environment before `exec`).
pub const RUN_VARIABLE: &str = "DEEP_FACTOR_RUN";

/// A random number of this process, different in every other: seeded by the system.
static HOST: LazyLock<u64> = LazyLock::new(|| std::hash::RandomState::new().build_hasher().finish());

/// The text that the environment of every process of this host's runs contains, and that of no other process.
#[cfg(unix)]
pub(super) fn host_mark() -> String {
    format!("{RUN_VARIABLE}={:016x}-", *HOST)
}

/// Makes a run id that is unique on this machine: other hosts mark their runs as well, and must not find ours.
pub fn next_run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}-{}", *HOST, COUNT.fetch_add(1, Ordering::Relaxed))
}

// The owner of a process, written into its environment for people who look at it.

/// The variable that names the owner of a process: `<owner's pid>:<owner's start>:<engine>:<provider>`. It informs people only;
/// no process is ended because of it.
pub const OWNER_VARIABLE: &str = "DEEP_FACTOR_OWNER";

/// The value of [`OWNER_VARIABLE`] for a process that this one starts. A start of 0 means that it is unknown.
pub(super) fn owner_mark(label: &Label) -> String {
    let pid = std::process::id();
    let start = LazyLock::force(&START);
    format!("{pid}:{start}:{}:{}", label.engine, label.provider)
}

/// The start time of this process, in the system's own units. Process ids are reused; with the start time it is clear which
/// process had this one.
static START: LazyLock<u64> = LazyLock::new(own_start);

#[cfg(target_os = "linux")]
fn own_start() -> u64 {
    let pid = i32::try_from(std::process::id()).ok();
    pid.and_then(super::tree::started).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn own_start() -> u64 {
    0
}

// Memory: Linux only; elsewhere it is unknown, and nothing depends on it.

/// Resident memory of `pid`, bytes; `None` where it is unknown, or the process is gone.
#[cfg(target_os = "linux")]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    resident_pages(&statm)?.checked_mul(rustix::param::page_size() as u64)
}

/// Resident memory of `pid`, bytes; `None` where it is unknown, or the process is gone.
#[cfg(not(target_os = "linux"))]
pub fn resident_bytes(_pid: u32) -> Option<u64> {
    None
}

/// The second figure of `/proc/<pid>/statm`.
#[cfg(target_os = "linux")]
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The memory of this machine, bytes, or of its container if that is limited to less; `None` where it is unknown.
#[cfg(target_os = "linux")]
pub fn machine_bytes() -> Option<u64> {
    let machine = total_bytes(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // The limit of the control group at the root of what this process sees: a container's limit.
    let own = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let own = own.and_then(|bytes| bytes.trim().parse().ok());
    Some(own.map_or(machine, |own: u64| own.min(machine)))
}

/// The memory of this machine, bytes; `None` where it is unknown.
#[cfg(not(target_os = "linux"))]
pub fn machine_bytes() -> Option<u64> {
    None
}

/// `MemTotal` of `/proc/meminfo`.
#[cfg(target_os = "linux")]
fn total_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

// The machine's time zone, in which CLIs tell times (`try again at 10:50 PM`).

/// Minutes by which local time is east of UTC at `at_ms`, ms since the epoch. `None` where it is unknown: on Windows, where
/// finding it takes a call that this package has not tried.
#[cfg(unix)]
#[expect(unsafe_code, reason = "neither the standard library nor rustix knows of time zones")]
pub fn local_offset_min(at_ms: u64) -> Option<i32> {
    let at = libc::time_t::try_from(at_ms / 1000).ok()?;
    // SAFETY: all of a `tm` may be zero (a null zone included), and both pointers are to values of this function.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        (!libc::localtime_r(&raw const at, &raw mut local).is_null()).then_some(local)
    }?;
    i32::try_from(local.tm_gmtoff / 60).ok()
}

/// Always `None`: the offset is not known here.
#[cfg(not(unix))]
pub fn local_offset_min(_at_ms: u64) -> Option<i32> {
    None
}

// The user's profile folder, as Windows reports it.

/// The folder of the user's profile, whatever the variable `USERPROFILE` says.
#[cfg(windows)]
pub fn profile_folder() -> Option<std::path::PathBuf> {
    use std::ffi::OsString;
    use std::os::windows::ffi::OsStringExt;

    use windows_sys::Win32::System::Com::CoTaskMemFree;
    use windows_sys::Win32::UI::Shell::{FOLDERID_Profile, KF_FLAG_DONT_VERIFY, SHGetKnownFolderPath};

    let mut text = std::ptr::null_mut();
    let which = FOLDERID_Profile;
    #[expect(unsafe_code, reason = "the standard library takes USERPROFILE first")]
    // SAFETY: no token is the process's own; what comes back is a text that ends with a zero, or null, and is the caller's to free.
    unsafe {
        let result = SHGetKnownFolderPath(
            &raw const which,
            KF_FLAG_DONT_VERIFY.cast_unsigned(),
            std::ptr::null_mut(),
            &raw mut text,
        );
        let found = (result == 0 && !text.is_null()).then(|| {
            let length = (0..).take_while(|&at| *text.add(at) != 0).count();
            OsString::from_wide(std::slice::from_raw_parts(text, length)).into()
        });
        CoTaskMemFree(text.cast());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> EnvPlan {
        EnvPlan {
            base: None,
            drop: vec!["CLAUDECODE".into(), "NODE_OPTIONS".into(), "ABSENT".into()],
            set: vec![("TERM".into(), "dumb".into()), ("CI".into(), "true".into())],
            user: vec![
                ("CI".into(), None),
                ("NODE_OPTIONS".into(), Some("--max-old-space-size=4096".into())),
                ("HOME".into(), Some("/elsewhere".into())),
                ("NEVER".into(), None),
            ],
        }
    }

    fn pairs(list: &[(&str, &str)]) -> Vars {
        list.iter().map(|(n, v)| (n.into(), v.into())).collect()
    }

    #[test]
    fn one_variable_is_what_all_of_them_have() {
        let base = pairs(&[
            ("HOME", "/home/me"),
            ("PATH", "/bin"),
            ("PATH", "/usr/bin"),
            ("TERM", "xterm"),
            ("CI", "0"),
            ("CLAUDECODE", "1"),
            ("NODE_OPTIONS", "--inspect"),
        ]);
        let plan = EnvPlan {
            base: Some(Arc::new(base)),
            ..plan()
        };
        let vars = plan.vars();
        for name in [
            "HOME",
            "PATH",
            "TERM",
            "CI",
            "CLAUDECODE",
            "NODE_OPTIONS",
            "NEVER",
            "ABSENT",
        ] {
            assert_eq!(plan.get(name).as_deref(), lookup(&vars, name), "{name}");
        }
    }

    #[test]
    fn later_steps_win() {
        let base = pairs(&[
            ("HOME", "/home/me"),
            ("PATH", "/bin"),
            ("TERM", "xterm"),
            ("CI", "0"),
            ("CLAUDECODE", "1"),
            ("NODE_OPTIONS", "--inspect"),
        ]);
        assert_eq!(
            plan().apply(base.into_iter(), false),
            pairs(&[
                ("HOME", "/elsewhere"),
                ("NODE_OPTIONS", "--max-old-space-size=4096"),
                ("PATH", "/bin"),
                ("TERM", "dumb"),
            ])
        );
    }

    #[test]
    fn windows_names_ignore_case_and_keep_the_last_spelling() {
        let base = pairs(&[("Path", "C:\\a"), ("claudecode", "1"), ("Term", "x"), ("=C:", "C:\\")]);
        assert_eq!(
            plan().apply(base.into_iter(), true),
            pairs(&[
                ("=C:", "C:\\"),
                ("HOME", "/elsewhere"),
                ("NODE_OPTIONS", "--max-old-space-size=4096"),
                ("Path", "C:\\a"),
                ("TERM", "dumb"),
            ])
        );
    }

    #[test]
    fn names_that_cannot_be_are_found() {
        let with = |name: &str, value: Option<&str>| EnvPlan {
            user: vec![("OK".into(), Some("=".into())), (name.into(), value.map(Into::into))],
            ..EnvPlan::default()
        };
        assert_eq!(plan().invalid(), None);
        assert_eq!(with("A=B", None).invalid(), Some(OsStr::new("A=B")));
        assert_eq!(with("", None).invalid(), Some(OsStr::new("")));
        assert_eq!(with("N", Some("a\0b")).invalid(), Some(OsStr::new("N")));
    }

    #[test]
    fn mentions_what_the_caller_speaks_of() {
        assert!(plan().mentions(OsStr::new("CI")) && plan().mentions(OsStr::new("TERM")));
        assert!(!plan().mentions(OsStr::new("PATH")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_its_own_and_nobody_s() {
        let own = resident_bytes(std::process::id()).unwrap();
        assert!((1 << 20..1 << 40).contains(&own), "{own}");
        assert_eq!(resident_bytes(u32::MAX), None);
        assert_eq!(resident_pages("8000 250 3 1 0 9 0\n"), Some(250));
        assert_eq!(resident_pages("8000"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_how_much_the_machine_has() {
        assert!(machine_bytes().unwrap() >= resident_bytes(std::process::id()).unwrap());
        assert_eq!(total_bytes("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
    }

    /// The program `date` asks the same system.
    #[cfg(unix)]
    #[test]
    fn it_is_the_offset_of_date() {
        let date = std::process::Command::new("date")
            .args(["-d", "@1795294800", "+%z"])
            .output();
        let Some(output) = date.ok().filter(|date| date.status.success()) else {
            return;
        };
        let offset = String::from_utf8(output.stdout).unwrap();
        let number: i32 = offset.trim().parse().unwrap();
        assert_eq!(
            local_offset_min(1_795_294_800_000),
            Some(number / 100 * 60 + number % 100)
        );
    }

    #[cfg(windows)]
    #[test]
    fn there_is_a_profile_folder() {
        assert!(profile_folder().is_some_and(|folder| folder.is_absolute()));
    }
}
