//! The status with which a process ended, as the operating system reports it.

/// An exit code or a signal; neither if it is no longer known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Status {
    /// The status of a process that another part of the host reaped, or that does not die.
    pub const UNKNOWN: Status = Status {
        code: None,
        signal: None,
    };

    /// The signal's name: `SIGKILL` for 9, `SIG34` for one without a name.
    pub fn signal_name(self) -> Option<String> {
        self.signal.map(|number| match name(number) {
            Some(name) => name.to_owned(),
            None => format!("SIG{number}"),
        })
    }
}

#[cfg(unix)]
fn name(number: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    // The numbers differ between systems.
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::PROF, "SIGPROF"),
        (Signal::SYS, "SIGSYS"),
    ];
    names
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map(|&(_, name)| name)
}

#[cfg(not(unix))]
fn name(_number: i32) -> Option<&'static str> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        let named = |signal| Status { code: None, signal }.signal_name();
        assert_eq!(named(Some(9)).as_deref(), Some("SIGKILL"));
        assert_eq!(named(Some(15)).as_deref(), Some("SIGTERM"));
        assert_eq!(named(Some(11)).as_deref(), Some("SIGSEGV"));
        assert_eq!(named(Some(60)).as_deref(), Some("SIG60"));
        assert_eq!(named(None), None);
    }
}
