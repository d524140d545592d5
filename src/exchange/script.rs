//! An exchange with a function of the caller's: a test's script answers in the place of a server.
//!
//! In: a request as JSON, and the [`Script`] that it goes to. Out: the events that the script tells, as they come, and its end or
//! its error. Nothing here knows JavaScript: the script is a function that takes messages, and whoever made it calls
//! [`Script::tell`].

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Ended, Evidence, Exchange, StopReason, Unusable};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Event;
use dfp_process::limit::Permit;
use dfp_provider::api::answer::Body;
use dfp_provider::judge::{HttpEnd, HttpEvidence};
use dfp_text::redact::Redactor;

mod event;

use event::ScriptEvent;

/// Takes a message for the script as JSON: `{"number", "request"}` asks, `{"number", "left": true}` says that nobody waits for the
/// answer any more. Returns at once.
pub type Listener = Arc<dyn Fn(String) + Send + Sync>;

/// A script, and the requests that it has not answered yet.
pub struct Script {
    /// `None` from [`Script::end`] on.
    listener: Mutex<Option<Listener>>,
    last_number: AtomicU32,
    open: Mutex<HashMap<u32, mpsc::UnboundedSender<String>>>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl Script {
    /// Makes the script that `listener` answers for.
    pub fn new(listener: Listener) -> Script {
        Script {
            listener: Mutex::new(Some(listener)),
            last_number: AtomicU32::new(0),
            open: Mutex::default(),
        }
    }

    /// Takes a part of the answer to the request `number`: a JSON array of events. The answer to a request that nobody waits for is
    /// ignored.
    pub fn tell(&self, number: u32, events: String) {
        if let Some(answer) = self.opened().get(&number) {
            // The exchange may be about to end.
            let _gone = answer.send(events);
        }
    }

    /// Lets go of the listener, which is told nothing from then on.
    pub fn end(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Gives the listener a message.
    fn say(&self, message: String) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(message);
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, HashMap<u32, mpsc::UnboundedSender<String>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the request to the script.
    fn ask(&self, request: &[u8]) -> (u32, mpsc::UnboundedReceiver<String>) {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (answer, answers) = mpsc::unbounded_channel();
        self.opened().insert(number, answer);
        let request = String::from_utf8_lossy(request);
        self.say(format!(r#"{{"number":{number},"request":{request}}}"#));
        (number, answers)
    }

    fn leave(&self, number: u32, is_over: bool) {
        self.opened().remove(&number);
        if !is_over {
            self.say(format!(r#"{{"number":{number},"left":true}}"#));
        }
    }
}

/// A request to a script.
pub struct ScriptRequest {
    pub script: Arc<Script>,
    /// The id of the provider, for errors.
    pub provider: String,
    /// The request as JSON.
    pub body: Bytes,
    /// The redactor of the provider's own secrets.
    pub redactor: Redactor,
    /// The request's place among those that may run at once, held until it is over.
    pub permit: Permit,
}

/// A request to a script under way.
pub struct ScriptExchange {
    request: ScriptRequest,
    asked: Option<(u32, mpsc::UnboundedReceiver<String>)>,
    began: Option<Instant>,
    bytes: u64,
    is_over: bool,
    end: HttpEnd,
    failure: Option<Box<ProviderError>>,
}

impl ScriptExchange {
    /// Makes the exchange of `request`. The script is asked with the first [`Exchange::next`].
    pub fn new(request: ScriptRequest) -> ScriptExchange {
        ScriptExchange {
            request,
            asked: None,
            began: None,
            bytes: 0,
            is_over: false,
            end: HttpEnd::Lost("the script was never asked".to_owned()),
            failure: None,
        }
    }

    fn fail(&mut self, error: ProviderError) -> ControlFlow<()> {
        self.failure = Some(Box::new(error));
        self.is_over = true;
        ControlFlow::Break(())
    }

    /// Takes one part of the answer.
    fn take(&mut self, part: &str, events: &mut Vec<Event>) -> ControlFlow<()> {
        let script_events: Vec<ScriptEvent> = match serde_json::from_str(part) {
            Ok(events) => events,
            Err(error) => {
                let reason = format!("the script's answer can't be read: {error}");
                let error = ProviderError::new(&self.request.provider, Code::Internal, reason);
                return self.fail(error);
            }
        };
        for event in script_events {
            match event {
                ScriptEvent::Failed(fault) => return self.fail(fault.into_error(&self.request.provider)),
                ScriptEvent::Over(outcome) => {
                    events.push(Event::Outcome(Box::new(outcome.into())));
                    self.end = HttpEnd::Answered(Body::Complete);
                    self.is_over = true;
                    return ControlFlow::Break(());
                }
                event => events.extend(event.into_event()),
            }
        }
        ControlFlow::Continue(())
    }
}

impl Drop for ScriptExchange {
    fn drop(&mut self) {
        if let Some((number, _)) = &self.asked {
            self.request.script.leave(*number, self.is_over);
        }
    }
}

impl Exchange for ScriptExchange {
    fn elapsed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn received_bytes(&self) -> u64 {
        self.bytes
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        self.began.get_or_insert_with(Instant::now);
        let ScriptRequest { script, body, .. } = &self.request;
        let (_, answers) = self.asked.get_or_insert_with(|| script.ask(body));
        match answers.recv().await {
            Some(part) => {
                self.bytes += part.len() as u64;
                self.take(&part, events)
            }
            None => ControlFlow::Break(()),
        }
    }

    fn stop(&mut self, reason: StopReason) {
        self.end = HttpEnd::Stopped(reason);
    }

    async fn finish(mut self) -> Result<Box<Ended>, Unusable> {
        if let Some(error) = self.failure.take() {
            return Err(Unusable::Failed(error));
        }
        let evidence = Evidence::Http(HttpEvidence {
            origin: "the script".to_owned(),
            end: std::mem::replace(&mut self.end, HttpEnd::Answered(Body::Empty)),
            status: None,
            diagnostics: Vec::new(),
            redactor: self.request.redactor.clone(),
        });
        Ok(Box::new(Ended {
            exit: Some(self.elapsed()),
            figures: Value::Null,
            ..Ended::new(evidence)
        }))
    }
}
