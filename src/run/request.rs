//! One call as JavaScript sends it, read, checked and rendered.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::mpsc;

use super::callbacks::ToolServer;
use super::content;
use super::engine::Engine;
use super::live_request::LiveRequest;
use super::record::RecordOptions;
use crate::bridge::{BridgeOptions, ToolCallRequest};
use crate::declare::mcp::Declarations;
use crate::error::{Code, ProviderError};
use crate::message::content::Accepts;
use crate::message::{Message, Role, ToolSpec};
use crate::process::Tees;
use crate::process::limit::NestedPermit;
use crate::prompt::{self, Encoding, Style};
use crate::provider::options::{self, EngineKind, InputEncoding, TextToolCalls};
use crate::runlog::Prompt;
use crate::thread::Thread;
use crate::toolcall::{Mark, Marked, TextCalls};

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
    /// Where the run is recorded.
    pub record: Option<RecordOptions>,
    /// The caller of the adapter: a lone user message may be a whole thread. A user's text never is.
    #[serde(default)]
    pub documents: bool,
    /// The model is to be told of tools that there are not, so calls of them are wanted as well.
    #[serde(default)]
    pub unknown_tools: bool,
}

/// One call, read and checked.
pub(super) struct CallInput {
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub call: Call,
    /// The thread's call ids, which no new call may repeat.
    pub call_ids: HashSet<String>,
    /// The thread as its run log has it, if there is to be one.
    pub recorded: Option<Prompt>,
}

impl CallInput {
    /// Reads the JSON of one call; `accepts` is what the provider `who` takes beside text, `refuse` makes its error,
    /// `check_timeout` says what it allows.
    pub fn read(
        (thread, tools, call): (&Thread, &str, &str),
        (who, accepts): (&str, &Accepts),
        refuse: impl Fn(Code, String) -> Box<ProviderError>,
        check_timeout: impl Fn(u64) -> Result<(), String>,
    ) -> Result<CallInput, Box<ProviderError>> {
        let unreadable = |what: &str, error: serde_json::Error| format!("{what} can't be read: {error}");
        let unread = |error| refuse(Code::InvalidMessages, unreadable("messages", error));
        let mut messages: Vec<Message> = thread.read().map_err(unread)?;
        let tools: Vec<ToolSpec> =
            serde_json::from_str(tools).map_err(|error| refuse(Code::InvalidTool, unreadable("tools", error)))?;
        let call: Call = serde_json::from_str(call)
            .map_err(|error| refuse(Code::InvalidOption, unreadable("the call's options", error)))?;
        if let Some(ms) = call.timeout
            && let Err(allowed) = check_timeout(ms)
        {
            let reason = format!("the call's option \"timeout\" must be {allowed}; given: {ms}");
            return Err(refuse(Code::InvalidOption, reason));
        }
        // The log has the thread as it was given.
        let json = match &call.record {
            Some(_) => thread.to_json(&messages).map_err(unread)?,
            None => String::new(),
        };
        content::settle(&mut messages, accepts, &refuse, who)?;
        let says_something = |message: &Message| {
            !message.content.as_text().trim().is_empty() || !message.tool_calls.is_empty() || message.role == Role::Tool
        };
        if !messages.iter().any(says_something) {
            let reason = "there is nothing to send: no message has any text".to_owned();
            return Err(refuse(Code::EmptyPrompt, reason));
        }
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        let call_ids = calls.map(|call| call.id.clone()).filter(|id| !id.is_empty()).collect();
        let record = |wanted: &RecordOptions| {
            let characters = messages.iter().map(|message| message.content.as_text().chars().count());
            let names = tools.iter().map(|tool| tool.name.clone());
            let (count, length) = (messages.len(), characters.sum());
            Prompt::new(&json, count, length, names.collect(), wanted.prompts)
        };
        let recorded = call.record.as_ref().map(record);
        Ok(CallInput {
            messages,
            tools,
            call,
            call_ids,
            recorded,
        })
    }
}

/// One call, read and rendered.
pub(super) struct Request {
    /// Empty where no print run can come of it.
    pub prompt: String,
    /// Why it can't be a prompt, where a live session could take it.
    pub unprintable: Option<Box<ProviderError>>,
    /// The same for a live session.
    pub live: Option<LiveRequest>,
    /// The tools, where the CLI calls them itself.
    pub tool_server: Option<ToolServer>,
    /// The thread's call ids, which no new call may repeat.
    pub call_ids: HashSet<String>,
    /// Which text of a print run's answer is a call.
    pub text_calls: TextCalls,
    /// Tools are bound that the model can't call in print form.
    pub uncallable: bool,
    pub call: Call,
    /// The thread as its run log has it, if there is to be one.
    pub recorded: Option<Prompt>,
    /// The CLI works for itself: its events are told as they are.
    pub watching: bool,
    /// Who gets copies of what the process prints.
    pub tees: Tees,
    /// A place beside the queue.
    pub lent: Option<NestedPermit>,
}

impl Request {
    /// The same with a place beside the queue.
    pub fn with(self, lent: Option<NestedPermit>) -> Request {
        Request { lent, ..self }
    }

    /// Whether the CLI is asked for pieces of messages. A log wants them, too: they are what a killed run leaves, and only with
    /// them claude's calls come before their results (2.1.330), so that their durations can be told.
    pub fn wants_pieces(&self) -> bool {
        self.call.partial || self.call.record.is_some()
    }

    /// `prompt`, as it is, for a CLI that is to work for itself.
    pub fn watched(prompt: String, tees: Tees) -> Request {
        Request {
            prompt,
            unprintable: None,
            live: None,
            call_ids: HashSet::new(),
            text_calls: TextCalls::Off,
            uncallable: false,
            call: Call {
                events: true,
                partial: false,
                timeout: None,
                log: false,
                record: None,
                documents: false,
                unknown_tools: false,
            },
            tool_server: None,
            recorded: None,
            watching: true,
            tees,
            lent: None,
        }
    }

    /// `callbacks`: the tools are to be called by the CLI itself.
    pub fn read(
        engine: &Engine,
        texts: (&Thread, &str, &str),
        callbacks: Option<(mpsc::Sender<ToolCallRequest>, BridgeOptions)>,
    ) -> Result<Request, Box<ProviderError>> {
        let CallInput {
            messages,
            tools,
            call,
            call_ids,
            recorded,
        } = CallInput::read(
            texts,
            match callbacks {
                // The thread is printed there.
                Some(_) => (engine.id(), &Accepts::TEXT),
                None => (engine.id(), engine.accepts()),
            },
            |code, reason| engine.refuse(code, reason),
            |ms| options::check_timeout(&engine.provider, ms),
        )?;
        let encoding = match engine.options.input_encoding {
            InputEncoding::Xml => Encoding::Xml,
            InputEncoding::Text => Encoding::Text,
        };
        let style = Style {
            encoding,
            mark: None,
            documents: call.documents && engine.options.thread_documents,
        };
        if let Some(callbacks) = callbacks {
            return Ok(Request {
                prompt: prompt::render(&messages, &[], style),
                unprintable: None,
                live: None,
                tool_server: Some(tool_server(engine, &tools, callbacks)?),
                call_ids,
                // They are native.
                text_calls: TextCalls::Off,
                uncallable: false,
                call,
                recorded,
                watching: false,
                tees: Tees::default(),
                lent: None,
            });
        }
        let form = engine.options.text_tool_calls;
        let mark = match form {
            TextToolCalls::Marked if !tools.is_empty() => Some(fresh_mark(engine)?),
            _ => None,
        };
        let described: &[ToolSpec] = match form {
            TextToolCalls::Off => &[],
            TextToolCalls::Marked | TextToolCalls::Lenient => &tools,
        };
        let style = Style {
            mark: mark.as_ref().map(Mark::as_str),
            ..style
        };
        let unprintable = engine.unprintable(&messages);
        let prompt = match engine.options.engine {
            EngineKind::Print | EngineKind::Auto if unprintable.is_none() => {
                prompt::render(&messages, described, style)
            }
            _ => String::new(),
        };
        let text_calls = match (form, mark) {
            (TextToolCalls::Lenient, _) => TextCalls::Lenient,
            (_, None) => TextCalls::Off,
            (_, Some(mark)) => {
                let names = tools.iter().map(|tool| tool.name.clone());
                TextCalls::Marked(Arc::new(Marked::new(mark, names, call.unknown_tools)))
            }
        };
        let untellable = engine.untellable(&messages);
        Ok(Request {
            prompt,
            unprintable,
            live: engine
                .live
                .as_ref()
                .map(|_| LiveRequest::new(messages, &tools, encoding, &engine.options).or_refused(untellable)),
            tool_server: None,
            call_ids,
            text_calls,
            uncallable: form == TextToolCalls::Off && !tools.is_empty(),
            call,
            recorded,
            watching: false,
            tees: Tees::default(),
            lent: None,
        })
    }
}

/// A mark that nobody can guess. One for all attempts of a call.
fn fresh_mark(engine: &Engine) -> Result<Mark, Box<ProviderError>> {
    let random = getrandom::u64().map_err(|error| {
        let reason = format!("the system gives no random bytes, which mark the tool calls of an answer: {error}");
        engine.refuse(Code::Internal, reason)
    })?;
    Ok(Mark::new(random))
}

/// # Errors
/// `CALLBACKS_UNAVAILABLE` where the provider has no way to be told of a server.
fn tool_server(
    engine: &Engine,
    tools: &[ToolSpec],
    (consumer, options): (mpsc::Sender<ToolCallRequest>, BridgeOptions),
) -> Result<ToolServer, Box<ProviderError>> {
    if !engine.takes_callbacks() {
        let reason = format!(
            "{} can't call tools in the middle of a run with these options",
            engine.id()
        );
        return Err(engine.refuse(Code::CallbacksUnavailable, reason));
    }
    Ok(ToolServer {
        declarations: Declarations::new(tools),
        consumer,
        options,
    })
}
