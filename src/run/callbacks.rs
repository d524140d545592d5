//! Runs in which the CLI calls the caller's tools itself, in the middle, over a bridge.
//!
//! In: a question, and a CLI that takes a server of tools. Out: the same [`Run`] as ever, and beside it the calls as they are
//! made. Each attempt has a bridge of its own, so nothing of a failed one speaks to the next. The calls are told once: as
//! [`Called`], not as events of the CLI.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::model::Question;
use super::request::Request;
use super::{Engine, Run};
use crate::bridge::{self, Bridge, BridgeOptions, Called, Connection, Traffic};
use crate::command;
use crate::conversation::print::Print;
use crate::declare::mcp::Declarations;
use crate::error::{Code, ProviderError};
use crate::event::Event;
use crate::process::Hold;
use crate::provider::callbacks::Callbacks;
use crate::provider::options::Options;

/// A call's tools, to be served over a bridge.
pub(super) struct Served {
    pub declarations: Declarations,
    pub consumer: mpsc::Sender<Called>,
    pub options: BridgeOptions,
}

/// One attempt's bridge.
pub(super) struct Open<'a> {
    served: &'a Served,
    bridge: Bridge,
    traffic: watch::Receiver<Traffic>,
    /// While calls wait for the caller, the CLI's silence is not its own.
    hold: Option<Hold>,
    /// Calls of the CLI's events that are told as [`Called`].
    hidden: HashSet<String>,
}

impl Engine {
    /// Begins a run in which the CLI calls the question's tools itself: they are declared to it natively, the prompt does not
    /// speak of them, and every call comes out of the receiver. Only the permitted tools belong into the question. Must be
    /// called inside the runtime; returns at once.
    ///
    /// The run's reply and events hold no calls of these tools. `timeout` counts on while a call waits, `idleTimeout` does not.
    /// No attempt is made again after a call. The run fails with `CALLBACKS_UNAVAILABLE` where the provider takes no such
    /// tools, or has answered without ever having asked for them.
    pub fn start_with_callbacks(
        engine: &Arc<Engine>,
        question: Question,
        options: BridgeOptions,
    ) -> (Run, mpsc::Receiver<Called>) {
        let (consumer, receiver) = bridge::called();
        let Question {
            messages,
            tools,
            call,
            env,
            lent,
        } = question;
        let read = move |engine: &Engine| {
            let callbacks = Some((consumer, options));
            Ok(Request::read(engine, (&messages, &tools, &call), callbacks)?.with(lent))
        };
        (Engine::begin(engine, read, env), receiver)
    }

    /// Whether [`Engine::start_with_callbacks`] can come to anything with this provider.
    pub fn takes_callbacks(&self) -> bool {
        command::takes_callbacks(&self.provider, &self.options)
    }
}

impl Served {
    /// # Errors
    /// `CALLBACKS_UNAVAILABLE` where the provider has no way to be told of a server.
    pub fn new(
        engine: &Engine,
        declarations: Declarations,
        (consumer, options): (mpsc::Sender<Called>, BridgeOptions),
    ) -> Result<Served, Box<ProviderError>> {
        if !engine.takes_callbacks() {
            let reason = format!(
                "{} can't call tools in the middle of a run with these options",
                engine.id()
            );
            return Err(engine.refuse(Code::CallbacksUnavailable, reason));
        }
        Ok(Served {
            declarations,
            consumer,
            options,
        })
    }

    /// A bridge for one attempt.
    pub async fn open(&self) -> io::Result<Open<'_>> {
        let bridge = Bridge::start_for(self.declarations.clone(), self.options, self.consumer.clone()).await?;
        Ok(Open {
            served: self,
            traffic: bridge.traffic(),
            bridge,
            hold: None,
            hidden: HashSet::new(),
        })
    }
}

impl Open<'_> {
    /// `options` of a CLI that is told of the bridge.
    pub fn told(&self, options: &Options) -> Options {
        Options {
            callbacks: Some(Callbacks {
                url: self.bridge.url().to_owned(),
                token: self.bridge.token().to_owned(),
            }),
            ..options.clone()
        }
    }

    /// As [`Print::next`], and the CLI's clock of silence stands while it waits for the caller.
    pub async fn next(&mut self, print: &mut Print, events: &mut Vec<Event>) -> bool {
        loop {
            if self.traffic.borrow_and_update().waiting == 0 {
                self.hold = None;
            } else {
                self.hold.get_or_insert_with(|| print.process().hold());
            }
            tokio::select! {
                more = print.next(events) => return more,
                Ok(()) = self.traffic.changed() => {}
            }
        }
    }

    /// What the run tells of `event`: nothing, if it is about a call that was told already. A call of what is no tool keeps the
    /// name that the caller would have given it.
    pub fn pass(&mut self, event: Event) -> Option<Event> {
        let declarations = &self.served.declarations;
        match event {
            Event::ToolCall { tool_call } if declarations.ours(&tool_call.name).is_some() => {
                self.hidden.insert(tool_call.id);
                None
            }
            Event::ToolCall { mut tool_call } => {
                tool_call.name = declarations.callers_name(&tool_call.name);
                Some(Event::ToolCall { tool_call })
            }
            Event::ToolResult { ref tool_call_id, .. } if self.hidden.contains(tool_call_id) => None,
            other => Some(other),
        }
    }

    /// Whether the CLI has asked for the tools.
    pub fn reached(&self) -> bool {
        *self.bridge.connected().borrow() >= Connection::Listed
    }

    /// Whether any tool was called.
    pub fn used(&self) -> bool {
        self.traffic.borrow().all > 0
    }

    /// Ends the bridge.
    pub async fn close(self) {
        self.bridge.close().await;
    }
}
