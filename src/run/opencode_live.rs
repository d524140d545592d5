//! Live calls of opencode: the server, a session of it that knows the beginning or a new one, a turn, and the session kept for the next
//! call.
//!
//! In: a thread and what it is set up with. Out: the same events and the same verdict as of a print run.

use std::sync::Arc;

use serde_json::json;

use super::attempt::{Attempted, Opening, run_attempt};
use super::capabilities::{self, Binary};
use super::cli_attempt::{CliAttempt, CliCall};
use super::clock::{local_offset_min, now_ms};
use super::engine::{Engine, not_started};
use super::live_request::OpencodeRequest;
use super::live_sessions::evicted_warning;
use super::opencode_sessions::{MOST_RESTING, OpencodeSessions};
use super::retry_loop::AttemptOutcome;
use super::servers::{NoPlace, ServerKey};
use crate::classify::{self, classify};
use crate::command::CommandLine;
use crate::declare::mcp::Declarations;
use crate::error::{Code, ProviderError};
use crate::event::{EngineUsed, Event, RunInfo};
use crate::exchange::Invocation;
use crate::exchange::host::NoHost;
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::pool::{Claimed, SessionKey};
use crate::exchange::live::thread::{Continuation, Known, Thread};
use crate::exchange::live::turn::{Kept, Unusable};
use crate::exchange::opencode_live::history;
use crate::exchange::opencode_live::service::Service;
use crate::exchange::opencode_live::session::Session;
use crate::exchange::opencode_live::setup::Setup;
use crate::exchange::opencode_live::turn::{self, Park};
use crate::exchange::opencode_live::work::{self, with_note};
use crate::exchange::print::{NotStarted, Surroundings};
use crate::fold::Fold;
use crate::message::content::{self, Accepts};
use crate::message::{Message, Role};
use crate::process::{End, Limits, StartError, Tees, Vars};
use crate::provider::options::EngineKind;
use crate::toolcall::TextCalls;

/// Where a call's turn is to be.
struct Place {
    opening: work::Opening,
    continued: bool,
    notes: Vec<Event>,
}

impl CliAttempt<'_> {
    /// A turn of a session of opencode's.
    pub async fn opencode_live(
        &self,
        live: &OpencodeSessions,
        request: &OpencodeRequest,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall { engine, base_env, .. } = *self.call;
        let (line, binary) = engine.live_line(request.choices.as_ref(), base_env)?;
        let auto = engine.options.engine == EngineKind::Auto;
        if auto && let Some(unserved) = engine.unserved(&binary, base_env) {
            return self.unserved(&unserved, info).await;
        }
        let Some(permit) = self.permit(binary.file(), info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        info.engine = Some(EngineUsed::Live);
        self.start_clock();
        let key = SessionKey {
            setup: Arc::clone(&request.setup),
            env: Arc::clone(base_env),
        };
        let mut resting_ones = true;
        let (reason, exit) = loop {
            let place = match self
                .opencode_place(live, request, (&key, resting_ones), (&line, &binary))
                .await
            {
                Ok(place) => place,
                Err(NoPlace::Cancelled) => return Ok(AttemptOutcome::Cancelled),
                Err(NoPlace::Failed(error)) => return Err(error),
                Err(NoPlace::Unsupported(reason, exit)) => break (reason, exit),
            };
            if let Some(refused) = self.unseen(&place, request).await {
                if let work::Opening::Continued { session, .. } = place.opening {
                    session.end();
                }
                return Err(refused);
            }
            match self.opencode_turn(live, request, &key, (place, &line), info).await? {
                Attempted::Outcome(outcome) => return Ok(outcome),
                Attempted::Unusable(Unusable::Vanished, _) => resting_ones = false,
            }
        };
        drop(permit);
        if !auto {
            let reason = format!("the installed CLI takes no live sessions: {reason}");
            let mut error = engine.refuse(Code::LiveUnsupported, reason);
            if let Some(exit) = exit {
                error.exit_code = exit.code;
                error.stderr_tail = Some(exit.stderr.clone()).filter(|text| !text.trim().is_empty());
            }
            return Err(error);
        }
        capabilities::remember_no_live(&binary, reason.clone());
        self.fall_back(&reason, info).await
    }

    /// Why the thread's images can't be sent: the model of `place` takes none, as far as opencode knows.
    async fn unseen(&self, place: &Place, request: &OpencodeRequest) -> Option<Box<ProviderError>> {
        // Only who sends one waits for the answer.
        let refused = content::check(request.thread.messages(), &Accepts::TEXT).err()?;
        let asked = async {
            match &place.opening {
                work::Opening::Fresh { service, .. } => {
                    let set = service.tool_set(&request.setup.tools).await.ok()?;
                    let model = service.model(request.setup.model.as_ref(), &set.directory).await?;
                    let takes = service.takes_images(&model, &set.directory).await.ok()?;
                    Some((model, takes))
                }
                work::Opening::Continued { session, .. } => {
                    let model = session.model.clone()?;
                    let takes = session
                        .service
                        .takes_images(&model, &session.set.directory)
                        .await
                        .ok()?;
                    Some((model, takes))
                }
            }
        };
        // What can't be asked, the turn itself will say.
        match self.call.cancel.run_until_cancelled(asked).await.flatten() {
            Some((model, false)) => {
                let who = format!("opencode's model {model} (by its `modalities.input`)");
                Some(self.call.engine.refuse_content(&refused, &who, &Accepts::TEXT))
            }
            _ => None,
        }
    }

    async fn opencode_turn(
        &self,
        live: &OpencodeSessions,
        request: &OpencodeRequest,
        key: &SessionKey<Setup>,
        (place, line): (Place, &CommandLine),
        info: &mut RunInfo,
    ) -> Result<Attempted<Unusable>, Box<ProviderError>> {
        let CliCall {
            engine,
            request: call,
            sink,
            ..
        } = *self.call;
        let Place {
            opening,
            continued,
            mut notes,
        } = place;
        notes.extend(self.untold_note());
        info.continued = Some(continued);
        let opening_record = Opening {
            message: if continued { "continued" } else { "started" },
            fields: json!({"attempt": self.number, "spare": false, "flags": line.flags}),
            notes: call.notes(self.number).into_iter().chain(notes).collect(),
        };
        let fold = Fold::new(call.call_ids.clone(), TextCalls::Off).with_listener(sink.has_listener());
        let prompt: String = request
            .thread
            .messages()
            .iter()
            .map(|message| message.content.as_text())
            .collect();
        let turn = turn::begin(
            Arc::clone(&request.setup),
            opening,
            (Invocation::of(engine.id(), line), self.limits(EngineUsed::Live)),
            &engine.lifecycle.runs,
            match call.options.once {
                true => forget(),
                false => park(live, request, key),
            },
        );
        run_attempt(
            self.attempt(EngineUsed::Live, &prompt, fold, opening_record),
            turn,
            info,
        )
        .await
    }

    /// The session that knows the beginning, or a server for a new one.
    async fn opencode_place(
        &self,
        live: &OpencodeSessions,
        request: &OpencodeRequest,
        (key, resting_ones): (&SessionKey<Setup>, bool),
        (line, binary): (&CommandLine, &Binary),
    ) -> Result<Place, NoPlace> {
        let engine = self.call.engine;
        let thread = &request.thread;
        let goes_on = |known: &Known| new_to(thread, known).is_some();
        if resting_ones
            && let Claimed::Continued(session, known) = live.pool.claim(key, thread, goes_on).await
            && let Some(new) = new_to(thread, &known)
        {
            return Ok(continued(session, &new, request.note.clone()));
        }
        let starting = engine.opencode_service(live, (line, binary), self.call.base_env);
        let service = self.host(EngineUsed::Live, starting).await?;
        let evicted = live.pool.eviction(key, thread);
        let places = format!("at most {MOST_RESTING} conversations rest");
        Ok(Place {
            opening: work::Opening::Fresh {
                service,
                thread: Arc::clone(thread),
                note: request.note.clone(),
            },
            continued: false,
            notes: evicted
                .map(|why| evicted_warning(why, &engine.options, &places))
                .into_iter()
                .collect(),
        })
    }
}

/// What is new to a session that knows `known`, if it can be sent to it: results, and what is not the model's.
fn new_to<'a>(thread: &'a Thread, known: &'a Known) -> Option<Continuation<'a>> {
    let new = thread.continuation(known)?;
    let can_be_sent = |message: &Message| !matches!(message.role, Role::Ai | Role::Tool);
    let says_something =
        !new.results.is_empty() || new.rest.iter().any(|message| !history::user_parts(message).is_empty());
    (says_something && new.rest.iter().all(can_be_sent)).then_some(new)
}

fn continued(session: Box<Session>, new: &Continuation, note: Option<String>) -> Place {
    let results = new.results.iter();
    let messages = new.rest.iter().map(history::user_parts);
    Place {
        opening: work::Opening::Continued {
            session,
            results: results
                .map(|(call, result)| (call.api.clone(), history::result(result)))
                .collect(),
            messages: with_note(messages.filter(|parts| !parts.is_empty()).collect(), note),
        },
        continued: true,
        notes: Vec::new(),
    }
}

/// The thread does not go on: the server forgets its session.
fn forget() -> Park {
    Box::new(|kept, _, ()| {
        if let Some(Kept { conversation, .. }) = kept {
            conversation.end();
        }
    })
}

/// What becomes of the session when its turn has a reply.
fn park(live: &OpencodeSessions, request: &OpencodeRequest, key: &SessionKey<Setup>) -> Park {
    let (pool, thread, key) = (Arc::clone(&live.pool), Arc::clone(&request.callers), key.clone());
    Box::new(move |kept, reply, ()| {
        if let Some(Kept { conversation, pending }) = kept {
            let known = thread.known_with(reply, pending);
            pool.park(conversation, key, known, 0);
        }
    })
}

impl Engine {
    /// Starts the server, if none runs, and waits until it has loaded what a turn with `tools` needs.
    pub(super) async fn prewarm_opencode(
        &self,
        live: &OpencodeSessions,
        tools: &Declarations,
        env: &Arc<Vars>,
    ) -> Result<(), Box<ProviderError>> {
        let (line, binary) = self.live_line(None, env)?;
        let auto = self.options.engine == EngineKind::Auto;
        if auto && self.unserved(&binary, env).is_some() {
            return Ok(());
        }
        let service = match self.opencode_service(live, (&line, &binary), env).await {
            Ok(service) => service,
            Err(NoPlace::Cancelled) => return Ok(()),
            Err(NoPlace::Failed(error)) => return Err(error),
            // A call will be asked in print form.
            Err(NoPlace::Unsupported(..)) if auto => return Ok(()),
            Err(NoPlace::Unsupported(reason, _)) => {
                let reason = format!("the installed CLI takes no live sessions: {reason}");
                return Err(self.refuse(Code::LiveUnsupported, reason));
            }
        };
        let warmed = async {
            let set = service.tool_set(tools).await?;
            service.warm(&set.directory).await
        };
        // What it could not load, the call itself will say.
        let _ = self.lifecycle.closing.run_until_cancelled(warmed).await;
        Ok(())
    }

    /// The server of this environment and this command line: one that runs, or a new one.
    async fn opencode_service(
        &self,
        live: &OpencodeSessions,
        (line, binary): (&CommandLine, &Binary),
        env: &Arc<Vars>,
    ) -> Result<Arc<Service>, NoPlace> {
        let key = ServerKey::new(env, binary);
        let mut servers = live.servers.lock().await;
        servers.retire_grown();
        if let Some(known) = servers.find(|known| known.key == key && known.service.line == *line) {
            return Ok(Arc::clone(&known.service));
        }
        let surroundings = Surroundings {
            file: Some(binary.resolved().clone()),
            base_env: Arc::clone(env),
            limits: Limits {
                kill_grace: self.options.kill_grace,
                max_stdout: usize::MAX,
                ..Limits::default()
            },
            owner: self.owner,
            permit: None,
            tracker: self.lifecycle.runs.clone(),
            tees: Tees::default(),
        };
        let service = Service::start(line.clone(), surroundings, &self.lifecycle.closing).await;
        let service = service.map_err(|error| self.no_opencode(error))?;
        if self.options.engine == EngineKind::Auto {
            let why = format!("it is opencode {}, which does what is needed", service.version);
            capabilities::settle_live(binary, why);
        }
        // Each takes 400 MB and more.
        let most = self.options.max_concurrency;
        let kept = (&live.servers, self.options.keep_alive, &self.lifecycle);
        Ok(servers.add((key, service), most, kept))
    }

    /// Why there is no server.
    fn no_opencode(&self, error: NoHost) -> NoPlace {
        let exit = match error {
            NoHost::NotStarted(NotStarted::Process(StartError::Cancelled)) => return NoPlace::Cancelled,
            NoHost::NotStarted(error) => return NoPlace::Failed(not_started(self, &error)),
            NoHost::Unsupported(reason) => return NoPlace::Unsupported(reason, None),
            NoHost::Ended(None) => return NoPlace::Unsupported("it ended before it was ready".to_owned(), None),
            NoHost::Ended(Some(exit)) if matches!(exit.end, End::Cancelled | End::Closed) => {
                return NoPlace::Cancelled;
            }
            NoHost::Ended(Some(exit)) => exit,
        };
        if let Some(error) = self.crash(&exit) {
            return NoPlace::Failed(error);
        }
        let found = classify(&classify::Evidence {
            provider: self.id(),
            exit_code: exit.code,
            signal: exit.signal.as_deref(),
            stderr_text: Some(&exit.stderr),
            local_offset_min: local_offset_min(),
            now_ms: now_ms(),
            ..classify::Evidence::default()
        });
        match found.code {
            Code::Unknown | Code::Crashed | Code::UnsupportedFlag | Code::InvalidOption => {
                let reason = format!("it ended instead of listening: {}", found.reason);
                NoPlace::Unsupported(reason, Some(exit))
            }
            _ => NoPlace::Failed(Box::new(found.into_error(self.id()))),
        }
    }
}
