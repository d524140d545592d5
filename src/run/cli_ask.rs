//! A call of a CLI that can be made again of a grown thread.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cli_attempt::CliCall;
use super::cli_request::CliRequest;
use super::engine::Engine;
use super::reask::Asking;
use super::reply_check::Misfit;
use super::retry_loop::{self, Driven, Spent};
use super::sink::Sink;
use crate::error::ProviderError;
use crate::message::Message;
use crate::process::Vars;

/// What all requests of one call have in common.
pub(super) struct CliAsking<'a> {
    pub engine: &'a Arc<Engine>,
    pub base_env: &'a Arc<Vars>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

impl Asking for CliAsking<'_> {
    type Request = CliRequest;

    async fn ask(&self, request: &CliRequest, spent: Spent) -> Driven {
        let call = CliCall {
            engine: self.engine,
            request,
            base_env: self.base_env,
            cancel: self.cancel,
            sink: self.sink,
        };
        retry_loop::drive(&call, spent, self.cancel, self.sink).await
    }

    fn grown(
        &self,
        request: CliRequest,
        messages: Vec<Message>,
        misfit: &Misfit,
    ) -> Result<CliRequest, Box<ProviderError>> {
        request.grown(self.engine, messages, misfit)
    }
}
