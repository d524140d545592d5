//! One session of an opencode server, between its turns and in them.
//!
//! A resting session holds nothing open: its calls are in the history as rejected ones, and their results are written over them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::form::{Model, ToolSet};
use super::inbound::ServerEvent;
use super::reader::OpencodeOpenCall;
use super::service::OpencodeService;
use super::wire::{self, HttpFailure, Id};
use crate::live::inbox::Inbox;
use crate::live::session::Pulse;

/// The time that an aborted turn may take to end, and the server to forget its session, together: 15 to 50 ms were measured. The
/// caller of the turn waits so long at most.
const ABORT: Duration = Duration::from_secs(2);
/// The interval at which the abort is repeated: an abort before the turn has begun has no effect.
const AGAIN: Duration = Duration::from_millis(100);

/// A message that was sent, and its answer.
pub type PromptTask = JoinHandle<Result<Bytes, HttpFailure>>;

/// A session of a server.
#[derive(Debug)]
pub struct OpencodeConversation {
    /// The server in which the session lives.
    pub service: Arc<OpencodeService>,
    /// The session's folder, and the tools in it.
    pub set: Arc<ToolSet>,
    pub id: Id,
    /// The model that answers.
    pub model: Option<Model>,
    /// The server's events on the session.
    pub inbox: Inbox<ServerEvent>,
    /// The calls for whose results it waits.
    pub calls: Vec<OpencodeOpenCall>,
    /// The message that is being answered.
    pub asking: Option<PromptTask>,
    tracker: TaskTracker,
}

impl OpencodeConversation {
    /// Makes the session `id` of `service`, in the folder of `set`.
    pub fn new(
        service: Arc<OpencodeService>,
        set: Arc<ToolSet>,
        id: Id,
        model: Option<Model>,
        tracker: TaskTracker,
    ) -> OpencodeConversation {
        OpencodeConversation {
            inbox: service.server.inbox(id.as_str()),
            service,
            set,
            id,
            model,
            calls: Vec::new(),
            asking: None,
            tracker,
        }
    }

    /// `path` with the session's folder as its instance.
    pub fn path(&self, path: &str) -> String {
        wire::of_directory(path, &self.set.directory)
    }

    /// Sends a message; its answer, of at most `most` bytes, comes when the turn is over, whoever waits for it.
    pub fn ask(&mut self, body: Vec<u8>, most: usize) {
        // Waiting for an answer does not keep the server alive.
        let http = self.service.server.http.clone();
        let path = self.path(&wire::messages(&self.id));
        self.asking = Some(
            self.tracker
                .spawn(async move { http.ask_up_to(most, Method::POST, &path, Some(body.into())).await }),
        );
    }

    /// Rejects the request for permission `request`, in the background.
    pub fn reject(&self, request: &Id) {
        let http = self.service.server.http.clone();
        let path = self.path(&wire::permission(request));
        self.tracker.spawn(async move {
            // A request that was rejected together with another one does not exist any more.
            let _ = http.send(Method::POST, &path, &wire::reject()).await;
        });
    }

    /// Aborts the turn, and returns whether it has ended in time. A server that takes too long gets no new calls, and the abort
    /// is repeated as long as it lives; the sessions of others in it continue.
    pub async fn abort(&mut self) -> bool {
        let Some(mut asking) = self.asking.take() else {
            return true;
        };
        let host = self.service.host();
        if host.is_over() {
            asking.abort();
            return true;
        }
        let (http, path) = (self.service.server.http.clone(), self.path(&wire::abort(&self.id)));
        let over = host.over().clone();
        let mut aborted = Box::pin(async move {
            loop {
                let asked = async {
                    // A server that is gone does not answer this, nor the message.
                    let _ = http.ask(Method::POST, &path, None).await;
                    tokio::time::timeout(AGAIN, &mut asking).await.is_ok()
                };
                match over.run_until_cancelled(asked).await {
                    Some(false) => {}
                    Some(true) => return,
                    None => return asking.abort(),
                }
            }
        });
        let is_in_time = tokio::time::timeout(ABORT, &mut aborted).await.is_ok();
        if !is_in_time {
            host.retire();
            self.tracker.spawn(aborted);
        }
        is_in_time
    }
}

impl OpencodeConversation {
    /// Stops the turn in progress, if there is one, and makes the server forget the session.
    pub async fn close(mut self) {
        let began = Instant::now();
        let is_in_time = self.abort().await;
        let host = self.service.host();
        if host.is_over() {
            return;
        }
        let path = self.path(&wire::session(&self.id));
        let (http, over) = (self.service.server.http.clone(), host.over().clone());
        let mut forgotten = Box::pin(async move {
            // If it does not, that costs only memory.
            let forgotten = http.ask(Method::DELETE, &path, None);
            let _ = over.run_until_cancelled(forgotten).await;
        });
        let patience = match is_in_time {
            true => ABORT.saturating_sub(began.elapsed()),
            // Nobody waits a second time for a server that may hang.
            false => Duration::ZERO,
        };
        if tokio::time::timeout(patience, &mut forgotten).await.is_err() {
            self.tracker.spawn(forgotten);
        }
    }

    /// Waits until the session can't continue. Cancel safe.
    pub async fn idle(&mut self) -> Pulse {
        loop {
            if let None | Some(ServerEvent::Gone) = self.inbox.next_at_rest(self.service.host()).await {
                return Pulse::Ended;
            }
        }
    }
}
