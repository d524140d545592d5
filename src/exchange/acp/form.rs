//! The Agent Client Protocol as a form that remembers: its sessions continue from call to call.

use std::io;
use std::sync::Arc;

use super::models;
use super::server::AcpServer;
use super::setup::AcpSetup;
use super::turn::{AcpCallResult, AcpConversation, AcpInput};
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, ProcessOptions, Processes, ServerStart, SessionCall, SessionHome, WhyAnew,
};
use crate::installed::Installed;
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::print::NotStarted;
use dfp_model::message::{Message, MessageFields, Role, ToolResult};
use dfp_provider::WarmForm;
use dfp_provider::choices::Choices;
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
        models::list(server, asked).await
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

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::form::CallParts;
    use crate::live::setup::SessionOutput;
    use crate::live::thread::Pending;
    use dfp_model::event::Reply;
    use dfp_model::message::ToolCall;
    use dfp_provider::acp;
    use dfp_provider::options::Options;
    use dfp_text::prompt::Encoding;

    fn says(role: Role, text: &str) -> Message {
        Message::from(MessageFields::new(role, text))
    }

    fn call(messages: Vec<Message>, note: Option<&str>, encoding: Encoding) -> SessionCall<AcpSetup> {
        let options = Options::parse(&acp::agent(r#"{"command":"a"}"#).unwrap(), "{}").unwrap();
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
}
