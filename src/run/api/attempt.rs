//! An attempt of an API call: the wait in the queue, then one HTTP exchange.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::ApiProvider;
use crate::attempt::{Attempt, AttemptOutcome, AttemptStart, CallLimits, failed, run_attempt};
use crate::choices::ShownChoices;
use crate::record::Sink;
use crate::reply_check::{Checks, RejectedReply};
use crate::request::CallOptions;
use crate::retry_loop::{Plan, RetryableCall, Waiting};
use crate::structured;
use dfp_exchange::http::{Client, HttpExchange, HttpRequest};
use dfp_exchange::script::{ScriptExchange, ScriptRequest};
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::event::{Event, RunInfo};
use dfp_model::message::{Message, ToolSpec};
use dfp_model::retry::{Policy, QuotaWait};
use dfp_process::limit::{NestedPermit, Permit};
use dfp_provider::api::answer::Answer;
use dfp_provider::api::request::{Format, Request};
use dfp_provider::api::settings::OFF_EFFORT;
use dfp_provider::choices::{CallChoices, ToolChoice};
use dfp_provider::declare::Tools;
use dfp_provider::judge::CliRules;
use dfp_text::fold::Fold;
use dfp_text::prompt;
use dfp_text::redact::{Redactor, Secret};
use dfp_text::schema::Schema;
use dfp_text::toolcall::TextCalls;

/// A call of an API; each of its attempts is an HTTP request.
pub(super) struct ApiCall<'a> {
    pub question: ApiQuestion,
    pub api: &'a ApiProvider,
    /// The warning about a choice that was left out.
    pub left_out: Vec<Event>,
    /// The connections to the server; `None` if a script answers.
    pub client: Option<&'a Client>,
    pub key: Option<&'a Secret>,
    /// The redactor that knows the request's own secrets.
    pub redactor: Redactor,
    pub call_ids: HashSet<String>,
    pub options: &'a CallOptions,
    /// A place beside the queue, for a call within another call.
    pub nested_permit: Option<NestedPermit>,
    pub cancel: &'a CancellationToken,
    pub sink: &'a Sink,
}

/// A request, and the checks of its reply.
pub(super) struct ApiQuestion {
    choices: CallChoices,
    messages: Vec<Message>,
    bound: Vec<ToolSpec>,
    body: Bytes,
    /// True if the thread ends with a tool's result.
    ends_with_result: bool,
    tools: Tools,
    checks: Checks,
    /// The schema of the answer, and whether the server gets it.
    output: Option<(Arc<Schema>, bool)>,
}

impl ApiQuestion {
    /// Makes the request that sends `messages` and allows the tools `bound`. `output` is the schema of the answer, and whether the
    /// server gets it.
    pub fn new(
        api: &ApiProvider,
        choices: CallChoices,
        messages: Vec<Message>,
        bound: Vec<ToolSpec>,
        checks: Checks,
        output: Option<(Arc<Schema>, bool)>,
    ) -> ApiQuestion {
        let format = match &output {
            None => Format::Text,
            Some((schema, true)) => Format::Native(schema),
            Some((schema, false)) => Format::Asked(schema),
        };
        let request = Request::new(&api.settings, &choices, &messages, &bound, format);
        let body = match &api.script {
            None => Bytes::from(request.body),
            Some(_) => script_body(
                &choices,
                &messages,
                &bound,
                output.as_ref().map(|(schema, _)| &**schema),
            ),
        };
        let ends_with_result = prompt::ends_with_result(&messages, false);
        // The messages are kept if the model may be asked again.
        let (messages, bound) = match checks.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => (messages, bound),
        };
        ApiQuestion {
            choices,
            messages,
            bound,
            body,
            ends_with_result,
            tools: request.tools,
            checks,
            output,
        }
    }

    /// The schema of the answer, if the server gets it.
    fn native_schema(&self) -> Option<&Arc<Schema>> {
        self.output
            .as_ref()
            .filter(|(_, is_native)| *is_native)
            .map(|(schema, _)| schema)
    }
}

impl RetryableCall for ApiCall<'_> {
    fn retry(&self) -> &Policy {
        &self.api.settings.retry
    }

    fn quota(&self) -> Option<QuotaWait> {
        self.options.quota_or(self.api.settings.quota)
    }

    fn timeout(&self) -> Option<Duration> {
        self.options.timeout_or(self.api.settings.timeout)
    }

    fn plan(&self) -> Plan<'_> {
        let api = self.api;
        let chosen = self.question.choices.choices.model.as_deref();
        // The environment does not matter, since the API's key was chosen with the provider.
        Plan {
            used_up: &api.used_up,
            env: None,
            model: chosen.unwrap_or(&api.settings.model),
        }
    }

    fn login(&self) -> Option<&str> {
        None
    }

    fn closed(&self) -> Option<Box<ProviderError>> {
        self.api.closed()
    }

    async fn attempt(
        &self,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let question = &self.question;
        let asked = |schema: &Arc<Schema>| {
            let (messages, bound) = (question.messages.clone(), question.bound.clone());
            let output = Some((Arc::clone(schema), false));
            ApiQuestion::new(
                self.api,
                question.choices.clone(),
                messages,
                bound,
                question.checks.clone(),
                output,
            )
        };
        let schema = match question.native_schema() {
            None => return self.of(question, number, began, info).await,
            Some(schema) if self.api.refuses_schemas() => {
                return self.of(&asked(schema), number, began, info).await;
            }
            Some(schema) => schema,
        };
        match self.of(question, number, began, info).await {
            Err(error) if refuses_format(&error) => {
                // The refusal of one schema says nothing about others.
                if !error.message.to_lowercase().contains("invalid schema") {
                    self.api.remember_refused_schemas();
                }
                let why = format!("the server refuses `response_format`: {}", clip(&error.message, 160));
                let warning = structured::emulated(self.api.id(), &why);
                self.sink.send(&mut vec![warning]).await;
                self.of(&asked(schema), number, began, info).await
            }
            other => other,
        }
    }

    fn extend(&mut self, messages: Vec<Message>, rejected: &RejectedReply) -> Result<(), Box<ProviderError>> {
        let old = &mut self.question;
        let thread = std::mem::take(&mut old.messages).into_iter().chain(messages);
        // A server that takes a schema and ignores it gets the schema in words.
        let output = old.output.take().map(|(schema, _)| (schema, false));
        self.question = ApiQuestion::new(
            self.api,
            old.choices.clone(),
            thread.collect(),
            std::mem::take(&mut old.bound),
            old.checks.clone().after_misfit(rejected),
            output,
        );
        Ok(())
    }
}

/// Returns whether a request was refused because of the schema that the server was sent. Servers word that in many ways.
fn refuses_format(error: &ProviderError) -> bool {
    const WORDS: [&str; 6] = [
        "response_format",
        "response format",
        "json_schema",
        "json schema",
        "structured output",
        "guided",
    ];
    let message = error.message.to_lowercase();
    matches!(error.http_status, Some(400 | 404 | 415 | 422 | 501)) && WORDS.iter().any(|word| message.contains(word))
}

impl ApiCall<'_> {
    /// Makes attempt `number` of the call: waits for a place in the queue, then sends one request.
    async fn of(
        &self,
        question: &ApiQuestion,
        number: u32,
        began: &OnceLock<Instant>,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let settings = &self.api.settings;
        let place = settings.place();
        let waiting = Waiting {
            at: &place,
            places: settings.max_concurrency,
            nested: self.nested_permit.as_ref(),
            number,
            began,
            cancel: self.cancel,
            sink: self.sink,
        };
        let Some(permit) = waiting.permit(info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        let attempt = Attempt {
            provider: self.api.id(),
            rules: CliRules::default(),
            limits: CallLimits {
                timeout: self.options.timeout_or(settings.timeout),
                since: None,
                idle_timeout: settings.idle_timeout,
                max_output: settings.max_buffer,
            },
            number,
            cancel: self.cancel,
            sink: self.sink,
            prompt: Box::new(|| String::from_utf8_lossy(&question.body).into_owned()),
            fold: Fold::new(self.call_ids.clone(), TextCalls::Off)
                .with_listener(self.sink.has_listener())
                .behind_result(question.ends_with_result),
            checks: question.checks.clone(),
            shown: ShownChoices::of(&settings.with_own(&question.choices), Some(OFF_EFFORT)),
            model: Some(question.choices.choices.model.as_deref().unwrap_or(&settings.model)),
            opening: Some(AttemptStart {
                message: "started",
                fields: json!({"attempt": number, "stream": settings.stream, "bytes": question.body.len()}),
                notes: self.left_out.iter().filter(|_| number == 1).cloned().collect(),
            }),
        };
        let Some(client) = self.client else {
            return self.scripted(attempt, question, permit, info).await;
        };
        let request = HttpRequest {
            client,
            settings,
            key: self.key,
            body: question.body.clone(),
            redactor: &self.redactor,
            permit,
            tracker: &self.api.lifecycle.runs,
            closing: self.api.token(),
        };
        let mut answer = Answer::new(question.tools.clone(), self.redactor.clone());
        if settings.takes_no_calls(&question.choices) {
            answer = answer.without_calls();
        }
        let exchange = HttpExchange::new(request, answer);
        let outcome = run_attempt(attempt, Box::new(exchange), info).await;
        outcome.map_err(|error| failed(error, self.api.id()))
    }
    /// Makes the attempt by asking the script.
    async fn scripted(
        &self,
        attempt: Attempt<'_>,
        question: &ApiQuestion,
        permit: Permit,
        info: &mut RunInfo,
    ) -> Result<AttemptOutcome, Box<ProviderError>> {
        let api = self.api;
        let Some(script) = &api.script else {
            return Err(api.refuse(Code::Internal, "the request has neither a server nor a script"));
        };
        let exchange = ScriptExchange::new(ScriptRequest {
            script: Arc::clone(script),
            provider: api.id().to_owned(),
            body: question.body.clone(),
            redactor: self.redactor.clone(),
            permit,
        });
        let outcome = run_attempt(attempt, Box::new(exchange), info).await;
        outcome.map_err(|error| failed(error, api.id()))
    }
}

/// The JSON of a request: `{"messages", "tools", "options"}`. An option that was not chosen is no field.
fn script_body(choices: &CallChoices, messages: &[Message], tools: &[ToolSpec], output: Option<&Schema>) -> Bytes {
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let request = json!({"messages": messages, "tools": tools, "options": options(choices, output)});
    Bytes::from(request.to_string())
}

fn tool(tool: &ToolSpec) -> Value {
    let schema: Value = serde_json::from_str(tool.schema.get()).unwrap_or_default();
    match &tool.description {
        Some(description) => json!({"name": tool.name, "description": description, "schema": schema}),
        None => json!({"name": tool.name, "schema": schema}),
    }
}

fn options(choices: &CallChoices, output: Option<&Schema>) -> Map<String, Value> {
    let its = &choices.choices;
    let tool_choice = choices.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Any => json!("any"),
        ToolChoice::Tool(name) => json!({"name": name}),
    });
    let fields = [
        ("model", its.model.clone().map(Value::from)),
        ("reasoning", its.effort.as_ref().map(|effort| json!({"effort": effort}))),
        ("maxOutputTokens", its.max_output_tokens.map(Value::from)),
        ("stop", its.stop.clone().map(Value::from)),
        ("temperature", its.temperature.clone().map(Value::Number)),
        ("toolChoice", tool_choice),
        ("outputSchema", output.map(|schema| schema.value().clone())),
    ];
    let chosen = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    chosen.collect()
}
