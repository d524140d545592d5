//! What the bridge does for a client that is heard: tools, calls, and answers that come once, late, together or not at all.

use std::time::Duration;

use deep_factor_providers::bridge::{BridgeOptions, Connection};
use deep_factor_providers::message::ToolResult;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{Client, echo, read_on, start, text, until};
use crate::LONG;

#[tokio::test]
async fn lists_the_tools_and_passes_calls_on_as_they_were_made() {
    let (bridge, mut calls) = start(BridgeOptions::default()).await;
    let client = Client::initialized(&bridge).await;
    assert_eq!(*bridge.connected().borrow(), Connection::None);
    let listed = client.ask(1, "tools/list", json!({})).await.last();
    assert_eq!(*bridge.connected().borrow(), Connection::Listed);
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(
        tools[0],
        json!({"name": "add", "description": "what add does",
               "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
               "annotations": {"readOnlyHint": true}, "_meta": {"anthropic/maxResultSizeChars": 500_000}})
    );
    let wire = tools[1]["name"].as_str().unwrap().to_owned();
    assert!(wire.starts_with("get_weather_"), "{wire}");

    let args = r#"{"z":1.0,"a":1e400,"s":"\ud83e"}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{{"name":"{wire}","arguments":{args},"_meta":{{"claudecode/toolUseId":"toolu_1"}}}}}}"#
    );
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.post(&body).await }
    });
    let called = calls.recv().await.unwrap();
    assert_eq!(
        (
            called.call.id.as_str(),
            called.call.name.as_str(),
            called.call.args.get()
        ),
        ("toolu_1", "get.weather", args)
    );
    called.reply.send(ToolResult::error("no such town")).unwrap();
    assert_eq!(
        asking.await.unwrap().last(),
        json!({"jsonrpc": "2.0", "id": "x",
               "result": {"content": [{"type": "text", "text": "no such town"}], "isError": true}})
    );

    // Neither what was never declared nor the caller's own spelling of it is a tool here.
    for name in ["rm", "get.weather", ""] {
        let refused = client.call(9, name, json!({})).await.last();
        let expected = format!("there is no tool {name:?}, or it is not permitted");
        assert_eq!(
            refused["result"],
            json!({"content": [{"type": "text", "text": expected}], "isError": true})
        );
    }
    assert_eq!(
        client.ask(10, "resources/read", json!({"uri": "x"})).await.last()["error"]["code"],
        -32601
    );
    assert!(calls.try_recv().is_err());
    bridge.close().await;
}

#[tokio::test]
async fn an_id_sent_twice_is_one_call_with_one_answer() {
    let (bridge, mut calls) = start(BridgeOptions::default()).await;
    let client = Client::initialized(&bridge).await;
    let ask = || {
        let client = client.clone();
        tokio::spawn(async move { client.call(5, "add", json!({"a": 1})).await })
    };
    let first = ask();
    let called = calls.recv().await.unwrap();
    let second = ask();
    // Its connection breaks, as that of an impatient client does: the call goes on.
    let third = ask();
    third.abort();
    called.reply.send(text("once")).unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(first.last()["result"]["content"][0]["text"], "once");
    assert_eq!(first.last(), second.last());
    assert_eq!(ask().await.unwrap().last(), first.last(), "and after the answer");
    assert_eq!(
        client.call(5, "add", json!({"a": 2})).await.last()["error"]["code"],
        -32600,
        "another call"
    );
    assert!(calls.try_recv().is_err(), "it ran once");

    // Another session numbers its requests anew.
    let other = Client::initialized(&bridge).await;
    let asking = tokio::spawn(async move { other.call(5, "add", json!({"a": 1})).await });
    calls.recv().await.unwrap().reply.send(text("twice")).unwrap();
    assert_eq!(asking.await.unwrap().last()["result"]["content"][0]["text"], "twice");
    bridge.close().await;
}

#[tokio::test]
async fn a_long_call_gives_signs_of_life() {
    let options = BridgeOptions {
        progress: Duration::from_millis(20),
        ..BridgeOptions::default()
    };
    let (bridge, mut calls) = start(options).await;
    let client = Client::initialized(&bridge).await;
    let ask = async |id: i64, meta: Value| {
        let params = json!({"name": "add", "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
        let mut stream = client.connect().await;
        let head = client.head("POST", "/mcp", &client.headers(), body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream
    };
    let mut messages = ask(1, json!({"progressToken": "t"})).await;
    let one = calls.recv().await.unwrap();
    let so_far = until(&mut messages, "notifications/progress", 3).await;
    one.reply.send(text("late")).unwrap();
    let messages = read_on(&mut messages, so_far).await.messages();
    let (last, progress) = messages.split_last().unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "late");
    for (at, progress) in progress.iter().enumerate() {
        assert_eq!(
            (&progress["method"], &progress["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("t"))
        );
        assert_eq!(progress["params"]["progress"].as_f64(), Some(at as f64 + 1.0));
    }

    // Who wants no progress gets comments.
    let mut untold = ask(2, json!({})).await;
    let two = calls.recv().await.unwrap();
    let so_far = until(&mut untold, "\n:", 3).await;
    two.reply.send(text("late")).unwrap();
    let untold = read_on(&mut untold, so_far).await.messages();
    assert_eq!(untold.len(), 1);
    assert_eq!(untold[0]["result"]["content"][0]["text"], "late");
    bridge.close().await;
}

#[tokio::test]
async fn a_hundred_calls_at_once_are_a_hundred_answers() {
    let (bridge, calls) = start(BridgeOptions::default()).await;
    let answered = echo(calls);
    let client = Client::initialized(&bridge).await;
    let asking: Vec<_> = (0..100)
        .map(|id| {
            let client = client.clone();
            tokio::spawn(async move { client.call(id, "add", json!({"a": id})).await.last() })
        })
        .collect();
    for (id, asking) in asking.into_iter().enumerate() {
        let expected = format!("add {}", json!({"a": id}));
        let answer = asking.await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(id), &json!(expected))
        );
    }
    bridge.close().await;
    let ids: std::collections::HashSet<_> = answered.await.unwrap().into_iter().collect();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn what_the_client_takes_back_is_told_to_the_caller() {
    let (bridge, mut calls) = start(BridgeOptions::default()).await;
    let client = Client::initialized(&bridge).await;
    let ask = |client: &Client, id: i64| {
        let client = client.clone();
        tokio::spawn(async move { client.call(id, "add", json!({})).await })
    };
    let asking = ask(&client, 1);
    let mut called = calls.recv().await.unwrap();
    assert_eq!(bridge.traffic().borrow().waiting, 1);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).to_string();
    assert_eq!(client.post(&cancel).await.status, 202);
    tokio::time::timeout(LONG, called.reply.closed()).await.unwrap();
    assert!(asking.await.unwrap().last()["error"].is_object());

    // Ending the session takes back all of its calls, and only its own.
    let other = Client::initialized(&bridge).await;
    let (mine, its) = (ask(&client, 2), ask(&other, 2));
    let (mut one, mut two) = (calls.recv().await.unwrap(), calls.recv().await.unwrap());
    let head = other.head("DELETE", "/mcp", &other.headers(), 0);
    assert_eq!(other.raw(head.as_bytes()).await.status, 204);
    assert!(its.await.unwrap().last()["error"].is_object());
    let kept = tokio::select! {
        () = one.reply.closed() => two,
        () = two.reply.closed() => one,
    };
    kept.reply.send(text("kept")).unwrap();
    assert_eq!(mine.await.unwrap().last()["result"]["content"][0]["text"], "kept");
    assert_eq!(other.call(3, "add", json!({})).await.status, 404);
    bridge.close().await;
}

#[tokio::test]
async fn closing_answers_what_waits_and_leaves_nothing_listening() {
    let (bridge, mut calls) = start(BridgeOptions::default()).await;
    let client = Client::initialized(&bridge).await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.call(1, "add", json!({})).await }
    });
    let mut called = calls.recv().await.unwrap();
    // A connection that says nothing does not hold it up.
    let _silent = client.connect().await;
    tokio::time::timeout(LONG, bridge.close()).await.unwrap();
    called.reply.closed().await;
    assert_eq!(
        asking.await.unwrap().last()["result"],
        json!({"content": [{"type": "text", "text": "the run is over"}], "isError": true})
    );
    assert!(
        tokio::net::TcpStream::connect(("127.0.0.1", client.port))
            .await
            .is_err()
    );
    assert!(calls.recv().await.is_none());
}

#[tokio::test]
async fn a_dropped_bridge_and_a_caller_that_has_gone_leave_nobody_waiting() {
    let (bridge, calls) = start(BridgeOptions::default()).await;
    let client = Client::initialized(&bridge).await;
    drop(calls);
    let refused = client.call(1, "add", json!({})).await.last();
    assert_eq!(
        refused["result"]["content"][0]["text"],
        "nobody runs this agent's tools any more"
    );
    let mut waiting = client.connect().await;
    drop(bridge);
    assert_eq!(super::read(&mut waiting).await.status, 0);
}
