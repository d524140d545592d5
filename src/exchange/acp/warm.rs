//! The Agent Client Protocol as a form without memory: its sessions live for one call.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::call::CallWork;
use super::choices::SessionChoices;
use super::form;
use super::server::AcpServer;
use crate::EndedProcess;
use crate::form::{
    Caller, Form, ListedModels, ModelsAsked, ProcessOptions, Processes, SentText, ServerStart, SessionCall,
    SessionHome, Takes, WhyAnew,
};
use crate::host::Host;
use crate::installed::Installed;
use crate::live::session::{Pulse, Session, TurnInput};
use crate::live::setup::SetupParts;
use crate::live::thread::KnownThread;
use crate::live::turn::{Report, TurnEnd};
use crate::print::NotStarted;
use dfp_model::event::EngineUsed;
use dfp_provider::WarmForm;
use dfp_provider::choices::Choices;
use dfp_provider::command::PrivateSession;

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
        let place = home.shared()?;
        Ok(WarmSession {
            server: place.server,
            form: self.own,
            call: None,
            tracker: place.tracker.clone(),
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
        form::list(server, asked).await
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
    server: Arc<AcpServer>,
    /// The CLI's own data.
    form: WarmForm,
    /// The call, as soon as it is made.
    call: Option<CallWork>,
    tracker: TaskTracker,
}

impl Session for WarmSession {
    type Setup = SessionChoices;
    type Input = WarmInput;
    type ReplyFacts = ();

    fn pid(&self) -> u32 {
        self.server.host().pid()
    }

    fn host(&self) -> Option<&Host> {
        Some(self.server.host())
    }

    async fn turn(&mut self, turn: TurnInput<WarmSession>, report: &Report) -> TurnEnd<()> {
        let WarmInput { prompt, file } = turn.input;
        let call = CallWork::new(Arc::clone(&self.server), self.form, prompt, file).tracked(&self.tracker);
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

    fn end(self) {
        if let Some(mut call) = self.call {
            call.close();
        }
    }
}
