//! A process of qwen's live form: how it is started, for a call or ahead of one.
//!
//! In: a setup, and the thread that the process is to read first, if any. Out: a [`Session`]. What a process of this form is started with
//! depends on its setup, so one that is started ahead serves no other.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::capabilities::{self, Binary};
use super::engine::Engine;
use super::live_sessions::LiveSessions;
use super::spares::{ATTEMPTS, Warmed};
use crate::command::{CommandLine, Mode};
use crate::error::ProviderError;
use crate::exchange::live::setup::Setup;
use crate::exchange::print::NotStarted;
use crate::exchange::qwen_live::chat::Chat;
use crate::exchange::qwen_live::session::Session;
use crate::exchange::qwen_live::tools::Tools;
use crate::process::Vars;
use crate::process::limit::Permit;
use crate::provider::options::{EngineKind, Options, SystemPrompt};

impl Engine {
    /// The command line of a process that is set up with `setup`.
    pub(super) fn qwen_line(
        &self,
        setup: &Setup,
        base_env: &Arc<Vars>,
    ) -> Result<(CommandLine, Binary), Box<ProviderError>> {
        self.line(Mode::Live, &self.options_of(setup), true, base_env)
    }

    /// The options of a process that is set up with `setup`: what its system prompt is, it is started with.
    fn options_of(&self, setup: &Setup) -> Options {
        let options = match setup.choices() {
            Some(choices) => self.options.with_choices(choices.clone()),
            None => self.options.clone(),
        };
        let texts: Vec<&str> = [setup.system_prompt(), setup.append_system_prompt()]
            .into_iter()
            .flatten()
            .collect();
        Options {
            system_prompt: match texts.is_empty() {
                true => SystemPrompt::Cli,
                false => SystemPrompt::Custom(texts.join("\n\n")),
            },
            ..options
        }
    }

    /// A process with `setup`, whose tools have a server of its own, and its place among those of the provider. It begins with `chat`.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub(super) fn qwen_session(
        &self,
        (line, binary): (&CommandLine, &Binary),
        base_env: &Arc<Vars>,
        place: Option<Permit>,
        (setup, chat): (&Arc<Setup>, Option<&Chat>),
    ) -> Result<Session, NotStarted> {
        let tools = Tools::serve(setup.declarations()).map_err(NotStarted::Tools)?;
        Session::start(
            line.clone(),
            self.session_surroundings(binary, base_env, place),
            &self.lifecycle.closing,
            (setup, tools, chat),
            self.provider.errors.long_pauses,
        )
    }

    /// Starts processes for the next call, if its `setup` is known, and waits until they have answered and know the tools. What one is
    /// started with is its setup's: without that there is nothing to start.
    ///
    /// # Errors
    /// As a call.
    pub(super) async fn prewarm_qwen(
        &self,
        live: &LiveSessions<Session>,
        setup: Option<&Arc<Setup>>,
        env: &Arc<Vars>,
    ) -> Result<(), Box<ProviderError>> {
        let Some(setup) = setup else { return Ok(()) };
        let is_auto = self.options.engine == EngineKind::Auto;
        for _ in 0..ATTEMPTS {
            let (line, binary) = self.qwen_line(setup, env)?;
            if let Some(unserved) = self.unserved(&binary, env) {
                return match is_auto {
                    // A call is made without a session.
                    true => Ok(()),
                    false => Err(self.no_sessions(&unserved.why, None)),
                };
            }
            let start = |place: OwnedSemaphorePermit| {
                let place = Some(Permit::taken(place));
                self.qwen_session((&line, &binary), env, place, (setup, None))
            };
            match self.warmed(live, (&line, &binary), (env, Some(setup)), start).await? {
                Warmed::Ready => break,
                Warmed::FlagRefused => {}
                Warmed::Unsupported(reason, _) if is_auto => {
                    capabilities::remember_no_live(&binary, reason);
                    break;
                }
                Warmed::Unsupported(reason, evidence) => return Err(self.no_sessions(&reason, Some(&evidence))),
            }
        }
        Ok(())
    }

    /// Starts the spares there should be after a call, where it is known what the next one will have.
    pub(super) fn restock_qwen(&self, live: &LiveSessions<Session>, env: &Arc<Vars>) {
        let Some(setup) = live.likely_setup() else { return };
        let Ok((line, binary)) = self.qwen_line(&setup, env) else {
            return;
        };
        let start = |place| {
            let place = Some(Permit::taken(place));
            self.qwen_session((&line, &binary), env, place, (&setup, None)).ok()
        };
        live.pool.stock(live.working(), (env, Some(&setup)), start);
    }
}
