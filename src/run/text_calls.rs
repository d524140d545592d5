//! Which text of a print run's answer is a call.
//!
//! In: the option `textToolCalls`, and a call's thread and tools. Out: the rules for its answer, [`TextCalls`].

use std::sync::Arc;

use super::base::Base;
use super::cli_request::CliRequest;
use crate::error::{Code, ProviderError};
use crate::message::{Message, ToolSpec};
use crate::prompt::{Encoding, Style};
use crate::provider::choices::ToolChoice;
use crate::provider::options::{SystemPrompt, TextToolCalls};
use crate::toolcall::{ForeignTexts, Mark, Marked, TextCalls, Unquoted};

impl Base {
    /// The rules for the answer to `messages`, which are written in this `style`, with this `mark`.
    pub(super) fn text_calls(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        request: &CliRequest,
        style: Style,
        mark: Option<Mark>,
    ) -> TextCalls {
        // An agent's run tells its model of tools that there are not.
        let unknown_tools = request.options.unknown_tools;
        let names = tools.iter().map(|tool| tool.name.clone());
        match (self.options.text_tool_calls, mark) {
            (TextToolCalls::Lenient, _) => TextCalls::Lenient,
            (TextToolCalls::Unquoted, _) if !tools.is_empty() || may_call_untold(request) => {
                let documents = style.documents && style.encoding == Encoding::Xml;
                let thread = self.foreign_texts(messages, documents);
                let any_name = unknown_tools || tools.is_empty();
                TextCalls::Unquoted(Arc::new(Unquoted::new(thread, names, any_name)))
            }
            (TextToolCalls::Marked, Some(mark)) => TextCalls::Marked(Arc::new(Marked::new(mark, names, unknown_tools))),
            _ => TextCalls::Off,
        }
    }

    /// What its model is told of a thread that it has not said itself.
    fn foreign_texts(&self, messages: &[Message], documents: bool) -> ForeignTexts {
        let texts = ForeignTexts::of(messages, documents);
        match &self.options.system_prompt {
            SystemPrompt::Custom(text) => texts.after(text),
            SystemPrompt::Default | SystemPrompt::Cli => texts,
        }
    }

    /// A mark that nobody can guess. One for all attempts of a call.
    ///
    /// # Errors
    /// `INTERNAL` where the system gives no random bytes.
    pub(super) fn fresh_mark(&self) -> Result<Mark, Box<ProviderError>> {
        let random = getrandom::u64().map_err(|error| {
            let reason = format!("the system gives no random bytes, which mark the tool calls of an answer: {error}");
            self.refuse(Code::Internal, reason)
        })?;
        Ok(Mark::new(random))
    }
}

/// Whether a model without tools may call some: SPEC-01's callers tell it of them in their own words. Not where they were taken
/// away, in an agent's run that has none, nor in an answer that is JSON anyway.
fn may_call_untold(request: &CliRequest) -> bool {
    !request.options.unknown_tools && request.output.is_none() && request.chosen.tool_choice != Some(ToolChoice::None)
}
