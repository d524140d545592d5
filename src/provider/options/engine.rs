//! The engine that the options want, and the options that need one process per call.
//!
//! In: a checked object of options. Out: the [`EngineKind`], and the reason why `"auto"` is print with these options.

use serde_json::{Map, Value};

use super::{ENGINE, EngineKind, Kind, check as fits, describe, texts};
use crate::{ALL, Provider, choices};
use dfp_model::error::{Code, ProviderError};

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
        let takes = || provider.option(name).is_none_or(|spec| fits(&spec, &only).is_ok());
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
pub(super) fn check(provider: &Provider, map: &Map<String, Value>) -> Result<(), String> {
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
