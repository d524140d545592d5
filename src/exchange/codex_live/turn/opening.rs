//! Opens the thread of a session: resumes the one that is remembered, or starts a new one.
//!
//! In: the input of the first turn. Out: the items that this turn still has to tell. A thread that can't be resumed, for whatever
//! reason, is started anew, and told its history.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{CodexInput, CodexReplyFacts, CodexSession};
use crate::codex_live::conversation::{CodexThread, Resumed, TakenId};
use crate::codex_live::items::{self, KnownCodexThread};
use crate::codex_live::rollout::{self, Rollout, ThreadParts};
use crate::codex_live::service::CodexService;
use crate::codex_live::settings::refused_setting;
use crate::codex_live::wire::{DynamicTool, ThreadResume, ThreadStart};
use crate::live::turn::{Report, TurnEnd};
use crate::rpc::message::RpcError;
use crate::rpc::{Answering, RequestError};
use dfp_model::event::Event;
use dfp_model::time::iso;
use dfp_process::activity::now_ms;

impl CodexSession {
    /// Opens a thread, without the settings that an older codex does not take.
    async fn open(&mut self, report: &Report) -> Result<(), TurnEnd<CodexReplyFacts>> {
        let (service, setup) = (Arc::clone(&self.service), Arc::clone(&self.setup));
        let silence = self.silence;
        let namespace = setup.namespace();
        let mut settings = service.config.thread_settings(silence, namespace, setup.searches_web);
        for name in service.refused_settings() {
            settings.remove(&name);
        }
        let tools = setup.dynamic_tools();
        loop {
            let start = ThreadStart {
                cwd: &service.folder,
                approval_policy: "never",
                sandbox: "read-only",
                base_instructions: (!setup.own_instructions).then_some(""),
                developer_instructions: &setup.system,
                ephemeral: true,
                environments: [],
                experimental_raw_events: true,
                config: &settings,
                model: setup.model.as_deref(),
                model_provider: service.config.thread_provider(),
                dynamic_tools: &tools,
            };
            let opening = self.opening.insert(CodexOpening {
                answer: service.server.post("thread/start", &start),
                resumed: None,
            });
            let answer = service.server.answer(&mut opening.answer).await;
            if !matches!(answer, Err(RequestError::Unanswered(_))) {
                self.opening = None;
            }
            match answer {
                Ok(answer) => return self.opened(&answer, report).await,
                Err(RequestError::Refused(refused)) => match refused_setting(&refused.message, &settings) {
                    Some(name) => {
                        settings.remove(&name);
                        service.remember_refused(name);
                    }
                    None => return Err(self.not_started(RequestError::Refused(refused), report).await),
                },
                // The process has died since its last turn, or hangs, and got nothing of this one. A process that never was of
                // use would fail again.
                Err(RequestError::Gone | RequestError::Unanswered(_)) if service.host().has_served() => {
                    return Err(TurnEnd::Vanished);
                }
                Err(error) => return Err(self.not_started(error, report).await),
            }
        }
    }

    /// Opens the thread for `input`: the one that knows the history, or else a new one. Returns what a turn in it has to be told first.
    pub(super) async fn open_for(
        &mut self,
        input: CodexInput,
        report: &Report,
    ) -> Result<Vec<Value>, TurnEnd<CodexReplyFacts>> {
        let CodexInput { items, known, .. } = input;
        let Some(known) = known else {
            return self.open(report).await.map(|()| items);
        };
        let known = Arc::new(known);
        let resumed = self.resume(&known).await;
        let known = Arc::unwrap_or_clone(known);
        if let Some((resumed, answer)) = resumed {
            self.opened(&answer, report).await?;
            if let Some(thread) = &mut self.thread {
                thread.told = known.told;
                thread.resumed = Some(resumed);
            }
            return Ok(items);
        }
        self.open(report).await?;
        // A new thread gets its instructions as such.
        let instructions = usize::from(items::instructions(&self.setup).is_some());
        Ok(known.items.into_iter().skip(instructions).chain(items).collect())
    }

    /// Has the server resume `known`; `None` if it can't, for whatever reason.
    async fn resume(&mut self, known: &Arc<KnownCodexThread>) -> Option<(Resumed, Box<RawValue>)> {
        let (service, setup) = (Arc::clone(&self.service), Arc::clone(&self.setup));
        service.resumes().filter(|_| rollout::is_thread_id(&known.id))?;
        let taken = TakenId::take(&service, &known.id).await?;
        let resumed = written(Arc::clone(&service), setup.dynamic_tools(), Arc::clone(known), taken).await?;
        let mut settings = service
            .config
            .thread_settings(self.silence, setup.namespace(), setup.searches_web);
        for name in service.refused_settings() {
            settings.remove(&name);
        }
        let resume = ThreadResume {
            thread_id: &known.id,
            cwd: &service.folder,
            approval_policy: "never",
            sandbox: "read-only",
            base_instructions: (!setup.own_instructions).then_some(""),
            developer_instructions: (),
            exclude_turns: true,
            config: &settings,
            model: setup.model.as_deref(),
            model_provider: service.config.thread_provider(),
        };
        let opening = self.opening.insert(CodexOpening {
            answer: service.server.post("thread/resume", &resume),
            resumed: Some(resumed),
        });
        let answer = service.server.answer(&mut opening.answer).await;
        if matches!(answer, Err(RequestError::Unanswered(_))) {
            self.forget_opening();
            return None;
        }
        let resumed = self.opening.take()?.resumed?;
        let answer = answer.ok()?;
        let opened: CodexOpened = serde_json::from_str(answer.get()).ok()?;
        if opened.thread.id != known.id {
            service.unsubscribe(&opened.thread.id);
            return None;
        }
        Some((resumed, answer))
    }

    async fn opened(&mut self, answer: &RawValue, report: &Report) -> Result<(), TurnEnd<CodexReplyFacts>> {
        let Ok(opened) = serde_json::from_str::<CodexOpened>(answer.get()) else {
            let error = RpcError::of("codex opened a thread without an id");
            return Err(self.not_started(RequestError::Refused(error), report).await);
        };
        let service = Arc::clone(&self.service);
        service.host().count_session();
        report.begun();
        let (id, model) = (opened.thread.id, opened.model);
        if !opened.instruction_sources.is_empty() {
            let sources = opened.instruction_sources.join(", ");
            let message = format!("codex sends instructions of the user's with this thread: {sources}");
            report.push([Event::Warning {
                code: "INSTRUCTIONS_SENT".to_owned(),
                message,
            }]);
        }
        let tracker = self.tracker.clone();
        let thread = CodexThread::new(service, id, model, tracker);
        if thread.inbox.is_second() {
            // The thread is sent nothing: it belongs to another call, and continues as it is.
            let error = RpcError::of("codex opened a thread with the id of one that is open");
            return Err(self.not_started(RequestError::Refused(error), report).await);
        }
        thread.service.server.protocol().opened(&thread.id);
        self.thread = Some(thread);
        Ok(())
    }
}

/// Writes the file of the thread `known`, whose id was `taken`. It may have many megabytes, so it is written on the pool for blocking
/// work; if nobody waits for it any more, it goes as soon as it is whole, and the id behind it.
async fn written(
    service: Arc<CodexService>,
    tools: Vec<DynamicTool>,
    known: Arc<KnownCodexThread>,
    taken: TakenId,
) -> Option<Resumed> {
    let write = move || {
        let parts = ThreadParts {
            id: &known.id,
            items: &known.items,
            tools: &tools,
            cwd: &service.folder,
            version: service.version.as_deref().unwrap_or_default(),
            model_provider: service.config.provider_name(),
            time: &iso(now_ms()),
        };
        let rollout = Rollout::write(service.resumes()?, &parts).ok()?;
        Some(Resumed { rollout, taken })
    };
    tokio::task::spawn_blocking(write).await.ok()?
}

/// A thread that is being opened.
#[derive(Debug)]
pub(super) struct CodexOpening {
    /// The answer that is to come.
    pub answer: Answering,
    /// The file of a thread that is resumed.
    pub resumed: Option<Resumed>,
}

/// The answer to `thread/start`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexOpened {
    pub thread: OpenedThread,
    #[serde(default)]
    model: String,
    #[serde(default)]
    instruction_sources: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct OpenedThread {
    pub id: String,
}
