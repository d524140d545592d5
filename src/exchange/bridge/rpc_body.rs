//! The body of a request: it is read within limits of size and time, and the bridge takes from it what it must know before the MCP
//! server does.
//!
//! In: a body that arrives piece by piece from a client with the token. Out: an [`RpcBody`], or the [`Rejection`] for it. The
//! arguments of a call are taken out here as raw text. So they reach the caller as the model wrote them, and text that a JSON value
//! can't hold (lone surrogates, long numbers) doesn't lose the call.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::request_guard::Rejection;

/// A body of up to this many times the limit is read and dropped, so that a client that writes before it reads still gets the
/// reason.
const PATIENCE: usize = 8;

/// One JSON-RPC message.
#[derive(Debug, Default)]
pub(super) struct RpcBody {
    /// The body for the MCP server: unchanged, except for a call's arguments.
    pub body: Bytes,
    /// The method; `None` in an answer.
    pub method: Option<String>,
    /// The arguments of a `tools/call`, as the text of a JSON object.
    pub args: Option<Box<RawValue>>,
    /// The name that the client gives itself when it initialises.
    pub client: Option<String>,
    /// The request that a `notifications/cancelled` withdraws.
    pub cancels: Option<RequestId>,
}

const TOO_LARGE: Rejection = Rejection {
    status: StatusCode::PAYLOAD_TOO_LARGE,
    reason: "the body is larger than this server takes",
};
const TOO_SLOW: Rejection = Rejection {
    status: StatusCode::REQUEST_TIMEOUT,
    reason: "the body took too long to arrive",
};
const BROKEN: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "the body could not be read to its end",
};
const NOT_JSON_OBJECT: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "the body is not a JSON object",
};
const ARGS_NOT_OBJECT: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "a call's arguments must be a JSON object",
};

/// Reads all of `body`, if it has at most `limit` bytes and arrives within `time`.
pub(super) async fn collect(body: impl Body, limit: usize, time: Duration) -> Result<Bytes, Rejection> {
    let reading = async {
        let mut body = std::pin::pin!(body);
        let (mut kept, mut seen) = (BytesMut::new(), 0_usize);
        while let Some(frame) = body.frame().await {
            let Ok(mut data) = frame.map_err(|_| BROKEN)?.into_data().map_err(|_| BROKEN) else {
                // Trailers are skipped.
                continue;
            };
            seen = seen.saturating_add(data.remaining());
            if seen > limit {
                kept = BytesMut::new();
                if seen / PATIENCE > limit {
                    break;
                }
                continue;
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                let length = chunk.len();
                kept.extend_from_slice(chunk);
                data.advance(length);
            }
        }
        if seen > limit {
            Err(TOO_LARGE)
        } else {
            Ok(kept.freeze())
        }
    };
    tokio::time::timeout(time, reading).await.unwrap_or(Err(TOO_SLOW))
}

/// Reads the message in `body`.
pub(super) fn read(body: Bytes) -> Result<RpcBody, Rejection> {
    type Raw<'a> = BTreeMap<String, &'a RawValue>;
    let mut message: Raw = serde_json::from_slice(&body).map_err(|_| NOT_JSON_OBJECT)?;
    let method: Option<String> = message
        .get("method")
        .and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut rpc = RpcBody {
        method,
        ..RpcBody::default()
    };
    let params: Option<Raw> = message
        .get("params")
        .and_then(|raw| serde_json::from_str(raw.get()).ok());
    match (rpc.method.as_deref(), params) {
        (Some("tools/call"), Some(mut params)) if params.contains_key("arguments") => {
            let empty: &RawValue = serde_json::from_str("{}").map_err(|_| NOT_JSON_OBJECT)?;
            let args = params.insert("arguments".to_owned(), empty).unwrap_or(empty);
            let args = match args.get() {
                "null" => empty,
                text if text.starts_with('{') => args,
                _ => return Err(ARGS_NOT_OBJECT),
            };
            rpc.args = Some(args.to_owned());
            let params = serde_json::value::to_raw_value(&params).map_err(|_| NOT_JSON_OBJECT)?;
            message.insert("params".to_owned(), &params);
            rpc.body = serde_json::to_vec(&message).map_err(|_| NOT_JSON_OBJECT)?.into();
        }
        (Some("initialize"), Some(params)) => {
            #[derive(Deserialize)]
            struct Named {
                name: String,
            }
            let named = params.get("clientInfo").and_then(|raw| Named::deserialize(*raw).ok());
            rpc.client = named.map(|client| client.name);
            rpc.body = body;
        }
        (Some("notifications/cancelled"), Some(params)) => {
            rpc.cancels = params
                .get("requestId")
                .and_then(|raw| RequestId::deserialize(*raw).ok());
            rpc.body = body;
        }
        _ => rpc.body = body,
    }
    Ok(rpc)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use proptest::prelude::*;

    use super::*;

    fn args(text: &str) -> Result<Option<String>, Rejection> {
        read(Bytes::copy_from_slice(text.as_bytes())).map(|rpc| rpc.args.map(|args| args.get().to_owned()))
    }

    #[test]
    fn arguments_stay_as_they_were_written() {
        let text = r#"{"z":1.0,"a":1e400,"s":"\ud83e","n":123456789012345678901234567890}"#;
        let call = format!(
            r#" {{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"_meta":{{"progressToken":2}},"name":"t","arguments":{text}}}}}"#
        );
        let rpc = read(call.into()).unwrap();
        assert_eq!(rpc.args.unwrap().get(), text);
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&rpc.body).unwrap(),
            serde_json::json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {"_meta": {"progressToken": 2}, "name": "t", "arguments": {}}})
        );
    }

    #[test]
    fn what_is_no_call_passes_as_it_came() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"method":7,"params":[]}"#,
            r#"{ "result" : {} }"#,
        ] {
            let rpc = read(text.into()).unwrap();
            assert_eq!((rpc.body, rpc.args.is_none()), (Bytes::from(text), true));
        }
        let cancelled = |id: &str| {
            let text = format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            read(text.into()).unwrap().cancels
        };
        assert_eq!(cancelled("7"), Some(RequestId::Number(7)));
        assert_eq!(cancelled(r#""a""#), Some(RequestId::String("a".into())));
        assert_eq!(cancelled("[]"), None);
        let client = r#"{"method":"initialize","params":{"clientInfo":{"name":"c","version":"1"}}}"#;
        assert_eq!(read(client.into()).unwrap().client.as_deref(), Some("c"));
    }

    #[test]
    fn arguments_are_an_object_or_nothing() {
        let call = |args: &str| format!(r#"{{"method":"tools/call","params":{{"name":"t","arguments":{args}}}}}"#);
        assert_eq!(args(&call("null")), Ok(Some("{}".to_owned())));
        assert_eq!(args(&call("{ }")), Ok(Some("{ }".to_owned())));
        for wrong in ["[]", "\"{}\"", "7"] {
            assert_eq!(args(&call(wrong)), Err(ARGS_NOT_OBJECT));
        }
        for wrong in ["", "[]", "nul", "{\"a\":}", "\u{feff}{}"] {
            assert_eq!(args(wrong), Err(NOT_JSON_OBJECT), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn the_limit_is_exact_and_the_rest_is_let_go() {
        let collected = |size: usize| collect(Full::new(Bytes::from(vec![b'x'; size])), 10, Duration::from_secs(60));
        assert_eq!(collected(10).await.map(|body| body.len()), Ok(10));
        assert_eq!(collected(11).await, Err(TOO_LARGE));
        let endless = stream::repeat_with(|| Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"0123456789"))));
        assert_eq!(
            collect(StreamBody::new(endless), 10, Duration::from_secs(60)).await,
            Err(TOO_LARGE)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_cut_off() {
        let trickle = stream::repeat(()).then(|()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x")))
        });
        let read = collect(StreamBody::new(trickle), 1_000_000, Duration::from_secs(10)).await;
        assert_eq!(read, Err(TOO_SLOW));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_reason_to_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(body.into());
        }
    }
}
