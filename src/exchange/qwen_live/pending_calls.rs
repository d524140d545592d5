//! The calls of a session that wait for their results.
//!
//! In: the calls in the model's message, the CLI's requests for their results, the caller's results. Out: each result to the
//! request of its call. The protocol in between does not have the model's ids of the calls: a request is known by the tool's name
//! and the arguments, and of several equal ones the first belongs to the first call. A request that belongs to no call is
//! answered with an error.

use crate::bridge::ToolCallRequest;
use crate::live::fingerprint::Fingerprint;
use crate::live::history::print_of_call;
use dfp_model::message::{ToolCall, ToolResult};

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
}
