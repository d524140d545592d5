//! A call of a CLI that can be made again with a longer thread.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cli::KeptOrPrinted;
use super::cli_attempt::{CliCall, Dropped};
use super::cli_request::CliRequest;
use super::engine::Engine;
use super::reask::Reaskable;
use super::reply_check::RejectedReply;
use super::retry_loop::{self, Driven, LimitsUsed};
use super::session::forms::KeptCall;
use super::sink::Sink;
use dfp_model::error::ProviderError;
use dfp_model::message::Message;
use dfp_process::Vars;

/// The parts that all requests of one CLI call share.
pub(super) struct CliAsking<'a> {
    pub engine: &'a Arc<Engine>,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

/// A request that any engine can take.
pub(super) struct Ready {
    pub request: CliRequest,
    kept: Vec<KeptCall>,
}

impl Ready {
    /// Prepares `request` for the kept processes of `engine`.
    pub fn of(engine: &Engine, mut request: CliRequest) -> Ready {
        let kept = engine.kept.iter();
        let kept = kept.filter_map(|kept| kept.call(engine, &mut request)).collect();
        Ready { request, kept }
    }
}

impl Reaskable for CliAsking<'_> {
    type Request = Ready;

    async fn ask(&self, ready: &Ready, spent: LimitsUsed) -> Driven {
        let call = KeptOrPrinted {
            call: CliCall {
                engine: &self.engine.base,
                request: &ready.request,
                base_env: self.base_env,
                cancel: self.cancel,
                sink: self.sink,
                dropped: Dropped::default(),
            },
            kept: &ready.kept,
        };
        retry_loop::drive(&call, spent, self.cancel, self.sink).await
    }

    fn extended(
        &self,
        ready: Ready,
        messages: Vec<Message>,
        rejected: &RejectedReply,
    ) -> Result<Ready, Box<ProviderError>> {
        let extended = ready.request.extended(self.engine, messages, rejected)?;
        Ok(Ready::of(self.engine, extended))
    }
}
