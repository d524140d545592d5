//! The option `launch`: a command that stands before the CLI's own command line and starts it elsewhere, such as `docker exec`, `ssh`,
//! `bwrap` or `sudo -u`.
//!
//! In: a checked object. Out: a [`Launch`], or the reason why these options can't be kept behind a launcher.

use std::path::Path;

use serde_json::{Map, Value};

use super::{environment, texts};
use dfp_text::redact::is_secret_name;

/// The argument in whose place the arguments for variables stand.
pub const ENV_PLACE: &str = "{env}";
/// The part of an argument for a variable that the variable's name replaces.
pub const NAME: &str = "{name}";
/// The part of such an argument that the variable's value replaces.
pub const VALUE: &str = "{value}";

/// A launcher that joins its arguments with spaces and has a shell on the other side read them (OpenSSH 9.2: `ssh box cli 'a b'` starts
/// `cli` with two arguments).
const JOINS: &str = "ssh";

/// A launcher that hands on only the variables that a variable lists, and which one that is. `NAME/u` goes from Windows to Linux with its value
/// as it is (Microsoft's "Share environment variables between Windows and WSL").
const LISTS: (&str, &str) = ("wsl", "WSLENV");

/// A command before the CLI's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    /// `command`: the launcher, a name on the PATH or a path.
    pub command: String,
    /// `args`: the launcher's own arguments.
    pub args: Vec<String>,
    /// `env`: the way in which the CLI's variables go along.
    pub env: LaunchEnv,
    /// `files`: true if the folder for temporary files, and `cwd`, have the same paths on the other side.
    pub shares_files: bool,
    /// `quoting`: true if the CLI's whole command line is one argument, which a POSIX shell reads.
    pub is_quoted: bool,
}

/// The way in which variables reach a CLI behind a launcher.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LaunchEnv {
    /// The launcher hands on its own environment.
    Inherit,
    /// The launcher hands on the variables that this variable lists, as `A/u:B/u`.
    Listed(&'static str),
    /// `env NAME=value` stands before the CLI's command line.
    Arguments,
    /// The launcher has arguments for each variable: these, in the place of [`ENV_PLACE`].
    Each(Vec<String>),
}

impl LaunchEnv {
    /// Returns whether the values of variables stand on the command line.
    pub fn shows_values(&self) -> bool {
        match self {
            LaunchEnv::Inherit | LaunchEnv::Listed(_) => false,
            LaunchEnv::Arguments => true,
            LaunchEnv::Each(args) => args.iter().any(|arg| arg.contains(VALUE)),
        }
    }
}

/// The reason why the variable `name`, a secret, is not handed on as an argument.
pub fn on_command_line(name: &str) -> String {
    format!(
        "the value of {name} would stand on a command line, which all users of the machine can read; hand it on by name \
         (`launch.env: [\"--env\", \"{NAME}\"]` for docker and podman, `[\"-o\", \"SendEnv={NAME}\"]` for ssh), or log in there"
    )
}

/// The launcher of a checked object.
pub(super) fn read(map: &Map<String, Value>) -> Option<Launch> {
    let fields = map.get("launch")?.as_object()?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let command = text("command")?.to_owned();
    let is_called = |name: &str| {
        let stem = Path::new(&command).file_stem();
        stem.is_some_and(|stem| stem.eq_ignore_ascii_case(name))
    };
    let joins = is_called(JOINS);
    Some(Launch {
        args: texts(fields, "args"),
        env: match fields.get("env") {
            Some(Value::Array(_)) => LaunchEnv::Each(texts(fields, "env")),
            Some(Value::String(word)) if word == "arguments" => LaunchEnv::Arguments,
            _ if is_called(LISTS.0) => LaunchEnv::Listed(LISTS.1),
            _ => LaunchEnv::Inherit,
        },
        shares_files: text("files") == Some("shared"),
        is_quoted: text("quoting").map_or(joins, |word| word == "posix"),
        command,
    })
}

/// Checks that the options can be kept behind the launcher. Returns the option that can't, and why.
pub(super) fn check(map: &Map<String, Value>) -> Result<(), String> {
    if map.get("launch").is_none() {
        return Ok(());
    }
    let Some(launch) = read(map) else {
        return Err("option \"launch.command\" is missing: it must be the launcher, like \"docker\"".to_owned());
    };
    let contradicts = |name: &str, why: &str| {
        Err(format!(
            "options \"launch\" and \"{name}\" contradict each other: {why}"
        ))
    };
    if map.contains_key("cliSearch") {
        return contradicts(
            "cliSearch",
            "the CLI is behind the launcher, where nothing is searched; `cliPath` is its name there",
        );
    }
    if map.contains_key("cwd") && !launch.shares_files {
        return contradicts(
            "cwd",
            "the launcher says where the CLI runs (`docker exec --workdir`, `bwrap --chdir`); with `launch.files: \"shared\"` it is the \
             launcher's own folder",
        );
    }
    let places = launch.args.iter().filter(|arg| *arg == ENV_PLACE).count();
    match &launch.env {
        LaunchEnv::Each(args) if places != 1 || !args.iter().any(|arg| arg.contains(NAME)) => {
            return Err(format!(
                "option \"launch.env\" is a list of arguments for each variable: one of them must have \"{NAME}\", and one of \
                 \"launch.args\" must be \"{ENV_PLACE}\", their place"
            ));
        }
        LaunchEnv::Inherit | LaunchEnv::Listed(_) | LaunchEnv::Arguments if places > 0 => {
            return Err(format!(
                "option \"launch.args\" has \"{ENV_PLACE}\", the place of arguments for variables, and \"launch.env\" names none, like \
                 [\"--env\", \"{NAME}\"]"
            ));
        }
        _ => {}
    }
    if launch.env == LaunchEnv::Inherit {
        return Ok(());
    }
    for (name, value) in environment(map, "env") {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_listed = matches!(launch.env, LaunchEnv::Listed(_));
        if !is_listed && (!name.chars().all(is_plain) || name.starts_with(|c: char| c.is_ascii_digit())) {
            return contradicts(
                "env",
                &format!(
                    "{name:?} can't be named on the launcher's command line, which takes letters, digits and \"_\""
                ),
            );
        }
        if value.is_some() && launch.env.shows_values() && is_secret_name(&name) {
            return contradicts("env", &on_command_line(&name));
        }
    }
    let is_ambiguous = |path: &str| path.contains('=') && launch.env == LaunchEnv::Arguments;
    if map.get("cliPath").and_then(Value::as_str).is_some_and(is_ambiguous) {
        return contradicts("cliPath", "`env` would take a name with \"=\" for a variable");
    }
    Ok(())
}
