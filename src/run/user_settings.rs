//! The user's settings of an installed CLI, as far as they have a part in calls.
//!
//! In: a provider, and the environment of a call. Out: [`Found`], what the file holds that beats the environment or that no setting of
//! ours wins over. The file is read, and nothing is written.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::ask::probe;
use super::base::Base;
use crate::event::Event;
use crate::exchange::print;
use crate::process::Vars;
use crate::provider::options::Options;
use crate::provider::{Unbeaten, UserSettings};

/// Settings are a few KB; what is larger is not read.
const MOST: u64 = 1024 * 1024;

/// What the user's file says.
#[derive(Debug)]
pub struct Found {
    own: UserSettings,
    /// Where it is.
    pub path: PathBuf,
    members: Map<String, Value>,
}

impl Found {
    /// The file that the CLI reads in a call with the environment `base`; `None` where it reads none, or none that is JSON.
    pub fn read(engine: &Base, base: &Arc<Vars>) -> Option<Found> {
        let own = engine.provider.user_settings?;
        let line = probe(engine, &[], &[]).ok()?;
        let value = |name: &str| print::variable(&line, base, name).filter(|value| !value.is_empty());
        let (folder, file) = own.users;
        let named = engine.provider.login_dir.and_then(|dir| value(dir.variable));
        let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let folder = match named {
            Some(named) => PathBuf::from(named),
            None => PathBuf::from(value(home)?).join(folder),
        };
        let path = folder.join(file);
        let is_small = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MOST);
        let text = is_small.then(|| std::fs::read_to_string(&path).ok()).flatten()?;
        let members = serde_json::from_str(&text).ok()?;
        Some(Found { own, path, members })
    }

    /// The variables that it sets.
    pub fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        let env = self.members.get("env").and_then(Value::as_object);
        let pairs = env.into_iter().flatten();
        pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }

    /// Its members by which calls are let in.
    pub fn logins(&self) -> impl Iterator<Item = &'static str> {
        let says = |name: &&'static str| self.members.get(*name).is_some_and(|value| !is_nothing(value));
        self.own.logins.iter().copied().filter(says)
    }

    /// What it holds that changes calls whatever our settings say.
    pub fn unbeaten(&self) -> impl Iterator<Item = &'static Unbeaten> {
        self.own.unbeaten.iter().filter(|one| self.matters(one))
    }

    fn matters(&self, one: &Unbeaten) -> bool {
        let mut value = None;
        for name in one.path {
            let members = match value {
                None => Some(&self.members),
                Some(value) => Value::as_object(value),
            };
            value = members.and_then(|members| members.get(*name));
            if value.is_none() {
                return false;
            }
        }
        let matters = |text: &str| one.begins.is_empty() || one.begins.iter().any(|begin| text.starts_with(begin));
        match value {
            Some(Value::Array(list)) => list.iter().any(|item| item.as_str().is_none_or(matters)),
            Some(value) => !is_nothing(value),
            None => false,
        }
    }
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

/// The warnings of a call with `options`: the user's settings that have a part in it.
pub(super) fn warnings(engine: &Base, options: &Options, base: &Arc<Vars>) -> Vec<Event> {
    let concern = |one: &&Unbeaten| (one.concerns)(options);
    let found = Found::read(engine, base);
    let unbeaten = found
        .iter()
        .flat_map(|found| found.unbeaten().map(move |one| (found, one)));
    let told = unbeaten
        .filter(|(_, one)| concern(one))
        .map(|(found, one)| Event::Warning {
            code: "USER_SETTINGS".to_owned(),
            message: format!("`{}` in {} {}", one.name(), found.path.display(), one.effect),
        });
    told.collect()
}
