//! The Agent Client Protocol as a form without memory: its sessions live for one call.

use std::convert::Infallible;
use std::sync::Arc;

use super::call::CallWork;
use super::choices::SessionChoices;
use super::server::AcpServer;
use crate::EndedProcess;
use crate::form::{
    Caller, Form, ProcessOptions, Proof, Server, ServerForm, ServerStart, SessionCall, Takes, WhyAnew, WorkParts,
};
use crate::host::{Host, NoHost};
use crate::installed::Installed;
use crate::live::keep::{Idle, Keepable};
use crate::live::setup::SetupParts;
use crate::live::thread::{KnownThread, SessionThread};
use crate::live::turn::{Report, TurnEnd, Work};
use dfp_model::event::EngineUsed;
use dfp_provider::WarmForm;
use dfp_provider::choices::Choices;

/// One process of an agent for many calls.
#[derive(Debug)]
pub struct WarmAgent {
    /// The CLI's own data.
    pub own: WarmForm,
}

impl Server for AcpServer {
    fn host(&self) -> &Host {
        AcpServer::host(self)
    }
}

impl Form for WarmAgent {
    const ENGINE: EngineUsed = EngineUsed::Warm;
    const TAKES: Takes = Takes::Prompt;

    type Setup = SessionChoices;
    type Session = NoSession;
    type Input = Infallible;

    fn setup(parts: &SetupParts<'_>) -> SessionChoices {
        SessionChoices::of(parts.options)
    }

    fn options(_: Option<&SessionChoices>, choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: choices.cloned(),
            system_prompt: None,
        }
    }

    fn addition(_: &SessionCall<SessionChoices>, _: &KnownThread) -> Result<Infallible, WhyAnew> {
        Err(WhyAnew::OtherThread)
    }
}

impl ServerForm for WarmAgent {
    const MOST_RESTING: usize = 0;
    /// Each server takes 230 MB.
    const MOST_SERVERS: usize = 4;
    /// No resting session would be lost with the server.
    const SERVES_WHEN_GROWN: bool = true;

    type Server = AcpServer;
    type TurnInput = CallWork;
    type Work = CallWork;

    /// A call's choices are on the command line and in the settings of the folder.
    fn serves(server: &AcpServer, installed: &Installed, _: Option<&SessionChoices>) -> bool {
        server.line == installed.line
    }

    async fn start(&self, start: ServerStart<'_, WarmAgent>) -> Result<AcpServer, NoHost> {
        AcpServer::start(start.installed.line.clone(), (start.surroundings)(), start.closing).await
    }

    fn proof(_: &AcpServer) -> Proof<'_> {
        Proof::Probe("it has answered the handshake".to_owned())
    }

    /// The server's memory grows with each session that is not closed.
    fn is_worn(&self, server: &AcpServer) -> bool {
        server.held_sessions() >= self.own.max_sessions
    }

    fn open(
        &self,
        server: Arc<AcpServer>,
        call: &SessionCall<SessionChoices>,
        _: &Caller<'_, SessionChoices>,
    ) -> CallWork {
        let work = CallWork::new(server, self.own, Arc::clone(&call.prompt), call.file.clone());
        match self.own.is_told_choices {
            true => work.choosing((*call.setup).clone()),
            false => work,
        }
    }

    fn resume(session: Box<NoSession>, _: Infallible) -> CallWork {
        match *session {}
    }

    fn server(session: &NoSession) -> &Arc<AcpServer> {
        match *session {}
    }

    fn work(opening: CallWork, parts: WorkParts<'_, SessionChoices>) -> CallWork {
        opening.tracked(parts.tracker)
    }

    fn sent(_: &SessionThread, prompt: &str) -> String {
        prompt.to_owned()
    }
}

impl Work for CallWork {
    type Session = NoSession;
    type ReplyFacts = ();

    async fn turn(&mut self, report: &Report) -> TurnEnd<NoSession, ()> {
        match self.open(report).await {
            Ok(session) => {
                let inbox = self.ask(session, report);
                self.read(inbox, report).await
            }
            Err(end) => end,
        }
    }

    async fn stop(mut self) -> Option<EndedProcess> {
        self.cancel().await;
        self.close();
        None
    }

    fn end(mut self) {
        self.close();
    }
}

/// The session of a form whose sessions live for one call: no value exists, since none is kept.
#[derive(Debug)]
pub enum NoSession {}

impl Keepable for NoSession {
    type Setup = SessionChoices;

    fn pid(&self) -> u32 {
        match *self {}
    }

    async fn idle(&mut self) -> Idle {
        match *self {}
    }

    fn end(self) {
        match self {}
    }
}
