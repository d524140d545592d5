//! A call as a CLI takes it: checked and rendered, for each kind of exchange that may serve it.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;

use super::choices::{self, Chosen};
use super::cli_base::CliBase;
use super::cli_provider::CliProvider;
use super::print::ToolServer;
use super::reply_check::{Checks, RejectedReply};
use super::request::{self, CallOptions, Checked, Request, Watched};
use super::structured::{self, FitsSchema};
use super::user_settings;
use dfp_exchange::bridge::{BridgeOptions, ToolCallRequest};
use dfp_exchange::form::CallParts;
use dfp_exchange::live::setup::SessionOutput;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, Event};
use dfp_model::message::{Message, ToolSpec};
use dfp_process::limit::NestedPermit;
use dfp_process::{Tees, Vars};
use dfp_provider::SchemaForm;
use dfp_provider::choices::ToolChoice;
use dfp_provider::command::MAX_ARG_BYTES;
use dfp_provider::declare::mcp::Declarations;
use dfp_provider::options::{self, EngineKind, InputEncoding, Options, TextToolCalls};
use dfp_record::runlog::Prompt;
use dfp_text::decode::LineObserver;
use dfp_text::prompt::{self, Encoding, Escapes, Rendered, Style};
use dfp_text::schema::Schema;
use dfp_text::toolcall::{Mark, TextCalls};

/// A call of a CLI, checked and rendered.
pub(super) struct CliRequest {
    /// The request as a prompt, written when it is first needed.
    printed: OnceLock<Printed>,
    /// The schema that the reply has to fit.
    pub output: Option<Arc<Schema>>,
    /// The reason for which a CLI that takes schemas does not get this one in print form.
    pub emulated_because: Option<&'static str>,
    /// The parts from which a live session's call is made; without messages once that is done.
    session: Option<RequestSource>,
    /// The rule for which text of a live session's answer is a call.
    pub session_text_calls: TextCalls,
    /// The tools, if the CLI calls them itself.
    pub tool_server: Option<ToolServer>,
    /// The thread's call ids, which no new call may repeat.
    pub call_ids: HashSet<String>,
    /// True if the thread ends with a tool's result.
    pub ends_with_result: bool,
    /// True if tools are bound that the model can't call in print form.
    pub uncallable: bool,
    pub options: CallOptions,
    /// The options that the call chooses for itself.
    pub chosen: Chosen,
    /// The thread as its run log has it, if there is to be one.
    pub recorded: Option<Prompt>,
    /// True if the CLI works for itself: its events are passed on unchanged.
    pub watching: bool,
    /// The receivers of copies of what the process prints.
    pub tees: Tees,
    /// The observer of the lines that the process prints, as they are decoded.
    pub observer: Option<Arc<dyn LineObserver>>,
    /// A place beside the queue, for a call within another call.
    pub nested_permit: Option<NestedPermit>,
    /// The checks that the reply has to pass.
    pub checks: Checks,
    /// The parts from which the request is rendered as a prompt, or made again.
    source: Option<RequestSource>,
    /// The text behind the thread that is no part of it.
    note: Option<String>,
    /// The mark that the calls of the answer carry.
    mark: Option<Mark>,
    /// The caller's own messages, if more stands behind them now: the caller's next call continues from them.
    callers_thread: Option<Arc<Vec<Message>>>,
}

/// A call as a process without memory takes it.
#[derive(Debug, Default)]
pub(super) struct Printed {
    /// The thread with its content that is no text. It is empty if the thread can't be a prompt.
    pub prompt: Rendered,
    /// The prompt with the schema of the answer in words, if `prompt` leaves the schema to the CLI.
    pub asking_prompt: Option<Rendered>,
    /// The rule for which text of the answer is a call: none if calls are native.
    pub text_calls: TextCalls,
    /// The reason for which the thread can't be a prompt, if a live session could take it.
    pub unprintable: Option<Box<ProviderError>>,
}

/// A thread, and the tools that may be called.
#[derive(Debug, Clone)]
struct RequestSource {
    messages: Arc<Vec<Message>>,
    tools: Arc<[ToolSpec]>,
    /// The tools that are bound and may not be called.
    forbidden: Arc<[ToolSpec]>,
}

impl CliRequest {
    /// Returns whether the CLI is asked for pieces of messages. A log wants them, too: a killed run leaves them, and only with them
    /// do claude's calls come before their results (2.1.330), so that their durations are known.
    pub fn wants_pieces(&self) -> bool {
        self.options.partial || self.options.record.is_some()
    }

    /// The schema of the answer, if the CLI gets it in print form.
    pub fn native_schema(&self) -> Option<&Schema> {
        self.output.as_deref().filter(|_| self.emulated_because.is_none())
    }

    /// The request of a CLI that is to work for itself.
    fn watched(Watched { prompt, tees, observer }: Watched) -> CliRequest {
        let options = CallOptions {
            events: true,
            ..CallOptions::default()
        };
        CliRequest {
            printed: OnceLock::from(Printed {
                prompt: Rendered::of_text(prompt),
                ..Printed::default()
            }),
            watching: true,
            tees,
            observer: Some(observer),
            ..CliRequest::of(options)
        }
    }

    /// The provider options of this call.
    pub fn provider_options<'a>(&'a self, cli: &'a CliBase) -> &'a Options {
        self.chosen.options.as_deref().unwrap_or(&cli.options)
    }

    /// The tools of the CLI's own that the model may call in this call.
    pub fn own_tools(&self, cli: &CliBase) -> Vec<&'static str> {
        let choices = &self.provider_options(cli).choices;
        let web = cli.provider.web_search.filter(|_| choices.searches_web());
        let tools = cli.provider.tool_search.filter(|_| choices.searches_tools());
        web.into_iter().chain(tools).collect()
    }

    /// The call for a session, if sessions may serve it. Its messages are taken out.
    pub fn in_session<'a>(&'a mut self, cli: &'a CliBase) -> Option<CallParts<'a>> {
        let messages = std::mem::take(&mut self.session.as_mut()?.messages);
        let RequestSource { tools, forbidden, .. } = self.session.as_ref()?;
        let chosen = self.chosen.options.as_ref();
        Some(CallParts {
            messages: Arc::unwrap_or_clone(messages),
            note: self.note.clone(),
            callers: self.callers_thread.clone(),
            tools,
            tool_choice: self.chosen.tool_choice.as_ref(),
            forbidden,
            options: self.provider_options(cli),
            choices: chosen.map(|options| options.choices.clone()),
            own: &cli.options.choices,
            output: output_in_session(cli, self.output.as_deref()),
            encoding: encoding_of(cli),
            guard: cli.provider.guard,
        })
    }

    /// The events that are reported behind the beginning of attempt number `attempt`.
    pub fn notes(&self, attempt: u32, cli: &CliProvider, used: EngineUsed, base_env: &Arc<Vars>) -> Vec<Event> {
        if attempt != 1 {
            return Vec::new();
        }
        let mut notes = self.chosen.left_out.clone();
        let options = self.provider_options(cli);
        notes.extend(user_settings::warnings(cli, options, used, base_env));
        let tools = self.source.as_ref().map_or(0, |source| source.tools.len());
        if used == EngineUsed::Print {
            // A live session tells them itself.
            notes.extend(cli.lacking(options, base_env));
        }
        if used == EngineUsed::Print && options.choices.searches_tools() && tools > 0 {
            let how = match self.tool_server {
                Some(_) => "declared",
                None => "told in words",
            };
            notes.push(Event::Warning {
                code: Code::UnsupportedOption.as_str().to_owned(),
                message: format!("option \"tools.search\" needs a live session: all {tools} tools are {how}"),
            });
        }
        notes
    }

    /// Creates an empty request with these options.
    fn of(options: CallOptions) -> CliRequest {
        CliRequest {
            printed: OnceLock::new(),
            output: None,
            emulated_because: None,
            session: None,
            session_text_calls: TextCalls::Off,
            tool_server: None,
            call_ids: HashSet::new(),
            ends_with_result: false,
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
            note: None,
            mark: None,
            callers_thread: None,
        }
    }

    /// Makes the request of a call.
    ///
    /// # Errors
    /// The part that the provider can't take.
    pub fn new(cli: &CliBase, mut request: Request) -> Result<CliRequest, Box<ProviderError>> {
        if let Some(watched) = request.watched {
            return Ok(CliRequest::watched(watched));
        }
        let callbacks = request.callbacks.take();
        let accepts = match callbacks {
            // The prompt is printed there.
            Some(_) => request::print_accepts(cli),
            None => request::accepts(cli),
        };
        let check_timeout = |ms| options::check_timeout(&cli.provider, ms);
        let Checked {
            messages,
            mut tools,
            options,
            output,
            call_ids,
            recorded,
            nested_permit,
        } = request
            .check(cli.id(), accepts, check_timeout)
            .map_err(|(code, reason)| cli.refuse(code, reason))?;
        let kind = match callbacks {
            Some(_) => EngineKind::Print,
            None => cli.options.engine,
        };
        let chosen = choices::choose(cli, &options.choices, &tools, kind)?;
        let forbidden = match chosen.tool_choice {
            Some(ToolChoice::None) => std::mem::take(&mut tools),
            _ => Vec::new(),
        };
        let mut checks = choices::checks(cli.id(), chosen.tool_choice.as_ref());
        if let Some(schema) = &output {
            if let Some(flag) = structured::own_flag(&cli.options.extra_args) {
                let reason = format!(
                    "the call's option \"outputSchema\" and the option \"extraArgs\" contradict each other: {flag} is among these"
                );
                return Err(cli.refuse(Code::InvalidOption, reason));
            }
            checks.push(Arc::new(FitsSchema {
                schema: Arc::clone(schema),
                provider: cli.id().to_owned(),
                cli_asks_again: cli.provider.schema.asks_again(),
            }));
        }
        let tool_server = match callbacks {
            Some((consumer, options)) => Some(tool_server(cli, &tools, consumer, options)?),
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
        let source = RequestSource {
            messages: Arc::new(messages),
            tools: tools.into(),
            forbidden: forbidden.into(),
        };
        blank.of_source(cli, source)
    }

    /// Puts `messages` behind the request's thread, because of `rejected`.
    ///
    /// # Errors
    /// The part that the provider can't take.
    pub fn extend(
        &mut self,
        cli: &CliBase,
        messages: Vec<Message>,
        rejected: &RejectedReply,
    ) -> Result<(), Box<ProviderError>> {
        let own = std::mem::replace(self, CliRequest::of(CallOptions::default()));
        *self = own.extended(cli, messages, rejected)?;
        Ok(())
    }

    fn extended(
        mut self,
        cli: &CliBase,
        messages: Vec<Message>,
        rejected: &RejectedReply,
    ) -> Result<CliRequest, Box<ProviderError>> {
        let Some(source) = self.source.take() else {
            return Err(cli.refuse(Code::Internal, "the request can't be made again"));
        };
        let extended = source.messages.iter().cloned().chain(messages).collect();
        self.callers_thread = Some(source.messages);
        self.recorded = None;
        self.printed = OnceLock::new();
        self.checks = self.checks.after_misfit(rejected);
        let source = RequestSource {
            messages: Arc::new(extended),
            ..source
        };
        self.of_source(cli, source)
    }

    /// Makes the request for `source`, for each kind of exchange that may serve it.
    fn of_source(self, cli: &CliBase, source: RequestSource) -> Result<CliRequest, Box<ProviderError>> {
        let options = &cli.options;
        let form = self.provider_options(cli).text_tool_calls;
        let calls_back = self.tool_server.is_some();
        let has_tools = !source.tools.is_empty();
        let has_calls = !calls_back && has_tools && form != TextToolCalls::Off;
        let output = self.output.as_deref();
        let documents = self.options.documents && options.thread_documents;
        let is_session = !calls_back && cli.keeps_sessions();
        let mark = match form {
            TextToolCalls::Marked if has_calls => Some(choices::fresh_mark(cli)?),
            _ => None,
        };
        Ok(CliRequest {
            ends_with_result: prompt::ends_with_result(&source.messages, documents),
            emulated_because: output.and_then(|schema| why_emulated(cli, schema, has_calls)),
            // The second time, the messages behind the thread ask for it.
            note: match calls_back || self.checks.asked_before() {
                true => None,
                false => choices::request(self.chosen.tool_choice.as_ref()),
            },
            mark: mark.clone(),
            uncallable: form == TextToolCalls::Off && has_tools && !calls_back,
            session_text_calls: match is_session {
                true => choices::in_session(cli, form, &source.messages, &source.tools, self.calls_asked(), mark),
                false => TextCalls::Off,
            },
            session: is_session.then(|| source.clone()),
            source: (calls_back || options.engine != EngineKind::Live || !self.checks.is_empty()).then_some(source),
            ..self
        })
    }

    /// The request as a prompt, written at the first use: a session that goes on never needs it.
    pub fn printed(&self, cli: &CliBase) -> &Printed {
        self.printed.get_or_init(|| match &self.source {
            Some(source) => self.print(cli, source),
            None => Printed::default(),
        })
    }

    /// Renders the thread as a prompt, also with the schema in words if `prompt` leaves it to the CLI.
    fn print(&self, cli: &CliBase, RequestSource { messages, tools, .. }: &RequestSource) -> Printed {
        let calls_back = self.tool_server.is_some();
        let form = self.provider_options(cli).text_tool_calls;
        let schema = self.output.as_deref().map(Schema::text);
        let is_native = schema.is_some() && self.emulated_because.is_none();
        let style = Style {
            encoding: encoding_of(cli),
            mark: self.mark.as_ref().map(Mark::as_str),
            documents: self.options.documents && cli.options.thread_documents,
            output: schema.filter(|_| !is_native),
            escapes: match form {
                TextToolCalls::Lenient => Escapes::Spec01,
                _ if cli.options.spec_form() => Escapes::Spec01,
                _ => Escapes::Needed,
            },
            // With the CLI's tools on, it may read the files that the user names anyway.
            without_at: cli.provider.reads_references && !cli.options.built_in_tools,
        };
        let asking = Style {
            output: schema,
            ..style
        };
        // The prompt does not describe tools that the CLI calls itself, which are declared to it, nor any if text is never a call.
        let described: &[ToolSpec] = match form {
            _ if calls_back => &[],
            TextToolCalls::Off => &[],
            TextToolCalls::Unquoted | TextToolCalls::Marked | TextToolCalls::Lenient => tools,
        };
        let unprintable = match calls_back {
            true => None,
            false => request::unprintable(cli, messages),
        };
        if unprintable.is_some() {
            return Printed {
                unprintable,
                ..Printed::default()
            };
        }
        let with_note = |mut prompt: Rendered| {
            if let Some(note) = &self.note {
                prompt.text.push_str("\n\n");
                match style.without_at {
                    // The note quotes JSON, in which this escape is read.
                    true => prompt.text.push_str(&note.replace('@', "\\u0040")),
                    false => prompt.text.push_str(note),
                }
            }
            prompt
        };
        Printed {
            prompt: with_note(prompt::render(messages, described, style)),
            asking_prompt: is_native.then(|| with_note(prompt::render(messages, described, asking))),
            text_calls: match calls_back {
                true => TextCalls::Off,
                false => choices::text_calls(cli, form, messages, tools, self.calls_asked(), style, self.mark.clone()),
            },
            unprintable: None,
        }
    }
}

impl CliRequest {
    /// The tools that the model may call as text. SPEC-01's callers describe tools to a model without any in their own words, so it
    /// may call those; not if its tools were taken away, in an agent's run without tools, or if its answer is JSON anyway.
    fn calls_asked(&self) -> choices::CallableTools {
        let unknown_tools = self.options.unknown_tools;
        let has_none = self.chosen.tool_choice == Some(ToolChoice::None);
        choices::CallableTools {
            unknown_tools,
            may_call_untold: !unknown_tools && self.output.is_none() && !has_none,
        }
    }
}

/// The encoding of a thread.
fn encoding_of(cli: &CliBase) -> Encoding {
    match cli.options.input_encoding {
        InputEncoding::Xml => Encoding::Xml,
        InputEncoding::Text => Encoding::Text,
    }
}

/// The reason for which a CLI that takes schemas can't get this one in print form. `has_calls` says that calls are written as text.
fn why_emulated(cli: &CliBase, schema: &Schema, has_calls: bool) -> Option<&'static str> {
    let form = cli.provider.schema;
    if !form.takes(schema) {
        return Some(UNFIT);
    }
    if has_calls {
        return Some(
            "tool calls are written as text in print form, which a CLI that enforces the schema would not let through",
        );
    }
    if !cli.provider.prints_by_schema() {
        return Some("the CLI takes a schema in live sessions alone");
    }
    let is_long = cli.provider.has_schema_argument() && schema.text().len() > MAX_ARG_BYTES;
    is_long.then_some("it is longer than an argument of a program may be")
}

/// The way in which a live session gets the schema of an answer.
fn output_in_session<'a>(cli: &CliBase, schema: Option<&'a Schema>) -> SessionOutput<'a> {
    let can_take = cli.provider.live.is_none_or(|live| live.takes_schema);
    match schema {
        None => SessionOutput::Text,
        Some(schema) if can_take && cli.provider.schema.takes(schema) => SessionOutput::Native(schema),
        Some(schema) => SessionOutput::Asked(schema),
    }
}

/// The warning that a schema is asked for in the prompt for the reason `why`, if this CLI takes other schemas.
pub(super) fn emulated(cli: &CliBase, why: &str) -> Option<Event> {
    let can = cli.provider.schema != SchemaForm::Asked;
    can.then(|| structured::emulated(cli.id(), why))
}

/// The reason for which a CLI does not get a schema that it has no form for.
pub(super) const UNFIT: &str = "the CLI can't take this schema";

/// Makes the tools that the CLI is to call over a bridge; the calls come out at `consumer`.
///
/// # Errors
/// `CALLBACKS_UNAVAILABLE` if the provider has no way to use a server.
fn tool_server(
    cli: &CliBase,
    tools: &[ToolSpec],
    consumer: mpsc::Sender<ToolCallRequest>,
    options: BridgeOptions,
) -> Result<ToolServer, Box<ProviderError>> {
    if !cli.takes_callbacks() {
        let reason = format!(
            "{} can't call tools in the middle of a run with these options",
            cli.id()
        );
        return Err(cli.refuse(Code::CallbacksUnavailable, reason));
    }
    Ok(ToolServer {
        declarations: Declarations::new(tools),
        consumer,
        options,
    })
}
