//! What the bridge rejects: wrong tokens, other hosts and pages, bodies too large, too slow, or of garbage.

use std::time::Duration;

use deep_factor_providers::bridge::BridgeOptions;
use proptest::prelude::*;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{Client, echo, read, start, until};
use crate::LONG;

/// `change` made of a good request's headers; the body is a call.
async fn with(client: &Client, change: impl Fn(&mut Vec<(String, String)>)) -> (u16, String) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}).to_string();
    let mut headers = client.headers();
    change(&mut headers);
    let head = client.head("POST", "/mcp", &headers, body.len());
    let answer = client.raw(format!("{head}{body}").as_bytes()).await;
    let last = answer.last();
    let message = last["error"]["message"]
        .as_str()
        .or(last["result"]["content"][0]["text"].as_str());
    (answer.status, message.unwrap_or(&answer.body).to_owned())
}

fn set(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    headers.retain(|(known, _)| known != name);
    headers.push((name.to_owned(), value.to_owned()));
}

#[tokio::test]
async fn only_local_clients_with_the_token_are_served() {
    let (bridge, calls) = start(BridgeOptions::default()).await;
    let answered = echo(calls);
    let client = Client::initialized(&bridge).await;
    let refused = |status: u16, message: &str| (status, message.to_owned());

    let token = "the bearer token is missing or wrong";
    let wrong = format!("Bearer {}", "0".repeat(64));
    assert_eq!(
        with(&client, |h| h.retain(|(name, _)| name != "Authorization")).await,
        refused(401, token)
    );
    assert_eq!(
        with(&client, |h| set(h, "Authorization", &wrong)).await,
        refused(401, token)
    );
    assert_eq!(
        with(&client, |h| set(h, "Authorization", "Basic eDp5")).await,
        refused(401, token)
    );
    let host = "the Host header must name this server's loopback address and port";
    assert_eq!(
        with(&client, |h| set(h, "Host", "evil.example")).await,
        refused(403, host)
    );
    let origin = "the Origin header must be absent or a loopback one";
    assert_eq!(
        with(&client, |h| set(h, "Origin", "https://evil.example")).await,
        refused(403, origin)
    );
    let session = "the Mcp-Session-Id header is missing: begin with `initialize`";
    assert_eq!(
        with(&client, |h| h.retain(|(name, _)| name != "Mcp-Session-Id")).await,
        refused(400, session)
    );
    let unknown = "there is no such session: begin again with `initialize`";
    assert_eq!(
        with(&client, |h| set(h, "Mcp-Session-Id", "0")).await,
        refused(404, unknown)
    );

    let request = |method: &str, path: &str| client.head(method, path, &client.headers(), 0);
    for (method, path, status) in [
        ("GET", "/mcp", 405),
        ("PUT", "/mcp", 405),
        ("POST", "/", 404),
        ("GET", "/sse", 404),
    ] {
        assert_eq!(
            client.raw(request(method, path).as_bytes()).await.status,
            status,
            "{method} {path}"
        );
    }
    assert_eq!(client.raw(b"GET /mcp HTTP/1.0\r\n\r\n").await.status, 403);
    assert_eq!(client.raw(b"nonsense\r\n\r\n").await.status, 400);

    assert_eq!(with(&client, |_| ()).await, refused(200, "add {}"));
    bridge.close().await;
    assert_eq!(answered.await.unwrap().len(), 1, "only the good one was a call");
}

/// Bun's client (opencode 1.18.34) sends its next request over a connection that was answered with an error, even if the answer closes it.
#[tokio::test]
async fn a_refusal_leaves_the_connection_open_for_who_has_the_token() {
    let (bridge, calls) = start(BridgeOptions::default()).await;
    let _answered = echo(calls);
    let client = Client::initialized(&bridge).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let mut headers = client.headers();
    headers.retain(|(name, _)| name != "Connection");
    let post = client.head("POST", "/mcp", &headers, body.len()) + &body;

    let mut stream = client.connect().await;
    for (method, path, status) in [("GET", "/mcp", "405"), ("POST", "/elsewhere", "404")] {
        let head = client.head(method, path, &headers, 0);
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = String::from_utf8(until(&mut stream, "}}", 1).await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("connection:"), "{answer}");
    }
    stream.write_all(post.as_bytes()).await.unwrap();
    // To the end: what is served ends the connection, and says so.
    let listed = read(&mut stream).await;
    assert_eq!((listed.status, listed.header("connection")), (200, Some("close")));
    assert_eq!(listed.last()["result"]["tools"][0]["name"], "add");

    // Who has no token is closed.
    let stranger = client.raw(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((stranger.status, stranger.header("connection")), (403, Some("close")));
}

#[tokio::test]
async fn a_body_too_large_is_refused_with_its_reason() {
    let options = BridgeOptions {
        max_body: 64 * 1024,
        ..BridgeOptions::default()
    };
    let (bridge, calls) = start(options).await;
    let answered = echo(calls);
    let client = Client::initialized(&bridge).await;
    let call = |size: usize| {
        let args = json!({"a": "x".repeat(size)});
        let client = client.clone();
        async move { client.call(1, "add", args).await }
    };
    let refused = call(200 * 1024).await;
    assert_eq!(
        (refused.status, refused.last()["error"]["message"].as_str()),
        (413, Some("the body is larger than this server takes"))
    );
    // One that never ends is cut off.
    let mut stream = client.connect().await;
    let headers = client.headers();
    stream
        .write_all(client.head("POST", "/mcp", &headers, usize::MAX >> 1).as_bytes())
        .await
        .unwrap();
    let junk = vec![b'x'; 64 * 1024];
    tokio::time::timeout(LONG, async { while stream.write_all(&junk).await.is_ok() {} })
        .await
        .expect("it takes bytes without end");
    assert_eq!(call(60 * 1024).await.status, 200);
    bridge.close().await;
    assert_eq!(answered.await.unwrap().len(), 1);
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let options = BridgeOptions {
        patience: Duration::from_millis(200),
        ..BridgeOptions::default()
    };
    let (bridge, calls) = start(options).await;
    let client = Client::initialized(&bridge).await;
    // Nothing at all, half a head, and half a body.
    let mut silent = client.connect().await;
    assert_eq!(read(&mut silent).await.body, "");
    let mut half = client.connect().await;
    half.write_all(b"POST /mcp HTTP/1.1\r\nHost: 127.0").await.unwrap();
    assert_ne!(read(&mut half).await.status, 200);
    let mut body = client.connect().await;
    let head = client.head("POST", "/mcp", &client.headers(), 100);
    body.write_all(format!("{head}{{").as_bytes()).await.unwrap();
    let refused = read(&mut body).await;
    assert_eq!(
        (refused.status, refused.last()["error"]["message"].as_str()),
        (408, Some("the body took too long to arrive"))
    );
    // One that was refused and asks for nothing more.
    let mut idle = client.connect().await;
    let headers: Vec<_> = client
        .headers()
        .into_iter()
        .filter(|(name, _)| name != "Connection")
        .collect();
    let head = client.head("GET", "/mcp", &headers, 0);
    idle.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(read(&mut idle).await.status, 405);
    // A call that is held open is none of those.
    let called = echo(calls);
    assert_eq!(client.call(1, "add", json!({})).await.status, 200);
    bridge.close().await;
    assert_eq!(called.await.unwrap().len(), 1);
}

/// JSON and what is nearly JSON, biased towards what the server looks at.
fn garbage() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("\"tools/call\"".to_owned()),
        Just("\"initialize\"".to_owned()),
        Just("\"notifications/cancelled\"".to_owned()),
        Just("\"unheard_of\"".to_owned()),
        Just("null".to_owned()),
        Just("[]".to_owned()),
        Just("1e999".to_owned()),
        Just("{\"name\":\"unknown\"}".to_owned()),
        Just("{\"name\":7,\"arguments\":{}}".to_owned()),
        Just("{\"name\":\"add\",\"arguments\":[]}".to_owned()),
        Just("{\"requestId\":{}}".to_owned()),
        "[ -~]{0,12}".prop_map(|text| json!(text).to_string()),
        "[ -~]{0,12}",
    ];
    let key = prop_oneof![
        Just("method"),
        Just("params"),
        Just("id"),
        Just("result"),
        Just("jsonrpc"),
        Just("x")
    ];
    let field = (key, word).prop_map(|(key, value)| format!("\"{key}\":{value}"));
    prop_oneof![
        prop::collection::vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(","))),
        "\\PC{0,60}",
    ]
}

#[test]
fn no_garbage_runs_a_tool_or_ends_the_server() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (bridge, calls, client) = runtime.block_on(async {
        let (bridge, calls) = start(BridgeOptions::default()).await;
        let client = Client::initialized(&bridge).await;
        (bridge, calls, client)
    });
    let config = ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(body in garbage())| {
        let answer = runtime.block_on(client.post(&body));
        prop_assert!((200..500).contains(&answer.status), "{body}: {answer:?}");
    });
    runtime.block_on(async {
        let called = echo(calls);
        assert_eq!(
            client.call(1, "add", json!({})).await.last()["result"]["content"][0]["text"],
            "add {}"
        );
        bridge.close().await;
        assert_eq!(called.await.unwrap().len(), 1, "garbage ran a tool");
    });
}
