//! The options that one call chooses for itself, over those of its provider.
//!
//! In: the `choices` of a call's options. Out: [`Chosen`]: the call's options, the tools it is to call, and the warnings about
//! choices that were left out. A choice that is not supported is refused here, before anything starts.

use super::base::Base;
use super::request::ChoicesOnce;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Event;
use dfp_model::message::ToolSpec;
use dfp_provider::capability::Feature;
use dfp_provider::choices::{CallChoices, Choices, ToolChoice, check_effort};
use dfp_provider::options::{EngineKind, MODEL, Options, TextToolCalls};

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
    engine: &Base,
    given: &ChoicesOnce,
    tools: &[ToolSpec],
    kind: EngineKind,
) -> Result<Chosen, Box<ProviderError>> {
    let own = &engine.options.choices;
    if given.original().is_empty() && *own == Choices::default() {
        return Ok(Chosen::default());
    }
    let invalid = |reason: String| engine.refuse(Code::InvalidOption, reason);
    let model = engine.provider.option(MODEL.name).unwrap_or(MODEL);
    let call = given.read(|map| CallChoices::read(map, &[model])).map_err(invalid)?;
    let of_call = |reason: String| invalid(format!("the call's {reason}"));
    check_effort(&call.choices, engine.provider.efforts).map_err(of_call)?;
    if let (Some(custom), Some(model)) = (&engine.provider.custom, &call.choices.model) {
        custom.check_model(model).map_err(of_call)?;
    }
    if let Some(choice) = &call.tool_choice {
        check_tool_choice(engine, choice, tools, kind)?;
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
    let on_unsupported = call.on_unsupported.or(engine.options.on_unsupported);
    let (settled, left_out) = engine.provider.settle(asked, on_unsupported, kind, &engine.options)?;
    let settled = Choices {
        model,
        stop: settled.stop.filter(|stop| !stop.is_empty()),
        ..settled
    };
    let warning = |feature| left_out_warning(engine.provider.why_not(feature, kind, &engine.options));
    Ok(Chosen {
        options: (chooses && settled != *own).then(|| Box::new(engine.options.with_choices(settled))),
        tool_choice: call.tool_choice.clone(),
        left_out: left_out.into_iter().map(warning).collect(),
    })
}

/// Checks that a tool of the call fits `choice`, and that the engine `kind` supports one.
fn check_tool_choice(
    engine: &Base,
    choice: &ToolChoice,
    tools: &[ToolSpec],
    kind: EngineKind,
) -> Result<(), Box<ProviderError>> {
    let names = tools.iter().map(|tool| tool.name.as_str());
    choice
        .check(names)
        .map_err(|reason| engine.refuse(Code::InvalidOption, reason))?;
    if !matches!(choice, ToolChoice::Any | ToolChoice::Tool(_)) {
        return Ok(());
    }
    let is_print = kind == EngineKind::Print;
    if is_print && engine.options.text_tool_calls == TextToolCalls::Off {
        let reason = "the call's option \"toolChoice\" and the option \"textToolCalls\" contradict each other: with \"off\", the \
                      model can call no tool in print form";
        return Err(engine.refuse(Code::InvalidOption, reason));
    }
    match engine.provider.can(Feature::ToolChoice, kind).1.is_supported() {
        true => Ok(()),
        false => Err(Box::new(engine.provider.unsupported(
            Feature::ToolChoice,
            kind,
            &engine.options,
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
