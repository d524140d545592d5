//! What is run: a command line, before anybody knows where its private files will lie.
//!
//! In: nothing. Out: the types that [`super::build`] fills and `exchange` starts.

use std::path::{Path, PathBuf};

use crate::decode::Wire;
use crate::event::EngineUsed;
use crate::provider::PrivateHome;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub provider: String,
    /// How it is driven.
    pub engine: EngineUsed,
    /// The program: a name for PATH, or a path.
    pub program: String,
    pub args: Vec<Arg>,
    /// What it does not inherit of the environment.
    pub drop_env: Vec<&'static str>,
    /// What the provider sets in the environment.
    pub set_env: Vec<(&'static str, EnvText)>,
    /// What the user sets or (`None`) removes; wins over all.
    pub user_env: Vec<(String, Option<String>)>,
    /// All of standard input; it is closed behind it.
    pub stdin: String,
    /// Files that hold what must not show in argv.
    pub files: Vec<PrivateFile>,
    /// Blocks of the prompt, as files in its private folder.
    pub media: Vec<MediaFile>,
    /// Links to files elsewhere, in its private folder.
    pub links: Vec<PrivateLink>,
    /// The thread as a session of the CLI's own, in its private folder.
    pub session: Option<PrivateSession>,
    /// The home that the CLI gets, made of the links when it is started.
    pub home: Option<PrivateHome>,
    pub cwd: Cwd,
    pub wire: Wire,
    /// The CLI gets the schema of its answer.
    pub has_schema: bool,
    /// Names of the flags here that the run can do without.
    pub optional_flags: Vec<String>,
    /// Names of all flags here, without their values and without the user's own: fit to be logged.
    pub flags: Vec<&'static str>,
}

impl CommandLine {
    /// The names of its flags, the user's own included, without values.
    pub fn all_flags(&self) -> Vec<String> {
        let texts = self.args.iter().filter_map(|arg| match arg {
            Arg::Text(text) if text.starts_with('-') && text.len() > 1 => text.split('=').next(),
            _ => None,
        });
        texts.map(str::to_owned).collect()
    }
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    Text(String),
    /// The path of the private file of this name.
    File(&'static str),
    /// `key="path"` in TOML: the key, and the name of the private file.
    FileSetting(&'static str, &'static str),
    /// This and the path of the private file of this name: `--image=path`.
    MediaFile(&'static str, String),
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvText {
    Text(String),
    /// The folder the CLI runs in.
    Cwd,
    /// The path of the empty private folder of this name.
    Folder(&'static str),
    /// The path of the private file of this name.
    File(&'static str),
}

/// A file of mode 0600 that lives as long as the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateFile {
    pub name: &'static str,
    pub content: String,
}

/// A session of the CLI's own that lives as long as the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateSession {
    /// Where sessions are, in the private folder.
    pub folder: &'static str,
    /// What it is called.
    pub id: String,
    /// What is to answer in it, where that is chosen.
    pub model: Option<String>,
    pub files: Vec<PrivateFile>,
}

impl PrivateSession {
    /// Where it lies below its folder, for a CLI that runs in `cwd`, a real path: `<cwd>/<id>`, all of `cwd` percent-encoded but letters,
    /// digits and `-_.~` (grok 1.0.41).
    pub fn place(&self, cwd: &Path) -> PathBuf {
        let cwd = cwd.to_string_lossy();
        let encoded: String = cwd
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        Path::new(&encoded).join(&self.id)
    }
}

/// A private file (mode 0600, gone with the run) with a block of the prompt.
#[derive(Clone, PartialEq, Eq)]
pub struct MediaFile {
    /// Its place in the private folder, which nobody but this package names: `image-1.png`.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for MediaFile {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("MediaFile")
            .field("name", &self.name)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// A link that lives as long as the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateLink {
    /// Its place in the private folder.
    pub name: String,
    /// Where it leads; there may be nothing yet.
    pub target: PathBuf,
}

/// The name of the folder that a run with [`Cwd::Private`] runs in, in its private folder.
pub const RUN_FOLDER: &str = "empty";

/// The working folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cwd {
    Inherit,
    /// An empty one made for the run: nothing of the project can be found, and the CLI's environment note names none.
    Private,
    Path(String),
}
