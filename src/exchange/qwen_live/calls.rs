//! The calls of a session: the caller's tools, the calls that wait for their results, and how many calls the CLI takes.
//!
//! [`Tools`] is an MCP server for the session that declares the tools, and the calls that come over it.
//!
//! [`PendingCalls`] gives each result to the request of its call. In: the calls in the model's message, the CLI's requests for their
//! results, the caller's results. The protocol in between does not have the model's ids of the calls: a request is known by the tool's name
//! and the arguments, and of several equal ones the first belongs to the first call. A request that belongs to no call is answered with an
//! error.
//!
//! `CallLimits` tells when a session can take no more calls, though nothing is wrong with it. In: the calls of its model, one after the
//! other. Out: whether the next call could fail: then the thread's next call begins another process, which counts from the start. Measured
//! with 0.24.4, which reads no settings with `--bare` that would switch any of it off:
//! - the fifth call in a row of the same tool with the same arguments ends the turn ("Loop detection halted the run"), whoever
//!   polls;
//! - so does a call beyond the hundredth if six of the turn's are alike;
//! - a call under an id that the API has used before gets another id, and a call that also has the arguments of the first is
//!   never asked for: the CLI answers it itself, and asks its model again.

use std::io;

use tokio::sync::{mpsc, watch};

use crate::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest};
use crate::live::history::{Fingerprint, print_of_call};
use dfp_model::message::{ToolCall, ToolResult};
use dfp_provider::declare::mcp::{Callbacks, Declarations};

/// A call that the model has made and the caller has to answer.
#[derive(Debug)]
struct Expected {
    /// The model's id of the call.
    id: String,
    print: Fingerprint,
    request: Option<ToolCallRequest>,
    result: Option<ToolResult>,
}

/// The calls that wait, and the requests for them; the module's description tells how they are matched.
#[derive(Debug, Default)]
pub struct PendingCalls {
    expected: Vec<Expected>,
    /// Requests for calls that the output has not reported yet: the two come over separate channels.
    early: Vec<ToolCallRequest>,
}

/// The fingerprint of a call by its name and arguments alone.
pub(super) fn print_of(call: &ToolCall) -> Fingerprint {
    print_of_call(&ToolCall {
        id: String::new(),
        ..call.clone()
    })
}

impl PendingCalls {
    /// Adds `call`, which the model has made of one of the caller's tools, under its caller's name.
    pub fn expect(&mut self, call: &ToolCall) {
        self.expected.push(Expected {
            id: call.id.clone(),
            print: print_of(call),
            request: None,
            result: None,
        });
    }

    /// Adds the CLI's request for the result of a call.
    pub fn ask(&mut self, request: ToolCallRequest) {
        self.early.push(request);
        self.settle();
    }

    /// Gives the result of the call `id`.
    pub fn answer(&mut self, id: &str, result: ToolResult) {
        let open = |expected: &&mut Expected| expected.id == id && expected.result.is_none();
        if let Some(expected) = self.expected.iter_mut().find(open) {
            expected.result = Some(result);
        }
        self.settle();
    }

    /// Ends the model's message: a request for a call that it does not contain is answered with an error.
    pub fn close(&mut self) {
        self.settle();
        self.early.clear();
    }

    /// Returns whether any call waits for its result.
    pub fn is_waiting(&self) -> bool {
        self.expected.iter().any(|expected| expected.result.is_none())
    }

    fn settle(&mut self) {
        for request in std::mem::take(&mut self.early) {
            let print = print_of(&request.call);
            let fits = |expected: &&mut Expected| expected.request.is_none() && expected.print == print;
            match self.expected.iter_mut().find(fits) {
                Some(expected) => expected.request = Some(request),
                None => self.early.push(request),
            }
        }
        self.expected
            .retain_mut(|expected| match (&expected.result, &expected.request) {
                (Some(_), Some(_)) => {
                    if let (Some(result), Some(request)) = (expected.result.take(), expected.request.take()) {
                        // If nobody waits any more, the session is over.
                        let _ = request.reply.send(result);
                    }
                    false
                }
                _ => true,
            });
    }
}

/// The number of calls in a row that may be alike.
const MOST_ALIKE: usize = 4;

/// The number of calls that a turn may have; the message with the last of them may have a few more.
const MOST_CALLS: usize = 80;

/// The text that the CLI puts after an id that the API has used before, with a number.
const REUSED: &str = "__qwen_dup_";

/// Returns whether `id` stands for one that the API has used before.
pub(super) fn is_reused(id: &str) -> bool {
    id.contains(REUSED)
}

/// Counts the calls of a turn in the CLI's sense, which are all that follow one message of the user's, against its limits.
#[derive(Debug, Default)]
pub(super) struct CallLimits {
    last: Option<Fingerprint>,
    /// The number of calls in a row that are like the last one.
    alike: usize,
    calls: usize,
    has_reused: bool,
}

impl CallLimits {
    /// Begins a turn in the CLI's sense.
    pub fn begin(&mut self) {
        *self = CallLimits::default();
    }

    /// Counts `call`, which the model has made.
    pub fn note(&mut self, call: &ToolCall) {
        let print = print_of(call);
        self.alike = match self.last {
            Some(last) if last == print => self.alike + 1,
            _ => 1,
        };
        self.last = Some(print);
        self.calls += 1;
        self.has_reused |= is_reused(&call.id);
    }

    /// Returns whether the session can't continue with the results of these calls.
    pub fn are_reached(&self) -> bool {
        self.alike >= MOST_ALIKE || self.calls >= MOST_CALLS || self.has_reused
    }
}

/// The MCP server of a session's tools, and the calls that come over it. Dropping it ends the server.
#[derive(Debug)]
pub struct Tools {
    bridge: Bridge,
    calls: mpsc::Receiver<ToolCallRequest>,
}

impl Tools {
    /// Serves these tools; `None` if there are none. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system gives no port, or no random bytes.
    pub fn serve(declarations: &Declarations) -> io::Result<Option<Tools>> {
        if declarations.tools().is_empty() {
            return Ok(None);
        }
        let (consumer, calls) = bridge::call_channel();
        let bridge = Bridge::start_for(declarations.clone(), BridgeOptions::default(), consumer)?;
        Ok(Some(Tools { bridge, calls }))
    }

    /// The address and the token of the server, which the CLI has to be told.
    pub(super) fn callbacks(&self) -> Callbacks {
        Callbacks {
            url: self.bridge.url().to_owned(),
            token: self.bridge.token().to_owned(),
        }
    }

    /// The progress of the CLI's connection to the server.
    pub(super) fn connection(&self) -> watch::Receiver<Connection> {
        self.bridge.connected()
    }

    /// Returns whether the CLI has asked for the list of tools: a request that it makes earlier goes without them.
    pub(super) fn are_listed(&self) -> bool {
        *self.connection().borrow() >= Connection::Listed
    }
}

/// Resolves when the CLI has asked for the tools; never for a session without any. Cancel safe.
pub(super) async fn listed(connection: Option<watch::Receiver<Connection>>) {
    if let Some(mut connection) = connection {
        let is_listed = |connection: &Connection| *connection >= Connection::Listed;
        if connection.wait_for(is_listed).await.is_ok() {
            return;
        }
    }
    std::future::pending().await
}

/// Waits for the next call over the session's server; forever if there is no server. Cancel safe.
pub(super) async fn next_call(tools: &mut Option<Tools>) -> ToolCallRequest {
    let call = match tools {
        Some(tools) => tools.calls.recv().await,
        None => None,
    };
    match call {
        Some(call) => call,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use tokio::sync::oneshot;

    use super::*;
    use dfp_model::message::Content;

    fn call(id: &str, args: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "add".to_owned(),
            args: RawValue::from_string(args.to_owned()).unwrap(),
        }
    }

    fn request(args: &str) -> (ToolCallRequest, oneshot::Receiver<ToolResult>) {
        let (reply, result) = oneshot::channel();
        let call = call("made", args);
        (ToolCallRequest { call, reply }, result)
    }

    fn result(text: &str) -> ToolResult {
        ToolResult {
            content: Content::Text(text.to_owned()),
            is_error: false,
        }
    }

    fn text(mut reply: oneshot::Receiver<ToolResult>) -> Option<String> {
        reply.try_recv().ok().map(|result| result.content.as_text().to_owned())
    }

    #[test]
    fn results_find_their_requests_by_name_arguments_and_order() {
        let mut held = PendingCalls::default();
        // Before the output reports it, and spelled in another way.
        let (early, first) = request(r#"{"b":2.0,"a":1}"#);
        held.ask(early);
        for call in [call("c1", r#"{"a":1,"b":2}"#), call("c2", "{}"), call("c3", "{}")] {
            held.expect(&call);
        }
        let ((second, second_reply), (third, third_reply)) = (request("{}"), request("{}"));
        held.ask(second);
        held.answer("c3", result("three"));
        held.answer("c2", result("two"));
        held.answer("c1", result("one"));
        held.ask(third);
        assert_eq!(
            [text(first), text(second_reply), text(third_reply)].map(Option::unwrap_or_default),
            ["one", "two", "three"]
        );
        assert!(!held.is_waiting());
    }

    #[test]
    fn a_request_that_no_message_has_named_waits_for_nothing() {
        let mut held = PendingCalls::default();
        held.expect(&call("c1", "{}"));
        let (foreign, mut reply) = request(r#"{"rm":"-rf"}"#);
        held.ask(foreign);
        held.close();
        assert!(held.is_waiting());
        assert_eq!(reply.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
    }

    fn are_reached(calls: &[(&str, &str)]) -> bool {
        let mut limits = CallLimits::default();
        for (id, args) in calls {
            let args = RawValue::from_string((*args).to_owned()).unwrap();
            limits.note(&ToolCall {
                id: (*id).to_owned(),
                name: "poll".to_owned(),
                args,
            });
        }
        limits.are_reached()
    }

    #[test]
    fn four_calls_alike_in_a_row_are_the_most() {
        let (one, same, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2.0, "a":1}"#, "{}");
        assert!(are_reached(&[("c1", one), ("c2", same), ("c3", one), ("c4", same)]));
        assert!(!are_reached(&[("c1", one), ("c2", one), ("c3", one)]));
        let broken = [
            ("c1", one),
            ("c2", one),
            ("c3", one),
            ("c4", other),
            ("c5", one),
            ("c6", one),
            ("c7", one),
        ];
        assert!(!are_reached(&broken));
    }

    #[test]
    fn a_turn_of_the_clis_has_no_hundred_calls() {
        let args: Vec<String> = (0..80).map(|n| format!(r#"{{"n":{}}}"#, n % 2)).collect();
        let calls: Vec<(&str, &str)> = args.iter().map(|args| ("c", args.as_str())).collect();
        assert_eq!([&calls[1..], &calls].map(are_reached), [false, true]);
    }

    #[test]
    fn an_id_that_was_used_before_is_the_last() {
        assert!(are_reached(&[("call_0__qwen_dup_2", "{}")]));
        assert!(!are_reached(&[("call_0", "{}")]));
    }
}
