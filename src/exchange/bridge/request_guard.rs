//! Decides who may use the bridge, by a request's head, before a byte of its body is read.
//!
//! In: method, target and headers. Out: the request may pass, or the [`Rejection`] that answers it. Without the token a client
//! learns nothing about the paths, and the time of a check reveals nothing about the token.

use http::{HeaderMap, Method, StatusCode, Uri, header};
use subtle::ConstantTimeEq;

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

#[cfg(test)]
mod tests {
    use http::Request;
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
}
