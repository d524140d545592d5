//! One call as a CLI is asked: checked and rendered, for each kind of exchange that may come of it.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::base::Base;
use super::callbacks::ToolServer;
use super::choices::Chosen;
use super::reply_check::{Checks, Misfit};
use super::request::{CallOptions, Checked, Request};
use super::structured::{self, FitsSchema};
use super::tool_choice;
use crate::bridge::{BridgeOptions, ToolCallRequest};
use crate::command::MAX_ARG_BYTES;
use crate::declare::mcp::Declarations;
use crate::decode::LineObserver;
use crate::error::{Code, ProviderError};
use crate::event::Event;
use crate::exchange::form::CallParts;
use crate::exchange::live::setup::SessionOutput;
use crate::message::{Message, ToolSpec};
use crate::process::Tees;
use crate::process::limit::NestedPermit;
use crate::prompt::{self, Encoding, Rendered, Style};
use crate::provider::choices::ToolChoice;
use crate::provider::options::{self, EngineKind, InputEncoding, Options, TextToolCalls};
use crate::provider::{LiveForm, SchemaForm};
use crate::runlog::Prompt;
use crate::schema::Schema;
use crate::toolcall::{Mark, TextCalls};

/// One call, checked and rendered.
pub(super) struct CliRequest {
    /// The thread, with what it holds that is no text. Empty where no print run can come of it.
    pub prompt: Rendered,
    /// The same with the schema of the answer in words, where `prompt` leaves it to the CLI.
    pub asking_prompt: Option<Rendered>,
    /// The schema that the reply has to fit.
    pub output: Option<Arc<Schema>>,
    /// Why a CLI that takes schemas does not get this one in print form.
    pub emulated_because: Option<&'static str>,
    /// Why it can't be a prompt, where a live session could take it.
    pub unprintable: Option<Box<ProviderError>>,
    /// The same for a live session.
    pub session: Option<SessionParts>,
    /// The tools, where the CLI calls them itself.
    pub tool_server: Option<ToolServer>,
    /// The thread's call ids, which no new call may repeat.
    pub call_ids: HashSet<String>,
    /// Which text of a print run's answer is a call: none where calls are native.
    pub text_calls: TextCalls,
    /// Tools are bound that the model can't call in print form.
    pub uncallable: bool,
    pub options: CallOptions,
    /// What the call chooses for itself.
    pub chosen: Chosen,
    /// The thread as its run log has it, if there is to be one.
    pub recorded: Option<Prompt>,
    /// The CLI works for itself: its events are passed on as they are.
    pub watching: bool,
    /// Who gets copies of what the process prints.
    pub tees: Tees,
    /// Who sees the lines it prints, as they are decoded.
    pub observer: Option<Arc<dyn LineObserver>>,
    /// A place beside the queue.
    pub nested_permit: Option<NestedPermit>,
    /// What the reply has to be.
    pub checks: Checks,
    /// What it was made of, where it may be made again.
    source: Option<Source>,
    /// The caller's own messages, where more stands behind them now: what its next call goes on with.
    callers_thread: Option<Arc<Vec<Message>>>,
}

/// What a session is told of a call that is not in the call's request.
pub(super) struct SessionParts {
    messages: Vec<Message>,
    /// What is said behind the thread, and is no part of it.
    note: Option<String>,
    tools: Vec<ToolSpec>,
    encoding: Encoding,
}

/// A thread, and the tools that may be called.
#[derive(Debug, Clone)]
struct Source {
    messages: Vec<Message>,
    tools: Vec<ToolSpec>,
}

impl CliRequest {
    /// Whether the CLI is asked for pieces of messages. A log wants them, too: they are what a killed run leaves, and only with
    /// them claude's calls come before their results (2.1.330), so that their durations are known.
    pub fn wants_pieces(&self) -> bool {
        self.options.partial || self.options.record.is_some()
    }

    /// The schema of the answer, where the CLI gets it in print form.
    pub fn native_schema(&self) -> Option<&Schema> {
        self.output.as_deref().filter(|_| self.emulated_because.is_none())
    }

    /// `prompt`, as it is, for a CLI that is to work for itself.
    pub fn watched(prompt: String, tees: Tees, observer: Arc<dyn LineObserver>) -> CliRequest {
        let options = CallOptions {
            events: true,
            ..CallOptions::default()
        };
        CliRequest {
            prompt: Rendered::of_text(prompt),
            watching: true,
            tees,
            observer: Some(observer),
            ..CliRequest::of(options)
        }
    }

    /// The options that it is made with.
    pub fn provider_options<'a>(&'a self, engine: &'a Base) -> &'a Options {
        self.chosen.options.as_deref().unwrap_or(&engine.options)
    }

    /// The call as `kept` takes it, if it is one for sessions.
    pub fn in_session<T>(&mut self, engine: &Base, take: impl FnOnce(CallParts<'_>) -> T) -> Option<T> {
        let SessionParts {
            messages,
            note,
            tools,
            encoding,
        } = self.session.take()?;
        let chosen = self.chosen.options.as_ref();
        Some(take(CallParts {
            messages,
            note,
            callers: self.callers_thread.clone(),
            tools: &tools,
            options: self.provider_options(engine),
            choices: chosen.map(|options| options.choices.clone()),
            output: engine.output_in_session(self.output.as_deref()),
            encoding,
            guard: engine.provider.guard,
        }))
    }

    /// What is reported behind the beginning of attempt number `attempt`.
    pub fn notes(&self, attempt: u32) -> Vec<Event> {
        match attempt {
            1 => self.chosen.left_out.clone(),
            _ => Vec::new(),
        }
    }

    /// One that asks for nothing yet.
    fn of(options: CallOptions) -> CliRequest {
        CliRequest {
            prompt: Rendered::default(),
            asking_prompt: None,
            output: None,
            emulated_because: None,
            unprintable: None,
            session: None,
            tool_server: None,
            call_ids: HashSet::new(),
            text_calls: TextCalls::Off,
            uncallable: false,
            options,
            chosen: Chosen::default(),
            recorded: None,
            watching: false,
            tees: Tees::default(),
            observer: None,
            nested_permit: None,
            checks: Checks::default(),
            source: None,
            callers_thread: None,
        }
    }

    /// `callbacks`: the tools are to be called by the CLI itself.
    ///
    /// # Errors
    /// What the provider can't take.
    pub fn new(
        engine: &Base,
        request: Request,
        callbacks: Option<(mpsc::Sender<ToolCallRequest>, BridgeOptions)>,
    ) -> Result<CliRequest, Box<ProviderError>> {
        let accepts = match callbacks {
            // The thread is printed there.
            Some(_) => engine.print_accepts(),
            None => engine.accepts(),
        };
        let check_timeout = |ms| options::check_timeout(&engine.provider, ms);
        let Checked {
            messages,
            mut tools,
            options,
            output,
            call_ids,
            recorded,
            nested_permit,
        } = request
            .check((engine.id(), accepts), check_timeout)
            .map_err(|(code, reason)| engine.refuse(code, reason))?;
        let kind = match callbacks {
            Some(_) => EngineKind::Print,
            None => engine.options.engine,
        };
        let chosen = engine.choose(&options.choices, &tools, kind)?;
        if chosen.tool_choice == Some(ToolChoice::None) {
            tools.clear();
        }
        let mut checks = tool_choice::checks(engine.id(), chosen.tool_choice.as_ref());
        if let Some(schema) = &output {
            if let Some(flag) = structured::own_flag(&engine.options.extra_args) {
                let reason = format!(
                    "the call's option \"outputSchema\" and the option \"extraArgs\" contradict each other: {flag} is among these"
                );
                return Err(engine.refuse(Code::InvalidOption, reason));
            }
            checks.push(Arc::new(FitsSchema {
                schema: Arc::clone(schema),
                provider: engine.id().to_owned(),
                cli_asks_again: engine.provider.schema.asks_again(),
            }));
        }
        let tool_server = match callbacks {
            Some(callbacks) => Some(tool_server(engine, &tools, callbacks)?),
            None => None,
        };
        let blank = CliRequest {
            chosen,
            call_ids,
            recorded,
            nested_permit,
            tool_server,
            output,
            checks,
            ..CliRequest::of(options)
        };
        blank.rendered(engine, Source { messages, tools })
    }

    /// The same request with `messages` behind its thread, made because of `misfit`.
    ///
    /// # Errors
    /// What the provider can't take.
    pub fn grown(
        mut self,
        engine: &Base,
        messages: Vec<Message>,
        misfit: &Misfit,
    ) -> Result<CliRequest, Box<ProviderError>> {
        let Some(mut source) = self.source.take() else {
            return Err(engine.refuse(Code::Internal, "the request can't be made again"));
        };
        self.callers_thread = Some(Arc::new(source.messages.clone()));
        source.messages.extend(messages);
        self.recorded = None;
        self.checks = self.checks.after_misfit(misfit);
        self.rendered(engine, source)
    }

    /// The request for `source`, for each kind of exchange that may come of it.
    fn rendered(self, engine: &Base, source: Source) -> Result<CliRequest, Box<ProviderError>> {
        let kept = (!self.checks.is_empty()).then(|| source.clone());
        let blank = CliRequest { source: kept, ..self };
        let Source { messages, tools } = source;
        let documents = blank.options.documents && engine.options.thread_documents;
        let encoding = match engine.options.input_encoding {
            InputEncoding::Xml => Encoding::Xml,
            InputEncoding::Text => Encoding::Text,
        };
        let output = blank.output.clone();
        let schema = output.as_deref().map(Schema::text);
        let has_calls =
            blank.tool_server.is_none() && !tools.is_empty() && engine.options.text_tool_calls != TextToolCalls::Off;
        let emulated_because = output
            .as_deref()
            .and_then(|schema| engine.why_emulated(schema, has_calls));
        let is_native = schema.is_some() && emulated_because.is_none();
        let blank = CliRequest {
            emulated_because,
            ..blank
        };
        let style = Style {
            encoding,
            mark: None,
            documents,
            output: schema.filter(|_| !is_native),
        };
        let asking = Style {
            output: schema,
            ..style
        };
        if blank.tool_server.is_some() {
            return Ok(CliRequest {
                prompt: prompt::render(&messages, &[], style),
                asking_prompt: is_native.then(|| prompt::render(&messages, &[], asking)),
                ..blank
            });
        }
        // The second time, what is behind the thread asks for it.
        let note = match blank.checks.asked_before() {
            true => None,
            false => tool_choice::request(blank.chosen.tool_choice.as_ref()),
        };
        let form = engine.options.text_tool_calls;
        let mark = match form {
            TextToolCalls::Marked if !tools.is_empty() => Some(engine.fresh_mark()?),
            _ => None,
        };
        let described: &[ToolSpec] = match form {
            TextToolCalls::Off => &[],
            TextToolCalls::Unquoted | TextToolCalls::Marked | TextToolCalls::Lenient => &tools,
        };
        let style = Style {
            mark: mark.as_ref().map(Mark::as_str),
            ..style
        };
        let asking = Style {
            output: schema,
            ..style
        };
        let unprintable = engine.unprintable(&messages);
        let with_note = |mut prompt: Rendered| {
            if let Some(note) = &note {
                prompt.text.push_str("\n\n");
                prompt.text.push_str(note);
            }
            prompt
        };
        let (prompt, asking_prompt, text_calls) = match engine.options.engine {
            EngineKind::Print | EngineKind::Warm | EngineKind::Auto if unprintable.is_none() => (
                with_note(prompt::render(&messages, described, style)),
                is_native.then(|| with_note(prompt::render(&messages, described, asking))),
                engine.text_calls(&messages, &tools, &blank, (style, mark.clone())),
            ),
            _ => (Rendered::default(), None, TextCalls::Off),
        };
        let session = engine.keeps_sessions().then(|| SessionParts {
            messages,
            note,
            tools: tools.clone(),
            encoding,
        });
        Ok(CliRequest {
            prompt,
            asking_prompt,
            unprintable,
            session,
            text_calls,
            uncallable: form == TextToolCalls::Off && !tools.is_empty(),
            ..blank
        })
    }
}

impl Base {
    /// Why a CLI that takes schemas can't get this one in print form. `has_calls`: calls are written as text.
    fn why_emulated(&self, schema: &Schema, has_calls: bool) -> Option<&'static str> {
        let form = self.provider.schema;
        if !form.takes(schema) {
            return Some(UNFIT);
        }
        if has_calls {
            return Some(
                "tool calls are written as text in print form, which a CLI that enforces the schema would not let through",
            );
        }
        let is_long = form.tool().is_some() && schema.text().len() > MAX_ARG_BYTES;
        is_long.then_some("it is longer than an argument of a program may be")
    }

    /// How a live session gets the schema of an answer.
    fn output_in_session<'a>(&self, schema: Option<&'a Schema>) -> SessionOutput<'a> {
        let can_take = self.provider.live.is_none_or(LiveForm::takes_schema);
        match schema {
            None => SessionOutput::Text,
            Some(schema) if can_take && self.provider.schema.takes(schema) => SessionOutput::Native(schema),
            Some(schema) => SessionOutput::Asked(schema),
        }
    }

    /// The warning that a schema is asked for in the prompt for the reason `why`, where this CLI takes some.
    pub(super) fn emulated(&self, why: &str) -> Option<Event> {
        let can = self.provider.schema != SchemaForm::Asked;
        can.then(|| structured::emulated(self.id(), why))
    }
}

/// Why a CLI does not get a schema that it has no form for.
pub(super) const UNFIT: &str = "the CLI can't take this schema";

/// # Errors
/// `CALLBACKS_UNAVAILABLE` where the provider has no way to use a server.
fn tool_server(
    engine: &Base,
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
