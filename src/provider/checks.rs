//! The types of a provider's data for checking an installed CLI before a call: what it is asked, and what is read from its file.
//!
//! In: nothing. Out: [`Checks`] and its parts.

/// The ways to ask a CLI about itself. Only commands that end by themselves without a terminal belong here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// The arguments with which it prints its version.
    pub version: &'static [&'static str],
    /// The command that says whether it is logged in; `None` if it has no such command.
    pub login: Option<LoginCheck>,
    /// The check whether an installed copy serves live sessions; `None` if the CLI has no live form.
    pub live: Option<EngineCheck>,
    /// The check whether an installed copy serves warm calls; `None` if the CLI has no warm form.
    pub warm: Option<EngineCheck>,
    /// The login that a version of the CLI offers and its vendor no longer serves.
    pub ended_login: Option<EndedLogin>,
    /// The user's options with which its model reads texts from outside the thread.
    pub reading: Reading,
}

/// The user's options with which a model reads texts that stand in no thread: by tools of the CLI's own, by servers, or in an older
/// session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub flags: &'static [&'static str],
    /// The beginnings of such settings that a flag takes (`mcp_servers` of codex's `-c mcp_servers.x.url=…`).
    pub settings: &'static [&'static str],
    /// Keys of the option `config` with the same effect.
    pub config: &'static [&'static str],
}

impl Reading {
    /// No options at all.
    pub const NONE: Reading = Reading {
        flags: &[],
        settings: &[],
        config: &[],
    };
}

/// A kind of login that a vendor no longer serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedLogin {
    /// The variables that choose another kind; if one of them is set, there is no problem.
    pub unless: &'static [&'static str],
    /// The message that says which login has ended, and when.
    pub message: &'static str,
    pub hint: &'static str,
}

impl Checks {
    /// The checks of a CLI that has `--version`, and no command that tells its login.
    pub const VERSION_ONLY: Checks = Checks {
        version: &["--version"],
        login: None,
        live: None,
        warm: None,
        ended_login: None,
        reading: Reading::NONE,
    };
}

/// The check whether an installed CLI serves an engine other than print, before anything is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineCheck {
    /// Its npm package. The packages with the binary of one platform have the same name with a `-` and the platform behind it.
    pub package: &'static str,
    /// Nested folders in which an installer puts a file or a folder named by the version, alone or behind the program's name and a
    /// `-`.
    pub version_folders: &'static [&'static [&'static str]],
    /// The name of the program, also in the scripts that start it.
    pub program: &'static str,
    /// The versions that serve the engine.
    pub versions: Versions,
    /// The flags that a user may add and that make sense only for one process per call.
    pub print_flags: &'static [&'static str],
    /// The variables that, set to anything, keep a session from leaving calls to the caller.
    pub print_env: &'static [&'static str],
    /// The reasons of which a caller who has not chosen an engine is warned.
    pub announces: Announced,
    /// True if a call that wants this engine alone is refused unless the file is known to serve it: an older or a newer version may
    /// answer wrongly.
    pub measured_only: bool,
}

/// The reasons of which a caller is warned who is served by another engine than the installed CLI should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// The CLI turned out not to serve the engine, or its version does not. A file that is no such program gives no warning: test
    /// doubles are usual (SPEC-01's of claude), which print and do nothing else.
    Versions,
    /// The reasons of `Versions`, and that nothing says that the file is the program.
    All,
}

/// Versions of a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// This version and every newer one.
    Since([u64; 3]),
    /// The versions that were measured: the vendor does not promise the behaviour that is relied on.
    Measured(&'static [[u64; 3]]),
    /// The versions that were measured. A process of any other version is tested when it runs, without a request to a model, and
    /// takes calls if it passes.
    Probed(&'static [[u64; 3]]),
}

impl Versions {
    /// Returns whether `version` is one of them.
    pub fn contains(self, version: [u64; 3]) -> bool {
        match self {
            Versions::Since(oldest) => version >= oldest,
            Versions::Measured(all) | Versions::Probed(all) => all.contains(&version),
        }
    }
}

/// The command that asks a CLI whether it is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginCheck {
    pub args: &'static [&'static str],
    /// The place of the answer.
    pub answer: LoginAnswer,
    /// The signs of each kind of login in the answer: the first that holds counts.
    pub kinds: &'static [LoginSign],
    /// The members of its JSON that tell more about the login, without secrets and names of persons.
    pub details: &'static [&'static str],
    /// Variables by which requests go to another server than the vendor's.
    pub gateways: &'static [GatewayVariable],
}

/// The kind of a login: who lets a CLI's requests in, and who is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginKind {
    /// A plan with the vendor: a person's or a company's login.
    Plan,
    /// A key of the vendor's API.
    Key,
    /// A server between: a cloud that serves the vendor's models, or one that a base URL names.
    Gateway,
}

/// A sign of a kind of login in a CLI's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginSign {
    pub kind: LoginKind,
    pub says: LoginWords,
    /// The variable that has to be set as well, if the words alone don't decide.
    pub variable: Option<&'static str>,
}

impl LoginSign {
    /// Makes the sign that `says` alone means `kind`.
    pub const fn new(kind: LoginKind, says: LoginWords) -> LoginSign {
        LoginSign {
            kind,
            says,
            variable: None,
        }
    }
}

/// The words of a CLI about its login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginWords {
    /// This member of the JSON object on standard output has this text.
    Member(&'static str, &'static str),
    /// A line of its output begins with this text.
    Line(&'static str),
}

/// A variable by which requests go to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayVariable {
    /// The variable's name; it holds a URL.
    pub name: &'static str,
    /// The vendor's own server.
    pub own_host: &'static str,
}

/// The place where a CLI says whether it is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginAnswer {
    /// The answer is this boolean of the JSON object on standard output.
    JsonFlag(&'static str),
    /// The answer is the exit code: 0 is yes, and 1 with this on standard error is no.
    ExitCode(&'static str),
}
