//! Finds out about an API without a request that is billed: whether it is there, and whether it takes the key.
//!
//! In: an [`ApiEngine`] and an environment. Out: [`Probe`], by one `GET /models`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{ApiEngine, Surroundings};
use crate::admission::local_offset_min;
use crate::lifecycle::Run;
use crate::model;
use crate::request::Request;
use dfp_exchange::http::client::Response;
use dfp_model::error::{Code, ProviderError};
use dfp_model::listed_model::ListedModel;
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_provider::api::{models, settings};
use dfp_provider::judge::{CliRules, Context, Evidence, HttpEnd, HttpEvidence, StopReason, judge};
use dfp_text::fold::Folded;

/// The time that the answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The longest list that is read: OpenRouter's has 1 MB.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A prepared look at the API, which can be taken any number of times. It is made where the environment may be read.
pub struct Prepared {
    engine: Arc<ApiEngine>,
    surroundings: Surroundings,
}

/// The result of asking an API whether it is there.
#[derive(Debug)]
pub enum Probe {
    /// The server lists its models to this key.
    Listed,
    /// The server is there, and answers with this error. Its `http_status` is known.
    Answered(Box<ProviderError>),
    /// Nothing was sent, or no response came.
    Nothing(Box<ProviderError>),
}

impl Prepared {
    /// Reads the environment; `env` is that of [`crate::model::ProviderObject::start`].
    pub fn new(engine: &Arc<ApiEngine>, env: Option<&Vars>) -> Prepared {
        Prepared {
            engine: Arc::clone(engine),
            surroundings: engine.surroundings(env),
        }
    }

    /// The reason why a required key is missing.
    pub fn no_key(&self) -> Option<&ProviderError> {
        self.surroundings.key.as_ref().err().map(Box::as_ref)
    }

    /// Returns whether there is a key to send.
    pub fn has_key(&self) -> bool {
        matches!(self.surroundings.key, Ok(Some(_)))
    }

    /// Begins a call with the facts that [`Prepared::new`] read.
    pub fn call(&self, request: Request) -> Run {
        ApiEngine::run(&self.engine, self.surroundings.clone(), |_| Ok(request))
    }

    /// Asks the server, with the key if there is one.
    pub async fn look(&self) -> Probe {
        match self.list().await {
            Ok(_) => Probe::Listed,
            Err(probe) => probe,
        }
    }

    /// The models that the server lists.
    ///
    /// # Errors
    /// `CLOSED`, or as a call where the server can't be asked; `UNSUPPORTED_OPTION` if it has no list.
    pub async fn models(&self) -> Result<Vec<ListedModel>, Box<ProviderError>> {
        let engine = &self.engine;
        engine.refusal().map_or(Ok(()), Err)?;
        let not_listed = |why: &str| model::not_listed(engine.id(), why);
        if engine.script.is_some() {
            return Err(not_listed("a script answers"));
        }
        self.surroundings.key.as_ref().map_err(Clone::clone)?;
        let body = timeout(LIMIT, async {
            let mut response = self.list().await.map_err(|probe| match probe {
                Probe::Answered(error) if matches!(error.http_status, Some(404 | 405 | 501)) => {
                    not_listed("the server has no such list (GET /models)")
                }
                Probe::Answered(error) | Probe::Nothing(error) => error,
                Probe::Listed => not_listed("the server has no such list"),
            })?;
            let mut body = Vec::new();
            while let Some(piece) = response
                .next()
                .await
                .map_err(|why| engine.refuse(Code::ConnectionLost, why))?
            {
                if body.len() + piece.len() > MOST_BYTES {
                    return Err(not_listed("the server's list has more than 16 MiB"));
                }
                body.extend_from_slice(&piece);
            }
            Ok(body)
        });
        let body = body.await.unwrap_or_else(|_| {
            let reason = format!("the server did not list its models within {} s", LIMIT.as_secs());
            Err(engine.refuse(Code::Timeout, reason))
        })?;
        let listed =
            models::read(&body).ok_or_else(|| not_listed("the server's answer to GET /models is no list of models"))?;
        engine.known_models.keep(&listed);
        Ok(listed)
    }

    /// The response with the list of models, or what came instead.
    async fn list(&self) -> Result<Response, Probe> {
        let engine = &self.engine;
        let key = self.surroundings.key.as_ref().ok().and_then(Option::clone);
        let client = match engine.client(self.surroundings.route.clone()).await {
            Ok(client) => client,
            Err(error) => return Err(Probe::Nothing(error)),
        };
        let settings = &engine.settings;
        let end = match timeout(LIMIT, client.models(settings, key.as_ref())).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(end)) => end,
            Err(_) => HttpEnd::Stopped(StopReason::Timeout(LIMIT)),
        };
        let is_answered = matches!(end, HttpEnd::Refused { .. });
        let context = Context {
            provider: engine.id(),
            rules: CliRules::default(),
            now_ms: now_ms(),
            local_offset_min: local_offset_min(),
        };
        let evidence = Evidence::Http(HttpEvidence {
            origin: settings::origin(&settings.models),
            end,
            status: None,
            diagnostics: Vec::new(),
            redactor: settings.redactor(key.as_ref()),
        });
        let mut error = match judge(&context, evidence, Folded::default()) {
            Err(error) => error,
            // A refusal is never a success.
            Ok(_) => engine.refuse(Code::Internal, "the look came to nothing"),
        };
        self.surroundings.redactor(settings).clean_error(&mut error);
        Err(match is_answered {
            true => Probe::Answered(error),
            false => Probe::Nothing(error),
        })
    }
}
