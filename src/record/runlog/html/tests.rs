use std::collections::BTreeSet;

use serde_json::json;

use super::super::read::read;
use super::super::timeline::timeline;
use super::*;
use dfp_model::event::{EventKind, kinds};

/// The page of a run with these events, and a header with this provider.
fn page(provider: &str, events: &[serde_json::Value]) -> String {
    let header = serde_json::json!({"format": "deep-factor-run", "version": 1, "runId": provider, "provider": provider,
        "startedAt": 0, "packageVersion": provider, "platform": provider,
        "prompt": {"messages": 1, "characters": 1, "sha256": provider, "tools": [provider],
                   "thread": [{"type": provider, "content": provider}]}});
    let lines = events
        .iter()
        .map(|event| serde_json::json!({"at": 0, "t": 5, "run": provider, "event": event}).to_string());
    let text = std::iter::once(header.to_string())
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n");
    render(&timeline(&read(text.as_bytes()).unwrap()), provider)
}

/// Every kind of event, with `evil` wherever there can be text.
fn text_everywhere(evil: &str) -> Vec<serde_json::Value> {
    let call = serde_json::json!({"id": evil, "name": evil, "args": {evil: evil}});
    serde_json::json!([
        {"type": "start", "runId": evil, "provider": evil, "attempt": 1, "queuedMs": 5},
        {"type": "run_started", "provider": evil, "tools": [evil]},
        {"type": "session", "model": evil, "version": evil, "permissionMode": evil, "sessionId": evil},
        {"type": "thinking_delta", "text": evil},
        {"type": "text_delta", "text": evil},
        {"type": "message", "content": evil},
        {"type": "message", "content": [{"type": evil}]},
        {"type": "tool_call_delta", "toolCallId": evil, "name": evil, "delta": evil},
        {"type": "tool_call", "toolCall": call},
        {"type": "permission", "toolCallId": evil, "name": evil, "allow": true, "by": evil, "reason": evil, "args": {evil: evil}},
        {"type": "permission", "toolCallId": "unknown", "name": evil, "by": evil},
        {"type": "deferred", "toolCallId": evil, "action": evil, "to": evil, "childRunId": evil},
        {"type": "tool_result", "toolCallId": evil, "content": evil, "isError": true},
        {"type": "tool_result", "toolCallId": "unknown", "content": evil},
        {"type": "invalid_tool_call", "invalidToolCall": {"name": evil, "args": evil, "error": evil}},
        {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 2}, "rawStopReason": evil},
        {"type": "rate_limit", "status": evil, "limitType": evil},
        {"type": "retry", "by": evil, "attempt": 1, "delayMs": 5, "reason": evil},
        {"type": "waiting", "until": 5, "reason": evil},
        {"type": "warning", "code": evil, "message": evil},
        {"type": "fallback", "provider": evil, "code": evil, "message": evil},
        {"type": "run_failed", "error": {"code": evil, "category": evil, "message": evil, "signal": evil}},
        {"type": "other", "kind": evil, "raw": {evil: evil}},
        {"type": evil, evil: evil, "long": [evil]},
        {"type": "run_completed", "output": evil, "steps": 1, "usage": {}},
        {"type": "done", "reply": {"model": evil, "stopReason": evil, "status": evil}},
    ])
    .as_array()
    .unwrap()
    .clone()
}

#[test]
fn every_event_of_the_contract_is_tried() {
    let tried = text_everywhere("teleported");
    let tried = tried
        .iter()
        .filter_map(|event| EventKind::named(event["type"].as_str().unwrap()));
    assert_eq!(tried.collect::<BTreeSet<_>>(), kinds::all());
}

/// The page's tags, attributes included.
fn tags(page: &str) -> Vec<&str> {
    let body = page.split_once("</style>").unwrap().1;
    body.split('<')
        .skip(1)
        .map(|rest| rest.split_once('>').unwrap().0)
        .collect()
}

#[test]
fn a_log_can_put_no_markup_into_the_page() {
    let harmless = page("x", &text_everywhere("x"));
    for evil in [
        "</script><script>alert(1)</script>",
        "\" onmouseover=\"alert(1)\" x=\"",
        "' autofocus onfocus=alert(1) '",
        "</pre></details></main><img src=//example.com/x>",
        "</style><!--",
        "]]>&lt;b&gt;&#60;",
    ] {
        let page = page(evil, &text_everywhere(evil));
        let names = |page: &str| {
            tags(page)
                .iter()
                .map(|tag| tag.split(' ').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&page), names(&harmless), "{evil}");
        for tag in tags(&page) {
            let attributes = tag.matches('=').count();
            assert!(!tag.contains("on") || attributes == tag.matches("=\"").count(), "{tag}");
            assert!(
                !tag.contains("alert") && !tag.contains("autofocus") && !tag.contains("example"),
                "{tag}"
            );
        }
    }
}

#[test]
fn nothing_unseen_gets_into_the_page() {
    let evil = "a\u{202e}b\u{1b}[31mc\u{0}d\u{200b}e\u{85}";
    let page = page("x", &text_everywhere(evil));
    let unseen = |char: &char| char.is_control() && *char != '\n' || matches!(char, '\u{202e}' | '\u{200b}');
    assert_eq!(page.chars().filter(unseen).collect::<Vec<_>>(), Vec::<char>::new());
    assert!(page.contains("a‹U+202E›bc␀d‹U+200B›e‹U+0085›"));
}

#[test]
fn a_long_text_is_cut_and_marked() {
    let text = "ä".repeat(LONGEST);
    let page = page("x", &[serde_json::json!({"type": "message", "content": text})]);
    assert!(page.contains("<p class=\"none\">262,144 more bytes are in the log</p>"));
    assert!(page.len() < LONGEST + 64 * 1024);
}

#[test]
fn nothing_comes_from_elsewhere() {
    let page = page("x", &text_everywhere("https://example.com/"));
    for tag in tags(&page) {
        for word in ["src=", "url(", "<link", "<script", "style=", "href=\"http"] {
            assert!(!tag.contains(word), "{tag}");
        }
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains("</"));
}

proptest::proptest! {
    #[test]
    fn whatever_a_log_says_the_page_has_the_same_tags(evil in "\\PC{0,12}|[<>&\"'=/!a-]{0,12}") {
        // The text is marked, because an empty one, or the name of a known kind, would make another event.
        let evil = format!("~{evil}~");
        let names = |page: &str| tags(page).iter().map(|tag| tag.split([' ', '\n']).next().unwrap_or_default().to_owned()).collect::<Vec<_>>();
        proptest::prop_assert_eq!(names(&page(&evil, &text_everywhere(&evil))), names(&page("~", &text_everywhere("~"))));
    }
}

/// A log of an agent with `turns` turns, each with a call and a result of `bytes` bytes.
fn long_log(turns: usize, bytes: usize) -> Vec<u8> {
    let header = |run: &str, parent: Option<&str>, at: usize| {
        let mut header = serde_json::json!({"format": "deep-factor-run", "version": 1, "runId": run, "provider": "claude", "startedAt": at});
        if let Some(parent) = parent {
            header["parentRunId"] = parent.into();
        }
        header.to_string()
    };
    let line = |run: &str, t: usize, event: serde_json::Value| {
        serde_json::json!({"at": t, "t": t, "run": run, "event": event}).to_string()
    };
    let mut lines = vec![
        header("agent", None, 0),
        line("agent", 0, serde_json::json!({"type": "run_started"})),
    ];
    for turn in 0..turns {
        let run = format!("turn-{turn}");
        let at = turn * 100;
        let usage = serde_json::json!({"inputTokens": 10 + turn, "outputTokens": 2, "totalTokens": 12 + turn});
        let call = serde_json::json!({"id": format!("c{turn}"), "name": "look", "args": {"at": turn}});
        lines.push(header(&run, Some("agent"), at));
        lines.push(line(
            &run,
            10,
            serde_json::json!({"type": "text_delta", "text": "I lo"}),
        ));
        lines.push(line(&run, 20, serde_json::json!({"type": "text_delta", "text": "ok."})));
        lines.push(line(
            &run,
            30,
            serde_json::json!({"type": "done", "reply": {"usage": usage, "costUsd": 0.5}}),
        ));
        lines.push(line(
            "agent",
            at + 40,
            serde_json::json!({"type": "tool_call", "toolCall": call}),
        ));
        let result =
            serde_json::json!({"type": "tool_result", "toolCallId": format!("c{turn}"), "content": "x".repeat(bytes)});
        lines.push(line("agent", at + 60, result));
    }
    lines.push(line(
        "agent",
        turns * 100,
        serde_json::json!({"type": "run_completed", "output": "done"}),
    ));
    lines.join("\n").into_bytes()
}

fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    let of = |tag: &'a str| Some(tag.split_once(begin.as_str())?.1.split_once('"')?.0);
    tags(page).into_iter().filter_map(of).collect()
}

#[test]
fn of_a_long_log_the_beginning_is_shown_and_every_link_leads_somewhere() {
    let timeline = timeline(&read(&long_log(30, 2_000)).unwrap());
    let all: usize = timeline.runs.iter().map(|run| run.items.len()).sum();
    let entries = |page: &str| page.matches("<li id=\"run-").count();
    let whole = within(&timeline, "run.jsonl", PageLimits::PAGE);
    assert_eq!(entries(&whole), all);
    assert!(!whole.contains("Not all of it is here"));
    for limits in [
        PageLimits {
            entries: 25,
            bytes: usize::MAX,
        },
        PageLimits {
            entries: 100,
            bytes: 20_000,
        },
        PageLimits { entries: 0, bytes: 0 },
    ] {
        let page = within(&timeline, "my run.jsonl", limits);
        let shown = entries(&page);
        assert!(shown <= limits.entries && page.len() < whole.len(), "{shown}");
        let told = format!(
            "<p>{} entries are not shown. All of it: <code>npx deep-factor-providers log show --full &#39;my run.jsonl&#39;</code></p>",
            all - shown
        );
        assert!(page.contains(&told), "{told}");
        let ids: Vec<_> = attributes(&page, "id");
        assert_eq!(
            ids.iter().collect::<BTreeSet<_>>().len(),
            ids.len(),
            "an id is one element's"
        );
        for href in attributes(&page, "href") {
            assert!(ids.contains(&href.trim_start_matches('#')), "{href}");
        }
    }
}

#[test]
fn what_is_cut_away_is_told_at_the_beginning() {
    let log = long_log(1, LONGEST + 10);
    let page = render(&timeline(&read(&log).unwrap()), "run.jsonl");
    assert!(page.contains("<p>1 text is cut after 256 KiB, by 10 bytes in all. All of it:"));
    assert!(page.contains("<code>npx deep-factor-providers log show --full run.jsonl</code>"));
}

#[test]
fn figures_of_any_size_are_drawn_within_their_bars() {
    let events = serde_json::json!([
        {"type": "tool_call", "toolCall": {"id": "a", "name": "x", "args": {}}},
        {"type": "retry", "by": "cli", "attempt": 1, "delayMs": u64::MAX, "reason": "x"},
        {"type": "error", "code": "X"},
        {"type": "done", "reply": {"costUsd": 1e308, "usage": {"inputTokens": u64::MAX, "outputTokens": u64::MAX,
            "totalTokens": u64::MAX, "cacheReadTokens": u64::MAX, "reasoningTokens": u64::MAX}}},
    ]);
    let page = page("x", events.as_array().unwrap());
    for tag in tags(&page).into_iter().filter(|tag| tag.starts_with("rect")) {
        for name in ["x", "width"] {
            let value = tag
                .split_once(&format!(" {name}=\""))
                .map(|(_, rest)| rest.split_once('"').unwrap().0);
            let value: f64 = value.unwrap_or("0").parse().unwrap();
            assert!((0.0..=100.0).contains(&value), "{tag}");
        }
    }
}

/// Such a call was once said to be the caller's to run, and had no bar.
#[test]
fn a_call_whose_run_was_ended_says_so_and_its_bar_reaches_to_the_end() {
    let call = json!({"type": "tool_call", "toolCall": {"id": "c", "name": "look", "args": {}}});
    let header = json!({"format": "deep-factor-run", "version": 1, "runId": "r", "provider": "claude", "startedAt": 0});
    let page = |last: serde_json::Value| {
        let line = |t: u64, event: &serde_json::Value| json!({"at": t, "t": t, "run": "r", "event": event}).to_string();
        let lines = [header.to_string(), line(20, &call), line(100, &last)];
        render(&timeline(&read(lines.join("\n").as_bytes()).unwrap()), "r")
    };
    let (theirs, ours) = (
        "no result in this log: the call was for the caller to run",
        "no result: the run was ended while it was waited for",
    );
    let ended = page(json!({"type": "run_failed", "status": "cancelled"}));
    assert!(ended.contains(ours) && !ended.contains(theirs), "{ended}");
    assert!(ended.contains("x=\"20.00\" width=\"80.00\""), "{ended}");
    let replied = page(json!({"type": "done", "reply": {"content": "", "toolCalls": []}}));
    assert!(replied.contains(theirs) && !replied.contains(ours), "{replied}");
}

#[test]
fn what_means_something_in_html_means_nothing() {
    assert_eq!(Escaped("a<b>&\"c'é").to_string(), "a&lt;b&gt;&amp;&quot;c&#39;é");
    assert_eq!(shown("a\n <b>"), "a &lt;b&gt;");
    assert_eq!(brief(&"é".repeat(10), 4), "ééé…");
    // Only a beginning of the text is looked at, and the cut is still marked.
    assert_eq!(brief(&format!("a{}b", " ".repeat(1_000)), 4), "a…");
    assert_eq!(beginning("aé", 2), "a");
}

#[test]
fn names_lead_nowhere_else() {
    let quotes = ["run.jsonl", "a b", "-x", "a'; rm", ""].map(quoted);
    assert_eq!(quotes, ["run.jsonl", "'a b'", "'./-x'", "'a'\\''; rm'", "''"]);
}
