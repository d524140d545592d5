//! Live calls of codex: the server, a thread of it that knows the beginning or a new one, a turn, and the thread kept for the next call.
//!
//! In: a thread and what it is set up with. Out: the same events and the same verdict as of a print run.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::attempt::{Attempted, Opening, run_attempt};
use super::capabilities::{self, Binary};
use super::cli_attempt::{CliAttempt, CliCall};
use super::clock::{local_offset_min, now_ms};
use super::codex_sessions::{CodexSessions, MOST_RESTING};
use super::engine::{Engine, not_started};
use super::live_request::CodexRequest;
use super::live_sessions::evicted_warning;
use super::retry_loop::AttemptOutcome;
use super::servers::{NoPlace, ServerKey};
use crate::classify::{self, classify};
use crate::command::CommandLine;
use crate::error::{Code, ProviderError};
use crate::event::{EngineUsed, Event, RunInfo};
use crate::exchange::Invocation;
use crate::exchange::codex_live::catalog::Keep;
use crate::exchange::codex_live::conversation::Conversation;
use crate::exchange::codex_live::items;
use crate::exchange::codex_live::native;
use crate::exchange::codex_live::recall::Scope;
use crate::exchange::codex_live::service::{Plan, Service, vendors_catalog};
use crate::exchange::codex_live::setup::Setup;
use crate::exchange::codex_live::turn::{self, Park};
use crate::exchange::codex_live::work;
use crate::exchange::host::NoHost;
use crate::exchange::live::keep::Keepable;
use crate::exchange::live::pool::{Claimed, SessionKey};
use crate::exchange::live::thread::{Continuation, Known, Thread};
use crate::exchange::live::turn::{Kept, Unusable};
use crate::exchange::print::{NotStarted, Surroundings};
use crate::fold::Fold;
use crate::message::reasoning::Origin;
use crate::message::{Content, Message, Role};
use crate::process::{End, Exit, Limits, StartError, Tees, Vars};
use crate::provider::options::{EngineKind, SystemPrompt};
use crate::toolcall::TextCalls;

/// How long the question for the model catalog may take, and how much it may print: 745 KB (0.169.0).
const CATALOG_LIMITS: (Duration, usize) = (Duration::from_secs(20), 32 * 1024 * 1024);

/// Where a call's turn is to be.
struct Place {
    opening: work::Opening,
    service: Arc<Service>,
    continued: bool,
    notes: Vec<Event>,
}

impl CliAttempt<'_> {
    /// A turn of a thread of codex's.
    pub async fn codex_live(
        &self,
        live: &CodexSessions,
        request: &CodexRequest,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall { engine, base_env, .. } = *self.call;
        let (line, binary) = engine.codex_line(base_env)?;
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
                .place_for(live, request, (&key, resting_ones), (&line, &binary))
                .await
            {
                Ok(place) => place,
                Err(NoPlace::Cancelled) => return Ok(AttemptOutcome::Cancelled),
                Err(NoPlace::Failed(error)) => return Err(error),
                Err(NoPlace::Unsupported(reason, exit)) => break (reason, exit),
            };
            match self.codex_turn(live, request, &key, (place, &line), info).await? {
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

    async fn codex_turn(
        &self,
        live: &CodexSessions,
        request: &CodexRequest,
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
            service,
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
                false => {
                    let login = engine.login().map(str::to_owned);
                    park(live, request, key, (login, model_of(&service, &request.setup)))
                }
            },
        );
        run_attempt(
            self.attempt(EngineUsed::Live, &prompt, fold, opening_record),
            turn,
            info,
        )
        .await
    }

    /// The thread that knows the beginning, or a server for a new one.
    async fn place_for(
        &self,
        live: &CodexSessions,
        request: &CodexRequest,
        (key, resting_ones): (&SessionKey<Setup>, bool),
        (line, binary): (&CommandLine, &Binary),
    ) -> Result<Place, NoPlace> {
        let engine = self.call.engine;
        let thread = &request.thread;
        let goes_on = |known: &Known| new_to(thread, known).is_some();
        if resting_ones
            && let Claimed::Continued(conversation, known) = live.pool.claim(key, thread, goes_on).await
            && let Some(new) = new_to(thread, &known)
        {
            return Ok(continued(conversation, &new, request.note.as_deref()));
        }
        let model = request.setup.model.as_deref();
        let starting = engine.codex_service(live, (line, binary), self.call.base_env, model);
        let service = self.host(EngineUsed::Live, starting).await?;
        let model = model_of(&service, &request.setup);
        let scope = Scope {
            key,
            login: engine.login(),
            model: &model,
        };
        let recalled = live.recall().look_up(&scope, thread.messages());
        let origin = Origin {
            provider: engine.id().to_owned(),
            login: engine.login().map(str::to_owned),
            model,
        };
        let mut items = items::of_history(thread.messages(), &request.setup, &recalled, &origin);
        items.extend(request.note.as_deref().and_then(of_note));
        let evicted = live.pool.eviction(key, thread);
        let places = || format!("at most {MOST_RESTING} conversations rest");
        Ok(Place {
            opening: work::Opening::Fresh {
                service: Arc::clone(&service),
                items,
            },
            service,
            continued: false,
            notes: evicted
                .map(|why| evicted_warning(why, &engine.options, &places()))
                .into_iter()
                .collect(),
        })
    }
}

/// What is new to a thread that knows `known`, if it can be sent to it: results, and what is not the model's.
fn new_to<'a>(thread: &'a Thread, known: &'a Known) -> Option<Continuation<'a>> {
    let new = thread.continuation(known)?;
    let can_be_sent = |message: &Message| !matches!(message.role, Role::Ai | Role::Tool);
    let says_something = !new.results.is_empty() || new.rest.iter().any(|message| items::of_message(message).is_some());
    (says_something && new.rest.iter().all(can_be_sent)).then_some(new)
}

/// What is said behind a thread, and is no part of it.
fn of_note(note: &str) -> Option<Value> {
    items::of_message(&Message::new(Role::System, note))
}

fn continued(conversation: Box<Conversation>, new: &Continuation, note: Option<&str>) -> Place {
    let new_items = new.rest.iter().filter_map(items::of_message);
    let results = new.results.iter();
    Place {
        service: Arc::clone(&conversation.service),
        opening: work::Opening::Continued {
            conversation,
            results: results
                .map(|(call, result)| (call.api.clone(), items::answer(result)))
                .collect(),
            items: new_items.chain(note.and_then(of_note)).collect(),
        },
        continued: true,
        notes: Vec::new(),
    }
}

/// The model that answers, as far as it is known before it has.
fn model_of(service: &Service, setup: &Setup) -> String {
    let model = setup.model.as_ref().or(service.config.model.as_ref());
    model.cloned().unwrap_or_default()
}

/// The thread does not go on: the server drops it, and a call that waits is interrupted.
fn forget() -> Park {
    Box::new(|kept, _, _| {
        if let Some(Kept { conversation, .. }) = kept {
            conversation.end();
        }
    })
}

/// What becomes of the thread when its turn has a reply.
fn park(
    live: &CodexSessions,
    request: &CodexRequest,
    key: &SessionKey<Setup>,
    (login, model): (Option<String>, String),
) -> Park {
    let (pool, recall) = (Arc::clone(&live.pool), live.shared_recall());
    let (thread, key) = (Arc::clone(&request.callers), key.clone());
    Box::new(move |kept, reply, recalled| {
        let answer = Message {
            role: Role::Ai,
            content: Content::Text(reply.content.clone()),
            tool_calls: reply.tool_calls.clone(),
            tool_call_id: String::new(),
            is_error: false,
            reasoning: None,
        };
        let whole: Vec<&Message> = thread.messages().iter().chain([&answer]).collect();
        let scope = Scope {
            key: &key,
            login: login.as_deref(),
            model: &model,
        };
        recall
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keep(&scope, &whole, &recalled);
        if let Some(Kept { conversation, pending }) = kept {
            let known = thread.known_with(reply, pending);
            pool.park(conversation, key, known, 0);
        }
    })
}

impl Engine {
    /// The command line of a server, and the file that a user knows as codex.
    fn codex_line(&self, env: &Arc<Vars>) -> Result<(CommandLine, Binary), Box<ProviderError>> {
        let (line, binary) = self.live_line(None, env)?;
        Ok((native::direct(line, binary.file()), binary))
    }

    /// Starts the server, if none runs, and waits until it has answered.
    pub(super) async fn prewarm_codex(&self, live: &CodexSessions, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        let (line, binary) = self.codex_line(env)?;
        let auto = self.options.engine == EngineKind::Auto;
        if auto && self.unserved(&binary, env).is_some() {
            return Ok(());
        }
        let model = self.options.choices.model.as_deref();
        match self.codex_service(live, (&line, &binary), env, model).await {
            Ok(_) | Err(NoPlace::Cancelled) => Ok(()),
            Err(NoPlace::Failed(error)) => Err(error),
            // A call will be asked in print form.
            Err(NoPlace::Unsupported(..)) if auto => Ok(()),
            Err(NoPlace::Unsupported(reason, _)) => {
                let reason = format!("the installed CLI takes no live sessions: {reason}");
                Err(self.refuse(Code::LiveUnsupported, reason))
            }
        }
    }

    /// The server of this environment for threads of `model`: one that runs, or a new one.
    async fn codex_service(
        &self,
        live: &CodexSessions,
        (line, binary): (&CommandLine, &Binary),
        env: &Arc<Vars>,
        model: Option<&str>,
    ) -> Result<Arc<Service>, NoPlace> {
        let key = ServerKey::new(env, binary);
        let mut servers = live.servers.lock().await;
        servers.retire_grown();
        if let Some(known) = servers.find(|known| known.key == key && known.service.serves(model)) {
            return Ok(Arc::clone(&known.service));
        }
        // With the models of those that run, this one serves all that they do.
        let own = self.options.choices.model.as_deref();
        let others: Vec<Arc<Service>> = servers.of(&key).map(Arc::clone).collect();
        let known = others.iter().flat_map(|service| service.models());
        let models: Vec<&str> = own.into_iter().chain(model).chain(known).collect();
        let vendor = self.vendors_models(live, (line, binary), env).await;
        let plan = Plan {
            line,
            vendor: &vendor,
            models,
            asks_config: own.is_none(),
            keep: Keep {
                instructions: self.options.system_prompt == SystemPrompt::Cli,
                tool_mode: self.options.tool_namespace,
            },
            with_config: !self.options.ignore_user_config,
        };
        let service = Service::start(
            &plan,
            || self.server_surroundings((line, binary), env, None),
            &self.lifecycle.closing,
        )
        .await
        .map_err(|error| self.no_place(error))?;
        if self.options.engine == EngineKind::Auto {
            let version = self.take_version(binary, service.version.as_deref());
            version.map_err(|reason| NoPlace::Unsupported(reason, None))?;
        }
        // Each takes 130 MB.
        let most = self.options.max_concurrency;
        let kept = (&live.servers, self.options.keep_alive, &self.lifecycle);
        Ok(servers.add((key, service), most, kept))
    }

    /// The vendor's model catalog, asked for once.
    async fn vendors_models(
        &self,
        live: &CodexSessions,
        (line, binary): (&CommandLine, &Binary),
        env: &Arc<Vars>,
    ) -> Arc<Value> {
        let mut known = live.vendor.lock().await;
        if let Some((_, vendor)) = known.as_ref().filter(|(of, _)| of == binary) {
            return Arc::clone(vendor);
        }
        let surroundings = self.server_surroundings((line, binary), env, Some(CATALOG_LIMITS));
        let vendor = Arc::new(vendors_catalog(line, surroundings, &self.lifecycle.closing).await);
        if !vendor.is_null() {
            *known = Some((binary.clone(), Arc::clone(&vendor)));
        }
        vendor
    }

    fn server_surroundings(
        &self,
        (line, binary): (&CommandLine, &Binary),
        env: &Arc<Vars>,
        limits: Option<(Duration, usize)>,
    ) -> Surroundings {
        Surroundings {
            // The program behind npm's script is another file, which needs no search.
            file: (!Path::new(&line.program).is_absolute()).then(|| binary.resolved().clone()),
            base_env: Arc::clone(env),
            limits: Limits {
                timeout: limits.map(|(timeout, _)| timeout),
                kill_grace: self.options.kill_grace,
                max_stdout: limits.map_or(usize::MAX, |(_, bytes)| bytes),
                ..Limits::default()
            },
            owner: self.owner,
            permit: None,
            tracker: self.lifecycle.runs.clone(),
            tees: Tees::default(),
        }
    }

    /// Why there is no server.
    fn no_place(&self, error: NoHost) -> NoPlace {
        match error {
            NoHost::NotStarted(NotStarted::Process(StartError::Cancelled)) => NoPlace::Cancelled,
            NoHost::NotStarted(error) => NoPlace::Failed(not_started(self, &error)),
            NoHost::Unsupported(reason) => NoPlace::Unsupported(reason, None),
            NoHost::Ended(None) => NoPlace::Unsupported("it ended before it was ready".to_owned(), None),
            NoHost::Ended(Some(exit)) if matches!(exit.end, End::Cancelled | End::Closed) => NoPlace::Cancelled,
            NoHost::Ended(Some(exit)) => self.ended_early(exit),
        }
    }

    /// A server that has ended before it was ready: its configuration is wrong, or it knows no servers.
    fn ended_early(&self, exit: Arc<Exit>) -> NoPlace {
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
                let reason = match classify::unsupported_flag(self.id(), &exit.stderr) {
                    Some(flag) => format!("it does not know {flag}"),
                    None => format!("it ended instead of answering the handshake: {}", found.reason),
                };
                NoPlace::Unsupported(reason, Some(exit))
            }
            _ => NoPlace::Failed(Box::new(found.into_error(self.id()))),
        }
    }
}
