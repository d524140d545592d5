//! A command line before the folder of its private files is known, and the private settings file in it.
//!
//! [`super::build`] fills these types, and `exchange` starts them. By [`settings_file`] a provider overrides the user's settings of its
//! CLI.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::options::{Auth, Launch, Options};
use crate::{OwnSettings, PrivateHome, Provider};
use dfp_model::event::EngineUsed;
use dfp_text::decode::Wire;

/// The command line of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub provider: String,
    /// The engine that uses the process.
    pub engine: EngineUsed,
    /// The program: a name to be found on the PATH, or a path.
    pub program: String,
    /// The command before the program.
    pub launch: Option<Launch>,
    pub args: Vec<Arg>,
    /// The variables that are not inherited.
    pub drop_env: Vec<&'static str>,
    /// The variables that the provider sets.
    pub set_env: Vec<(&'static str, EnvText)>,
    /// The variables that the user sets, or removes (`None`). They win over all others.
    pub user_env: Vec<(String, Option<String>)>,
    /// All of standard input, which is closed behind it.
    pub stdin: String,
    /// Files with content that must not show in argv.
    pub files: Vec<PrivateFile>,
    /// Blocks of the prompt, as files in the private folder.
    pub media: Vec<MediaFile>,
    /// Links in the private folder to files elsewhere.
    pub links: Vec<PrivateLink>,
    /// The thread as a session of the CLI's own, in the private folder.
    pub session: Option<PrivateSession>,
    /// The CLI's home folder, made of the links when the process is started.
    pub home: Option<PrivateHome>,
    pub cwd: Cwd,
    pub wire: Wire,
    /// An answer that reaches its limit of tokens ends the run, before the CLI asks its API for the rest.
    pub ends_at_limit: bool,
    /// The CLI gets the schema for its answer.
    pub has_schema: bool,
    /// The names of flags here without which the run works, too.
    pub optional_flags: Vec<String>,
    /// The names of all flags here without their values and without the user's own flags, for logs.
    pub flags: Vec<&'static str>,
}

impl CommandLine {
    /// Returns whether files of this package are out of the program's reach.
    pub fn is_out_of_reach(&self) -> bool {
        self.launch.as_ref().is_some_and(|launch| !launch.shares_files)
    }

    /// Hands over the content of the file `name` in the place of its path, if the program can't reach the file. The program's flag must
    /// take either.
    pub fn tell_content(&mut self, name: &str) {
        if !self.is_out_of_reach() {
            return;
        }
        let Some(file) = self.files.iter().find(|file| file.name == name) else {
            return;
        };
        for arg in &mut self.args {
            if matches!(arg, Arg::File(of) if *of == name) {
                *arg = Arg::Text(file.content.clone());
            }
        }
    }

    /// Leaves out everything that is in private files, for a question about the program alone.
    pub fn leave_out_files(&mut self) {
        self.home = None;
        self.set_env
            .retain(|(_, value)| !matches!(value, EnvText::Folder(_) | EnvText::File(_)));
    }

    /// The first thing that the program gets as a file or folder of this package, in words; `None` if it gets none.
    pub fn needs_file(&self) -> Option<String> {
        let of_args = self.args.iter().find_map(|arg| match arg {
            Arg::Text(_) => None,
            Arg::File(name) | Arg::FileSetting(_, name) => Some(format!("the file {name}")),
            Arg::MediaFile(..) => Some("the files of the thread's images".to_owned()),
        });
        let of_env = || {
            self.set_env.iter().find_map(|(name, value)| match value {
                EnvText::Text(_) | EnvText::Cwd => None,
                EnvText::Folder(_) | EnvText::File(_) => Some(format!("the folder or file of the variable {name}")),
            })
        };
        let home = || {
            self.home
                .map(|home| format!("the folder of the variable {}", home.variable))
        };
        let session = || {
            self.session
                .as_ref()
                .map(|_| "the thread, as files of a session".to_owned())
        };
        let media = || (!self.media.is_empty()).then(|| "the files of the thread's images".to_owned());
        let links = || (!self.links.is_empty()).then(|| "the links of a private folder".to_owned());
        let folder = || (self.cwd == Cwd::Private).then(|| "an empty folder to run in".to_owned());
        of_args
            .or_else(of_env)
            .or_else(home)
            .or_else(session)
            .or_else(media)
            .or_else(links)
            .or_else(folder)
    }

    /// The names of all flags without their values, including the user's own.
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
    /// A setting `key="path"` in TOML: the key, and the name of the private file.
    FileSetting(&'static str, &'static str),
    /// This text and the path of the private file of this name: `--image=path`.
    MediaFile(&'static str, String),
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvText {
    Text(String),
    /// The folder in which the CLI runs.
    Cwd,
    /// The path of the empty private folder of this name.
    Folder(&'static str),
    /// The path of the private file of this name.
    File(&'static str),
}

/// A file of mode 0600 that exists as long as the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateFile {
    pub name: &'static str,
    pub content: String,
}

/// A session of the CLI's own that exists as long as the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateSession {
    /// The folder for sessions, in the private folder.
    pub folder: &'static str,
    /// The session's id.
    pub id: String,
    /// The model that is to answer in it, if one is chosen.
    pub model: Option<String>,
    /// The reasoning effort that is chosen in it, if one is.
    pub effort: Option<String>,
    /// The JSON Schema of the answer in it, if the process is to be told one.
    pub schema: Option<String>,
    pub files: Vec<PrivateFile>,
}

impl PrivateSession {
    /// The session's place below its folder, for a CLI that runs in `cwd` (a real path): `<cwd>/<id>`, with all characters of `cwd`
    /// percent-encoded except letters, digits and `-_.~` (grok 1.0.41).
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

/// A private file (mode 0600, removed after the run) with a block of the prompt.
#[derive(Clone, PartialEq, Eq)]
pub struct MediaFile {
    /// The place in the private folder, for example `image-1.png`. Only this package uses the name.
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

/// A link that exists as long as the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateLink {
    /// The place in the private folder.
    pub name: String,
    /// The target, which need not exist yet.
    pub target: PathBuf,
}

/// The name of the working folder for [`Cwd::Private`], in the private folder.
pub const RUN_FOLDER: &str = "empty";

/// The working folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cwd {
    Inherit,
    /// An empty folder made for the run: the CLI finds nothing of the project, and its note about the environment names no project.
    Private,
    Path(String),
}

/// The file, if it `is_wanted`. It has the provider's own settings, overlaid by those that the user adds in JSON, and as `env` the
/// variables of the command line: those that the provider sets (`set`), the keys that are dropped for a subscription, and those of
/// the user (`users`). An empty text removes a variable.
pub(super) fn settings_file(
    provider: &Provider,
    is_wanted: bool,
    options: &Options,
    set: &[(&'static str, EnvText)],
    users: &[(String, Option<String>)],
) -> Option<PrivateFile> {
    let own = ours(provider).filter(|_| is_wanted)?;
    let mut settings = (own.content)(provider, options);
    for added in added(&own, &options.extra_args).0 {
        merge(&mut settings, added);
    }
    let keys = match options.auth {
        Auth::Subscription => provider.key_env,
        Auth::Inherit => &[],
    };
    let set = set.iter().filter_map(|(name, value)| match value {
        EnvText::Text(text) => Some(((*name).to_owned(), text.clone())),
        EnvText::Cwd | EnvText::Folder(_) | EnvText::File(_) => None,
    });
    let keys = keys.iter().map(|name| ((*name).to_owned(), String::new()));
    // Behind a launcher that can't reach files, the settings are an argument, in which the user's values must not stand.
    let users: &[_] = if options.is_out_of_reach() { &[] } else { users };
    let users = users
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().unwrap_or_default()));
    let env = set.chain(keys).chain(users).map(|(name, value)| (name, value.into()));
    merge(
        &mut settings,
        Map::from_iter([("env".to_owned(), Value::Object(env.collect()))]),
    );
    Some(PrivateFile {
        name: own.file,
        content: Value::Object(settings).to_string(),
    })
}

/// The arguments that the user adds, without the settings that are in the file.
pub(super) fn own_args(provider: &Provider, options: &Options) -> Vec<String> {
    match ours(provider) {
        Some(own) => added(&own, &options.extra_args).1,
        None => options.extra_args.clone(),
    }
}

/// The settings of ours that win over the user's, where the CLI takes such.
fn ours(provider: &Provider) -> Option<OwnSettings> {
    provider.user_settings.and_then(|own| own.ours)
}

/// The JSON settings among `args`, and the other arguments. If the user names a file of settings, that stays an argument, and
/// replaces the private file.
fn added(own: &OwnSettings, args: &[String]) -> (Vec<Map<String, Value>>, Vec<String>) {
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let (mut settings, mut others) = (Vec::new(), Vec::new());
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        let behind = match arg.split_once('=') {
            Some((flag, text)) if flag == own.flag => object(text),
            _ if arg == own.flag => {
                let found = args.peek().and_then(|text| object(text));
                if found.is_some() {
                    args.next();
                }
                found
            }
            _ => None,
        };
        match behind {
            Some(object) => settings.push(object),
            None => others.push(arg.clone()),
        }
    }
    (settings, others)
}

/// Merges `over` into `under`, object by object.
fn merge(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge(known, value),
            (_, value) => {
                under.insert(name, value);
            }
        }
    }
}
