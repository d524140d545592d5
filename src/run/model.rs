//! The interfaces of a thing that answers a thread, a CLI's engine or an API's: for an agent ([`Model`]) and for the binding
//! ([`ProviderObject`]); and what one knows of its models (`KnownModels`).

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::lifecycle::{Ended, Lifecycle, Run};
use super::request::{EncodedRequest, Request};
use dfp_exchange::bridge::ToolCallRequest;
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::listed_model::ListedModel;
use dfp_process::Vars;
use dfp_provider::options::nearest;
use dfp_text::redact::Redactor;

/// The ways in which a model's calls can reach the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDelivery {
    /// Calls come with the end of a turn.
    Turns,
    /// Calls come also in the middle of a turn, by a callback that waits for the result.
    Either,
    /// Calls come either way, and natively only by a callback.
    Callbacks,
}

/// A model, which answers threads.
pub trait Model: Debug + Send + Sync {
    /// The provider's id.
    fn id(&self) -> &str;

    /// Checks that nothing is missing before the model can answer, as far as a look at this machine tells; `env` is the environment
    /// that its processes inherit.
    ///
    /// # Errors
    /// The error that a call would have: the provider was closed, its program is not there, …
    fn ready(&self, env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        let _ = env;
        Ok(())
    }

    /// The redactor for the log and the errors of a run that the model takes part in; `env` is the environment that its processes
    /// inherit.
    fn redactor(&self, env: &Vars) -> Redactor;

    /// Begins to answer. Must be called inside the runtime; returns at once.
    fn begin(self: Arc<Self>, request: Request) -> Run;

    /// The ways in which the model's calls can come.
    fn calls(&self) -> CallDelivery {
        CallDelivery::Turns
    }

    /// The ways in which they can come with the CLI as it is installed now, in the environment `env`; `None` is this process's own.
    fn calls_now(&self, _env: Option<&Arc<Vars>>) -> CallDelivery {
        self.calls()
    }

    /// Begins a call like [`Model::begin`], with the tool calls coming out of the receiver; neither the run's events nor its reply
    /// contain them then. There is no receiver if calls can't come this way ([`Model::calls`]).
    fn begin_with_callbacks(self: Arc<Self>, request: Request) -> (Run, Option<mpsc::Receiver<ToolCallRequest>>) {
        (self.begin(request), None)
    }
}

/// A boxed future, for work that takes its time.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A provider object, as its owner uses it.
pub trait ProviderObject: Model {
    /// The lifecycle of the object's calls: whether it takes further ones, and their draining.
    fn lifecycle(&self) -> &Lifecycle;

    /// Begins a run of a request from JavaScript. Must be called inside the runtime; returns at once, and reads the request later.
    ///
    /// `env` is the environment that a process inherits, and in which an API's key and proxy are looked up. `None` is this
    /// process's own, which is read here, on the caller's thread: JavaScript's, the only one that may change it.
    fn start(self: Arc<Self>, request: EncodedRequest, env: Option<Vars>) -> Run;

    /// Starts processes for the next calls, which `known` describes, and waits until they have answered; `env` is that of
    /// [`ProviderObject::start`]. If no processes are kept, nothing is started.
    ///
    /// # Errors
    /// `CLOSED`, or the reason for which the processes can't be started.
    fn prewarm(self: Arc<Self>, known: String, env: Option<Vars>) -> Work<Result<(), Box<ProviderError>>> {
        let _ = (known, env);
        let ready = self.lifecycle().refusal().map_or(Ok(()), Err);
        Box::pin(std::future::ready(ready))
    }

    /// The models that its login has, by the word of the CLI or the API; no request to a model is made. `env` is that of
    /// [`ProviderObject::start`].
    ///
    /// # Errors
    /// `CLOSED`; `UNSUPPORTED_OPTION` if it does not tell them; as a call, where it can't be asked.
    fn models(self: Arc<Self>, env: Option<Vars>) -> Work<Result<Vec<ListedModel>, Box<ProviderError>>>;

    /// Ends all runs and waits for the last of them. Later calls fail with `CLOSED`.
    fn close(self: Arc<Self>) -> Work<()>;
}

/// The error of `provider`, whose models can't be listed, for `reason`.
pub(crate) fn not_listed(provider: &str, reason: &str) -> Box<ProviderError> {
    let reason = format!("the models can't be listed: {reason}");
    let error = ProviderError::new(provider, Code::UnsupportedOption, reason);
    Box::new(error.with_hint("look in its documentation; any name can be given as `model`"))
}

/// The number of characters of a list of models that an error names.
const MOST_NAMED: usize = 300;

/// The names of the models that a provider has listed last, if it was asked.
#[derive(Debug, Default)]
pub(crate) struct KnownModels(Mutex<Vec<String>>);

impl KnownModels {
    /// Keeps the names of `listed` in the place of those before.
    pub(crate) fn keep(&self, listed: &[ListedModel]) {
        let names = listed.iter().map(|model| model.id.clone()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Names the listed models in the advice of a call that has `ended` because the model `asked` is unknown.
    pub(crate) fn advise(&self, ended: Ended, asked: &str) -> Ended {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // claude lists what it was asked for, too (2.1.332).
        let names = known.iter().map(String::as_str).filter(|name| *name != asked);
        let names: Vec<&str> = names.collect();
        let error = match ended {
            Ended::Failed(error) if error.code == Code::ModelNotFound && !names.is_empty() => error,
            ended => return ended,
        };
        let listed = clip(&names.join(", "), MOST_NAMED);
        Ended::Failed(Box::new(error.with_hint(match nearest(&names, asked) {
            Some(near) => format!("did you mean \"{near}\"? There are: {listed}"),
            None => format!("there are: {listed}"),
        })))
    }
}
