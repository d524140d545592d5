//! A test's script, which answers a provider's requests in JavaScript.

use std::sync::Arc;

use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

use super::Text;
use super::provider::NativeProvider;
use super::text;
use dfp_exchange::script::Script;
use dfp_model::message::well_formed;
use dfp_run::api::ApiEngine;

/// A function of JavaScript's that keeps nothing alive: the run that waits for it does.
type Listener = ThreadsafeFunction<Text, (), Text, Status, false, true>;

/// A provider whose requests a function answers.
#[napi]
pub struct NativeScript {
    script: Arc<Script>,
    options: String,
}

#[napi]
impl NativeScript {
    /// Makes the script. `listener` gets `{"number", "request": {"messages", "tools", "options"}}`, and `{"number", "left": true}` when
    /// nobody waits for an answer any more; it must not throw. `options_json` is that of an API, without an address.
    #[napi(constructor, catch_unwind)]
    pub fn new(options_json: String, listener: Listener) -> Self {
        let ask = move |message: String| {
            // The environment may be about to end: then nobody waits either.
            let _status = listener.call(text(message), ThreadsafeFunctionCallMode::NonBlocking);
        };
        NativeScript {
            script: Arc::new(Script::new(Arc::new(ask))),
            options: well_formed(options_json),
        }
    }

    /// The provider that asks the script.
    #[napi(catch_unwind)]
    pub fn provider(&self) -> NativeProvider {
        NativeProvider::of(ApiEngine::scripted(&self.options, Arc::clone(&self.script)))
    }

    /// Lets go of the listener. To be called when the provider is closed: until then, each holds the other.
    #[napi(catch_unwind)]
    pub fn end(&self) {
        self.script.end();
    }

    /// Takes a part of the answer to the request `number`: a JSON array of events, each an object of one field, its kind.
    #[napi(catch_unwind)]
    pub fn tell(&self, number: u32, events_json: String) {
        self.script.tell(number, well_formed(events_json));
    }
}
