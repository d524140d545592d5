//! One HTTP request and its answer.
//!
//! In: a request's body and the connections of its provider ([`client`]). Out: the events of the answer, as they come.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Ended, Evidence, Exchange, StopReason, Unusable};
use dfp_model::event::Event;
use dfp_process::limit::Permit;
use dfp_provider::api::answer::{Answer, Body};
use dfp_provider::api::settings::{self, Settings};
use dfp_provider::judge::{HttpEnd, HttpEvidence};
use dfp_text::redact::{Redactor, Secret};

pub mod client;

use client::{Client, Response};

/// The time that the end of a complete body may take.
const DRAIN: Duration = Duration::from_secs(1);

/// A request, and all that sending it needs.
pub struct HttpRequest<'a> {
    pub client: &'a Client,
    pub settings: &'a Settings,
    /// The key, if one is sent.
    pub key: Option<&'a Secret>,
    pub body: Bytes,
    /// The redactor of the request's own secrets.
    pub redactor: &'a Redactor,
    /// The request's place among those that may run at once, held until it is over.
    pub permit: Permit,
    /// Tracks the reading of the rest of an answer that was over before its body's end.
    pub tracker: &'a TaskTracker,
    /// Cancelled when the provider is closed.
    pub closing: CancellationToken,
}

/// A request under way.
pub struct HttpExchange<'a> {
    request: HttpRequest<'a>,
    answer: Answer,
    response: Option<Response>,
    began: Option<Instant>,
    bytes: u64,
    status: Option<u16>,
    request_id: Option<String>,
    end: HttpEnd,
}

impl<'a> HttpExchange<'a> {
    /// Makes the exchange of `request`, whose answer is read by `answer`. It is sent with the first [`Exchange::next`].
    pub fn new(request: HttpRequest<'a>, answer: Answer) -> Self {
        HttpExchange {
            request,
            answer,
            response: None,
            began: None,
            bytes: 0,
            status: None,
            request_id: None,
            end: HttpEnd::Lost("the request was never sent".to_owned()),
        }
    }

    async fn send(&mut self) -> ControlFlow<()> {
        self.began.get_or_insert_with(Instant::now);
        let HttpRequest {
            client,
            settings,
            key,
            body,
            redactor,
            ..
        } = &self.request;
        match client.chat(settings, *key, body.clone()).await {
            Ok(response) => {
                self.status = Some(response.status());
                let id = response.request_id();
                self.request_id = id.map(|id| redactor.redact_values(id).into_owned());
                self.response = Some(response);
                ControlFlow::Continue(())
            }
            Err(end) => {
                if let HttpEnd::Refused { status, .. } = &end {
                    self.status = Some(*status);
                }
                self.end = end;
                ControlFlow::Break(())
            }
        }
    }
}

impl Exchange for HttpExchange<'_> {
    fn elapsed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn received_bytes(&self) -> u64 {
        self.bytes
    }

    /// Cancel safe once there is a connection; dropping it earlier closes the connection that is being made.
    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        let Some(response) = &mut self.response else {
            return self.send().await;
        };
        if self.answer.is_over() {
            self.end = HttpEnd::Answered(self.answer.finish(true, events));
            return ControlFlow::Break(());
        }
        match response.next().await {
            Ok(Some(piece)) => {
                self.bytes += piece.len() as u64;
                self.answer.push(&piece, events);
                return ControlFlow::Continue(());
            }
            Ok(None) => self.end = HttpEnd::Answered(self.answer.finish(true, events)),
            // An answer that was complete before the connection broke is complete.
            Err(why) => {
                self.end = match self.answer.finish(false, events) {
                    Body::Complete => HttpEnd::Answered(Body::Complete),
                    _ => HttpEnd::Lost(why),
                };
            }
        }
        ControlFlow::Break(())
    }

    fn stop(&mut self, reason: StopReason) {
        self.response = None;
        self.end = HttpEnd::Stopped(reason);
    }

    async fn finish(self) -> Result<Box<Ended>, Unusable> {
        let exit = self.elapsed();
        let request = self.request;
        if let Some(response) = self.response.filter(|_| self.answer.is_over()) {
            let closing = request.closing;
            request.tracker.spawn(async move {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = response.drain(DRAIN) => {}
                }
            });
        }
        drop(request.permit);
        let evidence = Evidence::Http(HttpEvidence {
            origin: settings::origin(&request.settings.chat),
            end: self.end,
            status: self.status,
            diagnostics: self.answer.diagnostics().to_vec(),
            redactor: request.redactor.clone(),
        });
        Ok(Box::new(Ended {
            exit: Some(exit),
            figures: json!({"httpStatus": self.status, "requestId": self.request_id, "bytes": self.bytes}),
            ..Ended::new(evidence)
        }))
    }
}
