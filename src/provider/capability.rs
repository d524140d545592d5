//! The capabilities of a provider, for each of its engines, and which provider supports a feature.
//!
//! In: nothing. Out: the types of a provider's [`Capabilities`], which stand as data in its folder, and the questions to those of all
//! providers and of an OpenAI-compatible API: one source for error messages and for the table of docs/reference/providers.md. They are
//! the support of a feature by a provider ([`Provider::can`]), the providers that support it ([`providers_with`]), the reason of a
//! refusal ([`refusal`]), and the table's columns ([`columns`]).

use super::choices::{self, Choices, OnUnsupported};
use super::options::{EngineKind, Options};
use super::{ALL, Provider, api, custom};
use dfp_model::error::{Code, ProviderError};

/// The level at which a feature is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The backend has the feature, and the request uses it.
    Native,
    /// The backend does not have the feature: it is asked for in words and checked, or done by this package.
    Emulated,
    /// The feature is missing: a call that needs it is refused, or warned that it was left out.
    Unsupported,
}

impl Support {
    /// The table's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Support::Native => "native",
            Support::Emulated => "emulated",
            Support::Unsupported => "–",
        }
    }
}

/// The support of one feature, with a remark for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    pub support: Support,
    /// The remark, a clause without a full stop; empty for none.
    pub remark: &'static str,
    /// The options that the feature needs.
    pub needs: Needs,
}

/// The condition on a provider's options under which a feature is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// The CLI's own tools are off, and it runs in a private folder (no `cwd` is given), where it finds the choices.
    PrivateFolder,
}

/// The remark on a feature that some calls have by words in the prompt: which, docs/guide/structured-output.md says.
pub const SOME_ASKED: &str = "[some in the prompt](../guide/structured-output.md#how-the-model-is-told)";

/// The backend has the feature.
pub const NATIVE: Capability = Capability {
    support: Support::Native,
    remark: "",
    needs: Needs::Nothing,
};

/// The feature is asked for in words and checked, or done by this package.
pub const EMULATED: Capability = Capability {
    support: Support::Emulated,
    remark: "",
    needs: Needs::Nothing,
};

/// The feature is missing.
pub const UNSUPPORTED: Capability = Capability {
    support: Support::Unsupported,
    remark: "",
    needs: Needs::Nothing,
};

impl Capability {
    /// Returns this capability with a remark.
    #[must_use]
    pub const fn but(self, remark: &'static str) -> Capability {
        Capability { remark, ..self }
    }

    /// Returns this capability with a condition on the options.
    #[must_use]
    pub const fn with(self, needs: Needs) -> Capability {
        Capability { needs, ..self }
    }

    /// Returns whether the feature is there at all.
    pub fn is_supported(self) -> bool {
        self.support != Support::Unsupported
    }
}

/// Something that not every provider can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// An answer that fits a schema.
    StructuredOutput,
    /// Images in a user's message.
    Images,
    /// Documents (PDF) in a user's message.
    Documents,
    /// Images in a tool's result.
    ResultImages,
    /// The model's reasoning, in the answer.
    ReasoningOut,
    /// The choice of how much the model reasons.
    ReasoningEffort,
    /// An answer without any reasoning.
    ReasoningOff,
    /// Another model for one call.
    Model,
    /// The choice of the tools that the model is to call.
    ToolChoice,
    /// The longest answer, tokens.
    MaxOutputTokens,
    /// Texts that end the answer.
    Stop,
    /// The sampling temperature.
    Temperature,
    /// The choice of how an API serves the answer: later and cheaper, or sooner.
    ServiceTier,
    /// The fast mode of a model.
    Speed,
    /// Searching the web with the CLI's own tool, beside the caller's tools.
    WebSearch,
    /// A search among the caller's tools, of which the model is told the names alone.
    ToolSearch,
    /// Waiting until a used-up plan is reset.
    QuotaWait,
    /// The choice among several logins.
    Login,
}

impl Feature {
    /// All features, in the table's order.
    pub const ALL: [Feature; 18] = [
        Feature::StructuredOutput,
        Feature::Images,
        Feature::Documents,
        Feature::ResultImages,
        Feature::ReasoningOut,
        Feature::ReasoningEffort,
        Feature::ReasoningOff,
        Feature::Model,
        Feature::ToolChoice,
        Feature::MaxOutputTokens,
        Feature::Stop,
        Feature::Temperature,
        Feature::ServiceTier,
        Feature::Speed,
        Feature::WebSearch,
        Feature::ToolSearch,
        Feature::QuotaWait,
        Feature::Login,
    ];

    /// The feature's name for people.
    pub fn title(self) -> &'static str {
        match self {
            Feature::StructuredOutput => "structured output",
            Feature::Images => "images",
            Feature::Documents => "documents (PDF)",
            Feature::ResultImages => "images in tool results",
            Feature::ReasoningOut => "reasoning in the answer",
            Feature::ReasoningEffort => "reasoning effort",
            Feature::ReasoningOff => "reasoning off",
            Feature::Model => "model per call",
            Feature::ToolChoice => "tool choice",
            Feature::MaxOutputTokens => "output limit",
            Feature::Stop => "stop sequences",
            Feature::Temperature => "temperature",
            Feature::ServiceTier => "service tier",
            Feature::Speed => "fast mode",
            Feature::WebSearch => "web search",
            Feature::ToolSearch => "search for tools",
            Feature::QuotaWait => "waiting for a quota",
            Feature::Login => "several logins",
        }
    }

    /// The option that asks for the feature, if there is one.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Feature::StructuredOutput => Some("outputSchema"),
            Feature::Images | Feature::Documents | Feature::ResultImages | Feature::ReasoningOut => None,
            Feature::ReasoningEffort => Some("reasoning.effort"),
            Feature::ReasoningOff => Some("reasoning"),
            Feature::Model => Some("model"),
            Feature::ToolChoice => Some("toolChoice"),
            Feature::MaxOutputTokens => Some("maxOutputTokens"),
            Feature::Stop => Some("stop"),
            Feature::Temperature => Some("temperature"),
            Feature::ServiceTier => Some("serviceTier"),
            Feature::Speed => Some("speed"),
            Feature::WebSearch => Some("webSearch"),
            Feature::ToolSearch => Some("tools.search"),
            Feature::QuotaWait => Some("quota.wait"),
            Feature::Login => Some("login"),
        }
    }
}

/// The capabilities of one engine of a provider, with a field per [`Feature`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the features are documented where they are named")]
pub struct Capabilities {
    /// True if a model alone answers, unless options say otherwise: prompt in, answer out. `false` if tools of the CLI's or the
    /// agent's own stay on, or that is unknown.
    pub pure: bool,
    pub structured_output: Capability,
    pub images: Capability,
    pub documents: Capability,
    pub result_images: Capability,
    pub reasoning_out: Capability,
    pub reasoning_effort: Capability,
    pub reasoning_off: Capability,
    pub model: Capability,
    pub tool_choice: Capability,
    pub max_output_tokens: Capability,
    pub stop: Capability,
    pub temperature: Capability,
    pub service_tier: Capability,
    pub speed: Capability,
    pub web_search: Capability,
    pub tool_search: Capability,
    pub quota_wait: Capability,
    pub login: Capability,
}

impl Capabilities {
    /// The capabilities of a CLI of which only its flags are known: a model, and what can be asked for in words.
    pub const LEAST: Capabilities = Capabilities {
        pure: false,
        structured_output: EMULATED,
        images: UNSUPPORTED,
        documents: UNSUPPORTED,
        result_images: UNSUPPORTED,
        reasoning_out: UNSUPPORTED,
        reasoning_effort: UNSUPPORTED,
        reasoning_off: UNSUPPORTED,
        model: NATIVE,
        tool_choice: EMULATED,
        max_output_tokens: UNSUPPORTED,
        stop: UNSUPPORTED,
        temperature: UNSUPPORTED,
        service_tier: UNSUPPORTED,
        speed: UNSUPPORTED,
        web_search: UNSUPPORTED,
        tool_search: UNSUPPORTED,
        quota_wait: EMULATED,
        login: UNSUPPORTED,
    };

    /// The support of `feature`.
    pub fn of(&self, feature: Feature) -> Capability {
        match feature {
            Feature::StructuredOutput => self.structured_output,
            Feature::Images => self.images,
            Feature::Documents => self.documents,
            Feature::ResultImages => self.result_images,
            Feature::ReasoningOut => self.reasoning_out,
            Feature::ReasoningEffort => self.reasoning_effort,
            Feature::ReasoningOff => self.reasoning_off,
            Feature::Model => self.model,
            Feature::ToolChoice => self.tool_choice,
            Feature::MaxOutputTokens => self.max_output_tokens,
            Feature::Stop => self.stop,
            Feature::Temperature => self.temperature,
            Feature::ServiceTier => self.service_tier,
            Feature::Speed => self.speed,
            Feature::WebSearch => self.web_search,
            Feature::ToolSearch => self.tool_search,
            Feature::QuotaWait => self.quota_wait,
            Feature::Login => self.login,
        }
    }
}

/// The capabilities of a provider, by its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByEngine {
    /// The engine with one process per call.
    pub print: Capabilities,
    /// The engine with a process that stays; `None` if there is none.
    pub live: Option<Capabilities>,
}

impl ByEngine {
    /// The kinds of content beside text that go to the model, or come from it, with at least one engine.
    pub fn handed_over(&self) -> Vec<&'static str> {
        let engines = [Some(self.print), self.live];
        let can = |feature: &Feature| {
            engines
                .iter()
                .flatten()
                .any(|engine| engine.of(*feature).is_supported())
        };
        let named = |feature: Feature| match feature {
            Feature::Images => Some("images"),
            Feature::Documents => Some("documents"),
            Feature::ResultImages => Some("resultImages"),
            Feature::ReasoningOut => Some("reasoning"),
            _ => None,
        };
        Feature::ALL.into_iter().filter(can).filter_map(named).collect()
    }

    /// Returns whether a model alone answers with every engine, unless options say otherwise.
    pub fn is_pure(&self) -> bool {
        self.print.pure && self.live.is_none_or(|live| live.pure)
    }

    /// The capabilities of a provider without a live engine.
    pub const fn print_only(print: Capabilities) -> ByEngine {
        ByEngine { print, live: None }
    }
}

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
        can: api::CAPABILITIES,
    };
    let own = Column {
        name: "your own CLI".to_owned(),
        can: custom::CAPABILITIES.print,
    };
    let agent = Column {
        name: "any agent".to_owned(),
        can: custom::AGENT_CAPABILITIES.print,
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
    let api = api::CAPABILITIES.of(feature).is_supported().then(|| API.to_owned());
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
