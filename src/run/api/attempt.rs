//! One request for one call: queue, send, decode, fold, judge.

use std::collections::HashSet;
use std::future::pending;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant as Clock, sleep_until};
use tokio_util::sync::CancellationToken;

use super::ApiEngine;
use crate::api::answer::{Answer, Body};
use crate::api::settings;
use crate::api::verdict::{Ending, Facts, judge};
use crate::conversation::api::Client;
use crate::declare::Tools;
use crate::error::ProviderError;
use crate::event::{Event, Reply, RunInfo};
use crate::fold::Fold;
use crate::message::Usage;
use crate::process::limit::{self, Lent, Rules};
use crate::redact::{Redactor, Secret};
use crate::retry::Policy;
use crate::run::again::{Call, Tried};
use crate::run::log::Level;
use crate::run::sink::Sink;
use crate::run::{local_offset_min, millis as ms, now_ms};
use crate::toolcall::TextCalls;

/// How long the end of a body may take that has said all.
const DRAIN: Duration = Duration::from_secs(1);

/// One call of an API.
pub(super) struct ApiCall<'a> {
    pub engine: &'a ApiEngine,
    pub client: &'a Client,
    pub key: Option<&'a Secret>,
    /// Knows the request's own secrets.
    pub redactor: Redactor,
    pub body: Bytes,
    pub tools: Tools,
    pub call_ids: HashSet<String>,
    /// ms, instead of the provider's.
    pub timeout: Option<u64>,
    /// A place beside the queue.
    pub lent: Option<Lent>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl Call for ApiCall<'_> {
    fn retry(&self) -> &Policy {
        &self.engine.settings.retry
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.engine.closed()
    }

    async fn attempt(&self, number: u32, began: &OnceLock<Instant>) -> Tried {
        let rules = Rules {
            concurrency: self.engine.settings.max_concurrency,
            ..Rules::default()
        };
        let place = self.engine.settings.place();
        let permit = limit::global().acquire_or(self.lent.as_ref(), &place, rules, self.cancel);
        let Ok(permit) = permit.await else {
            self.log(Level::Info, "cancelled in the queue", json!({"attempt": number}));
            return Tried::Cancelled;
        };
        began.get_or_init(Instant::now);
        let mut request = Attempt::new(self, number, ms(permit.queued()));
        request.announce().await;
        let ending = request.exchange().await;
        drop(permit);
        let Some(ending) = ending else {
            request.ended("cancelled", Level::Info);
            return Tried::Cancelled;
        };
        match request.settle(ending).await {
            Ok(reply) => Tried::Replied(reply),
            Err(error) => Tried::Failed(error),
        }
    }
}

impl ApiCall<'_> {
    fn log(&self, level: Level, message: &'static str, fields: serde_json::Value) {
        self.sink.log.say(level, message, fields);
    }
}

/// A request under way.
struct Attempt<'a> {
    call: &'a ApiCall<'a>,
    number: u32,
    began: Clock,
    timeout: Option<Duration>,
    /// When something was last heard.
    heard: Clock,
    answer: Answer,
    fold: Fold,
    events: Vec<Event>,
    info: RunInfo,
    bytes: usize,
    status: Option<u16>,
    request_id: Option<String>,
}

/// Why waiting was given up.
enum Stop {
    Cancelled,
    Late(Ending),
}

impl<'a> Attempt<'a> {
    fn new(call: &'a ApiCall<'a>, number: u32, queued_ms: u64) -> Self {
        let limit = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
        let now = Clock::now();
        Attempt {
            call,
            number,
            began: now,
            timeout: call.timeout.map_or(call.engine.settings.timeout, limit),
            heard: now,
            answer: Answer::new(call.tools.clone(), call.redactor.clone()),
            fold: Fold::new(call.call_ids.clone(), TextCalls::Off),
            events: Vec::new(),
            info: RunInfo {
                id: call.sink.log.run_id().to_owned(),
                queued_ms: Some(queued_ms),
                ..RunInfo::default()
            },
            bytes: 0,
            status: None,
            request_id: None,
        }
    }

    async fn announce(&mut self) {
        let fields =
            json!({"attempt": self.number, "stream": self.call.engine.settings.stream, "bytes": self.call.body.len()});
        self.call.log(Level::Info, "started", fields);
        self.events.push(Event::Start {
            run_id: self.info.id.clone(),
            provider: self.call.engine.id().to_owned(),
            pid: None,
            attempt: self.number,
            queued_ms: self.info.queued_ms.unwrap_or_default(),
        });
        self.call.sink.send(&mut self.events).await;
    }

    /// Sends the request and hands on what comes back. `None`: it was cancelled.
    async fn exchange(&mut self) -> Option<Ending> {
        match self.go().await {
            Ok(ending) | Err(Stop::Late(ending)) => Some(ending),
            Err(Stop::Cancelled) => None,
        }
    }

    async fn go(&mut self) -> Result<Ending, Stop> {
        (self.began, self.heard) = (Clock::now(), Clock::now());
        self.call.sink.log.ends_at(self.timeout.map(|limit| self.began + limit));
        let call = self.call;
        let settings = &call.engine.settings;
        let mut exchange = match self
            .within(call.client.chat(settings, call.key, call.body.clone()))
            .await?
        {
            Ok(exchange) => exchange,
            Err(ending) => {
                if let Ending::Refused { status, .. } = &ending {
                    self.status = Some(*status);
                }
                return Ok(ending);
            }
        };
        self.status = Some(exchange.status());
        let id = exchange.request_id();
        self.request_id = id.map(|id| call.redactor.redact_values(id).into_owned());
        self.heard = Clock::now();
        let mut decoded = Vec::new();
        while !self.answer.over() {
            let piece = match self.within(exchange.next()).await? {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(why) => {
                    // What was whole before the connection broke is whole.
                    let whole = self.finish(false).await == Body::Complete;
                    return Ok(if whole {
                        Ending::Answered(Body::Complete)
                    } else {
                        Ending::Lost(why)
                    });
                }
            };
            if self.info.first_byte_ms.is_none() && !piece.is_empty() {
                let first = self.elapsed();
                self.info.first_byte_ms = Some(first);
                call.log(Level::Debug, "first byte", json!({"firstByteMs": first}));
            }
            self.bytes += piece.len();
            if self.bytes > settings.max_buffer {
                return Ok(Ending::TooMuch(settings.max_buffer));
            }
            self.answer.push(&piece, &mut decoded);
            self.hand_on(&mut decoded).await;
            // A slow consumer is no silence of the server's.
            self.heard = Clock::now();
        }
        if self.answer.over() {
            let closing = call.engine.token();
            call.engine.runs.spawn(async move {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = exchange.drain(DRAIN) => {}
                }
            });
        }
        Ok(Ending::Answered(self.finish(true).await))
    }

    async fn finish(&mut self, whole: bool) -> Body {
        let mut decoded = Vec::new();
        let body = self.answer.finish(whole, &mut decoded);
        self.hand_on(&mut decoded).await;
        body
    }

    async fn hand_on(&mut self, decoded: &mut Vec<Event>) {
        if !decoded.is_empty() {
            let elapsed = self.elapsed();
            self.info.first_event_ms.get_or_insert(elapsed);
        }
        for event in decoded.drain(..) {
            self.fold.push(event, &mut self.events);
        }
        self.call.sink.send(&mut self.events).await;
    }

    /// What `future` comes to, unless time is up or the call was cancelled. Dropping it closes the connection.
    async fn within<F: Future>(&self, future: F) -> Result<F::Output, Stop> {
        let idle = self.call.engine.settings.idle_timeout;
        tokio::select! {
            biased;
            () = self.call.cancel.cancelled() => Err(Stop::Cancelled),
            () = at(self.began, self.timeout) => Err(Stop::Late(Ending::TimedOut(self.timeout.unwrap_or_default()))),
            () = at(self.heard, idle) => Err(Stop::Late(Ending::Idle(idle.unwrap_or_default()))),
            output = future => Ok(output),
        }
    }

    fn elapsed(&self) -> u64 {
        ms(self.began.elapsed())
    }

    /// The reply, or why there is none.
    async fn settle(mut self, ending: Ending) -> Result<Box<Reply>, Box<ProviderError>> {
        self.info.exit_ms = Some(self.elapsed());
        let (why, level) = match &ending {
            Ending::Answered(_) => ("answered", Level::Info),
            Ending::Refused { .. } => ("refused", Level::Warn),
            Ending::Unreachable(_) => ("unreachable", Level::Warn),
            Ending::Lost(_) => ("lost", Level::Warn),
            Ending::TimedOut(_) => ("timeout", Level::Warn),
            Ending::Idle(_) => ("idleTimeout", Level::Warn),
            Ending::TooMuch(_) => ("maxBuffer", Level::Warn),
        };
        self.ended(why, level);
        let Attempt {
            call,
            number,
            answer,
            fold,
            mut events,
            info,
            status,
            ..
        } = self;
        let mut folded = fold.finish(&mut events);
        let told = folded.usage_told;
        let measured = folded.usage.clone();
        let body = String::from_utf8_lossy(&call.body);
        folded.reply.usage = measured.unwrap_or_else(|| Usage::estimate(&body, &folded.text()));
        let settings = &call.engine.settings;
        let facts = Facts {
            id: call.engine.id(),
            origin: &settings::origin(&settings.chat),
            ending: &ending,
            redactor: &call.redactor,
            diagnostics: answer.diagnostics(),
            now_ms: now_ms(),
            local_offset_min: local_offset_min(),
        };
        let verdict = match judge(&facts, folded) {
            Ok(mut reply) => {
                reply.run = Some(info);
                if !told {
                    events.push(Event::Usage {
                        usage: reply.usage.clone(),
                        raw_stop_reason: reply.stop_reason.clone(),
                    });
                }
                let reply = Box::new(reply);
                events.push(Event::Done { reply: reply.clone() });
                Ok(reply)
            }
            Err(mut error) => {
                error.http_status = error.http_status.or(status.filter(|status| *status >= 300));
                let fields = json!({"attempt": number, "code": error.code, "category": error.category,
                                    "httpStatus": error.http_status});
                call.log(Level::Error, "failed", fields);
                error.run = Some(Box::new(info));
                Err(error)
            }
        };
        call.sink.send(&mut events).await;
        verdict
    }

    /// Notes how the request ended.
    fn ended(&self, why: &'static str, level: Level) {
        let info = &self.info;
        let fields = json!({
            "why": why, "httpStatus": self.status, "requestId": self.request_id, "queuedMs": info.queued_ms,
            "firstByteMs": info.first_byte_ms, "firstEventMs": info.first_event_ms, "exitMs": info.exit_ms,
            "bytes": self.bytes,
        });
        self.call.log(level, "ended", fields);
    }
}

async fn at(from: Clock, limit: Option<Duration>) {
    match limit {
        Some(limit) => sleep_until(from + limit).await,
        None => pending().await,
    }
}
