//! A provider object of a CLI: its options, the parts that its calls share, and the processes it keeps.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::base::Base;
use super::cli_request::CliRequest;
use super::session::forms::{self, EngineCall, KeptEngine};
use dfp_model::error::ProviderError;
use dfp_provider::Provider;
use dfp_provider::options::Options;

/// A provider object of a CLI: its options, its runs, and the processes it keeps.
#[derive(Debug)]
pub struct Engine {
    pub(super) base: Arc<Base>,
    /// The kinds of kept processes, the best first: each call goes to the first kind that takes it.
    pub(super) kept: Vec<KeptEngine>,
}

impl Deref for Engine {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Engine {
    /// The engine of provider `kind` with the options of `options_json`; its processes belong to `owner`.
    ///
    /// # Errors
    /// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
    pub fn new(kind: &str, options_json: &str, owner: u64) -> Result<Engine, Box<ProviderError>> {
        Base::new(kind, options_json, owner).map(Engine::with)
    }

    /// The engine of the CLI that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what it holds and what is allowed.
    pub fn custom(config_json: &str, options_json: &str, owner: u64) -> Result<Engine, Box<ProviderError>> {
        Base::custom(config_json, options_json, owner).map(Engine::with)
    }

    /// The engine of the agent that `config_json` describes.
    ///
    /// # Errors
    /// `INVALID_CONFIG` or `INVALID_OPTION`, naming the field or the option, what it holds and what is allowed.
    pub fn agent(config_json: &str, options_json: &str, owner: u64) -> Result<Engine, Box<ProviderError>> {
        Base::agent(config_json, options_json, owner).map(Engine::with)
    }

    /// The engine of `provider` with `options`; its processes belong to `owner`.
    pub fn of(provider: Cow<'static, Provider>, options: Options, owner: u64) -> Engine {
        Engine::with(Base::of(provider, options, owner))
    }

    fn with(base: Base) -> Engine {
        Engine {
            kept: forms::of(&base.provider, &base.options, &base.lifecycle.runs),
            base: Arc::new(base),
        }
    }

    /// The call of `request` as each engine takes it, the best first.
    pub(super) fn calls_of(&self, request: &mut CliRequest) -> Vec<EngineCall> {
        let kept = self.kept.iter().filter_map(|kept| kept.call(self, request));
        let mut calls: Vec<EngineCall> = kept.collect();
        if self.provider.has_print() {
            calls.push(EngineCall::Print);
        }
        calls
    }

    /// Ends all runs and waits until their processes are gone. Later calls fail with `CLOSED`.
    pub async fn close(&self) {
        self.lifecycle.end().await;
        for kept in &self.kept {
            kept.forget();
        }
    }

    /// Returns the same provider with its tools in one namespace.
    pub fn with_tool_namespace(&self) -> Engine {
        let options = Options {
            tool_namespace: true,
            ..self.options.clone()
        };
        let mut base = Base::of(self.provider.clone(), options, self.owner);
        // Both objects share one budget.
        base.lifecycle.ledger.clone_from(&self.lifecycle.ledger);
        Engine::with(base)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::session::made_up::MadeUp;
    use crate::session::sessions::Sessions;

    #[tokio::test]
    async fn a_provider_that_is_closed_gives_back_what_it_keeps() {
        let base = Base::new("codex", "{}", u64::MAX).unwrap();
        let form = MadeUp::default();
        let forgotten = Arc::clone(&form.forgotten);
        let sessions = Sessions::new(form, &base.options, &base.lifecycle.runs);
        let engine = Engine {
            kept: vec![KeptEngine::MadeUp(Arc::new(sessions))],
            ..Engine::with(base)
        };
        assert_eq!(forgotten.load(Ordering::Relaxed), 0);
        engine.close().await;
        assert_eq!(forgotten.load(Ordering::Relaxed), 1);
    }
}
