//! Decides which text of an answer is a tool call.
//!
//! In: the option `textToolCalls`, and a call's thread and tools. Out: the rules for its answer, [`TextCalls`].

use std::sync::Arc;

use super::base::Base;
use dfp_exchange::random;
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::{Message, ToolSpec};
use dfp_provider::options::{SystemPrompt, TextToolCalls};
use dfp_text::prompt::{Encoding, Style};
use dfp_text::toolcall::{ForeignTexts, Mark, Marked, TextCalls, Unquoted};

/// The tools that a call's model may call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// True in an agent's run: a call that can't be read is reported back to the model, whatever tool it names.
    pub unknown_tools: bool,
    /// True if a model without tools may call some.
    pub may_call_untold: bool,
}

/// The rules for the answer to `messages`, written in this `style`, with this `mark`.
pub(super) fn text_calls(
    engine: &Base,
    messages: &Arc<Vec<Message>>,
    tools: &[ToolSpec],
    asked: Asked,
    style: Style,
    mark: Option<Mark>,
) -> TextCalls {
    let names = tools.iter().map(|tool| tool.name.clone());
    match (engine.options.text_tool_calls, mark) {
        (TextToolCalls::Lenient, _) => TextCalls::Lenient,
        (TextToolCalls::Unquoted, _) if !tools.is_empty() || asked.may_call_untold => {
            let documents = style.documents && style.encoding == Encoding::Xml;
            let any_name = asked.unknown_tools || tools.is_empty();
            unquoted(engine, messages, names, any_name, documents)
        }
        (TextToolCalls::Marked, Some(mark)) => TextCalls::Marked(Arc::new(Marked::new(mark, names))),
        _ => TextCalls::Off,
    }
}

/// The rule for a session whose calls are native. A model that writes a call as text all the same means it, unless somebody else
/// has written that text. A session gets no mark.
pub(super) fn in_session(engine: &Base, messages: &Arc<Vec<Message>>, tools: &[ToolSpec], asked: Asked) -> TextCalls {
    match engine.options.text_tool_calls {
        TextToolCalls::Unquoted | TextToolCalls::Lenient if !tools.is_empty() => {
            let names = tools.iter().map(|tool| tool.name.clone());
            unquoted(engine, messages, names, asked.unknown_tools, false)
        }
        _ => TextCalls::Off,
    }
}

/// The rule that a block at the end of the answer is a call unless it quotes the thread, which is searched only when a block is
/// found.
fn unquoted(
    engine: &Base,
    messages: &Arc<Vec<Message>>,
    names: impl Iterator<Item = String>,
    any_name: bool,
    documents: bool,
) -> TextCalls {
    let messages = Arc::clone(messages);
    let system = match &engine.options.system_prompt {
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
pub(super) fn fresh_mark(engine: &Base) -> Result<Mark, Box<ProviderError>> {
    let random = random::bits().map_err(|error| {
        let reason = format!("the tool calls of an answer can't be marked: {error}");
        engine.refuse(Code::Internal, reason)
    })?;
    Ok(Mark::new(random as u64))
}
