//! Decides which requests to the bridge are answered: by a request's head, before a byte of its body is read, and then by its body.
//!
//! In: method, target and headers. Out: the request may pass, or the [`Rejection`] that answers it. Without the token a client
//! learns nothing about the paths, and the time of a check reveals nothing about the token.
//!
//! In: a body that arrives piece by piece from a client with the token, within limits of size and time. Out: an [`RpcBody`], or the
//! [`Rejection`] for it. The arguments of a call stay raw text. So they reach the caller as the model wrote them, and text that a JSON
//! value can't hold (lone surrogates, long numbers) doesn't lose the call.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Body;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq;

use super::calls::RequestId;
use dfp_provider::declare::mcp::Message;

/// The only path of the server.
pub const PATH: &str = "/mcp";

/// The address and secret of a bridge.
pub(super) struct RequestGuard {
    /// The port at 127.0.0.1.
    pub port: u16,
    /// The run's secret, 64 hexadecimal digits.
    pub token: String,
}

/// The reason why a request is rejected, and its HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rejection {
    /// The HTTP status.
    pub status: StatusCode,
    pub reason: &'static str,
}

const fn rejection(status: StatusCode, reason: &'static str) -> Rejection {
    Rejection { status, reason }
}

const HOST: Rejection = rejection(
    StatusCode::FORBIDDEN,
    "the Host header must name this server's loopback address and port",
);
const ORIGIN: Rejection = rejection(
    StatusCode::FORBIDDEN,
    "the Origin header must be absent or a loopback one",
);
const TOKEN: Rejection = rejection(StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong");
const WRONG_PATH: Rejection = rejection(StatusCode::NOT_FOUND, "there is nothing here: the path is /mcp");
const METHOD: Rejection = rejection(
    StatusCode::METHOD_NOT_ALLOWED,
    "POST and DELETE are the methods there are",
);

impl RequestGuard {
    /// Decides whether a request with this head may pass.
    pub fn check(&self, method: &Method, target: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        self.host(target, headers)?;
        origin(headers)?;
        self.bearer(headers)?;
        if target.path() != PATH {
            return Err(WRONG_PATH);
        }
        match *method {
            Method::POST | Method::DELETE => Ok(()),
            _ => Err(METHOD),
        }
    }

    /// Checks the host, against DNS rebinding: a browser page that rebound its own name to 127.0.0.1 still sends that name.
    fn host(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let ours = |authority: &str| {
            let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
            (host == "127.0.0.1" || host.eq_ignore_ascii_case("localhost")) && port.parse() == Ok(self.port)
        };
        let host = only(headers, &header::HOST).ok_or(HOST)?;
        let target = target.authority().is_none_or(|authority| ours(authority.as_str()));
        if ours(host) && target { Ok(()) } else { Err(HOST) }
    }

    /// Checks the bearer token.
    fn bearer(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        let value = only(headers, &header::AUTHORIZATION).and_then(|value| value.split_once(' '));
        let (scheme, token) = value.ok_or(TOKEN)?;
        // The comparison takes the same time for every token of the right length, which is no secret.
        let same: bool = token.trim().as_bytes().ct_eq(self.token.as_bytes()).into();
        if scheme.eq_ignore_ascii_case("bearer") && same {
            Ok(())
        } else {
            Err(TOKEN)
        }
    }
}

/// Checks the origin. CLIs send none, only browsers do, and of those only tools that run on this machine may pass.
fn origin(headers: &HeaderMap) -> Result<(), Rejection> {
    if !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let loopback = |origin: &str| {
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))?;
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => host,
            _ => authority,
        };
        matches!(host.to_ascii_lowercase().as_str(), "127.0.0.1" | "localhost" | "[::1]").then_some(())
    };
    only(headers, &header::ORIGIN).and_then(loopback).ok_or(ORIGIN)
}

/// The value of a header that occurs exactly once, in ASCII.
fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// A body of up to this many times the limit is read and dropped, so that a client that writes before it reads still gets the
/// reason.
const PATIENCE: usize = 8;

/// One JSON-RPC message.
#[derive(Debug)]
pub(super) struct RpcBody {
    /// The message as it came.
    message: Box<RawValue>,
    /// The id of a request.
    pub id: Option<RequestId>,
    /// The parameters of a `tools/call` that names a tool.
    pub call: Option<CallParams>,
    /// The name that the client gives itself when it initialises.
    pub client: Option<String>,
    /// The request that a `notifications/cancelled` withdraws.
    pub cancels: Option<RequestId>,
}

impl RpcBody {
    /// The message in parts.
    pub fn rpc(&self) -> Message<'_> {
        serde_json::from_str(self.message.get()).unwrap_or_default()
    }
}

/// The parameters of a `tools/call`.
#[derive(Debug)]
pub(super) struct CallParams {
    pub name: String,
    /// The arguments, as the text of a JSON object.
    pub args: Box<RawValue>,
    /// The token of notifications of progress, if the client wants them.
    pub progress: Option<Box<RawValue>>,
    /// The model's own id of the call, where the CLI passes it on.
    pub call_id: Option<String>,
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
const NOT_A_MESSAGE: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "the body is not a JSON-RPC message",
};
const ARGS_NOT_OBJECT: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "a call's arguments must be a JSON object",
};

const NO_ID: Rejection = Rejection {
    status: StatusCode::BAD_REQUEST,
    reason: "the id of a request must be a number or a text",
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
pub(super) fn read(body: &[u8]) -> Result<RpcBody, Rejection> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MessageParams<'a> {
        name: Option<String>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
        #[serde(borrow)]
        client_info: Option<&'a RawValue>,
        #[serde(borrow)]
        request_id: Option<&'a RawValue>,
    }
    let message: Box<RawValue> = serde_json::from_slice(body).map_err(|_| NOT_A_MESSAGE)?;
    if !message.get().starts_with('{') {
        return Err(NOT_A_MESSAGE);
    }
    let rpc: Message = serde_json::from_str(message.get()).map_err(|_| NOT_A_MESSAGE)?;
    let id = match rpc.id {
        Some(id) if rpc.method.is_some() => Some(RequestId::read(id).ok_or(NO_ID)?),
        _ => None,
    };
    let params: Option<MessageParams> = rpc.params.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let (mut call, mut client, mut cancels) = (None, None, None);
    match (rpc.method.as_deref(), params) {
        (Some("tools/call"), Some(params)) => {
            let args = match params.arguments.map(RawValue::get) {
                None => "{}",
                Some(text) if text.starts_with('{') => text,
                Some(_) => return Err(ARGS_NOT_OBJECT),
            };
            let args = RawValue::from_string(args.to_owned()).map_err(|_| ARGS_NOT_OBJECT)?;
            call = params.name.map(|name| CallParams {
                name,
                args,
                progress: params.meta.and_then(progress_token),
                call_id: params.meta.and_then(call_id),
            });
        }
        (Some("initialize"), Some(params)) => {
            #[derive(Deserialize)]
            struct Named {
                name: String,
            }
            let named = params.client_info.and_then(|raw| Named::deserialize(raw).ok());
            client = named.map(|client| client.name);
        }
        (Some("notifications/cancelled"), Some(params)) => cancels = params.request_id.and_then(RequestId::read),
        _ => {}
    }
    Ok(RpcBody {
        message,
        id,
        call,
        client,
        cancels,
    })
}

/// The token for notifications of progress in `meta`.
fn progress_token(meta: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: Option<&'a RawValue>,
    }
    let token = serde_json::from_str::<Meta>(meta.get()).ok()?.token?;
    RequestId::read(token).map(|_| token.to_owned())
}

/// The model's own id of a call, under the key of a CLI that passes it on.
fn call_id(meta: &RawValue) -> Option<String> {
    let meta: Value = serde_json::from_str(meta.get()).ok()?;
    let mut keys = dfp_provider::every().filter_map(|provider| provider.mcp.call_id);
    keys.find_map(|key| meta.get(key)?.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};
    use http::Request;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use proptest::prelude::*;

    use super::*;

    fn guard() -> RequestGuard {
        RequestGuard {
            port: 4711,
            token: "ab".repeat(32),
        }
    }

    fn check(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<(), Rejection> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        guard().check(&head.method, &head.uri, &head.headers)
    }

    #[test]
    fn who_may_pass() {
        let token = format!("Bearer {}", guard().token);
        let (host, auth) = (("host", "127.0.0.1:4711"), ("authorization", token.as_str()));
        let wrong = format!("Bearer {}c", "ab".repeat(31) + "a");
        let (lower, long) = (token.replace("Bearer", "bearer"), format!("{token}a"));
        for (method, target, headers, expected) in [
            ("POST", "/mcp", vec![host, auth], Ok(())),
            ("DELETE", "/mcp", vec![host, auth], Ok(())),
            ("POST", "/mcp?x", vec![("host", "LOCALHOST:4711"), auth], Ok(())),
            ("POST", "/mcp", vec![host, ("authorization", lower.as_str())], Ok(())),
            ("POST", "http://127.0.0.1:4711/mcp", vec![host, auth], Ok(())),
            (
                "POST",
                "/mcp",
                vec![host, auth, ("origin", "http://localhost:3000")],
                Ok(()),
            ),
            ("POST", "/mcp", vec![host, auth, ("origin", "https://[::1]")], Ok(())),
            ("POST", "/mcp", vec![auth], Err(HOST)),
            ("POST", "/mcp", vec![host, host, auth], Err(HOST)),
            ("POST", "/mcp", vec![("host", "127.0.0.1"), auth], Err(HOST)),
            ("POST", "/mcp", vec![("host", "127.0.0.1:4712"), auth], Err(HOST)),
            ("POST", "/mcp", vec![("host", "evil.example:4711"), auth], Err(HOST)),
            (
                "POST",
                "/mcp",
                vec![("host", "localhost.evil.example:4711"), auth],
                Err(HOST),
            ),
            ("POST", "/mcp", vec![("host", "x@127.0.0.1:4711"), auth], Err(HOST)),
            ("POST", "http://evil.example/mcp", vec![host, auth], Err(HOST)),
            (
                "POST",
                "/mcp",
                vec![host, auth, ("origin", "https://evil.example")],
                Err(ORIGIN),
            ),
            (
                "POST",
                "/mcp",
                vec![host, auth, ("origin", "http://localhost.evil.example")],
                Err(ORIGIN),
            ),
            ("POST", "/mcp", vec![host, auth, ("origin", "null")], Err(ORIGIN)),
            (
                "POST",
                "/mcp",
                vec![host, auth, ("origin", "http://localhost"), ("origin", "x")],
                Err(ORIGIN),
            ),
            ("POST", "/mcp", vec![host], Err(TOKEN)),
            ("POST", "/mcp", vec![host, auth, auth], Err(TOKEN)),
            (
                "POST",
                "/mcp",
                vec![host, ("authorization", wrong.as_str())],
                Err(TOKEN),
            ),
            ("POST", "/mcp", vec![host, ("authorization", long.as_str())], Err(TOKEN)),
            ("POST", "/mcp", vec![host, ("authorization", "Bearer ")], Err(TOKEN)),
            (
                "POST",
                "/mcp",
                vec![host, ("authorization", guard().token.as_str())],
                Err(TOKEN),
            ),
            ("POST", "/elsewhere", vec![host], Err(TOKEN)),
            ("POST", "/elsewhere", vec![host, auth], Err(WRONG_PATH)),
            ("POST", "/mcp/", vec![host, auth], Err(WRONG_PATH)),
            ("GET", "/mcp", vec![host, auth], Err(METHOD)),
            ("OPTIONS", "/mcp", vec![host, auth], Err(METHOD)),
        ] {
            assert_eq!(
                check(method, target, &headers),
                expected,
                "{method} {target} {headers:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_other_token_passes(token in "[ -~]{0,80}") {
            prop_assume!(!token.trim().eq(&format!("Bearer {}", guard().token)));
            prop_assert_eq!(check("POST", "/mcp", &[("host", "127.0.0.1:4711"), ("authorization", &token)]), Err(TOKEN));
        }
    }

    fn args(text: &str) -> Result<Option<String>, Rejection> {
        read(text.as_bytes()).map(|rpc| rpc.call.map(|call| call.args.get().to_owned()))
    }

    #[test]
    fn arguments_stay_as_they_were_written() {
        let text = r#"{"z":1.0,"a":1e400,"s":"\ud83e","n":123456789012345678901234567890}"#;
        let call = format!(
            r#" {{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"_meta":{{"progressToken":2,"claudecode/toolUseId":"toolu_1"}},"name":"t","arguments":{text}}}}}"#
        );
        let rpc = read(call.as_bytes()).unwrap();
        let call = rpc.call.unwrap();
        assert_eq!((call.name.as_str(), call.args.get()), ("t", text));
        assert_eq!(call.progress.unwrap().get(), "2");
        assert_eq!(call.call_id.as_deref(), Some("toolu_1"));
        assert_eq!(rpc.id, Some(RequestId::Number(7)));
    }

    #[test]
    fn what_is_no_call_is_read_as_what_it_is() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"method":"tools/call","params":{"arguments":{}}}"#,
            r#"{"method":"ping","params":[]}"#,
            r#"{ "result" : {}, "id": {} }"#,
        ] {
            assert!(read(text.as_bytes()).unwrap().call.is_none());
        }
        assert_eq!(read(br#"{"method":"ping","id":[]}"#).unwrap_err(), NO_ID);
        let cancelled = |id: &str| {
            let text = format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            read(text.as_bytes()).unwrap().cancels
        };
        assert_eq!(cancelled("7"), Some(RequestId::Number(7)));
        assert_eq!(cancelled(r#""a""#), Some(RequestId::Text("a".into())));
        assert_eq!(cancelled("[]"), None);
        let client = br#"{"method":"initialize","params":{"clientInfo":{"name":"c","version":"1"}}}"#;
        assert_eq!(read(client).unwrap().client.as_deref(), Some("c"));
    }

    #[test]
    fn arguments_are_an_object_or_nothing() {
        let call = |args: &str| format!(r#"{{"method":"tools/call","params":{{"name":"t","arguments":{args}}}}}"#);
        assert_eq!(args(&call("null")), Ok(Some("{}".to_owned())));
        assert_eq!(args(&call("{ }")), Ok(Some("{ }".to_owned())));
        for wrong in ["[]", "\"{}\"", "7"] {
            assert_eq!(args(&call(wrong)), Err(ARGS_NOT_OBJECT));
        }
        for wrong in ["", "[]", "nul", "{\"a\":}", "{\"method\":7}", "\u{feff}{}"] {
            assert_eq!(args(wrong), Err(NOT_A_MESSAGE), "{wrong:?}");
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
            let _ = read(&body);
        }
    }
}
