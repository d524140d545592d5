//! One call as JavaScript sends it, read, checked and rendered.

use std::collections::HashSet;

use serde::Deserialize;
use tokio::sync::mpsc;

use super::Engine;
use super::callbacks::Served;
use super::live::Asked;
use crate::bridge::{BridgeOptions, Called};
use crate::declared::Declarations;
use crate::error::{Code, ProviderError};
use crate::message::{Message, Role, ToolSpec};
use crate::prompt::{self, Encoding};
use crate::provider::options::{self, EngineKind, InputEncoding};

/// What a call says beside its messages and tools.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    /// Somebody reads the events.
    pub events: bool,
    /// Pieces of messages are wanted.
    pub partial: bool,
    /// ms, instead of the provider's.
    pub timeout: Option<u64>,
    /// Somebody takes the records.
    #[serde(default)]
    pub log: bool,
}

/// One call, read and rendered.
pub(super) struct Request {
    /// Empty where no print run can come of it.
    pub prompt: String,
    /// The same for a live session.
    pub live: Option<Asked>,
    /// The tools, where the CLI calls them itself.
    pub served: Option<Served>,
    /// The thread's call ids, which no new call may repeat.
    pub call_ids: HashSet<String>,
    pub call: Call,
}

impl Request {
    /// `callbacks`: the tools are to be called by the CLI itself.
    pub fn read(
        engine: &Engine,
        (messages, tools, call): (&str, &str, &str),
        callbacks: Option<(mpsc::Sender<Called>, BridgeOptions)>,
    ) -> Result<Request, Box<ProviderError>> {
        let unreadable = |what: &str, error: serde_json::Error| format!("{what} can't be read: {error}");
        let messages: Vec<Message> = serde_json::from_str(messages)
            .map_err(|error| engine.refuse(Code::InvalidMessages, unreadable("messages", error)))?;
        let tools: Vec<ToolSpec> = serde_json::from_str(tools)
            .map_err(|error| engine.refuse(Code::InvalidTool, unreadable("tools", error)))?;
        let call: Call = serde_json::from_str(call)
            .map_err(|error| engine.refuse(Code::InvalidOption, unreadable("the call's options", error)))?;
        if let Some(ms) = call.timeout
            && let Err(allowed) = options::check_timeout(&engine.provider, ms)
        {
            let reason = format!("the call's option \"timeout\" must be {allowed}; given: {ms}");
            return Err(engine.refuse(Code::InvalidOption, reason));
        }
        let says_something = |message: &Message| {
            !message.content.as_text().trim().is_empty() || !message.tool_calls.is_empty() || message.role == Role::Tool
        };
        if !messages.iter().any(says_something) {
            return Err(engine.refuse(Code::EmptyPrompt, "there is nothing to send: no message has any text"));
        }
        let encoding = match engine.options.input_encoding {
            InputEncoding::Xml => Encoding::Xml,
            InputEncoding::Text => Encoding::Text,
        };
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        let call_ids = calls.map(|call| call.id.clone()).filter(|id| !id.is_empty()).collect();
        if let Some(callbacks) = callbacks {
            return Ok(Request {
                prompt: prompt::render(&messages, &[], encoding),
                live: None,
                served: Some(Served::new(engine, Declarations::new(&tools), callbacks)?),
                call_ids,
                call,
            });
        }
        let prompt = match engine.options.engine {
            EngineKind::Live => String::new(),
            EngineKind::Print | EngineKind::Auto => prompt::render(&messages, &tools, encoding),
        };
        Ok(Request {
            prompt,
            live: engine
                .live
                .as_ref()
                .map(|_| Asked::new(messages, &tools, encoding, &engine.options)),
            served: None,
            call_ids,
            call,
        })
    }
}
