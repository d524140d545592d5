//! What the tests of `bridge` share: a client of MCP over HTTP that can also be an unpleasant one.

mod calls;
mod guard;

use deep_factor_providers::bridge::{Bridge, BridgeOptions, ToolCallRequest};
use deep_factor_providers::message::{Content, ToolResult, ToolSpec};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::LONG;

pub fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: Some(format!("what {name} does")),
        schema: RawValue::from_string(r#"{"type":"object","properties":{"a":{"type":"number"}}}"#.to_owned()).unwrap(),
    }
}

pub fn text(text: &str) -> ToolResult {
    ToolResult {
        content: Content::Text(text.to_owned()),
        is_error: false,
    }
}

pub async fn start(options: BridgeOptions) -> (Bridge, mpsc::Receiver<ToolCallRequest>) {
    Bridge::start(vec![tool("add"), tool("get.weather")], options).unwrap()
}

/// Answers every call with its own arguments, and counts them.
pub fn echo(mut calls: mpsc::Receiver<ToolCallRequest>) -> tokio::task::JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let mut ids = Vec::new();
        while let Some(called) = calls.recv().await {
            ids.push(called.call.id);
            let _ = called
                .reply
                .send(text(&format!("{} {}", called.call.name, called.call.args.get())));
        }
        ids
    })
}

/// What came back.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The JSON-RPC messages in it, whichever way they came.
    pub fn messages(&self) -> Vec<Value> {
        if !self
            .header("content-type")
            .unwrap_or_default()
            .starts_with("text/event-stream")
        {
            return serde_json::from_str(&self.body).into_iter().collect();
        }
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        data.map(|json| serde_json::from_str(json).unwrap()).collect()
    }

    /// The last of them.
    pub fn last(&self) -> Value {
        self.messages().pop().unwrap_or_default()
    }
}

/// A client of the bridge at `url`.
#[derive(Debug, Clone)]
pub struct Client {
    pub port: u16,
    pub token: String,
    pub session: Option<String>,
}

impl Client {
    pub fn of(bridge: &Bridge) -> Client {
        let port = bridge
            .url()
            .trim_start_matches("http://127.0.0.1:")
            .trim_end_matches("/mcp");
        Client {
            port: port.parse().unwrap(),
            token: bridge.token().to_owned(),
            session: None,
        }
    }

    /// One that has shaken hands.
    pub async fn initialized(bridge: &Bridge) -> Client {
        let mut client = Client::of(bridge);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}});
        let answer = client.ask(0, "initialize", params).await;
        assert_eq!(answer.last()["result"]["protocolVersion"], "2025-11-25", "{answer:?}");
        client.session = Some(answer.header("mcp-session-id").unwrap().to_owned());
        let done = client
            .post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
            .await;
        assert_eq!(done.status, 202, "{done:?}");
        client
    }

    /// What a well-behaved client says of itself.
    pub fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![
            ("Host".to_owned(), format!("127.0.0.1:{}", self.port)),
            ("Authorization".to_owned(), format!("Bearer {}", self.token)),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            // So that an error ends the connection, too.
            ("Connection".to_owned(), "close".to_owned()),
        ];
        headers.extend(self.session.clone().map(|id| ("Mcp-Session-Id".to_owned(), id)));
        headers
    }

    pub fn head(&self, method: &str, path: &str, headers: &[(String, String)], length: usize) -> String {
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!("{method} {path} HTTP/1.1\r\n{lines}Content-Length: {length}\r\n\r\n")
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Says exactly this, and reads to the end of the connection.
    pub async fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect().await;
        // Who is refused early may not be read to the end.
        let _ = stream.write_all(bytes).await;
        read(&mut stream).await
    }

    pub async fn post(&self, body: &str) -> Answer {
        let head = self.head("POST", "/mcp", &self.headers(), body.len());
        self.raw([head.as_bytes(), body.as_bytes()].concat().as_slice()).await
    }

    pub async fn ask(&self, id: i64, method: &str, params: Value) -> Answer {
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
            .await
    }

    pub async fn call(&self, id: i64, name: &str, args: Value) -> Answer {
        self.ask(id, "tools/call", json!({"name": name, "arguments": args}))
            .await
    }
}

/// Reads an answer to the end of its connection.
pub async fn read(stream: &mut TcpStream) -> Answer {
    read_on(stream, Vec::new()).await
}

/// Reads until `text` has come so many times.
pub async fn until(stream: &mut TcpStream, text: &str, times: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while String::from_utf8_lossy(&bytes).matches(text).count() < times {
        let read = tokio::time::timeout(LONG, stream.read_buf(&mut bytes)).await;
        assert_ne!(read.expect("the bridge is silent").unwrap(), 0, "no {text:?} any more");
    }
    bytes
}

/// The answer of which `bytes` were read already.
pub async fn read_on(stream: &mut TcpStream, mut bytes: Vec<u8>) -> Answer {
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut bytes))
        .await
        .expect("the bridge is silent");
    let all = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Answer {
        status: head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or_default(),
        head: head.to_owned(),
        body: if chunked { unchunk(body) } else { body.to_owned() },
    }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or_default();
    }
    whole
}
