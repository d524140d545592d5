//! The options that one call chooses for itself, over those of its provider, and which text of its answer is a call.
//!
//! In: the `choices` of a call's options. Out: [`Chosen`]: the call's options, the tools it is to call, and the warnings about
//! choices that were left out; the check of a tool choice, and the rule for calls that are written as text. A choice that is not
//! supported is refused here, before anything starts.
//!
//! In: what was chosen, the warnings that were told on the way, and the reply. Out: a warning for each choice that the model, or the CLI,
//! has silently ignored, as the reply shows, and that none was told about ([`ShownChoices`]).

use std::sync::Arc;

use serde_json::Value;

use super::cli_base::CliBase;
use super::reply_check;
use super::reply_check::{Checks, RejectedReply, ReplyCheck};
use super::request::ChoicesOnce;
use dfp_exchange::random;
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::event::{Event, Reply};
use dfp_model::message::{Message, MessageFields, Role, ToolSpec};
use dfp_provider::capability::Feature;
use dfp_provider::choices::{CallChoices, Choices, ToolChoice, check_effort};
use dfp_provider::classify;
use dfp_provider::options::{EngineKind, MODEL, Options, SystemPrompt, TextToolCalls};
use dfp_text::prompt::{Encoding, Style};
use dfp_text::toolcall::{ForeignTexts, Mark, Marked, TextCalls, Unquoted};

/// The choices of a call, as far as its provider can serve them.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The provider's options with the call's choices; `None` if those are the provider's own.
    pub options: Option<Box<Options>>,
    /// The tools that are to be called.
    pub tool_choice: Option<ToolChoice>,
    /// The warnings about choices that were left out.
    pub left_out: Vec<Event>,
}

/// Checks the choices `given` of a call with `tools` bound, which may use the option `engine`.
///
/// # Errors
/// `INVALID_OPTION` for a choice that is wrong, `UNSUPPORTED_OPTION` for one that the provider can't serve.
pub(super) fn choose(
    cli: &CliBase,
    given: &ChoicesOnce,
    tools: &[ToolSpec],
    kind: EngineKind,
) -> Result<Chosen, Box<ProviderError>> {
    let own = &cli.options.choices;
    if given.original().is_empty() && *own == Choices::default() {
        return Ok(Chosen::default());
    }
    let invalid = |reason: String| cli.refuse(Code::InvalidOption, reason);
    let model = cli.provider.option(MODEL.name).unwrap_or(MODEL);
    let off = cli.provider.off_effort;
    let call = given
        .read(|map| CallChoices::read(map, &[model], off))
        .map_err(invalid)?;
    let of_call = |reason: String| invalid(format!("the call's {reason}"));
    check_effort(&call.choices, cli.provider.efforts).map_err(of_call)?;
    if let (Some(custom), Some(model)) = (&cli.provider.custom, &call.choices.model) {
        custom.check_model(model).map_err(of_call)?;
    }
    if let Some(choice) = &call.tool_choice {
        check_tool_choice(cli, choice, tools, kind)?;
    }
    let chooses = call.choices != Choices::default();
    let chosen_model = call.choices.model.clone();
    let merged = call.choices.clone().or(own);
    // A CLI that gets no model still has one, from its config.
    let (asked, model) = (
        Choices {
            model: chosen_model,
            ..merged.clone()
        },
        merged.model,
    );
    let on_unsupported = call.on_unsupported.or(cli.options.on_unsupported);
    let (settled, left_out) = cli.provider.settle(asked, on_unsupported, kind, &cli.options)?;
    let settled = Choices {
        model,
        stop: settled.stop.filter(|stop| !stop.is_empty()),
        web_search: settled.web_search.filter(|searches| *searches),
        // Where there is no fast mode, a call that refuses it is as any other.
        fast: settled
            .fast
            .filter(|fast| *fast || cli.provider.can(Feature::Speed, kind).1.is_supported()),
        ..settled
    };
    let searches = [
        ("webSearch", cli.provider.web_search, settled.searches_web()),
        ("tools.search", cli.provider.tool_search, settled.searches_tools()),
    ];
    for (option, name, _) in searches.into_iter().filter(|(_, _, is_on)| *is_on) {
        if let Some(tool) = tools.iter().find(|tool| Some(tool.name.as_str()) == name) {
            let reason = format!(
                "the option \"{option}\" and the tool \"{}\" contradict each other: the search of the CLI's own has that name; give the \
                 tool another one, or leave out \"{option}\"",
                tool.name
            );
            return Err(invalid(reason));
        }
    }
    let warning = |feature| left_out_warning(cli.provider.why_not(feature, kind, &cli.options));
    Ok(Chosen {
        options: (chooses && settled != *own).then(|| Box::new(cli.options.with_choices(settled))),
        tool_choice: call.tool_choice.clone(),
        left_out: left_out.into_iter().map(warning).collect(),
    })
}

/// Checks that a tool of the call fits `choice`, and that the engine `kind` supports one.
fn check_tool_choice(
    cli: &CliBase,
    choice: &ToolChoice,
    tools: &[ToolSpec],
    kind: EngineKind,
) -> Result<(), Box<ProviderError>> {
    let names = tools.iter().map(|tool| tool.name.as_str());
    choice
        .check(names)
        .map_err(|reason| cli.refuse(Code::InvalidOption, reason))?;
    if !matches!(choice, ToolChoice::Any | ToolChoice::Tool(_)) {
        return Ok(());
    }
    let is_print = kind == EngineKind::Print;
    if is_print && cli.options.text_tool_calls == TextToolCalls::Off {
        let reason = "the call's option \"toolChoice\" and the option \"textToolCalls\" contradict each other: with \"off\", the \
                      model can call no tool in print form";
        return Err(cli.refuse(Code::InvalidOption, reason));
    }
    match cli.provider.can(Feature::ToolChoice, kind).1.is_supported() {
        true => Ok(()),
        false => Err(Box::new(cli.provider.unsupported(
            Feature::ToolChoice,
            kind,
            &cli.options,
        ))),
    }
}

/// The warning that a choice was left out, with the reason.
pub(super) fn left_out_warning(reason: String) -> Event {
    Event::Warning {
        code: Code::UnsupportedOption.as_str().to_owned(),
        message: format!("{reason}: it was left out"),
    }
}

/// The result of a call that is not the one asked for, when the model is asked again: the call is not run.
const NOT_RUN: &str = "Error: this call was not run";

/// The sentence behind a thread that asks for the call; `None` if no call is asked for.
pub(super) fn request(choice: Option<&ToolChoice>) -> Option<String> {
    let what = wanted(choice?)?;
    Some(format!("This reply must be {what}, not an answer in words."))
}

/// The checks that the reply of a call with this choice has to pass.
pub(super) fn checks(provider: &str, choice: Option<&ToolChoice>) -> Checks {
    let mut checks = Checks::default();
    if let Some(choice @ (ToolChoice::Any | ToolChoice::Tool(_))) = choice {
        checks.push(Arc::new(CallIsMade {
            choice: choice.clone(),
            provider: provider.to_owned(),
        }));
    }
    checks
}

/// The wanted call in words.
fn wanted(choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Any => Some("a call of at least one of the tools".to_owned()),
        ToolChoice::Tool(name) => Some(format!("a call of the tool {}", Value::from(name.as_str()))),
    }
}

/// The check that the reply has a certain call, or any.
#[derive(Debug)]
struct CallIsMade {
    choice: ToolChoice,
    provider: String,
}

impl ReplyCheck for CallIsMade {
    fn check(&self, reply: Reply) -> Result<Reply, Box<RejectedReply>> {
        let mut calls = reply.tool_calls.iter();
        let is_made = match &self.choice {
            ToolChoice::Auto | ToolChoice::None => true,
            ToolChoice::Any => calls.next().is_some(),
            ToolChoice::Tool(name) => calls.any(|call| call.name == *name),
        };
        match (is_made, wanted(&self.choice)) {
            (true, _) | (_, None) => Ok(reply),
            (false, Some(wanted)) => {
                let reason = format!("the reply is not {wanted}, which the call's option \"toolChoice\" asks for");
                let hint = classify::hint(&self.provider, Code::ToolChoiceUnmet);
                let error = ProviderError::new(&self.provider, Code::ToolChoiceUnmet, reason).with_hint(hint);
                Err(Box::new(RejectedReply {
                    messages: correction(&reply, &wanted),
                    error: Box::new(error),
                    reply,
                }))
            }
        }
    }
}

/// The reply, an answer to each of its calls (an API requires one for each), and a message that says what is wrong.
fn correction(reply: &Reply, wanted: &str) -> Vec<Message> {
    let not_run = reply.tool_calls.iter().map(|call| {
        Message::from(MessageFields {
            tool_call_id: call.id.clone(),
            is_error: true,
            ..MessageFields::new(Role::Tool, NOT_RUN)
        })
    });
    let reason = format!("That was not {wanted}. Reply again, with that call.");
    let mut messages = reply_check::correction(reply, reason);
    messages.splice(1..1, not_run);
    messages
}

/// The tools that a call's model may call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallableTools {
    /// True in an agent's run: a call that can't be read is reported back to the model, whatever tool it names.
    pub unknown_tools: bool,
    /// True if a model without tools may call some.
    pub may_call_untold: bool,
}

/// The rules for the answer to `messages`, written in this `style`, with this `mark`, if text is a call by the rule `form`.
pub(super) fn text_calls(
    cli: &CliBase,
    form: TextToolCalls,
    messages: &Arc<Vec<Message>>,
    tools: &[ToolSpec],
    asked: CallableTools,
    style: Style,
    mark: Option<Mark>,
) -> TextCalls {
    let names = tools.iter().map(|tool| tool.name.clone());
    match (form, mark) {
        (TextToolCalls::Lenient, _) => TextCalls::Lenient,
        (TextToolCalls::Unquoted, _) if !tools.is_empty() || asked.may_call_untold => {
            let documents = style.documents && style.encoding == Encoding::Xml;
            let any_name = asked.unknown_tools || tools.is_empty();
            unquoted(cli, messages, names, any_name, documents)
        }
        (TextToolCalls::Marked, Some(mark)) => TextCalls::Marked(Arc::new(Marked::new(mark, names))),
        _ => TextCalls::Off,
    }
}

/// The rule for a session whose calls are native. A model that writes a call as text all the same means it, unless somebody else
/// has written that text. No session is told the `mark`, so where only marked text is a call, none is, and what looks like one is
/// warned of.
pub(super) fn in_session(
    cli: &CliBase,
    form: TextToolCalls,
    messages: &Arc<Vec<Message>>,
    tools: &[ToolSpec],
    asked: CallableTools,
    mark: Option<Mark>,
) -> TextCalls {
    let names = tools.iter().map(|tool| tool.name.clone());
    match (form, mark) {
        (TextToolCalls::Unquoted | TextToolCalls::Lenient, _) if !tools.is_empty() => {
            unquoted(cli, messages, names, asked.unknown_tools, false)
        }
        (TextToolCalls::Marked, Some(mark)) => TextCalls::Marked(Arc::new(Marked::new(mark, names))),
        _ => TextCalls::Off,
    }
}

/// The rule that a block at the end of the answer is a call unless it quotes the thread, which is searched only when a block is
/// found.
fn unquoted(
    cli: &CliBase,
    messages: &Arc<Vec<Message>>,
    names: impl Iterator<Item = String>,
    any_name: bool,
    documents: bool,
) -> TextCalls {
    let messages = Arc::clone(messages);
    let system = match &cli.options.system_prompt {
        SystemPrompt::Custom(text) => Some(text.clone()),
        SystemPrompt::Default | SystemPrompt::Cli => None,
    };
    let thread = move || foreign_texts(&messages, system.as_deref(), documents);
    TextCalls::Unquoted(Arc::new(Unquoted::new(thread, names, any_name)))
}

/// The texts that a model reads and has not written itself: those of its thread, and the provider's own `system` prompt.
fn foreign_texts(messages: &[Message], system: Option<&str>, documents: bool) -> ForeignTexts {
    let texts = ForeignTexts::of(messages, documents);
    match system {
        Some(system) => texts.after(system),
        None => texts,
    }
}

/// A mark that nobody can guess, one for all attempts of a call.
///
/// # Errors
/// `INTERNAL` if the system gives no random bytes.
pub(super) fn fresh_mark(cli: &CliBase) -> Result<Mark, Box<ProviderError>> {
    let random = random::bits().map_err(|error| {
        let reason = format!("the tool calls of an answer can't be marked: {error}");
        cli.refuse(Code::Internal, reason)
    })?;
    Ok(Mark::new(random as u64))
}

/// The characters of an API's or a CLI's own words that a warning shows.
const LONGEST_SHOWN: usize = 100;

/// The choices whose effect a reply shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShownChoices {
    /// `reasoning: "off"`.
    reasoning_off: bool,
    /// `serviceTier`, if it asks for a certain one.
    service_tier: Option<String>,
    /// `speed: "fast"`.
    fast: bool,
    /// The messages of warnings about options that have no effect.
    told: Vec<String>,
}

impl ShownChoices {
    /// Those of `choices` of a provider with the effort `off_effort` for no reasoning.
    pub fn of(choices: &Choices, off_effort: Option<&str>) -> ShownChoices {
        ShownChoices {
            reasoning_off: choices.is_reasoning_off(off_effort),
            service_tier: choices.service_tier.clone().filter(|tier| tier != "auto"),
            fast: choices.is_fast(),
            told: Vec::new(),
        }
    }

    /// Notes a warning that was told.
    pub fn note(&mut self, event: &Event) {
        if let Event::Warning { code, message } = event
            && code == Code::UnsupportedOption.as_str()
        {
            self.told.push(message.clone());
        }
    }

    /// The warnings about the choices that `reply` does not show.
    pub fn ignored(&self, reply: &Reply) -> Vec<Event> {
        let reasoned = !reply.thinking.is_empty() || reply.usage.reasoning_tokens.is_some_and(|tokens| tokens > 0);
        let off = (self.reasoning_off && reasoned)
            .then(|| ("`reasoning: \"off\"`", "the model has reasoned all the same".to_owned()));
        let tier = self.service_tier.as_ref().zip(reply.service_tier.as_ref());
        let tier = tier.filter(|(asked, served)| asked != served).map(|(asked, served)| {
            let served = clip(served, LONGEST_SHOWN);
            let reason = format!("\"{asked}\" was asked for, and the answer is of the tier \"{served}\"");
            ("`serviceTier`", reason)
        });
        let fast = match (self.fast, reply.speed.as_deref(), reply.fast_mode.as_deref()) {
            (false, ..) | (_, Some("fast"), _) => None,
            (true, Some(speed), _) => Some(format!("the answer is of the speed \"{}\"", clip(speed, LONGEST_SHOWN))),
            (true, None, Some(state)) => Some(format!(
                "the CLI says that the fast mode is {}: not every model and login has one",
                clip(state, LONGEST_SHOWN)
            )),
            (true, None, None) => None,
        };
        let fast = fast.map(|reason| ("`speed: \"fast\"`", reason));
        // An effort that means no reasoning is told by its own name.
        let name = |option: &str| {
            option
                .split([':', '.'])
                .next()
                .unwrap_or(option)
                .trim_end_matches('`')
                .to_owned()
        };
        let untold = |(option, _): &(&str, String)| !self.told.iter().any(|told| told.starts_with(&name(option)));
        let warning = |(option, reason)| Event::Warning {
            code: Code::UnsupportedOption.as_str().to_owned(),
            message: format!("{option} has no effect: {reason}"),
        };
        let all = off.into_iter().chain(tier).chain(fast);
        all.filter(untold).map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::message::Usage;

    fn calling(names: &[&str]) -> Reply {
        let call = |name: &&str| serde_json::json!({"id": format!("id_{name}"), "name": name, "args": {}});
        let calls: Vec<_> = names.iter().map(call).collect();
        Reply {
            content: "Well.".to_owned(),
            tool_calls: serde_json::from_str(&serde_json::json!(calls).to_string()).unwrap(),
            ..Reply::default()
        }
    }

    /// A message as its author, its text, and the id of the call that it answers.
    type Told = (Role, String, String);

    fn found(choice: ToolChoice, names: &[&str]) -> Option<(String, Vec<Told>)> {
        let check = CallIsMade {
            choice,
            provider: "claude".to_owned(),
        };
        match check.check(calling(names)) {
            Ok(_) => None,
            Err(rejected) => {
                let RejectedReply { messages, error, .. } = *rejected;
                assert_eq!((error.code, error.provider.as_str()), (Code::ToolChoiceUnmet, "claude"));
                let told = |message: &Message| {
                    (
                        message.role.clone(),
                        message.content.as_text().to_owned(),
                        message.tool_call_id.clone(),
                    )
                };
                Some((error.message, messages.iter().map(told).collect()))
            }
        }
    }

    #[test]
    fn a_reply_with_the_call_fits() {
        let add = || ToolChoice::Tool("add".to_owned());
        assert_eq!(found(ToolChoice::Any, &["sub"]), None);
        assert_eq!(found(add(), &["sub", "add"]), None);
        assert_eq!(found(ToolChoice::Auto, &[]), None);
        for choice in [None, Some(ToolChoice::Auto), Some(ToolChoice::None)] {
            assert!(checks("claude", choice.as_ref()).is_empty());
            assert_eq!(request(choice.as_ref()), None);
        }
        assert!(!checks("claude", Some(&add())).is_empty());
    }

    #[test]
    fn one_without_it_is_asked_for_again_with_the_reason() {
        let (error, messages) = found(ToolChoice::Any, &[]).unwrap();
        let hint = classify::hint("claude", Code::ToolChoiceUnmet);
        assert!(
            error.starts_with(
                "the reply is not a call of at least one of the tools, which the call's option \"toolChoice\" asks for"
            ),
            "{error}"
        );
        assert!(error.to_lowercase().contains(hint), "{error}");
        let none = String::new;
        let reason = "That was not a call of at least one of the tools. Reply again, with that call.";
        assert_eq!(
            messages,
            [
                (Role::Ai, "Well.".to_owned(), none()),
                (Role::Human, reason.to_owned(), none())
            ]
        );
    }

    /// The name of a tool is the caller's text, so it is quoted, whatever it contains.
    #[test]
    fn a_call_of_another_tool_is_answered_first() {
        let choice = ToolChoice::Tool("add \"it\"".to_owned());
        assert_eq!(
            request(Some(&choice)).as_deref(),
            Some("This reply must be a call of the tool \"add \\\"it\\\"\", not an answer in words.")
        );
        let (_, messages) = found(choice, &["sub"]).unwrap();
        let roles: Vec<_> = messages
            .iter()
            .map(|(role, _, id)| (role.clone(), id.as_str()))
            .collect();
        assert_eq!(roles, [(Role::Ai, ""), (Role::Tool, "id_sub"), (Role::Human, "")]);
    }

    fn messages(shown: &ShownChoices, reply: &Reply) -> Vec<String> {
        let message = |event| match event {
            Event::Warning { code, message } => format!("{code} {message}"),
            other => format!("{other:?}"),
        };
        shown.ignored(reply).into_iter().map(message).collect()
    }

    fn reasoned() -> Reply {
        Reply {
            usage: Usage {
                reasoning_tokens: Some(7),
                ..Usage::default()
            },
            ..Reply::default()
        }
    }

    #[test]
    fn reasoning_that_was_not_wanted_is_told_once() {
        let off = Choices {
            reasoning_off: true,
            ..Choices::default()
        };
        let mut shown = ShownChoices::of(&off, None);
        let told = "`reasoning: \"off\"` has no effect: the model has reasoned all the same";
        assert_eq!(messages(&shown, &reasoned()), [format!("UNSUPPORTED_OPTION {told}")]);
        assert_eq!(messages(&shown, &Reply::default()), [""; 0]);
        shown.note(&Event::Warning {
            code: "UNSUPPORTED_OPTION".to_owned(),
            message: "`reasoning: \"off\"` has no effect: the model always reasons".to_owned(),
        });
        assert_eq!(messages(&shown, &reasoned()), [""; 0]);
    }

    #[test]
    fn a_tier_and_a_speed_that_were_not_served_are_told() {
        let asked = Choices {
            service_tier: Some("flex".to_owned()),
            fast: Some(true),
            ..Choices::default()
        };
        let served = |tier: &str, speed: Option<&str>, fast_mode: &str| Reply {
            service_tier: Some(tier.to_owned()),
            speed: speed.map(str::to_owned),
            fast_mode: Some(fast_mode.to_owned()),
            ..Reply::default()
        };
        let shown = ShownChoices::of(&asked, None);
        assert_eq!(messages(&shown, &served("flex", Some("fast"), "on")), [""; 0]);
        assert_eq!(messages(&shown, &Reply::default()), [""; 0]);
        assert_eq!(
            messages(&shown, &served("default", None, "off (why)")),
            [
                "UNSUPPORTED_OPTION `serviceTier` has no effect: \"flex\" was asked for, and the answer is of the tier \"default\"",
                "UNSUPPORTED_OPTION `speed: \"fast\"` has no effect: the CLI says that the fast mode is off (why): not every model and \
                 login has one",
            ]
        );
        assert_eq!(
            messages(&shown, &served("flex", Some("standard"), "on")),
            ["UNSUPPORTED_OPTION `speed: \"fast\"` has no effect: the answer is of the speed \"standard\""]
        );
        assert_eq!(
            messages(&ShownChoices::default(), &served("default", None, "off")),
            [""; 0]
        );
    }

    #[test]
    fn an_effort_that_means_it_is_no_reasoning_as_well() {
        let none = Choices {
            effort: Some("none".to_owned()),
            ..Choices::default()
        };
        assert_eq!(messages(&ShownChoices::of(&none, Some("none")), &reasoned()).len(), 1);
        assert_eq!(messages(&ShownChoices::of(&none, None), &reasoned()), [""; 0]);
    }
}
