//! The options that one call may choose as well as a provider: the model, how much it reasons, the length of its answer, its
//! sampling, the tools it calls.
//!
//! In: the object of a call's options or of a provider's. Out: [`Choices`], checked; those that a provider does not support are
//! refused or left out ([`settle`]), and those that the model does not have are told ([`lacking`]).

use serde_json::{Map, Number, Value};

use super::capability::Feature;
use super::custom::{EFFORT_NONE, EFFORT_OFF};
use super::models::ListedModel;
use super::options::{self, Kind, OptionSpec, check_fields, describe, number, texts, wrong};
use dfp_model::error::{Code, clip};
use dfp_model::event::Event;

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec { name, kind }
}

/// `reasoning`: how much the model reasons, or that it does not.
pub const REASONING: OptionSpec = option("reasoning", Kind::WordOr(OFF, &[option("effort", Kind::Word)]));
/// The word for no reasoning.
const OFF: &str = "off";
/// `maxOutputTokens`: the longest answer, tokens.
pub const MAX_OUTPUT_TOKENS: OptionSpec = option("maxOutputTokens", Kind::Whole(1, 1 << 53));
/// `stop`: texts that end the answer.
pub const STOP: OptionSpec = option("stop", Kind::NonEmptyTexts);
/// `temperature`.
pub const TEMPERATURE: OptionSpec = option("temperature", Kind::Between(0, 2));
/// `webSearch`: whether the model may search the web with the CLI's own tool for it.
pub const WEB_SEARCH: OptionSpec = option("webSearch", Kind::Flag);
/// `serviceTier`: how an API serves the answer, in its own word: OpenAI's are "auto", "default", "flex", "priority".
pub const SERVICE_TIER: OptionSpec = option("serviceTier", Kind::Word);
/// `speed`: whether the model answers in its fast mode.
pub const SPEED: OptionSpec = option("speed", Kind::OneOf(&[FAST, STANDARD]));
/// The value of [`SPEED`] for the fast mode.
pub const FAST: &str = "fast";
/// The other value of [`SPEED`].
pub const STANDARD: &str = "standard";
/// `tools`: how the caller's tools are offered. It is a provider's option only: a call of LangChain has another one of that name.
pub const TOOLS: OptionSpec = option("tools", Kind::Fields(&[option("search", Kind::Flag)]));
/// `onUnsupported`: the treatment of choices that the provider can't serve.
pub const ON_UNSUPPORTED: OptionSpec = option("onUnsupported", Kind::OneOf(&["error", "warn"]));
/// `toolChoice` of a call; [`ToolChoice::read`] checks the object's fields.
const TOOL_CHOICE: OptionSpec = option("toolChoice", Kind::AnyOf(&[Kind::OneOf(WORDS), Kind::NamedTool]));

/// `extraBody` of a call: further fields of an API's request. Only the gateway uses it, for choices of its clients that no other
/// option has.
pub const EXTRA_BODY: OptionSpec = option("extraBody", Kind::Object);

const WORDS: &[&str] = &["auto", "none", "any"];

/// The options that both a provider and a call take, beside the model.
pub const COMMON: [OptionSpec; 8] = [
    REASONING,
    MAX_OUTPUT_TOKENS,
    STOP,
    TEMPERATURE,
    SERVICE_TIER,
    SPEED,
    WEB_SEARCH,
    ON_UNSUPPORTED,
];

/// The choice of tools that the model is to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model calls any tool, or none.
    Auto,
    /// The model calls no tool: none are offered.
    None,
    /// The model calls at least one tool.
    Any,
    /// The model calls the tool of this name.
    Tool(String),
}

/// The treatment of a choice that the provider can't serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnsupported {
    /// The call is refused.
    Error,
    /// The choice is left out, and a warning says so.
    Warn,
}

impl OnUnsupported {
    /// The default for `feature`. A choice of sampling or length is only a wish, whose absence does no harm, so it is left out with
    /// a warning.
    fn by_default(feature: Feature) -> OnUnsupported {
        match feature {
            Feature::Temperature | Feature::Stop | Feature::MaxOutputTokens => OnUnsupported::Warn,
            _ => OnUnsupported::Error,
        }
    }
}

/// The choices; `None` is the backend's own default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// `model`.
    pub model: Option<String>,
    /// `reasoning.effort`: a word of letters, digits, "-" and "_".
    pub effort: Option<String>,
    /// `reasoning: "off"`, for a provider that has no effort of this meaning; never beside an effort.
    pub reasoning_off: bool,
    /// `maxOutputTokens`.
    pub max_output_tokens: Option<u64>,
    /// `stop`; an empty list is none.
    pub stop: Option<Vec<String>>,
    /// `temperature`, as it was written.
    pub temperature: Option<Number>,
    /// `serviceTier`.
    pub service_tier: Option<String>,
    /// `speed`: true for "fast"; `Some(false)` is a call's refusal of its provider's own choice.
    pub fast: Option<bool>,
    /// `webSearch`; `Some(false)` is a call's refusal of its provider's own choice.
    pub web_search: Option<bool>,
    /// `tools.search`, if it is on.
    pub tool_search: Option<bool>,
}

impl Choices {
    /// Reads the choices of a checked object.
    ///
    /// `off_effort` is the provider's effort that stands for no reasoning, if it has one.
    pub fn read(map: &Map<String, Value>, off_effort: Option<&str>) -> Choices {
        let text = |map: &Map<String, Value>, name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let reasoning = map.get(REASONING.name);
        let is_off = reasoning.and_then(Value::as_str) == Some(OFF);
        let effort = reasoning.and_then(|reasoning| Some(reasoning.get("effort")?.as_str()?.to_owned()));
        Choices {
            model: text(map, "model").filter(|model| !model.trim().is_empty()),
            effort: effort.or_else(|| off_effort.filter(|_| is_off).map(str::to_owned)),
            reasoning_off: is_off && off_effort.is_none(),
            max_output_tokens: number(map, MAX_OUTPUT_TOKENS.name),
            stop: map.contains_key(STOP.name).then(|| texts(map, STOP.name)),
            temperature: match map.get(TEMPERATURE.name) {
                Some(Value::Number(number)) => Some(number.clone()),
                _ => None,
            },
            service_tier: text(map, SERVICE_TIER.name),
            fast: text(map, SPEED.name).map(|speed| speed == FAST),
            web_search: map.get(WEB_SEARCH.name).and_then(Value::as_bool),
            tool_search: map
                .get(TOOLS.name)
                .and_then(|tools| tools.get("search")?.as_bool())
                .filter(|searches| *searches),
        }
    }

    /// Returns these choices, with those of `others` in the place of missing ones.
    #[must_use]
    pub fn or(self, others: &Choices) -> Choices {
        let (effort, reasoning_off) = match (self.effort, self.reasoning_off) {
            (None, false) => (others.effort.clone(), others.reasoning_off),
            own => own,
        };
        Choices {
            model: self.model.or_else(|| others.model.clone()),
            effort,
            reasoning_off,
            max_output_tokens: self.max_output_tokens.or(others.max_output_tokens),
            stop: self.stop.or_else(|| others.stop.clone()),
            temperature: self.temperature.or_else(|| others.temperature.clone()),
            service_tier: self.service_tier.or_else(|| others.service_tier.clone()),
            fast: self.fast.or(others.fast),
            web_search: self.web_search.or(others.web_search),
            tool_search: self.tool_search.or(others.tool_search),
        }
    }

    /// Texts that end the answer, if there are any.
    pub fn stop(&self) -> Option<&[String]> {
        self.stop.as_deref().filter(|stop| !stop.is_empty())
    }

    /// Returns whether the model is not to reason; `off_effort` is as in [`Choices::read`].
    pub fn is_reasoning_off(&self, off_effort: Option<&str>) -> bool {
        self.reasoning_off || off_effort.is_some_and(|off| self.effort.as_deref() == Some(off))
    }

    /// Returns whether the model is to answer in its fast mode.
    pub fn is_fast(&self) -> bool {
        self.fast == Some(true)
    }

    /// Returns whether the model may search the web.
    pub fn searches_web(&self) -> bool {
        self.web_search == Some(true)
    }

    /// Returns whether the model is told the names of the tools alone, and searches for the rest.
    pub fn searches_tools(&self) -> bool {
        self.tool_search == Some(true)
    }

    /// The features that these choices need.
    fn features(&self) -> impl Iterator<Item = Feature> {
        let asked = [
            (Feature::Model, self.model.is_some()),
            (Feature::ReasoningEffort, self.effort.is_some()),
            (Feature::ReasoningOff, self.reasoning_off),
            (Feature::MaxOutputTokens, self.max_output_tokens.is_some()),
            (Feature::Stop, self.stop().is_some()),
            (Feature::Temperature, self.temperature.is_some()),
            (Feature::ServiceTier, self.service_tier.is_some()),
            (Feature::Speed, self.is_fast()),
            (Feature::WebSearch, self.searches_web()),
            (Feature::ToolSearch, self.searches_tools()),
        ];
        asked
            .into_iter()
            .filter(|(_, asked)| *asked)
            .map(|(feature, _)| feature)
    }

    fn leave_out(&mut self, feature: Feature) {
        match feature {
            Feature::Model => self.model = None,
            Feature::ReasoningEffort => self.effort = None,
            Feature::ReasoningOff => self.reasoning_off = false,
            Feature::MaxOutputTokens => self.max_output_tokens = None,
            Feature::Stop => self.stop = None,
            Feature::Temperature => self.temperature = None,
            Feature::ServiceTier => self.service_tier = None,
            Feature::Speed => self.fast = None,
            Feature::WebSearch => self.web_search = None,
            Feature::ToolSearch => self.tool_search = None,
            _ => {}
        }
    }
}

/// The option that chooses `effort`, as a message names it: some efforts mean no reasoning.
pub fn effort_option(effort: &str) -> &'static str {
    match [EFFORT_OFF, EFFORT_NONE].contains(&effort) {
        true => "`reasoning: \"off\"`",
        false => "`reasoning.effort`",
    }
}

/// `onUnsupported` of a checked object.
pub fn on_unsupported(map: &Map<String, Value>) -> Option<OnUnsupported> {
    Some(match map.get(ON_UNSUPPORTED.name)?.as_str()? {
        "warn" => OnUnsupported::Warn,
        _ => OnUnsupported::Error,
    })
}

/// Separates the choices that can be served from those that are left out; `can` says whether the provider supports a feature.
///
/// # Errors
/// The first choice that can't be served and may not be left out.
pub fn settle(
    mut choices: Choices,
    on_unsupported: Option<OnUnsupported>,
    can: impl Fn(Feature) -> bool,
) -> Result<(Choices, Vec<Feature>), Feature> {
    let mut left_out = Vec::new();
    for feature in choices.features().collect::<Vec<_>>() {
        if can(feature) {
            continue;
        }
        match on_unsupported.unwrap_or(OnUnsupported::by_default(feature)) {
            OnUnsupported::Error => return Err(feature),
            OnUnsupported::Warn => {
                choices.leave_out(feature);
                left_out.push(feature);
            }
        }
    }
    Ok((choices, left_out))
}

/// The choices of one call, checked as far as possible without its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallChoices {
    /// The choices that a provider may make as well.
    pub choices: Choices,
    /// `toolChoice`.
    pub tool_choice: Option<ToolChoice>,
    /// `onUnsupported`.
    pub on_unsupported: Option<OnUnsupported>,
    /// Further fields of an API's request, in order.
    pub extra: Map<String, Value>,
}

impl CallChoices {
    /// Reads the choices of a call's options `map`; `own` are the specifications of `model` and of further options of the provider, and
    /// `off_effort` is as in [`Choices::read`].
    ///
    /// # Errors
    /// The choice that is wrong, and the reason, in words.
    pub fn read(map: &Map<String, Value>, own: &[OptionSpec], off_effort: Option<&str>) -> Result<CallChoices, String> {
        let specs: Vec<OptionSpec> = COMMON
            .into_iter()
            .chain([TOOL_CHOICE])
            .chain(own.iter().copied())
            .collect();
        check_fields(&specs, map, "").map_err(|reason| match reason.starts_with("option ") {
            true => format!("the call's {reason}"),
            false => format!("in the call's options, {reason}"),
        })?;
        Ok(CallChoices {
            choices: Choices::read(map, off_effort),
            tool_choice: map.get(TOOL_CHOICE.name).map(ToolChoice::read).transpose()?,
            on_unsupported: on_unsupported(map),
            extra: map
                .get(EXTRA_BODY.name)
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
        })
    }
}

impl ToolChoice {
    fn read(value: &Value) -> Result<ToolChoice, String> {
        let name = value
            .as_object()
            .and_then(|object| object.get("name"))
            .and_then(Value::as_str);
        match (value.as_str(), name) {
            (Some("auto"), _) => Ok(ToolChoice::Auto),
            (Some("none"), _) => Ok(ToolChoice::None),
            (Some(_), _) => Ok(ToolChoice::Any),
            (None, Some(name)) => Ok(ToolChoice::Tool(name.to_owned())),
            (None, None) => {
                let allowed = options::allowed(TOOL_CHOICE.kind);
                Err(format!("the call's {}", wrong(TOOL_CHOICE.name, &allowed, value)))
            }
        }
    }

    /// Checks that one of `tools` fits this choice.
    ///
    /// # Errors
    /// The reason for which none fits, in words.
    pub fn check<'a>(&self, mut tools: impl Iterator<Item = &'a str>) -> Result<(), String> {
        match self {
            ToolChoice::Auto | ToolChoice::None => Ok(()),
            ToolChoice::Any if tools.next().is_some() => Ok(()),
            ToolChoice::Any => Err("the call's option \"toolChoice\" is \"any\", and no tools are bound".to_owned()),
            ToolChoice::Tool(name) => {
                let names: Vec<&str> = tools.collect();
                match names.contains(&name.as_str()) {
                    true => Ok(()),
                    false => Err(format!(
                        "the call's option \"toolChoice.name\" must be a tool that is bound ({}); given: {}",
                        match names.as_slice() {
                            [] => "there are none".to_owned(),
                            names => clip(&names.join(", "), 200),
                        },
                        describe(&Value::from(name.as_str()))
                    )),
                }
            }
        }
    }
}

/// Checks that `effort` is one of `known`; an empty list allows any word.
///
/// # Errors
/// The allowed values.
pub fn check_effort(choices: &Choices, known: &[&str]) -> Result<(), String> {
    match &choices.effort {
        Some(effort) if !known.is_empty() && !known.contains(&effort.as_str()) => {
            let allowed: Vec<String> = known.iter().map(|word| format!("\"{word}\"")).collect();
            let allowed = format!("one of {}", allowed.join(", "));
            Err(wrong("reasoning.effort", &allowed, &Value::from(effort.as_str())))
        }
        _ => Ok(()),
    }
}

/// The characters of a model's name that a warning shows.
const LONGEST_NAME: usize = 100;
/// The characters of a list of efforts that a warning shows.
const MOST_LISTED: usize = 300;

/// The warnings about those of `choices` that `model` of `provider` does not have, by the list `known`; none if the list does not tell.
///
/// `model` is a name of the list, or the full name of one.
pub fn lacking(provider: &str, known: &[ListedModel], model: &str, choices: &Choices) -> Vec<Event> {
    let by_name = known.iter().find(|one| one.id == model);
    let found = by_name.or_else(|| known.iter().find(|one| one.resolves_to.as_deref() == Some(model)));
    let Some(found) = found else {
        return Vec::new();
    };
    let name = clip(found.resolves_to.as_ref().unwrap_or(&found.id), LONGEST_NAME);
    let whose = format!("has no effect: {provider}'s model {name}");
    let off = (choices.reasoning_off && found.reasoning_off == Some(false))
        .then(|| format!("`reasoning: \"off\"` {whose} always thinks"));
    // A list that tells the efforts of some models says nothing of one that has none.
    let tells_efforts = known.iter().any(|one| one.efforts.is_some() || one.has_unnamed_efforts);
    let has_none = tells_efforts && !found.has_unnamed_efforts;
    let efforts = found.efforts.as_deref().or(has_none.then_some(&[]));
    let effort = choices.effort.as_ref().zip(efforts);
    let effort = effort
        .filter(|(effort, efforts)| !efforts.contains(effort))
        .map(|(effort, efforts)| {
            let option = effort_option(effort);
            match efforts {
                [] => format!("{option} {whose} has no efforts"),
                efforts => format!(
                    "{option} {whose} has no effort \"{effort}\"; it has: {}",
                    clip(&efforts.join(", "), MOST_LISTED)
                ),
            }
        });
    let speeds = found.speeds.as_deref();
    let fast = speeds.filter(|speeds| choices.is_fast() && !speeds.iter().any(|speed| speed == FAST));
    let fast = fast.map(|_| format!("`speed: \"fast\"` {whose} has no fast mode"));
    let warning = |message| Event::Warning {
        code: Code::UnsupportedOption.as_str().to_owned(),
        message,
    };
    off.into_iter().chain(effort).chain(fast).map(warning).collect()
}

#[cfg(test)]
mod tests;
