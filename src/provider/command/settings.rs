//! The private settings file by which a provider overrides the user's settings of its CLI.
//!
//! In: the options, and the variables of a command line. Out: a [`PrivateFile`], if the provider has such a file.

use serde_json::{Map, Value};

use super::{EnvText, PrivateFile};
use crate::options::{Auth, Options};
use crate::{OwnSettings, Provider};

/// The file, if it `is_wanted`. It has the provider's own settings, overlaid by those that the user adds in JSON, and as `env` the
/// variables of the command line: those that the provider sets (`set`), the keys that are dropped for a subscription, and those of
/// the user (`users`). An empty text removes a variable.
pub(super) fn file(
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
