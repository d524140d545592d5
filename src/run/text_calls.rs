//! Which text of a print run's answer is a call.
//!
//! In: the option `textToolCalls`, and a call's thread and tools. Out: the rules for its answer, [`TextCalls`].

use std::sync::Arc;

use super::base::Base;
use crate::error::{Code, ProviderError};
use crate::message::{Message, ToolSpec};
use crate::prompt::{Encoding, Style};
use crate::provider::options::{SystemPrompt, TextToolCalls};
use crate::toolcall::{ForeignTexts, Mark, Marked, TextCalls, Unquoted};

/// What a call's tools may be called by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// An agent's run tells its model of tools that there are not.
    pub unknown_tools: bool,
    /// A model without tools may call some.
    pub may_call_untold: bool,
}

/// The rules for the answer to `messages`, which are written in this `style`, with this `mark`.
pub(super) fn text_calls(
    engine: &Base,
    messages: &[Message],
    tools: &[ToolSpec],
    asked: Asked,
    style: Style,
    mark: Option<Mark>,
) -> TextCalls {
    let unknown_tools = asked.unknown_tools;
    let names = tools.iter().map(|tool| tool.name.clone());
    match (engine.options.text_tool_calls, mark) {
        (TextToolCalls::Lenient, _) => TextCalls::Lenient,
        (TextToolCalls::Unquoted, _) if !tools.is_empty() || asked.may_call_untold => {
            let documents = style.documents && style.encoding == Encoding::Xml;
            let thread = foreign_texts(engine, messages, documents);
            let any_name = unknown_tools || tools.is_empty();
            TextCalls::Unquoted(Arc::new(Unquoted::new(thread, names, any_name)))
        }
        (TextToolCalls::Marked, Some(mark)) => TextCalls::Marked(Arc::new(Marked::new(mark, names, unknown_tools))),
        _ => TextCalls::Off,
    }
}

/// What its model is told of a thread that it has not said itself.
fn foreign_texts(engine: &Base, messages: &[Message], documents: bool) -> ForeignTexts {
    let texts = ForeignTexts::of(messages, documents);
    match &engine.options.system_prompt {
        SystemPrompt::Custom(text) => texts.after(text),
        SystemPrompt::Default | SystemPrompt::Cli => texts,
    }
}

/// A mark that nobody can guess. One for all attempts of a call.
///
/// # Errors
/// `INTERNAL` where the system gives no random bytes.
pub(super) fn fresh_mark(engine: &Base) -> Result<Mark, Box<ProviderError>> {
    let random = getrandom::u64().map_err(|error| {
        let reason = format!("the system gives no random bytes, which mark the tool calls of an answer: {error}");
        engine.refuse(Code::Internal, reason)
    })?;
    Ok(Mark::new(random))
}
