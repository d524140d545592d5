//! The user's and the machine's settings of an installed CLI, as far as they affect calls.
//!
//! In: a provider, and the environment of a call. Out: [`UserSettingsFile`], the members of the user's or the machine owner's files that beat
//! the environment, or that no setting of ours can override. Files are read, and nothing is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use super::cli_base::CliBase;
use super::commands::{self, probe};
use dfp_exchange::print;
use dfp_model::event::{EngineUsed, Event};
use dfp_process::Vars;
use dfp_provider::command::CommandLine;
use dfp_provider::options::Options;
use dfp_provider::{SettingsFile, SettingsForm, SettingsPlace, Unbeaten};

/// The largest settings file that is read, bytes: they have a few KB.
const MOST: u64 = 1024 * 1024;

/// JSON as the CLIs read it that let their users write comments there.
const JSONC: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The most files that are read of a folder of the machine's.
const MOST_FILES: usize = 64;

/// The content of one settings file.
#[derive(Debug)]
pub struct UserSettingsFile {
    of: SettingsFile,
    /// The file's path.
    pub path: PathBuf,
    members: Map<String, Value>,
}

impl UserSettingsFile {
    /// The files that the CLI reads in a call with the environment `base`, without those that are missing or unreadable.
    pub fn all(cli: &CliBase, base: &Arc<Vars>) -> Vec<UserSettingsFile> {
        // Behind a launcher, the files are others.
        let own = cli.provider.user_settings.filter(|_| !cli.options.is_out_of_reach());
        let Some(own) = own else {
            return Vec::new();
        };
        let Ok(line) = probe(cli, &[], &[]) else {
            return Vec::new();
        };
        let files = own.files.iter();
        let places = files.flat_map(|file| {
            paths(cli, &line, base, file.place)
                .into_iter()
                .map(move |path| (file, path))
        });
        places
            .filter_map(|(file, path)| UserSettingsFile::read(*file, path))
            .collect()
    }

    fn read(of: SettingsFile, path: PathBuf) -> Option<UserSettingsFile> {
        let is_small = fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MOST);
        let text = is_small.then(|| fs::read_to_string(&path).ok()).flatten()?;
        let members = match of.form {
            SettingsForm::Json => serde_json::from_str(&text).ok()?,
            SettingsForm::Jsonc => jsonc_parser::parse_to_serde_value(&text, &JSONC).ok()?,
            SettingsForm::Toml => toml::from_str(&text).ok()?,
            SettingsForm::Variables => variables(&text),
            SettingsForm::Text if text.trim().is_empty() => return None,
            SettingsForm::Text => Map::new(),
        };
        Some(UserSettingsFile { of, path, members })
    }

    /// Returns whether it is the machine's file, which wins over our settings.
    pub fn is_machines(&self) -> bool {
        matches!(self.of.place, SettingsPlace::Machine { .. })
    }

    /// The variables that the file sets.
    pub fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        let env = match self.of.form {
            SettingsForm::Variables => Some(&self.members),
            _ => self.members.get("env").and_then(Value::as_object),
        };
        let pairs = env.into_iter().flatten();
        pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }

    /// The file's variables that calls get although the provider sets them otherwise.
    pub fn beating_env(&self, cli: &CliBase) -> Vec<&str> {
        let has_ours = commands::has_settings(cli);
        let taken_away = |name: &str| {
            let mut env = cli.options.env.iter();
            env.any(|(taken, value)| value.is_none() && taken == name)
        };
        let beats = |name: &str| match (self.is_machines(), has_ours) {
            (true, true) => commands::holds(cli, name),
            (false, true) => false,
            (_, false) => taken_away(name),
        };
        self.env().map(|(name, _)| name).filter(|name| beats(name)).collect()
    }

    /// The file's members with which calls log in.
    pub fn logins(&self) -> impl Iterator<Item = &'static str> {
        let says = |name: &&'static str| self.members.get(*name).is_some_and(|value| !is_nothing(value));
        self.of.logins.iter().copied().filter(says)
    }

    /// The file's members that change calls whatever our settings say.
    pub fn unbeaten(&self) -> impl Iterator<Item = &'static Unbeaten> {
        self.of.unbeaten.iter().filter(|one| self.matters(one))
    }

    /// The effect of such a member as a sentence.
    pub fn says(&self, one: &Unbeaten) -> String {
        let file = self.path.display();
        match one.path {
            [] => format!("{file} {}", one.effect),
            _ => format!("`{}` in {file} {}", one.name(), one.effect),
        }
    }

    /// Returns whether the file has the member `one` with a value that changes calls.
    fn matters(&self, one: &Unbeaten) -> bool {
        let Some((first, inner)) = one.path.split_first() else {
            return true;
        };
        let Some(mut value) = self.members.get(*first) else {
            return false;
        };
        for name in inner {
            match value.get(*name) {
                Some(inner) => value = inner,
                None => return false,
            }
        }
        let matters = |text: &str| one.begins.is_empty() || one.begins.iter().any(|begin| text.starts_with(begin));
        match value {
            Value::Array(list) => list.iter().any(|item| item.as_str().is_none_or(matters)),
            // A member that switches something off changes nothing, since that is the default.
            value => !is_nothing(value) && *value != Value::Bool(false),
        }
    }
}

/// The paths of the files of `place` in a call.
fn paths(cli: &CliBase, line: &CommandLine, base: &Arc<Vars>, place: SettingsPlace) -> Vec<PathBuf> {
    match place {
        SettingsPlace::User(folder, file) => {
            let value = |name: &str| print::variable(line, base, name).filter(|value| !value.is_empty());
            let named = cli.provider.login_dir.and_then(|dir| value(dir.variable));
            let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
            let folder = match named {
                Some(named) => Some(PathBuf::from(named)),
                None => value(home).map(|home| Path::new(&home).join(folder)),
            };
            folder.map(|folder| folder.join(file)).into_iter().collect()
        }
        SettingsPlace::Machine { folders, file, more } => {
            let [linux, mac, windows] = folders;
            let folder = Path::new(match () {
                () if cfg!(windows) => windows,
                () if cfg!(target_os = "macos") => mac,
                () => linux,
            });
            let mut paths = vec![folder.join(file)];
            paths.extend(more.into_iter().flat_map(|more| json_in(&folder.join(more))));
            paths
        }
    }
}

/// The `*.json` of a folder, in the order in which they are read.
fn json_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let files: BTreeSet<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .take(MOST_FILES)
        .collect();
    files.into_iter().collect()
}

/// Reads the lines `NAME=value` as `dotenv` does. Quotes around a value stay, since they don't matter here.
fn variables(text: &str) -> Map<String, Value> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().into()))
        .collect()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The warnings of a call with `options` and the engine `used`: the settings of others that affect it.
pub(super) fn warnings(cli: &CliBase, options: &Options, used: EngineUsed, base: &Arc<Vars>) -> Vec<Event> {
    let mut told = Vec::new();
    for found in UserSettingsFile::all(cli, base) {
        let beating = found.beating_env(cli);
        if !beating.is_empty() {
            told.push(beats(&found, &beating));
        }
        let concerning = found.unbeaten().filter(|one| (one.concerns)(options, used));
        told.extend(concerning.map(|one| found.says(one)));
    }
    let told = told.into_iter().map(|message| Event::Warning {
        code: "USER_SETTINGS".to_owned(),
        message,
    });
    told.collect()
}

/// The sentence that `found` sets `names` in spite of the provider.
pub fn beats(found: &UserSettingsFile, names: &[&str]) -> String {
    let file = found.path.display();
    format!(
        "{file} sets {}, which beats what this provider sets or takes away",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAYS: Unbeaten = Unbeaten {
        path: &["a", "b"],
        effect: "is read by the model",
        begins: &[],
        concerns: |_, _| true,
    };

    fn file(form: SettingsForm) -> SettingsFile {
        SettingsFile {
            place: SettingsPlace::User("", "x"),
            form,
            unbeaten: &[SAYS],
            logins: &[],
        }
    }

    fn warnings_of(form: SettingsForm, text: &str) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, text).unwrap();
        let found = UserSettingsFile::read(file(form), path)?;
        let of = |one| {
            found
                .says(one)
                .replace(&folder.path().display().to_string(), "")
                .replace('\\', "/")
        };
        Some(found.unbeaten().map(of).collect())
    }

    #[test]
    fn a_member_is_found_in_each_form() {
        let says = vec!["`a.b` in /x is read by the model".to_owned()];
        for (form, text, expected) in [
            (SettingsForm::Json, r#"{"a":{"b":["c"]}}"#, Some(says.clone())),
            (SettingsForm::Json, r#"{"a":{"b":[]}}"#, Some(Vec::new())),
            (SettingsForm::Json, r#"{"a":{"b":false}}"#, Some(Vec::new())),
            (SettingsForm::Json, r#"{"a":"b"}"#, Some(Vec::new())),
            (SettingsForm::Json, "no JSON", None),
            (SettingsForm::Json, "{\"a\":{\"b\":1}} // no", None),
            (
                SettingsForm::Jsonc,
                "{ // A word.\n\"a\": {\"b\": [\"c // d\",], /* two */ }, }",
                Some(says.clone()),
            ),
            (SettingsForm::Jsonc, "{ // \"a\": {\"b\": 1}\n}", Some(Vec::new())),
            (SettingsForm::Jsonc, "{a: {b: 1}}", None),
            (SettingsForm::Jsonc, &"[".repeat(100_000), None),
            (SettingsForm::Toml, "[a.b.c]\nd = 1\n", Some(says.clone())),
            (SettingsForm::Toml, "a.b = 1979-05-27\n", Some(says)),
            (SettingsForm::Toml, "x = \"\"\"\n[a.b]\n\"\"\"\n", Some(Vec::new())),
            (SettingsForm::Text, " \n", None),
        ] {
            assert_eq!(warnings_of(form, text), expected, "{text}");
        }
    }

    #[test]
    fn the_variables_of_a_file_are_its_lines() {
        let text = "# A=0\nA=1\nexport B = \"2\"\nno pair\n";
        let members: Vec<_> = variables(text).into_iter().collect();
        assert_eq!(
            members,
            [("A".to_owned(), "1".into()), ("B".to_owned(), "\"2\"".into())]
        );
    }

    #[test]
    fn files_of_a_folder_are_read_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["20-b.json", "10-a.json", "README"] {
            fs::write(folder.path().join(name), "{}").unwrap();
        }
        let names: Vec<_> = json_in(folder.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["10-a.json", "20-b.json"]);
        assert!(json_in(&folder.path().join("none")).is_empty());
    }
}
