//! The support of features by all providers: one source for error messages and for the table of docs/reference/providers.md.
//!
//! In: the [`Capabilities`] of every provider and of an OpenAI-compatible API. Out: the support of a feature by one of them
//! ([`Provider::can`]), the providers that support it ([`providers_with`]), the reason of a refusal ([`refusal`]), and the table's
//! columns ([`columns`]).

use super::capability::{ByEngine, Capabilities, Capability, Feature, Needs, Support, UNSUPPORTED};
use super::choices::{self, Choices, OnUnsupported};
use super::options::{EngineKind, Options};
use super::{ALL, Provider, acp, custom, openai};
use dfp_model::error::{Code, ProviderError};

impl Provider {
    /// The support of `feature` with the option `engine`: that of the engine which supports it least among those a call may use,
    /// with that engine's name.
    pub fn can(&self, feature: Feature, engine: EngineKind) -> (&'static str, Capability) {
        let engines = engines(&self.capabilities, engine);
        let rank = |(_, capability): &(&str, Capability)| match capability.support {
            Support::Unsupported => 0,
            Support::Emulated => 1,
            Support::Native => 2,
        };
        let of_each = engines.map(|(name, can)| (name, can.of(feature)));
        of_each.min_by_key(rank).unwrap_or(("print", UNSUPPORTED))
    }
}

impl Provider {
    /// Separates the choices that a call with `options` and the option `engine` can make from those that are left out.
    ///
    /// # Errors
    /// `UNSUPPORTED_OPTION`, naming the option, the provider that does not support it, and those that do.
    pub fn settle(
        &self,
        choices: Choices,
        on_unsupported: Option<OnUnsupported>,
        engine: EngineKind,
        options: &Options,
    ) -> Result<(Choices, Vec<Feature>), Box<ProviderError>> {
        let can = |feature| {
            let (_, can) = self.can(feature, engine);
            can.is_supported() && lacks(can, options).is_none()
        };
        let settled = choices::settle(choices, on_unsupported, can);
        settled.map_err(|feature| Box::new(self.unsupported(feature, engine, options)))
    }

    /// The error of a call that asks for `feature` and may use an engine without it.
    pub fn unsupported(&self, feature: Feature, engine: EngineKind, options: &Options) -> ProviderError {
        let reason = self.why_not(feature, engine, options);
        let hint = match self.can_live(feature, engine) {
            true => format!("set `{ONLY_LIVE}`, or {HINT}"),
            false => HINT.to_owned(),
        };
        ProviderError::new(&self.id, Code::UnsupportedOption, reason).with_hint(hint)
    }

    /// Returns whether the live engine supports `feature`, for a call that may use another engine.
    fn can_live(&self, feature: Feature, engine: EngineKind) -> bool {
        let live = self.capabilities.live.map(|can| can.of(feature));
        engine == EngineKind::Auto && live.is_some_and(|can| can.is_supported())
    }

    /// The reason for which `feature` is missing for a call with the option `engine`.
    pub fn why_not(&self, feature: Feature, engine: EngineKind, options: &Options) -> String {
        let (name, can) = self.can(feature, engine);
        let lacks = lacks(can, options).filter(|_| can.is_supported()).unwrap_or_default();
        let engine = self.capabilities.live.is_some().then_some(name);
        refusal(feature, &format!("{}{lacks}", self.id), engine)
    }
}

/// The option that keeps a call out of print form.
pub const ONLY_LIVE: &str = "engine: \"live\"";

/// Advice for an option that the provider does not support.
pub const HINT: &str = "leave it out, use a provider that can, or set `onUnsupported: \"warn\"`";

/// The name of an OpenAI-compatible API in messages and in the table.
pub const API: &str = "an OpenAI-compatible API";

/// A column of the table: a provider, one of its engines if it has two, and its capabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// The column's capabilities.
    pub can: Capabilities,
}

/// All providers and engines; a CLI and an agent of the user's own, and an API, come last.
pub fn columns() -> Vec<Column> {
    let of = |provider: &Provider| -> Vec<Column> {
        let has_two = provider.capabilities.live.is_some();
        let engines = engines(&provider.capabilities, EngineKind::Auto);
        let column = |(engine, can): (&str, &Capabilities)| Column {
            name: match has_two {
                true => format!("{} {engine}", provider.id),
                false => provider.id.to_string(),
            },
            can: *can,
        };
        engines.map(column).collect()
    };
    let api = Column {
        name: API.to_owned(),
        can: openai::CAPABILITIES,
    };
    let own = Column {
        name: "your own CLI".to_owned(),
        can: custom::CAPABILITIES.print,
    };
    let agent = Column {
        name: "any agent".to_owned(),
        can: acp::CAPABILITIES.print,
    };
    let named = ALL.iter().flat_map(|provider| of(provider));
    named.chain([own, agent, api]).collect()
}

/// The providers that support `feature`, in words: `claude, codex (live), an OpenAI-compatible API`. Empty if none does.
pub fn providers_with(feature: Feature) -> String {
    let of = |provider: &&Provider| {
        let engines = engines(&provider.capabilities, EngineKind::Auto);
        let able: Vec<&str> = engines
            .filter(|(_, can)| can.of(feature).is_supported())
            .map(|(name, _)| name)
            .collect();
        match (able.as_slice(), provider.capabilities.live) {
            ([], _) => None,
            ([_, _], _) | (_, None) => Some(provider.id.to_string()),
            ([only, ..], Some(_)) => Some(format!("{} ({only})", provider.id)),
        }
    };
    let api = openai::CAPABILITIES.of(feature).is_supported().then(|| API.to_owned());
    let all: Vec<String> = ALL.iter().filter_map(of).chain(api).collect();
    all.join(", ")
}

/// The reason for which `provider` refuses the option of `feature`, since `engine` does not support it; `engine` is `None` for a
/// provider that has no choice of engines.
pub fn refusal(feature: Feature, provider: &str, engine: Option<&str>) -> String {
    let option = feature.option().unwrap_or(feature.title());
    let who = match engine {
        Some(engine) => format!("{provider}'s {engine} engine"),
        None => provider.to_owned(),
    };
    let able = providers_with(feature);
    let able = match able.as_str() {
        "" => "no provider can".to_owned(),
        able => format!("those that can: {able}"),
    };
    format!("option \"{option}\" is not supported by {who}; {able}")
}

/// The reason for which `can` is missing with `options` although other options have it, worded to stand behind the provider's name;
/// `None` if it is there.
fn lacks(can: Capability, options: &Options) -> Option<&'static str> {
    match can.needs {
        Needs::PrivateFolder if options.built_in_tools => Some(" with its own tools on"),
        Needs::PrivateFolder if options.cwd.is_some() => Some(" with `cwd`"),
        _ => None,
    }
}

/// The engines that a call may use with the option `engine`, each with its name.
pub fn engines(of: &ByEngine, engine: EngineKind) -> impl Iterator<Item = (&'static str, &Capabilities)> {
    // A warm process gets the same prompt as a process per call.
    let print = match engine {
        EngineKind::Live => None,
        EngineKind::Warm => Some(("warm", &of.print)),
        EngineKind::Print | EngineKind::Auto => Some(("print", &of.print)),
    };
    let live = of.live.as_ref().filter(|_| engine.may_be_live());
    print.into_iter().chain(live.map(|live| ("live", live)))
}
