//! Runs in which the CLI itself calls the caller's tools during its turn, over a bridge.
//!
//! In: a request, and a CLI that takes a server of tools. Out: the same [`Run`] as ever, and beside it the calls as they are made.
//! Each attempt has a bridge of its own, so that nothing of a failed attempt reaches the next. Each call is reported once: as a
//! [`ToolCallRequest`], not as an event of the CLI.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use dfp_exchange::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest, Traffic};
use dfp_exchange::print::{Print, not_offered};
use dfp_exchange::{Ended, Evidence, Exchange, StopReason, Unusable};
use dfp_model::event::{Event, Failure};
use dfp_process::Hold;
use dfp_provider::callbacks::Callbacks;
use dfp_provider::declare::mcp::Declarations;
use dfp_provider::options::Options;

/// The time for which a call waits for the CLI's output to announce it. Output and call come by two ways, and on a busy machine the
/// call may be first; text that the model wrote before it would then be reported after it.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(1);

/// A call's tools, to be served over a bridge.
pub(super) struct ToolServer {
    pub declarations: Declarations,
    pub consumer: mpsc::Sender<ToolCallRequest>,
    pub options: BridgeOptions,
}

/// The open bridge of one attempt.
pub(super) struct OpenBridge<'a> {
    server: &'a ToolServer,
    bridge: Bridge,
    traffic: watch::Receiver<Traffic>,
    /// Stops the CLI's idle clock while calls wait for the caller: that silence is not the CLI's.
    hold: Option<Hold>,
    /// The ids of calls in the CLI's events that are reported as [`ToolCallRequest`] instead.
    hidden: HashSet<String>,
    /// The arguments of the calls that have not gone on, by the model's ids. The output has them as the model wrote them; in the
    /// arguments with which claude calls the bridge, escapes that stood there as text are resolved.
    written: HashMap<String, Box<RawValue>>,
    calls: mpsc::Receiver<ToolCallRequest>,
    queue: Queue,
}

/// Calls on their way to the caller.
#[derive(Debug, Default)]
struct Queue {
    /// The calls that the output has not announced yet, each with the time at which it goes on without.
    early: VecDeque<(ToolCallRequest, Instant)>,
    /// The number of calls that the output has announced, and the number that have gone on.
    announced: usize,
    gone_on: usize,
    /// True if the output has not announced a call in time: then no call waits for it any more.
    unannounced: bool,
}

impl Queue {
    fn push(&mut self, call: ToolCallRequest) {
        self.early.push_back((call, Instant::now() + ANNOUNCED_WITHIN));
    }

    /// The next call that may go on.
    fn pop(&mut self) -> Option<ToolCallRequest> {
        let (_, until) = self.early.front()?;
        self.unannounced |= self.announced <= self.gone_on && *until <= Instant::now();
        if self.announced <= self.gone_on && !self.unannounced {
            return None;
        }
        self.gone_on += 1;
        self.early.pop_front().map(|(call, _)| call)
    }

    /// Waits until the first early call may go on without an announcement; forever if there is none.
    async fn patience(&self) {
        match self.early.front() {
            Some((_, until)) => sleep_until(*until).await,
            None => std::future::pending().await,
        }
    }
}

impl ToolServer {
    /// Opens a bridge for one attempt.
    pub fn open(&self) -> io::Result<OpenBridge<'_>> {
        let (consumer, calls) = bridge::call_channel();
        let bridge = Bridge::start_for(self.declarations.clone(), self.options, consumer)?;
        Ok(OpenBridge {
            server: self,
            traffic: bridge.traffic(),
            bridge,
            hold: None,
            hidden: HashSet::new(),
            written: HashMap::new(),
            calls,
            queue: Queue::default(),
        })
    }
}

impl OpenBridge<'_> {
    /// Returns `options` for a CLI that knows the bridge.
    pub fn with_bridge(&self, options: &Options) -> Options {
        Options {
            callbacks: Some(Callbacks {
                url: self.bridge.url().to_owned(),
                token: self.bridge.token().to_owned(),
            }),
            ..options.clone()
        }
    }

    /// Waits for the events of `print`. The CLI's idle clock stands while it waits for the caller.
    async fn next(&mut self, print: &mut Print, events: &mut Vec<Event>) -> ControlFlow<()> {
        loop {
            if self.traffic.borrow_and_update().waiting == 0 {
                self.hold = None;
            } else {
                self.hold.get_or_insert_with(|| print.process().hold());
            }
            tokio::select! {
                progress = print.next(events) => return progress,
                Ok(()) = self.traffic.changed() => {}
                Some(call) = self.calls.recv() => {
                    self.queue.push(call);
                    self.let_go_on().await;
                }
                () = self.queue.patience() => self.let_go_on().await,
            }
        }
    }

    /// Hands on the calls that the output has announced. Call this when the events before them have been sent.
    async fn let_go_on(&mut self) {
        while let Some(mut call) = self.queue.pop() {
            if let Some(args) = self.written.remove(&call.call.id) {
                call.call.args = args;
            }
            // If nobody takes the call any more, it is dropped, and the bridge answers it.
            let _ = self.server.consumer.send(call).await;
        }
    }

    /// The event that the run reports for `event`: `None` if it is about a call that was reported already. A call of an unknown
    /// tool keeps the name that the caller uses for it.
    fn pass(&mut self, event: Event) -> Option<Event> {
        let declarations = &self.server.declarations;
        match event {
            Event::ToolCall { tool_call } if declarations.ours(&tool_call.name).is_some() => {
                // Some CLIs report a call twice, when it begins and when it ends.
                if self.hidden.insert(tool_call.id.clone()) {
                    self.queue.announced += 1;
                    self.written.insert(tool_call.id, tool_call.args);
                }
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

    /// Returns whether the CLI has asked for the tools.
    fn reached(&self) -> bool {
        *self.bridge.connected().borrow() >= Connection::Listed
    }

    /// The failure of a CLI that has asked for the tools and does not offer all of them to its model. The CLI reports its model's
    /// tools before it calls the model.
    fn missing(&self, offered: &[String]) -> Option<Failure> {
        let missing = self.server.declarations.missing(offered);
        (self.reached() && !missing.is_empty()).then(|| not_offered(&missing))
    }

    /// Returns whether any tool was called.
    fn used(&self) -> bool {
        self.traffic.borrow().all > 0
    }
}

/// A process whose CLI calls the caller's tools over a bridge.
pub(super) struct BridgedPrint<'a> {
    pub print: Print,
    pub bridge: OpenBridge<'a>,
}

impl Exchange for BridgedPrint<'_> {
    const KEEPS_LIMITS: bool = Print::KEEPS_LIMITS;

    fn pid(&self) -> Option<u32> {
        self.print.pid()
    }

    fn elapsed(&self) -> Duration {
        self.print.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.print.received_bytes()
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        // The text before them is out by now.
        self.bridge.let_go_on().await;
        let mut printed = Vec::new();
        let progress = self.bridge.next(&mut self.print, &mut printed).await;
        if let Some(missing) = self
            .print
            .take_offered()
            .and_then(|offered| self.bridge.missing(&offered))
        {
            events.push(Event::Failure(missing));
            self.print.give_up();
        }
        events.extend(printed.into_iter().filter_map(|event| self.bridge.pass(event)));
        progress
    }

    fn stop(&mut self, reason: StopReason) {
        self.print.stop(reason);
    }

    async fn finish(self) -> Result<Box<Ended>, Unusable> {
        let BridgedPrint { print, mut bridge } = self;
        bridge.let_go_on().await;
        let mut ended = print.finish().await?;
        if let Evidence::Process(process) = &mut ended.evidence {
            process.unreached = !bridge.reached();
        }
        ended.has_side_effects = bridge.used();
        bridge.bridge.close().await;
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use tokio::sync::oneshot;
    use tokio::time::advance;

    use super::*;
    use dfp_model::message::ToolCall;

    fn call(id: &str) -> ToolCallRequest {
        let (reply, _) = oneshot::channel();
        let call = ToolCall {
            id: id.to_owned(),
            name: "add".to_owned(),
            args: RawValue::from_string("{}".to_owned()).unwrap(),
        };
        ToolCallRequest { call, reply }
    }

    fn gone(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|request| request.call.id)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_on_when_the_output_has_spoken_of_them() {
        let mut queue = Queue::default();
        queue.push(call("a"));
        queue.push(call("b"));
        assert_eq!(gone(&mut queue), [""; 0]);
        queue.announced += 1;
        assert_eq!(gone(&mut queue), ["a"]);
        queue.announced += 2;
        assert_eq!(gone(&mut queue), ["b"]);
        // The output has announced the call before it came.
        queue.push(call("c"));
        assert_eq!(gone(&mut queue), ["c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_which_the_output_does_not_speak_wait_once() {
        let mut queue = Queue::default();
        queue.push(call("a"));
        advance(ANNOUNCED_WITHIN / 2).await;
        queue.push(call("b"));
        assert_eq!(gone(&mut queue), [""; 0]);
        queue.patience().await;
        assert_eq!(gone(&mut queue), ["a", "b"]);
        queue.push(call("c"));
        assert_eq!(gone(&mut queue), ["c"]);
    }
}
