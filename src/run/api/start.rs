//! The beginning of an API call: it is read, checked, connected and recorded, then tried until it ends.

use std::sync::Arc;

use super::attempt::{ApiCall, ApiQuestion};
use super::engine::{ApiEngine, Surroundings};
use crate::handle::{Ended, Run};
use crate::lifecycle::{CallHandles, Lifecycle};
use crate::model::{Model, ProviderObject, Work};
use crate::request::{Checked, EncodedRequest, NotCompiled, Request};
use crate::structured::FitsSchema;
use crate::{call, log, record, tool_choice};
use dfp_model::error::{Code, ProviderError};
use dfp_process::Vars;
use dfp_provider::api::content::ACCEPTS;
use dfp_provider::api::settings::Settings;
use dfp_text::redact::Redactor;
use dfp_text::schema::strict;

impl ApiEngine {
    pub(super) fn run(
        engine: &Arc<ApiEngine>,
        surroundings: Surroundings,
        read: impl FnOnce(&ApiEngine) -> Result<Request, Box<ProviderError>> + Send + 'static,
    ) -> Run {
        let of_task = Arc::clone(engine);
        (engine.lifecycle).begin(move |handles| of_task.call(read, surroundings, handles))
    }

    /// Makes one call, to its end.
    async fn call(
        self: Arc<Self>,
        read: impl FnOnce(&ApiEngine) -> Result<Request, Box<ProviderError>> + Send,
        surroundings: Surroundings,
        handles: CallHandles,
    ) -> Result<Ended, Box<ProviderError>> {
        let refuse = |(code, reason)| self.refuse(code, reason);
        let invalid = |reason| self.refuse(Code::InvalidOption, reason);
        let mut request = read(&self)?;
        match request.compile(self.settings.timeout, &handles.cancel).await {
            Ok(()) => {}
            Err(NotCompiled::Cancelled) => return Ok(self.closed().map_or(Ended::Cancelled, Ended::Failed)),
            Err(NotCompiled::Refused(code, reason)) => return Err(self.refuse(code, reason)),
        }
        let Checked {
            messages,
            tools,
            options,
            output,
            call_ids,
            recorded,
            nested_permit,
        } = request
            .check(self.id(), &ACCEPTS, Settings::check_timeout)
            .map_err(refuse)?;
        let choices = options.choices.read(Settings::choices).map_err(invalid)?;
        if let Some(choice) = &choices.tool_choice {
            let names = tools.iter().map(|tool| tool.name.as_str());
            choice.check(names).map_err(invalid)?;
        }
        let (of_engine, of_env) = (Arc::clone(&self), surroundings.clone());
        let redactor = log::lazy_redactor(move || of_env.redactor(&of_engine.settings));
        let (key, client) = self.connect(surroundings).await?;
        let mut checks = tool_choice::checks(self.id(), choices.tool_choice.as_ref());
        if let Some(schema) = &output {
            checks.push(Arc::new(FitsSchema {
                schema: Arc::clone(schema),
                provider: self.id().to_owned(),
                cli_asks_again: false,
            }));
        }
        let output = output.map(|schema| {
            let is_told = strict::is_one_object(schema.value());
            (schema, is_told)
        });
        let question = ApiQuestion::new(&self, choices.clone(), messages, tools, checks, output);
        let cancel = handles.cancel.clone();
        let sink = call::sink(&self, handles, &options, recorded, redactor)
            .await?
            .in_pieces(options.partial);
        let mut of_api = ApiCall {
            question,
            engine: &self,
            client: client.as_ref(),
            redactor: self.settings.redactor(key.as_ref()),
            key: key.as_ref(),
            call_ids,
            options: &options,
            nested_permit,
            cancel: &cancel,
            sink: &sink,
        };
        Ok(call::answer(&mut of_api, &cancel, &sink).await)
    }
}

impl Model for ApiEngine {
    fn id(&self) -> &str {
        self.lifecycle.id()
    }

    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        self.refusal().map_or(Ok(()), Err)?;
        self.key(Some(env)).map(|_| ())
    }

    fn redactor(&self, env: &Vars) -> Redactor {
        let key = self.key(Some(env)).ok().flatten();
        record::redactor_of(env).and(&self.settings.redactor(key.as_ref()))
    }

    fn begin(self: Arc<Self>, request: Request) -> Run {
        let surroundings = self.surroundings(request.env.as_deref());
        ApiEngine::run(&self, surroundings, |_| Ok(request))
    }
}

impl ProviderObject for ApiEngine {
    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn start(self: Arc<Self>, request: EncodedRequest, env: Option<Vars>) -> Run {
        let surroundings = self.surroundings(env.as_ref());
        ApiEngine::run(&self, surroundings, |engine| {
            request.read().map_err(|(code, reason)| engine.refuse(code, reason))
        })
    }

    fn close(self: Arc<Self>) -> Work<()> {
        Box::pin(async move { ApiEngine::close(&self).await })
    }
}
