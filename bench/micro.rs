//! `cargo bench --bench micro`: the pure layers alone, without a process and without Node.
//!
//! In flow texts that are made here, the same in every run; out flow times and throughput. On a busy machine compare
//! instructions instead: `npm run bench:instructions`.

use deep_factor_providers::classify::{FailureFacts, classify};
use deep_factor_providers::decode::{Decoder, Wire};
use deep_factor_providers::message::Message;
use deep_factor_providers::{prompt, toolcall};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

const SIZES: [usize; 3] = [10 << 10, 1 << 20, 10 << 20];
/// What a pipe holds on Linux: how output comes.
const CHUNK: usize = 64 << 10;
const PROSE: &str = "The test \"adds & subtracts\" fails at src/lib.rs:42: expected <Vec<u8>> but it's a slice. I have \
                     read the module; the loop runs once too often, since the upper bound counts from one.\n";

fn main() {
    divan::main();
}

/// Tool results, as an agent's run has them.
fn tool_results(bytes: usize) -> String {
    let content = serde_json::Value::from(PROSE.repeat(100)).to_string();
    let mut out = String::new();
    while out.len() < bytes {
        let id = out.len();
        out.push_str(&format!(
            r#"{{"type":"assistant","message":{{"id":"msg_{id}","role":"assistant","model":"m","content":[{{"type":"tool_use","id":"toolu_{id}","name":"Read","input":{{"path":"/a"}}}}]}},"parent_tool_use_id":null}}"#,
        ));
        out.push('\n');
        out.push_str(&format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{id}","content":{content}}}]}},"parent_tool_use_id":null}}"#,
        ));
        out.push('\n');
    }
    out
}

/// An answer in pieces.
fn deltas(bytes: usize) -> String {
    let start = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg_1"}},"session_id":"s","parent_tool_use_id":null}"#;
    let delta = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"The quick brown fox jumps over the lazy dog. "}},"session_id":"s","parent_tool_use_id":null}"#;
    format!("{start}\n{}", format!("{delta}\n").repeat(bytes / delta.len()))
}

/// A thread of prose, calls and results.
fn thread(bytes: usize) -> Vec<Message> {
    let prose = serde_json::Value::from(PROSE.repeat(4)).to_string();
    let turns = (0..bytes / (PROSE.len() * 12) + 1).map(|n| {
        format!(
            r#"{{"type":"human","content":{prose}}},{{"type":"ai","content":{prose},"tool_calls":[{{"id":"c{n}","name":"edit","args":{{"n":{n}}}}}]}},{{"type":"tool","tool_call_id":"c{n}","content":{prose}}}"#
        )
    });
    let json = format!("[{}]", turns.collect::<Vec<_>>().join(","));
    serde_json::from_str(&json).unwrap_or_default()
}

/// Prose with four calls in it.
fn answer(bytes: usize) -> String {
    let prose = PROSE.repeat(bytes / 8 / PROSE.len());
    let args = serde_json::Value::from(prose.as_str());
    (0..4)
        .map(|n| {
            format!("{prose}\n```json\n{{\"tool_calls\":[{{\"name\":\"write\",\"args\":{{\"text\":{args}}},\"id\":\"c{n}\"}}]}}\n```\n")
        })
        .collect()
}

fn decoded(output: &str) -> usize {
    let mut decoder = Decoder::new(Wire::ClaudeStream);
    let (mut events, mut count) = (Vec::new(), 0);
    for chunk in output.as_bytes().chunks(CHUNK) {
        decoder.push(chunk, &mut events);
        count += events.len();
        events.clear();
    }
    decoder.finish(&mut events);
    count + events.len()
}

#[divan::bench(args = SIZES)]
fn decode_tool_results(bencher: Bencher, bytes: usize) {
    let output = tool_results(bytes);
    bencher
        .counter(BytesCount::of_str(&output))
        .bench(|| decoded(black_box(&output)));
}

#[divan::bench(args = SIZES)]
fn decode_deltas(bencher: Bencher, bytes: usize) {
    let output = deltas(bytes);
    bencher
        .counter(BytesCount::of_str(&output))
        .bench(|| decoded(black_box(&output)));
}

#[divan::bench(args = SIZES)]
fn messages_to_xml(bencher: Bencher, bytes: usize) {
    let messages = thread(bytes);
    let length = prompt::messages_to_xml(&messages).len();
    bencher
        .counter(BytesCount::new(length))
        .bench(|| prompt::messages_to_xml(black_box(&messages)));
}

#[divan::bench(args = SIZES)]
fn escape_xml(bencher: Bencher, bytes: usize) {
    let text = PROSE.repeat(bytes / PROSE.len());
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| prompt::escape_xml(black_box(&text)));
}

#[divan::bench(args = SIZES)]
fn extract_tool_calls(bencher: Bencher, bytes: usize) {
    let text = answer(bytes);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| toolcall::parse_tool_calls(black_box(&text)));
}

#[divan::bench(args = SIZES)]
fn extract_from_prose(bencher: Bencher, bytes: usize) {
    let text = PROSE.repeat(bytes / PROSE.len());
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| toolcall::parse_tool_calls(black_box(&text)));
}

#[divan::bench(args = [
    "API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Slow down\"}}",
    "Invalid API key · Please run /login",
    "thread 'main' panicked at src/lib.rs:429: index out of bounds",
])]
fn classify_error(bencher: Bencher, text: &str) {
    let evidence = FailureFacts {
        provider: "claude",
        stderr_text: Some(text),
        exit_code: Some(1),
        ..FailureFacts::default()
    };
    bencher.bench(|| classify(black_box(&evidence)));
}
