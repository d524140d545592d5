//! Agents that speak the Agent Client Protocol (`--acp`, `agent stdio`): JSON-RPC on standard input and output.
//!
//! One process of an agent ([`server`]) serves many sessions; [`wire`] is its lines, [`choices`] the model and the level of reasoning
//! that a session is given, and [`call`] one prompt in a session with its answer. Two forms are made of these:
//!
//! - [`KeptAgent`] remembers: a session takes one [`turn`] after the other. It is sent the thread as one prompt, in the print form's
//!   shape, and then only new messages. The caller's tools ([`turn::SessionTools`]) are an MCP server of ours of which the session is
//!   told when it is opened. The agent's calls of them are held: they end a turn here while the agent's own turn goes on, and their
//!   results answer them. A thread that no session knows is written as a prompt again. Measured with gemini 0.61.0, qwen 0.15.10 and opencode
//!   1.18.34: each takes MCP servers over HTTP, and asks for the tools before it answers `session/new`.
//! - [`WarmAgent`] remembers nothing: a session is opened for each call, sent one prompt (the whole thread, as the print form renders
//!   it) and closed. For a CLI that reads more into a prompt than there is, the thread is the history of the session instead,
//!   written before the session is loaded. The answer is like print's: text, calls written in it, an error. Measured with gemini
//!   0.61.0 and qwen 0.24.4 (OTHER-LIVE §2.4, §3), and grok 1.0.41 (NEW-CLIS §2.3).
//!
//! The models that an agent offers are read from the answer to `session/new`, in a session that is opened for it, sent nothing, and closed:
//! from `models` (a draft of version 1) or `configOptions`. Sources: gemini 0.61.0, grok 1.0.41, opencode 1.18.34, qwen 0.24.4.
//!
//! The dozen fields that are needed are read and written here, with serde. The protocol's own crate brings its runtime and the
//! whole schema, which these agents leave in just the fields that matter (usage and errors are in `_meta` and `data`).

pub mod call;
pub mod choices;
pub mod server;
pub mod turn;
pub mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use self::call::CallWork;
use self::choices::{AcpSession, Choice, SessionChoices};
use self::server::{AcpServer, EndedSession};
use self::turn::{AcpCallResult, AcpConversation, AcpInput};
use crate::EndedProcess;
use crate::form::{
    Caller, Form, InServer, ListedModels, ModelsAsked, ProcessOptions, Processes, SentText, ServerStart, SessionCall,
    SessionHome, Takes, WhyAnew,
};
use crate::host::Host;
use crate::installed::Installed;
use crate::live::session::{Pulse, Session, SessionProcess, TurnInput};
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::live::turn::{Report, TurnEnd};
use crate::print::NotStarted;
use crate::rpc::RequestError;
use dfp_model::event::EngineUsed;
use dfp_model::message::{Message, MessageFields, Role, ToolResult};
use dfp_provider::WarmForm;
use dfp_provider::choices::Choices;
use dfp_provider::command::PrivateSession;
use dfp_provider::declare::mcp::Declarations;
use dfp_provider::models::ListedModel;
use dfp_text::prompt::{self, Style};

/// One process of an agent for many conversations.
#[derive(Debug)]
pub struct KeptAgent {
    /// The agent's own data.
    pub own: WarmForm,
}

impl Form for KeptAgent {
    const PROCESSES: Processes = Processes::Shared {
        // The memory that each session takes is the agent's own affair.
        most_resting: 20,
        // Each server takes 230 MB (gemini 0.61.0).
        most_servers: 4,
        serves_when_grown: false,
    };

    const LISTS_MODELS: bool = true;

    type Session = AcpConversation;
    type Server = AcpServer;

    fn setup(parts: &SetupParts<'_>) -> AcpSetup {
        AcpSetup::of(parts)
    }

    fn options(_: Option<&AcpSetup>, choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: choices.cloned(),
            system_prompt: None,
        }
    }

    fn whole(&self, call: &SessionCall<AcpSetup>, _: &Caller<'_, KeptAgent>) -> io::Result<AcpInput> {
        Ok(AcpInput::Whole(whole(call)))
    }

    /// Only results, or messages that are not the model's: while calls wait, no prompt can be sent.
    fn addition(call: &SessionCall<AcpSetup>, known: &KnownThread) -> Result<AcpInput, WhyAnew> {
        let new = call.thread.new_words(known)?;
        match (new.results.as_slice(), new.rest) {
            ([], []) => Err(WhyAnew::OtherThread),
            ([], rest) => Ok(AcpInput::Prompt(prompt(call, rest))),
            (results, []) if call.note.is_none() => {
                let results = results.iter().map(|(call, result)| AcpCallResult {
                    call: call.api.clone(),
                    result: ToolResult {
                        content: result.content.clone(),
                        is_error: result.is_error,
                    },
                });
                Ok(AcpInput::Results(results.collect()))
            }
            _ => Err(WhyAnew::OtherThread),
        }
    }

    fn session(&self, home: SessionHome<'_, KeptAgent>) -> Result<AcpConversation, NotStarted> {
        Ok(AcpConversation::new(home.shared()?, self.own))
    }

    fn serves(server: &AcpServer, installed: &Installed, _: Option<&AcpSetup>) -> bool {
        server.line == installed.line
    }

    async fn serve(&self, start: ServerStart<'_, KeptAgent>) -> Result<AcpServer, NotStarted> {
        AcpServer::start(start.installed.line.clone(), (start.surroundings)(), start.closing).await
    }

    async fn models(server: &Arc<AcpServer>, asked: ModelsAsked<'_>) -> ListedModels {
        list_models(server, asked).await
    }

    fn is_worn(&self, server: &AcpServer) -> bool {
        server.held_sessions() >= self.own.max_sessions
    }

    fn lacks(server: &AcpServer, setup: &AcpSetup) -> Option<&'static str> {
        if setup.tools.tools().is_empty() {
            return None;
        }
        if !server.takes_servers {
            return Some("it takes no MCP servers over HTTP, by which it would call the tools");
        }
        // Sessions of one folder may call each other's tools.
        (!server.is_private()).then_some("with `cwd`, its sessions share a folder, and may share their tools")
    }
}

/// Writes `messages` as a prompt of `call`. It never begins with a text of theirs, which an agent might take for a command of its
/// own.
fn prompt(call: &SessionCall<AcpSetup>, messages: &[Message]) -> String {
    let style = Style {
        encoding: call.encoding,
        ..Style::default()
    };
    let mut text = prompt::render(messages, &[], style).text;
    if let Some(instruction) = &call.setup.instruction {
        text = format!("{instruction}\n\n{text}");
    }
    if let Some(note) = &call.note {
        text.push_str("\n\n");
        text.push_str(note);
    }
    text
}

/// Writes the whole thread as a prompt.
fn whole(call: &SessionCall<AcpSetup>) -> String {
    let system = call
        .setup
        .system
        .as_deref()
        .map(|system| Message::from(MessageFields::new(Role::System, system)));
    let messages: Vec<Message> = system
        .into_iter()
        .chain(call.thread.messages().iter().cloned())
        .collect();
    prompt(call, &messages)
}

/// The models that the agent of `server` offers.
///
/// # Errors
/// The reason why it does not tell.
async fn list_models(server: &Arc<AcpServer>, asked: ModelsAsked<'_>) -> ListedModels {
    let gone = || "it takes no new sessions".to_owned();
    let opening = server.opening_permit().await.ok_or_else(gone)?;
    let permit = server.call_permit().await;
    let params = wire::session_new(server.host().folder(), &[]);
    let answer = server.rpc.request("session/new", &params).await;
    drop(opening);
    let answer = answer.map_err(|error| match error {
        RequestError::Refused(error) => format!("it opens no session: {}", error.reason()),
        _ => "it does not answer session/new".to_owned(),
    })?;
    let unread = || "its answer to session/new can't be read".to_owned();
    let session: AcpSession = serde_json::from_str(answer.get()).map_err(|_| unread())?;
    server.host().count_session();
    let ended = EndedSession {
        id: session.session_id.clone(),
        _files: None,
    };
    server.end_session(ended, Some(permit), asked.tracker);
    let answer: Value = serde_json::from_str(answer.get()).map_err(|_| unread())?;
    // The agent's own choice is not known where the provider has made one.
    let has_own_model = asked.options.choices.model.is_some();
    match read(&session, &answer, !has_own_model) {
        models if models.is_empty() => Err("the agent offers no choice of its model".to_owned()),
        models => Ok(models),
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Offered {
    model_id: String,
    name: Option<String>,
    description: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<ModelMeta>,
}

/// The fields that grok and qwen add.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
struct ModelMeta {
    total_context_tokens: Option<u64>,
    context_limit: Option<u64>,
    reasoning_effort: Option<String>,
    reasoning_efforts: Vec<Effort>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Effort {
    value: Option<String>,
    id: Option<String>,
}

/// Reads the models of `session`, which was opened with `answer`.
fn read(session: &AcpSession, answer: &Value, tells_default: bool) -> Vec<ListedModel> {
    let offered = answer["models"]["availableModels"].as_array().into_iter().flatten();
    let mut models: Vec<ListedModel> = offered
        .filter_map(|model| Offered::deserialize(model).ok())
        .filter(|model| !model.model_id.is_empty())
        .map(|model| {
            let ModelMeta {
                total_context_tokens,
                context_limit,
                reasoning_effort,
                reasoning_efforts,
            } = model.meta.unwrap_or_default();
            let efforts = reasoning_efforts
                .into_iter()
                .filter_map(|effort| effort.value.or(effort.id));
            let efforts: Vec<String> = efforts.collect();
            ListedModel {
                id: model.model_id,
                name: model.name.filter(|name| !name.is_empty()),
                description: model.description.filter(|words| !words.is_empty()),
                default_effort: reasoning_effort.filter(|_| !efforts.is_empty()),
                efforts: (!efforts.is_empty()).then_some(efforts),
                context_window: total_context_tokens.or(context_limit),
                ..ListedModel::default()
            }
        })
        .collect();
    let mut current = session.models.current_model_id.clone();
    if models.is_empty() {
        let (chosen, offered) = session.config_options.offered(Choice::Model);
        current = chosen;
        models = offered
            .into_iter()
            .map(|(id, name)| ListedModel {
                name: Some(name).filter(|name| !name.is_empty()),
                id,
                ..ListedModel::default()
            })
            .collect();
    }
    let (effort, efforts) = session.config_options.offered(Choice::Effort);
    for model in models.iter_mut().filter(|model| current.as_ref() == Some(&model.id)) {
        model.is_default = tells_default;
        // An agent's options are those of the model that it has just now.
        if model.efforts.is_none() && !efforts.is_empty() {
            model.efforts = Some(efforts.iter().map(|(id, _)| id.clone()).collect());
            model.default_effort.clone_from(&effort);
        }
        // The name that a call can be given, as in `Models::current`.
        if let Some(name) = model.name.clone().filter(|_| model.id.starts_with('$')) {
            model.id = name;
        }
    }
    models
}

/// The setup of a session. Sessions with different setups are not exchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpSetup {
    /// The thread's system messages: an agent has its own instructions, and takes further ones only in a prompt.
    pub system: Option<String>,
    /// The instruction on the form of its answers.
    pub instruction: Option<String>,
    /// Its model, and the model's level of reasoning.
    pub chosen: SessionChoices,
    /// The caller's tools.
    pub tools: Declarations,
}

impl AcpSetup {
    /// The setup of a session for a call of `parts`.
    pub fn of(parts: &SetupParts<'_>) -> AcpSetup {
        AcpSetup {
            system: parts.system.map(str::to_owned),
            instruction: parts.output.instruction(),
            chosen: SessionChoices::of(parts.options),
            tools: Declarations::new(parts.tools),
        }
    }
}

/// One process of an agent for many calls.
#[derive(Debug)]
pub struct WarmAgent {
    /// The CLI's own data.
    pub own: WarmForm,
}

impl AsRef<Host> for AcpServer {
    fn as_ref(&self) -> &Host {
        self.host()
    }
}

impl Form for WarmAgent {
    const ENGINE: EngineUsed = EngineUsed::Warm;
    const TAKES: Takes = Takes::Prompt;
    const PROCESSES: Processes = Processes::Shared {
        most_resting: 0,
        // Each server takes 230 MB.
        most_servers: 4,
        // No resting session would be lost with the server.
        serves_when_grown: true,
    };

    const LISTS_MODELS: bool = true;

    type Session = WarmSession;
    type Server = AcpServer;

    fn setup(parts: &SetupParts<'_>) -> SessionChoices {
        SessionChoices::of(parts.options)
    }

    fn options(_: Option<&SessionChoices>, choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: choices.cloned(),
            system_prompt: None,
        }
    }

    fn whole(&self, call: &SessionCall<SessionChoices>, _: &Caller<'_, WarmAgent>) -> io::Result<WarmInput> {
        Ok(WarmInput {
            prompt: Arc::clone(&call.prompt),
            file: call.file.clone(),
        })
    }

    fn addition(_: &SessionCall<SessionChoices>, _: &KnownThread) -> Result<WarmInput, WhyAnew> {
        Err(WhyAnew::OtherThread)
    }

    fn text(call: &SessionCall<SessionChoices>, _: &WarmInput) -> SentText {
        let prompt = Arc::clone(&call.prompt);
        Box::new(move || prompt.to_string())
    }

    fn session(&self, home: SessionHome<'_, WarmAgent>) -> Result<WarmSession, NotStarted> {
        Ok(WarmSession {
            place: home.shared()?,
            form: self.own,
            call: None,
        })
    }

    async fn serve(&self, start: ServerStart<'_, WarmAgent>) -> Result<AcpServer, NotStarted> {
        AcpServer::start(start.installed.line.clone(), (start.surroundings)(), start.closing).await
    }

    /// A call's choices are on the command line and in the settings of the folder.
    fn serves(server: &AcpServer, installed: &Installed, _: Option<&SessionChoices>) -> bool {
        server.line == installed.line
    }

    async fn models(server: &Arc<AcpServer>, asked: ModelsAsked<'_>) -> ListedModels {
        list_models(server, asked).await
    }

    /// The server's memory grows with each session that is not closed.
    fn is_worn(&self, server: &AcpServer) -> bool {
        server.held_sessions() >= self.own.max_sessions
    }
}

/// The input of a call.
#[derive(Debug)]
pub struct WarmInput {
    prompt: Arc<str>,
    /// The thread as a session of the CLI's own.
    file: Option<Arc<PrivateSession>>,
}

/// A session that lives for one call.
#[derive(Debug)]
pub struct WarmSession {
    place: InServer<WarmAgent>,
    /// The CLI's own data.
    form: WarmForm,
    /// The call, as soon as it is made.
    call: Option<CallWork>,
}

impl Session for WarmSession {
    type Setup = SessionChoices;
    type Input = WarmInput;
    type ReplyFacts = ();

    fn process(&self) -> Option<SessionProcess<'_>> {
        self.place.process()
    }

    async fn turn(&mut self, turn: TurnInput<WarmSession>, report: &Report) -> TurnEnd<()> {
        let WarmInput { prompt, file } = turn.input;
        let call = CallWork::new(Arc::clone(&self.place.server), self.form, prompt, file).tracked(&self.place.tracker);
        let call = self.call.insert(match self.form.is_told_choices {
            true => call.choosing((*turn.setup).clone()),
            false => call,
        });
        let end = match call.open(report).await {
            Ok(session) => {
                let inbox = call.ask(session, report);
                call.read(inbox, report).await
            }
            Err(end) => end,
        };
        match end {
            TurnEnd::Reply { .. } => TurnEnd::reply(false, ()),
            end => end,
        }
    }

    async fn stop(mut self, _: Duration) -> Option<EndedProcess> {
        if let Some(call) = &mut self.call {
            call.cancel().await;
        }
        self.end();
        None
    }

    async fn idle(&mut self) -> Pulse {
        Pulse::Ended
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        self.end();
        None
    }

    fn end(self) {
        if let Some(mut call) = self.call {
            call.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::form::CallParts;
    use crate::live::setup::SessionOutput;
    use crate::live::thread::Pending;
    use dfp_model::event::Reply;
    use dfp_model::message::ToolCall;
    use dfp_provider::custom;
    use dfp_provider::options::Options;
    use dfp_text::prompt::Encoding;

    fn says(role: Role, text: &str) -> Message {
        Message::from(MessageFields::new(role, text))
    }

    fn call(messages: Vec<Message>, note: Option<&str>, encoding: Encoding) -> SessionCall<AcpSetup> {
        let options = Options::parse(&custom::agent(r#"{"command":"a"}"#).unwrap(), "{}").unwrap();
        SessionCall::new::<KeptAgent>(CallParts {
            messages,
            note: note.map(str::to_owned),
            callers: None,
            tools: &[],
            tool_choice: None,
            forbidden: &[],
            options: &options,
            choices: None,
            own: &options.choices,
            output: SessionOutput::Text,
            encoding,
            guard: None,
        })
    }

    fn added(call: &SessionCall<AcpSetup>, known: &KnownThread) -> String {
        match KeptAgent::addition(call, known) {
            Ok(AcpInput::Whole(prompt) | AcpInput::Prompt(prompt)) => format!("says {prompt}"),
            Ok(AcpInput::Results(results)) => {
                let results = results.iter().map(|of| (&*of.call, of.result.content.as_text()));
                format!("{:?}", results.collect::<Vec<_>>())
            }
            Err(why) => format!("{why:?}"),
        }
    }

    #[test]
    fn a_session_is_sent_what_is_new_and_nothing_that_may_be_a_command() {
        let first = call(
            vec![says(Role::System, "S"), says(Role::Human, "1")],
            None,
            Encoding::Text,
        );
        assert_eq!(whole(&first), "[System]\nS\n\n[User]\n1");
        let reply = Reply {
            content: "one".to_owned(),
            ..Reply::default()
        };
        let known = first.thread.known_with(&reply, Vec::new());
        let thread = |more: Vec<Message>| {
            let known = [says(Role::Human, "1"), says(Role::Ai, "one")];
            known.into_iter().chain(more).collect::<Vec<_>>()
        };
        let next = |more, note| added(&call(thread(more), note, Encoding::Text), &known);
        assert_eq!(next(vec![says(Role::Human, "2")], None), "says [User]\n2");
        assert_eq!(
            next(vec![says(Role::Human, "2")], Some("Be quick.")),
            "says [User]\n2\n\nBe quick."
        );
        assert_eq!(next(vec![says(Role::Human, "/help")], None), "says [User]\n/help");
        for other in [
            vec![],
            vec![says(Role::Ai, "two")],
            vec![says(Role::Human, "2"), says(Role::Ai, "two")],
        ] {
            assert_eq!(next(other, None), "OtherThread");
        }
    }

    #[test]
    fn results_alone_go_to_a_prompt_that_waits_for_them() {
        let made = ToolCall {
            id: "call_1".to_owned(),
            name: "add".to_owned(),
            args: RawValue::from_string("{}".to_owned()).unwrap(),
        };
        let first = call(vec![says(Role::Human, "go")], None, Encoding::Xml);
        let reply = Reply {
            tool_calls: vec![made.clone()],
            ..Reply::default()
        };
        let pending = Pending {
            api: "bridge".to_owned(),
            id: "call_1".to_owned(),
        };
        let known = first.thread.known_with(&reply, vec![pending]);
        let thread = |more: Option<Message>| {
            let calls = Message::from(MessageFields {
                tool_calls: vec![made.clone()],
                ..MessageFields::new(Role::Ai, "")
            });
            let result = Message::from(MessageFields {
                tool_call_id: "call_1".to_owned(),
                ..MessageFields::new(Role::Tool, "3")
            });
            let known = [says(Role::Human, "go"), calls, result];
            known.into_iter().chain(more).collect::<Vec<_>>()
        };
        let next = |more, note| added(&call(thread(more), note, Encoding::Xml), &known);
        assert_eq!(next(None, None), r#"[("bridge", "3")]"#);
        assert_eq!(next(None, Some("Be quick.")), "OtherThread");
        assert_eq!(next(Some(says(Role::Human, "and hurry")), None), "OtherThread");
    }

    fn list(answer: &Value) -> Vec<ListedModel> {
        read(&serde_json::from_value(answer.clone()).unwrap(), answer, true)
    }

    #[test]
    fn the_drafts_models_are_read_with_what_grok_and_qwen_add() {
        let grok = json!({"sessionId": "s", "models": {"currentModelId": "mock", "availableModels": [
            {"modelId": "mock", "name": "Mock", "_meta": {"totalContextTokens": 500_000, "reasoningEffort": "low",
                "reasoningEfforts": [{"id": "low", "value": "low"}, {"id": "high", "value": "high"}]}},
            {"modelId": "other"},
        ]}});
        let mock = ListedModel {
            id: "mock".to_owned(),
            name: Some("Mock".to_owned()),
            is_default: true,
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            context_window: Some(500_000),
            ..ListedModel::default()
        };
        let other = ListedModel {
            id: "other".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(list(&grok), [mock, other]);
        let id = "$runtime|openai|m(openai)";
        let qwen = json!({"sessionId": "s", "models": {"currentModelId": id, "availableModels": [
            {"modelId": id, "name": "m", "description": null, "_meta": {"contextLimit": 200_000}},
        ]}});
        let model = &list(&qwen)[0];
        assert_eq!((&*model.id, model.context_window), ("m", Some(200_000)));
    }

    #[test]
    fn or_the_options_of_the_session() {
        let opencode = json!({"sessionId": "s", "configOptions": [
            {"id": "model", "category": "model", "currentValue": "a/m1", "options": [
                {"value": "a/m1", "name": "M1"}, {"group": "g", "options": [{"value": "a/m2", "name": ""}]}]},
            {"id": "effort", "category": "thought_level", "currentValue": "low", "options": [{"value": "low"}, {"value": "high"}]},
        ]});
        let first = ListedModel {
            id: "a/m1".to_owned(),
            name: Some("M1".to_owned()),
            is_default: true,
            efforts: Some(vec!["low".to_owned(), "high".to_owned()]),
            default_effort: Some("low".to_owned()),
            ..ListedModel::default()
        };
        let second = ListedModel {
            id: "a/m2".to_owned(),
            ..ListedModel::default()
        };
        assert_eq!(list(&opencode), [first, second]);
        assert_eq!(list(&json!({"sessionId": "s"})), []);
    }
}
