//! A process that answers a bridge's calls: the stand-in for an agent in tests of real CLIs, and in the MCP conformance suite.
//! Never shipped (feature `fake-cli`; `cargo test` switches it on, elsewhere `cargo build --features fake-cli --bin bridge-host`).
//!
//! The process speaks lines of JSON. The first line of standard input says what to do:
//!
//! ```text
//! {"serve": {"tools": [spec…], "progressMs": 50}}              a bridge alone
//! {"run": {"provider": "claude", "options": {…}, "messages": […], "tools": [spec…], "progressMs": 50}}
//! ```
//!
//! Further lines are `{"reply": {"id", "content": "text"
//!
//! [block…], "isError": false}}` and `{"cancel": true}`; the end of standard input ends the process. It prints `{"serving": {"url",
//! "token"}}`, `{"called": {"id", "name", "args"}}`, `{"gone": id}` when a reply is no longer wanted, `{"events": […]}`, and at
//! last `{"ended": {"reply"
//!
//! "error": {…}}}`, or `{}` there if the run was cancelled.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use deep_factor_providers::bridge::{Bridge, BridgeOptions, ToolCallRequest};
use deep_factor_providers::message::{Content, Message, ToolResult, ToolSpec};
use deep_factor_providers::run::request::{CallOptions, Request};
use deep_factor_providers::run::{CliProvider, Ended};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// The parameters of `serve` and `run`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    #[serde(default)]
    provider: String,
    #[serde(default)]
    options: Value,
    #[serde(default)]
    messages: Vec<Message>,
    tools: Vec<ToolSpec>,
    progress_ms: Option<u64>,
}

/// One line of standard input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Order {
    Serve(Task),
    Run(Task),
    Reply(Reply),
    Cancel(bool),
}

/// The result of a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    id: String,
    content: Content,
    #[serde(default)]
    is_error: bool,
}

/// The lines of standard input, which a thread of their own reads.
type Lines = mpsc::UnboundedReceiver<String>;

/// The channels of calls that wait for a reply, by call id.
type Replies = HashMap<String, oneshot::Sender<ToolResult>>;

/// The input, the calls that arrive, and those that wait.
struct Host {
    lines: Lines,
    calls: mpsc::Receiver<ToolCallRequest>,
    replies: Replies,
}

fn lines() -> Lines {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn say(what: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{what}")?;
    out.flush()
}

impl Host {
    /// The next order that is no reply; `None` at the end of the input. Calls that arrive meanwhile are printed.
    async fn order(&mut self) -> io::Result<Option<Order>> {
        loop {
            tokio::select! {
                line = self.lines.recv() => {
                    let Some(line) = line else { return Ok(None) };
                    match serde_json::from_str(&line)? {
                        Order::Reply(reply) => self.answer(reply)?,
                        order => return Ok(Some(order)),
                    }
                }
                Some(ToolCallRequest { call, reply }) = self.calls.recv() => {
                    say(&json!({"called": {"id": call.id, "name": call.name, "args": call.args.get()}}))?;
                    self.replies.insert(call.id, reply);
                }
            }
        }
    }

    /// Passes a reply on to the bridge, or prints that it is no longer wanted.
    fn answer(&mut self, reply: Reply) -> io::Result<()> {
        let Reply { id, content, is_error } = reply;
        let sent = self
            .replies
            .remove(&id)
            .map(|sender| sender.send(ToolResult { content, is_error }));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => say(&json!({"gone": id})),
        }
    }
}

fn options(task: &Task) -> BridgeOptions {
    let default = BridgeOptions::default();
    BridgeOptions {
        progress: task.progress_ms.map_or(default.progress, Duration::from_millis),
        ..default
    }
}

/// Serves a bridge until the end of the input.
async fn serve(task: &Task, lines: Lines) -> io::Result<()> {
    let (bridge, calls) = Bridge::start(task.tools.clone(), options(task))?;
    say(&json!({"serving": {"url": bridge.url(), "token": bridge.token()}}))?;
    let mut host = Host {
        lines,
        calls,
        replies: Replies::new(),
    };
    while host.order().await?.is_some() {}
    bridge.close().await;
    Ok(())
}

/// Runs a call with a bridge, and prints its events and its result.
async fn run(task: &Task, lines: Lines) -> io::Result<()> {
    let cli = CliProvider::new(&task.provider, &task.options.to_string(), 1);
    let cli = Arc::new(cli.map_err(|error| io::Error::other(error.message))?);
    let request = Request {
        messages: task.messages.clone(),
        tools: task.tools.clone(),
        options: CallOptions {
            events: true,
            ..CallOptions::default()
        },
        ..Request::default()
    };
    let (run, calls) = CliProvider::start_with_callbacks(&cli, request, options(task));
    let mut host = Host {
        lines,
        calls,
        replies: Replies::new(),
    };
    let finished = async {
        while let Some(batch) = run.next().await {
            println!(r#"{{"events":{batch}}}"#);
        }
        run.result().await
    };
    let mut finished = std::pin::pin!(finished);
    let ended = loop {
        tokio::select! {
            ended = finished.as_mut() => break ended,
            order = host.order() => match order? {
                Some(Order::Cancel(true)) => run.cancel(),
                Some(_) => {}
                None => {
                    cli.close().await;
                    break finished.await;
                }
            },
        }
    };
    cli.close().await;
    say(&json!({"ended": match ended {
        Ended::Replied(reply) => json!({"reply": reply}),
        Ended::Failed(error) => json!({"error": error}),
        Ended::Cancelled => json!({}),
    }}))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut lines = lines();
    let first = lines.recv().await.unwrap_or_default();
    match serde_json::from_str(&first)? {
        Order::Serve(task) => serve(&task, lines).await,
        Order::Run(task) => run(&task, lines).await,
        _ => Err(io::Error::other("the first line must say what to do")),
    }
}
