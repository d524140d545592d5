//! What is asked of an installed CLI, or seen of it, before it is called: the types of that part of a provider's data.
//!
//! In: nothing. Out: [`Checks`] and what it is made of.

/// How a CLI is asked about itself. Only commands that end by themselves without a terminal belong here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// What makes it print its version.
    pub version: &'static [&'static str],
    /// What makes it say whether it is logged in; `None` where it has no such command.
    pub login: Option<LoginCheck>,
    /// By what an installed copy is known to serve live sessions; `None` where it has no live form.
    pub live: Option<EngineCheck>,
    /// By what an installed copy is known to serve warm calls; `None` where it has no warm form.
    pub warm: Option<EngineCheck>,
    /// Logins that a version of it offers, and that its vendor serves no more.
    pub ended_login: Option<EndedLogin>,
    /// With what of the user's its model reads what stands in no thread.
    pub reading: Reading,
}

/// With what of the user's a model reads what stands in no thread: by tools of the CLI's own, by servers, or in an older session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub flags: &'static [&'static str],
    /// How settings begin that a flag takes (`mcp_servers` of codex's `-c mcp_servers.x.url=…`).
    pub settings: &'static [&'static str],
    /// Keys of the option `config`.
    pub config: &'static [&'static str],
}

impl Reading {
    /// With nothing.
    pub const NONE: Reading = Reading {
        flags: &[],
        settings: &[],
        config: &[],
    };
}

/// A kind of login that a vendor serves no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedLogin {
    /// Variables by which another kind is chosen; with one of them, nothing needs to be said.
    pub unless: &'static [&'static str],
    /// What has ended, and when.
    pub message: &'static str,
    pub hint: &'static str,
}

impl Checks {
    /// `--version`, and nothing to learn of a login.
    pub const VERSION_ONLY: Checks = Checks {
        version: &["--version"],
        login: None,
        live: None,
        warm: None,
        ended_login: None,
        reading: Reading::NONE,
    };
}

/// By what an installed CLI is known to serve an engine other than print, before anything is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineCheck {
    /// Its npm package. Those that hold the binary of one platform are called so as well, with a `-` and the platform.
    pub package: &'static str,
    /// Folders, one in the other, in which an installer puts a file or a folder that is named by the version, alone or behind the program's
    /// name and a `-`.
    pub version_folders: &'static [&'static [&'static str]],
    /// What the program is called, and scripts that start it call it.
    pub program: &'static str,
    /// The versions that serve it.
    pub versions: Versions,
    /// Flags that the user may add and that make sense for one process per call only.
    pub print_flags: &'static [&'static str],
    /// Variables with which, set to anything, its sessions leave no calls to the caller.
    pub print_env: &'static [&'static str],
    /// Of what a caller is told who has said nothing of engines.
    pub announces: Announced,
    /// Who wants this engine and nothing else is refused with a file that is not known to serve it: what an older or a newer version
    /// answers may be wrong.
    pub measured_only: bool,
}

/// Of what a caller is told that is asked in another form than the installed CLI should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// That it has turned out not to serve it, or that its version does not. Not that the file is no such program: test doubles are usual (SPEC-01's of claude), which print
    /// and do nothing else.
    Versions,
    /// And that nothing says that the file is the program.
    All,
}

/// Versions of a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// This one and every newer one.
    Since([u64; 3]),
    /// Those that were measured: what is relied on is no promise of the vendor's.
    Measured(&'static [[u64; 3]]),
    /// The same, but a process of any other version is asked when it runs, without a model's hearing of it, and takes calls if it does what
    /// is needed.
    Probed(&'static [[u64; 3]]),
}

impl Versions {
    /// Whether `version` is one of them.
    pub fn contains(self, version: [u64; 3]) -> bool {
        match self {
            Versions::Since(oldest) => version >= oldest,
            Versions::Measured(all) | Versions::Probed(all) => all.contains(&version),
        }
    }
}

/// How a CLI is asked whether it is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginCheck {
    pub args: &'static [&'static str],
    /// Where the answer stands.
    pub answer: LoginAnswer,
    /// By what it tells which kind of login that is: the first that holds.
    pub kinds: &'static [LoginSign],
    /// Members of its JSON that say more of the login; no secrets, and nobody's name.
    pub details: &'static [&'static str],
    /// Variables by which requests go to another server than the vendor's.
    pub gateways: &'static [GatewayVariable],
}

/// Who lets a CLI's requests in, and who is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoginKind {
    /// A plan with the vendor: a person's or a company's login.
    Plan,
    /// A key of the vendor's API.
    Key,
    /// Somebody between: a cloud that serves the vendor's models, or a server that a base URL names.
    Gateway,
}

/// By what a CLI tells the kind of its login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginSign {
    pub kind: LoginKind,
    pub says: LoginWords,
    /// Where that is not enough: and this variable is set.
    pub variable: Option<&'static str>,
}

impl LoginSign {
    /// `says` alone means `kind`.
    pub const fn new(kind: LoginKind, says: LoginWords) -> LoginSign {
        LoginSign {
            kind,
            says,
            variable: None,
        }
    }
}

/// What a CLI says of its login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginWords {
    /// This member of the JSON object on standard output is this text.
    Member(&'static str, &'static str),
    /// A line of its output begins so.
    Line(&'static str),
}

/// A variable by which requests go to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayVariable {
    /// Its name; it holds a URL.
    pub name: &'static str,
    /// The vendor's own server.
    pub own_host: &'static str,
}

/// Where a CLI says whether it is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginAnswer {
    /// In this boolean of the JSON object on standard output.
    JsonFlag(&'static str),
    /// In the exit code: 0 is yes, and 1 with this on standard error is no.
    ExitCode(&'static str),
}
