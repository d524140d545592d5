//! The engines that can serve a provider behind a launcher which shares no files with this machine (the option `launch.files`).
//!
//! In: a provider and its options. Out: the options with an engine that works without files of this package, or the error that there is
//! none, before anything is started.

use super::{Installed, Mode, build};
use crate::options::{EngineKind, Launch, Options};
use crate::{ALL, Provider};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::EngineUsed;

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
    use serde_json::{Value, json};

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
        let agent = crate::acp::agent(r#"{"name":"agent","command":"agent"}"#).unwrap();
        let options = Options::parse(&agent, r#"{"launch":{"command":"docker"}}"#).unwrap();
        assert_eq!(within_reach(&agent, options).unwrap().engine, EngineKind::Auto);
    }
}
