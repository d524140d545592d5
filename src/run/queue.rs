//! The wait of an attempt for a place in the queue, of any provider.

use std::sync::OnceLock;
use std::time::Instant;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::clock::millis;
use super::log::Level;
use super::sink::Sink;
use dfp_model::event::RunInfo;
use dfp_process::limit::{self, NestedPermit, Permit};

/// An attempt that needs a place.
pub(super) struct Waiting<'a> {
    /// The key by which places are counted: the program, or the API's address.
    pub at: &'a str,
    /// The number of places.
    pub places: usize,
    /// A place beside the queue, for a call within another call.
    pub nested: Option<&'a NestedPermit>,
    /// The attempt's number, from 1.
    pub number: u32,
    /// When the call's first attempt got its place.
    pub began: &'a OnceLock<Instant>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl Waiting<'_> {
    /// Waits for a place; `None` if the call was cancelled before there was one.
    pub async fn permit(&self, info: &mut RunInfo) -> Option<Permit> {
        let permit = limit::global().acquire_or(self.nested, self.at, self.places, self.cancel);
        let Ok(permit) = permit.await else {
            let fields = json!({"attempt": self.number});
            self.sink.log.say(Level::Info, "cancelled in the queue", fields);
            return None;
        };
        self.began.get_or_init(Instant::now);
        info.queued_ms = Some(millis(permit.queued()));
        Some(permit)
    }
}
