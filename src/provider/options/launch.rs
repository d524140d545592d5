//! How a CLI is launched: by which engine, and behind which launcher. The option `launch` is a command that stands before the CLI's own
//! command line and starts it elsewhere, such as `docker exec`, `ssh`, `bwrap` or `sudo -u`.
//!
//! In: a checked object of options. Out: the [`EngineKind`], and the reason why `"auto"` is print with these options: some need one
//! process per call. And a [`Launch`], or the reason why these options can't be kept behind a launcher.
//!
//! In: a provider and its options, behind a launcher which shares no files with this machine (`launch.files`). Out: the options with an
//! engine that works without files of this package, or the error that there is none, before anything is started ([`within_reach`]).

use std::path::Path;

use serde_json::{Map, Value};

use super::{ENGINE, EngineKind, Kind, Options, check, describe, environment, texts};
use crate::command::{Installed, Mode, build};
use crate::{ALL, Provider, choices};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EngineUsed;
use dfp_text::redact::is_secret_name;

/// The option that says that the CLI has no tools of its own.
const TOOLS_OFF: &str = "disableBuiltInTools";

/// The error of an object whose `engine` is one that only other providers have.
pub(super) fn refusal(provider: &Provider, map: &Map<String, Value>) -> Option<Box<ProviderError>> {
    let Kind::OneOf(all) = ENGINE.kind else { return None };
    let asked = map.get(ENGINE.name).and_then(Value::as_str)?;
    if !all.contains(&asked) || provider.engines().contains(&asked) {
        return None;
    }
    let has = |other: &&&Provider| other.engines().contains(&asked);
    let able: Vec<&str> = ALL.iter().filter(has).map(|other| &*other.id).collect();
    let own = provider.engines().iter().map(|name| format!("\"{name}\""));
    let reason = format!(
        "option \"engine\" can't be \"{asked}\" with {}, which takes {}; those that take it: {}",
        provider.id,
        own.collect::<Vec<_>>().join(", "),
        able.join(", ")
    );
    Some(Box::new(ProviderError::new(
        &provider.id,
        Code::UnsupportedOption,
        reason,
    )))
}

/// The engine of a checked object, and for `"auto"` the reason why only print serves these options.
pub(super) fn engine(provider: &Provider, map: &Map<String, Value>) -> (EngineKind, Option<String>) {
    let asked = match map.get("engine").and_then(Value::as_str) {
        Some("live") => EngineKind::Live,
        Some("warm") => EngineKind::Warm,
        Some("auto") => EngineKind::Auto,
        Some(_) => EngineKind::Print,
        None => provider.defaults.engine,
    };
    let wants_print = (asked == EngineKind::Auto).then(|| wants_print(provider, map));
    match wants_print.flatten() {
        // An agent has no other engine without memory.
        Some(_) if !provider.has_print() => (EngineKind::Warm, None),
        Some(reason) => (EngineKind::Print, Some(reason)),
        None => (asked, None),
    }
}

/// The reason for which these options need one process per call; `None` if a session serves them.
fn wants_print(provider: &Provider, map: &Map<String, Value>) -> Option<String> {
    let option = |name: &str, value: &str| Some(format!("the option `{name}` is {value}"));
    if let Some((name, value)) = unlike_live(provider, map) {
        return option(name, &describe(value));
    }
    // A caller who wants calls read from any text wants the model's calls to be text.
    if map.get("textToolCalls").and_then(Value::as_str) == Some("lenient") {
        return option("textToolCalls", "\"lenient\"");
    }
    // A CLI that works for itself has hooks, servers and work in the background, which a process that rests would keep.
    if map.get("disableBuiltInTools") == Some(&Value::Bool(false)) {
        return option("disableBuiltInTools", "false");
    }
    let checks = provider.checks;
    let is_print_flag = |arg: &str| {
        let name = arg.split_once('=').map_or(arg, |(name, _)| name);
        let of_either = [checks.live, checks.warm].into_iter().flatten();
        of_either.into_iter().any(|check| check.print_flags.contains(&name))
    };
    if let Some(arg) = texts(map, "extraArgs").iter().find(|arg| is_print_flag(arg)) {
        let name = arg.split_once('=').map_or(arg.as_str(), |(name, _)| name);
        return Some(format!("the option `extraArgs` has {name}"));
    }
    None
}

/// The first option whose value differs from the one that a live session serves, and that value.
fn unlike_live<'a>(provider: &Provider, map: &'a Map<String, Value>) -> Option<(&'static str, &'a Value)> {
    let needs_tools_off = provider.warm.is_some() || provider.live.is_some_and(|live| !live.may_have_tools);
    let only = [
        ("promptStyle", Value::from("stdin")),
        ("outputFormat", Value::from("stream-json")),
        ("noInput", Value::from(false)),
    ];
    let of_form = needs_tools_off.then(|| (TOOLS_OFF, Value::from(true)));
    only.into_iter().chain(of_form).find_map(|(name, only)| {
        // A CLI that uses the option in another sense does not take this value.
        let takes = || provider.option(name).is_none_or(|spec| check(&spec, &only).is_ok());
        let value = map.get(name).filter(|value| **value != only)?;
        takes().then_some((name, value))
    })
}

/// The first of `names` that is given with a value other than 0.
fn named_above_0(map: &Map<String, Value>, names: &[&'static str]) -> Option<&'static str> {
    let is_above_0 = |name: &&&str| map.get(**name).is_some_and(|value| value.as_u64() != Some(0));
    names.iter().find(is_above_0).copied()
}

/// Checks that the options fit the engine. A live session uses one protocol and takes everything over standard input; other engines
/// have no session.
pub(super) fn check_engine(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
    let engine = match map.get("engine").and_then(Value::as_str) {
        Some(engine) => engine,
        None => match provider.defaults.engine {
            EngineKind::Auto => "auto",
            EngineKind::Live => "live",
            EngineKind::Warm => "warm",
            EngineKind::Print => "print",
        },
    };
    if !provider.has_engines() {
        return Ok(());
    }
    let engine = match engine {
        "auto" if !provider.has_print() => "warm",
        engine => engine,
    };
    if engine == "print" && map.contains_key("toolForm") {
        return Err(format!(
            "options \"toolForm\" and \"engine\" contradict each other: only a live thread offers tools natively; given: toolForm: {}, \
             engine: \"print\"",
            map.get("toolForm").map(describe).unwrap_or_default()
        ));
    }
    let searches = map.get(choices::TOOLS.name).and_then(|tools| tools.get("search"));
    if engine == "print" && searches == Some(&Value::Bool(true)) && provider.tool_search.is_some() {
        return Err(
            "options \"tools.search\" and \"engine\" contradict each other: only a live session offers tools natively; given: \
             tools.search: true, engine: \"print\""
                .to_owned(),
        );
    }
    let (name, why) = match engine {
        "print" => (
            named_above_0(map, &["keepAlive", "maxProcesses", "spares", "sessions"]),
            "only a live or warm process outlives its call",
        ),
        "live" => match unlike_live(provider, map) {
            Some((TOOLS_OFF, _)) => (
                Some(TOOLS_OFF),
                "a live thread is a model behind an agent, without tools of its own",
            ),
            unlike => (
                unlike.map(|(name, _)| name),
                "a live session speaks \"stream-json\" over standard input",
            ),
        },
        "warm" => match (
            named_above_0(map, &["maxProcesses", "spares"]),
            unlike_live(provider, map),
        ) {
            (Some(kept), _) => (
                Some(kept),
                "one warm process serves many calls, and none is kept beside it",
            ),
            (None, Some((TOOLS_OFF, _))) => (
                Some(TOOLS_OFF),
                "a warm process answers as a model behind an agent, without tools of its own",
            ),
            (None, unlike) => (
                unlike.map(|(name, _)| name),
                "a warm process speaks a protocol of its own over standard input and output",
            ),
        },
        _ => return Ok(()),
    };
    name.map_or(Ok(()), |name| {
        let value = map.get(name).map(describe).unwrap_or_default();
        Err(format!(
            "options \"{name}\" and \"engine\" contradict each other: {why}; given: {name}: {value}, engine: \"{engine}\""
        ))
    })
}

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
pub(super) fn check_launcher(map: &Map<String, Value>) -> Result<(), String> {
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

/// Settles the engine of `options` behind a launcher: `"auto"` becomes print if only print needs no file.
///
/// # Errors
/// `UNSUPPORTED_OPTION`: every engine that the options allow gets a file which the CLI can't reach.
pub fn within_reach(provider: &Provider, options: Options) -> Result<Options, Box<ProviderError>> {
    let Some(launch) = options.launch.clone().filter(|_| options.is_out_of_reach()) else {
        return Ok(options);
    };
    let asked = asked(provider, &options);
    if let Some((engine, _)) = asked.iter().find(|(_, what)| what.is_none()) {
        return Ok(match (options.engine, engine) {
            (EngineKind::Auto, EngineUsed::Print) if asked.len() > 1 => Options {
                engine: EngineKind::Print,
                print_because: Some(format!(
                    "the option `launch.files` is \"none\", and it gets {}",
                    in_words(&asked)
                )),
                ..options
            },
            _ => options,
        });
    }
    // The engine that another value of `engine` would leave to it.
    let any = Options {
        engine: EngineKind::Auto,
        ..options.clone()
    };
    let mut others = self::asked(provider, &any).into_iter();
    let other = others.find(|(_, what)| what.is_none()).map(|(engine, _)| engine.name());
    let other = other.map_or_else(String::new, |engine| format!("set `engine` to \"{engine}\", "));
    let able = ALL
        .iter()
        .filter(|one| one.id != provider.id && is_callable(one, &launch));
    let able: Vec<&str> = able.map(|other| &*other.id).collect();
    let reason = format!(
        "option \"launch.files\" is \"none\", and {} can't be called behind `launch` ({}) without files of this package: it gets {}",
        provider.id,
        launch.command,
        in_words(&asked)
    );
    let hint = format!(
        "{other}give the folder for temporary files (`TMPDIR`) the same path on the other side and set `launch.files` to \"shared\", leave out \
         the option that needs the file, or use a CLI that gets none: {}",
        able.join(", ")
    );
    let error = ProviderError::new(&provider.id, Code::UnsupportedOption, reason);
    Err(Box::new(error.with_hint(hint)))
}

/// Tells in words what the engines get, each thing once: `the file a (live, print), the folder b (warm)`.
fn in_words(asked: &[(EngineUsed, Option<String>)]) -> String {
    let mut things: Vec<(&str, Vec<&str>)> = Vec::new();
    for (engine, what) in asked {
        let Some(what) = what.as_deref() else { continue };
        match things.iter_mut().find(|(known, _)| *known == what) {
            Some((_, engines)) => engines.push(engine.name()),
            None => things.push((what, vec![engine.name()])),
        }
    }
    let things = things
        .iter()
        .map(|(what, engines)| format!("{what} ({})", engines.join(", ")));
    things.collect::<Vec<_>>().join(", ")
}

/// The engines that `options` allow, the best first, each with the first file or folder of this package that it gets.
fn asked(provider: &Provider, options: &Options) -> Vec<(EngineUsed, Option<String>)> {
    let live = provider.live.map(|_| EngineUsed::Live);
    let warm = provider.warm.map(|_| EngineUsed::Warm);
    let print = provider.has_print().then_some(EngineUsed::Print);
    let engines = match options.engine {
        EngineKind::Live => vec![live],
        EngineKind::Warm => vec![warm],
        EngineKind::Print => vec![print],
        EngineKind::Auto => vec![live, warm, print],
    };
    let engines = engines.into_iter().flatten();
    engines
        .map(|engine| (engine, gets(provider, options, engine)))
        .collect()
}

/// The first file or folder of this package that each process of `engine` gets, in words.
fn gets(provider: &Provider, options: &Options, engine: EngineUsed) -> Option<String> {
    let (mode, of_form) = match engine {
        EngineUsed::Live => (Mode::Live, provider.live.and_then(|live| live.always_gets)),
        EngineUsed::Warm => (Mode::Warm, None),
        EngineUsed::Print => (Mode::Print(""), None),
    };
    // A command line that can't be built is the call's error.
    let of_line = build(provider, options, mode, false, &Installed::default()).ok();
    of_line
        .and_then(|line| line.needs_file())
        .or_else(|| of_form.map(str::to_owned))
}

/// Returns whether `provider` can be called behind `launch` with its defaults.
fn is_callable(provider: &Provider, launch: &Launch) -> bool {
    Options::parse(provider, "{}").is_ok_and(|options| {
        let options = Options {
            launch: Some(launch.clone()),
            ..options
        };
        asked(provider, &options).iter().any(|(_, what)| what.is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The engine of the provider `id` with `more` options, and why it is print; or the error's reason.
    fn settled(id: &str, more: &Value) -> Result<(EngineKind, Option<String>), String> {
        let mut own = json!({ "launch": { "command": "docker" } });
        own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let provider = crate::find(id).unwrap();
        let options = Options::parse(provider, &own.to_string()).unwrap();
        let settled = within_reach(provider, options).map(|options| (options.engine, options.print_because));
        settled.map_err(|error| {
            assert_eq!(error.code, Code::UnsupportedOption);
            let able = if id == "claude" { "glm" } else { "claude, glm" };
            let ends = format!("or use a CLI that gets none: {able}");
            assert!(error.hint.as_deref().unwrap().ends_with(&ends));
            let prefix = format!(
                "option \"launch.files\" is \"none\", and {id} can't be called behind `launch` (docker) without files of this package: it \
                 gets "
            );
            let rest = error.message.strip_prefix(&prefix).unwrap();
            let (first, second) = rest.split_once(". ").unwrap();
            // Another engine is named only to who has one.
            let other = second.starts_with("Set `engine` to \"live\", give the folder");
            assert_eq!(other, id == "claude", "{second}");
            first.to_owned()
        })
    }

    #[test]
    fn what_gets_files_is_refused_before_a_call() {
        let refused: Vec<(&str, String)> = ALL
            .iter()
            .filter_map(|provider| Some((&*provider.id, settled(&provider.id, &json!({})).err()?)))
            .collect();
        let mut refused: Vec<String> = refused.iter().map(|(id, why)| format!("{id}: {why}")).collect();
        refused.sort();
        assert_eq!(
            refused,
            [
                "codex: the file of its catalog of models (live), the file system-prompt.txt (print)",
                "copilot: the folder of the variable COPILOT_HOME (live, print)",
                "gemini: the file policy.toml (warm, print)",
                "grok: the file agent.md (warm, print)",
                "opencode: the folder or file of the variable XDG_CONFIG_HOME (live, print)",
                "qwen: the folder or file of the variable QWEN_RUNTIME_DIR (live, warm, print)",
            ]
        );
        assert_eq!(
            settled("codex", &json!({ "engine": "live" })).unwrap_err(),
            "the file of its catalog of models (live)"
        );
        assert_eq!(
            settled(
                "claude",
                &json!({ "engine": "print", "systemPrompt": "You are terse." })
            )
            .unwrap_err(),
            "the file system-prompt.txt (print)"
        );
    }

    #[test]
    fn the_engine_without_files_is_taken() {
        assert_eq!(settled("claude", &json!({})), Ok((EngineKind::Auto, None)));
        let own = json!({ "systemPrompt": "You are terse." });
        assert_eq!(settled("claude", &own), Ok((EngineKind::Auto, None)));
        // codex's own system prompt needs no file.
        let why = "the option `launch.files` is \"none\", and it gets the file of its catalog of models (live)";
        assert_eq!(
            settled("codex", &json!({ "systemPrompt": null })),
            Ok((EngineKind::Print, Some(why.to_owned())))
        );
        let shared = json!({ "launch": { "command": "docker", "files": "shared" } });
        assert_eq!(settled("codex", &shared), Ok((EngineKind::Auto, None)));
    }

    #[test]
    fn an_agent_gets_no_file() {
        let agent = crate::custom::agent(r#"{"name":"agent","command":"agent"}"#).unwrap();
        let options = Options::parse(&agent, r#"{"launch":{"command":"docker"}}"#).unwrap();
        assert_eq!(within_reach(&agent, options).unwrap().engine, EngineKind::Auto);
    }
}
