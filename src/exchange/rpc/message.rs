//! The messages of JSON-RPC, a line each: reading incoming ones, writing outgoing ones.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The code of JSON-RPC for a method that nobody knows.
const UNKNOWN_METHOD: i64 = -32_601;

/// A message of the process.
#[derive(Debug)]
pub enum Message<'a> {
    /// The answer to a request of ours.
    Answer {
        id: u64,
        /// The result, or the error.
        result: Result<Box<RawValue>, RpcError>,
    },
    /// A request of the process.
    Request(Request<'a>),
    Notification {
        method: Cow<'a, str>,
        /// The parameters, as JSON.
        params: &'a str,
    },
    /// A line that can't be read as a message.
    Nothing,
}

/// A request of the process. Its ids are numbered separately from ours.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id to be repeated in the answer.
    pub id: &'a RawValue,
    pub method: Cow<'a, str>,
    /// The parameters, as JSON.
    pub params: &'a str,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RpcError {
    /// The code. codex: -32600 for nearly everything; gemini: the API's HTTP status.
    #[serde(default)]
    pub code: i64,
    /// The reason.
    #[serde(default)]
    pub message: String,
    /// Further data of the error.
    #[serde(default)]
    pub data: Value,
}

impl RpcError {
    /// Makes an error without a code, for this reason.
    pub fn of(message: impl Into<String>) -> RpcError {
        RpcError {
            code: 0,
            message: message.into(),
            data: Value::Null,
        }
    }

    /// The reason: that in `data`, if it has a finer one than the message.
    pub fn reason(&self) -> &str {
        let details = self.data.get("details").and_then(Value::as_str);
        details.or(self.data.as_str()).unwrap_or(&self.message)
    }
}

#[derive(Deserialize)]
struct RpcLine<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads a line; what can't be read is [`Message::Nothing`].
pub fn read(text: &str) -> Message<'_> {
    let Ok(line) = serde_json::from_str::<RpcLine>(text) else {
        return Message::Nothing;
    };
    let params = line.params.map_or("{}", RawValue::get);
    match (line.id, line.method) {
        (Some(id), Some(method)) => Message::Request(Request { id, method, params }),
        (Some(id), None) => {
            let Ok(id) = id.get().parse() else {
                return Message::Nothing;
            };
            let result = match (line.result, line.error) {
                (_, Some(error)) => Err(serde_json::from_str(error.get()).unwrap_or(RpcError::of(error.get()))),
                (Some(result), None) => Ok(result.to_owned()),
                (None, None) => Ok(RawValue::NULL.to_owned()),
            };
            Message::Answer { id, result }
        }
        (None, Some(method)) => Message::Notification { method, params },
        (None, None) => Message::Nothing,
    }
}

/// The member that names the version of JSON-RPC, which codex leaves out.
pub type Version = Option<&'static str>;

#[derive(Serialize)]
struct RpcCall<'a, P: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a P>,
}

#[derive(Serialize)]
struct RpcReply<'a, R: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Version,
    id: &'a RawValue,
    #[serde(flatten)]
    came: Came<'a, R>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Came<'a, R: Serialize> {
    Result(&'a R),
    Error { code: i64, message: String },
}

/// The line of request `id`.
pub fn request(version: Version, id: u64, method: &str, params: &impl Serialize) -> String {
    line(&RpcCall {
        jsonrpc: version,
        id: Some(id),
        method,
        params: Some(params),
    })
}

/// The line of a notification.
pub fn notification<P: Serialize>(version: Version, method: &str, params: Option<&P>) -> String {
    line(&RpcCall {
        jsonrpc: version,
        id: None,
        method,
        params,
    })
}

/// The answer to the process's request `id`.
pub fn answer(version: Version, id: &RawValue, result: &impl Serialize) -> String {
    line(&RpcReply {
        jsonrpc: version,
        id,
        came: Came::Result(result),
    })
}

/// The refusal of the process's request `id`, which nobody here understands.
pub fn refusal(version: Version, id: &RawValue, method: &str) -> String {
    let came: Came<'_, ()> = Came::Error {
        code: UNKNOWN_METHOD,
        message: format!("deep-factor-providers knows no request {method}"),
    };
    line(&RpcReply {
        jsonrpc: version,
        id,
        came,
    })
}

fn line<T: Serialize>(message: &T) -> String {
    // Strings, numbers and raw JSON that was parsed: there is nothing serde_json can't write.
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_written_whole() {
        assert_eq!(
            request(Some("2.0"), 1, "session/new", &json!({"cwd": "a\n\"b\""})),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"a\\n\\\"b\\\"\"}}\n"
        );
        assert_eq!(
            notification::<()>(None, "initialized", None),
            "{\"method\":\"initialized\"}\n"
        );
        let id = RawValue::from_string("\"x\"".to_owned()).unwrap();
        assert_eq!(
            answer(None, &id, &json!({"ok": 1})),
            "{\"id\":\"x\",\"result\":{\"ok\":1}}\n"
        );
        assert_eq!(
            refusal(Some("2.0"), &id, "fs/read"),
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"deep-factor-providers knows no request \
             fs/read\"}}\n"
        );
    }

    /// The process's ids and ours are separate (CODEX-LIVE pitfall 16).
    #[test]
    fn what_has_a_method_and_a_number_is_the_processs_request() {
        let line = r#"{"method":"item/tool/call","id":0,"params":{"a":1}}"#;
        let Message::Request(Request { id, method, params }) = read(line) else {
            panic!("no request");
        };
        assert_eq!((id.get(), &*method, params), ("0", "item/tool/call", r#"{"a":1}"#));
        let line = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
        assert!(matches!(read(line), Message::Answer { id: 0, result: Ok(_) }));
        let line = r#"{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"401 bad key"}}}"#;
        let Message::Answer {
            id: 3,
            result: Err(error),
        } = read(line)
        else {
            panic!("no error");
        };
        assert_eq!((error.code, error.reason()), (-32_603, "401 bad key"));
    }

    #[test]
    fn other_lines_are_nothing() {
        for line in [
            "",
            "[]",
            "7",
            "\u{feff}{}",
            "{}",
            "no JSON",
            r#"{"method":7}"#,
            r#"{"id":"x","result":{}}"#,
        ] {
            assert!(matches!(read(line), Message::Nothing), "{line}");
        }
    }
}
