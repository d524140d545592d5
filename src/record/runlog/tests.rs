//! A written log is read back unchanged, whole or cut anywhere, and no secret is in it that came in pieces.

use proptest::prelude::*;
use serde_json::json;

use super::Lines;
use super::read::{Problem, Unreadable, read};
use super::*;

fn header_of(id: &str, prompt: Option<Prompt>) -> String {
    let header = Header {
        run_id: id.to_owned(),
        parent_run_id: None,
        provider: "claude".to_owned(),
        started_at: 1_700_000_000_000,
        prompt,
    };
    header_line(&header, &Redactor::default()).unwrap()
}

/// The file of one run with `events`, and its end if there is one.
fn file(events: &[String], end: Option<&End>) -> String {
    let secrets = Redactor::default();
    let mut lines = Lines::new("run-1".to_owned(), secrets.clone());
    let mut out = vec![header_of("run-1", None)];
    for (t, event) in events.iter().enumerate() {
        let t = t as u64;
        lines.push(
            Stamp {
                at: 1_700_000_000_000 + t,
                t,
            },
            event.clone(),
            &mut out,
        );
    }
    lines.flush(&mut out);
    let stamp = Stamp { at: 2, t: 9 };
    out.extend(end.map(|end| end_line("run-1", stamp, end, &secrets).unwrap()));
    out.into_iter().map(|line| line + "\n").collect()
}

fn events_of(text: &str) -> Vec<String> {
    let recording = read(text.as_bytes()).unwrap();
    let entries = &recording.runs[0].entries;
    entries.iter().map(|entry| entry.event.get().to_owned()).collect()
}

fn event() -> impl Strategy<Value = String> {
    let text = "\\PC{0,12}|[\"\\\\\n\u{202e}\u{0}]{0,4}";
    prop_oneof![
        text.prop_map(|text| json!({"type": "text_delta", "text": text}).to_string()),
        text.prop_map(|text| json!({"type": "thinking_delta", "messageId": "m", "text": text}).to_string()),
        text.prop_map(|text| json!({"type": "message", "content": text}).to_string()),
        text.prop_map(|text| format!(
            r#"{{"type":"other","kind":{},"raw":{{"n":1.0e2, "u":"\ud800"}}}}"#,
            json!(text)
        )),
        Just(r#"{"type":"tool_call","toolCall":{"id":"c","name":"n","args":{"b":1,"a":-0.0}}}"#.to_owned()),
        Just(json!({"type": "usage", "usage": {"inputTokens": 1}}).to_string()),
        Just(json!({"type": "an_event_to_come", "run": "x", "end": {"status": "failed"}}).to_string()),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(events in prop::collection::vec(event(), 0..12)) {
        let text = file(&events, Some(&End::Cancelled));
        let recording = read(text.as_bytes()).unwrap();
        prop_assert_eq!(&recording.problems, &vec![]);
        prop_assert!(recording.runs[0].complete());
        prop_assert_eq!(recording.runs[0].outcome(), "cancelled");
        prop_assert_eq!(events_of(&text), events);
    }

    #[test]
    fn any_cut_gives_a_prefix(events in prop::collection::vec(event(), 0..12), at in any::<prop::sample::Index>()) {
        let text = file(&events, None);
        let header = text.find('\n').unwrap();
        // The cut may be in the middle of a character, too.
        let cut = at.index(text.len() + 1);
        match read(&text.as_bytes()[..cut]) {
            Err(_) => prop_assert!(cut < header),
            Ok(recording) => {
                let run = &recording.runs[0];
                let events_read: Vec<_> = run.entries.iter().map(|entry| entry.event.get()).collect();
                prop_assert_eq!(&events_read[..], &events[..events_read.len()]);
                let torn = recording.problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>();
                prop_assert!(torn.is_empty() || torn == ["the line is torn: the log ends in the middle of it"]);
                let lines = text.as_bytes()[..cut].iter().filter(|byte| **byte == b'\n').count();
                // All lines that were whole are read. The last one may lack its line feed only.
                prop_assert!(events_read.len() + 1 >= lines, "{} of {lines}", events_read.len());
                prop_assert_eq!(run.damaged, !torn.is_empty());
            }
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), after in any::<bool>()) {
        let mut file = if after { format!("{}\n", header_of("run-1", None)).into_bytes() } else { Vec::new() };
        file.extend(&bytes);
        prop_assert_eq!(read(&file).is_ok(), after);
    }
}

#[test]
fn a_header_says_what_was_asked_and_not_with_which_words() {
    let thread = r#"[{"type":"human","content":"my secret plan"}]"#;
    let header_in = |whole| {
        let messages: Vec<Message> = serde_json::from_str(thread).unwrap();
        let raw = RawValue::from_string(thread.to_owned()).unwrap();
        let prompt = Prompt::new(raw, &messages, vec!["bash".to_owned()], whole);
        serde_json::from_str::<serde_json::Value>(&header_of("run-1", Some(prompt))).unwrap()
    };
    let sha256 = "9f19d5b9cf8ea0ef4c8ad6fc8ddc0fb0e2b1f6d1b9a8cb4cb5c2d3d1f1b1e4a0";
    let mut header = header_in(false);
    let hash = header["prompt"]["sha256"].take();
    assert_eq!(hash.as_str().unwrap().len(), sha256.len());
    let platform = header["platform"].take();
    assert!(platform.as_str().unwrap().contains('-'));
    assert_eq!(
        header,
        json!({"format": "deep-factor-run", "version": 1, "runId": "run-1", "provider": "claude",
               "startedAt": 1_700_000_000_000_u64, "packageVersion": env!("CARGO_PKG_VERSION"), "platform": null,
               "prompt": {"messages": 1, "characters": 14, "sha256": null, "tools": ["bash"]}})
    );
    assert_eq!(
        header_in(true)["prompt"]["thread"],
        serde_json::from_str::<serde_json::Value>(thread).unwrap()
    );
    assert_eq!(header_in(true)["prompt"]["sha256"], hash);
    assert!(header_of("run-1", None).as_bytes().starts_with(BEGINNING));
}

#[test]
fn the_hash_is_sha_256() {
    let empty = RawValue::from_string("[]".to_owned()).unwrap();
    let prompt = Prompt::new(empty, &[], vec![], false);
    assert_eq!(
        prompt.sha256,
        "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    );
}

#[test]
fn runs_share_a_file() {
    let line = |run: &str, text: &str| {
        event_line(
            run,
            Stamp { at: 1, t: 0 },
            &json!({"type": "message", "content": text}).to_string(),
        )
    };
    let torn = r#"{"at":1,"t":0,"run":"b","eve"#;
    let text = [
        header_of("a", None),
        line("a", "1"),
        header_of("b", None),
        line("b", "2"),
        line("a", "3"),
        line("c", "whose?"),
        end_line("a", Stamp { at: 1, t: 2 }, &End::Cancelled, &Redactor::default()).unwrap(),
        torn.to_owned(),
        // The next process, which uses the id again.
        header_of("a", None),
        line("a", "4"),
    ]
    .join("\n");
    let recording = read(text.as_bytes()).unwrap();
    let runs: Vec<_> = recording
        .runs
        .iter()
        .map(|run| (run.id.as_str(), run.entries.len(), run.outcome(), run.damaged))
        .collect();
    assert_eq!(
        runs,
        [
            ("a", 2, "cancelled", true),
            ("b", 1, "unknown", true),
            ("a", 1, "unknown", false)
        ]
    );
    let lines: Vec<_> = recording.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [6, 8]);
}

#[test]
fn what_is_no_run_log_is_refused_with_a_reason() {
    let refused = |text: &str| read(text.as_bytes()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(read(b" \n").map(|_| ()), Err(Unreadable::Empty));
    assert_eq!(
        refused("hello\nthere"),
        "it is not a run log: its first line is not JSON"
    );
    assert_eq!(
        refused("{\"type\":\"system\"}\n{}\n"),
        "it is not a run log: its first line is JSON, but not a header with \"format\":\"deep-factor-run\""
    );
    assert_eq!(
        refused("{\n \"version\": \"1.0.0\", \"agent_info\": {}, \"execution\": {}\n}"),
        "it is not a run log: it is a normalised log of the Claude Code adapter (youbencha-log.json), which can be shown but not replayed"
    );
    assert_eq!(
        refused("{\n}"),
        "it is not a run log: it is a JSON document without the header of one"
    );
    let cut = &header_of("run-1", None)[..60];
    assert_eq!(
        refused(cut),
        "it is not a run log: it ends in the middle of the header line"
    );
    let newer = header_of("run-1", None).replace("\"version\":1", "\"version\":2");
    assert_eq!(
        refused(&newer),
        "its version is 2, and this package reads up to 1: a newer deep-factor-providers wrote it"
    );
}

#[test]
fn lines_that_are_none_of_ours_are_left_out_and_reported() {
    let text = format!(
        "{}\n[]\n{{\"at\":1,\"t\":0,\"run\":\"run-1\"}}\n{{\"at\":-1}}\n",
        header_of("run-1", None)
    );
    let problem = |line, message: &str| Problem {
        line,
        message: message.to_owned(),
    };
    assert_eq!(
        read(text.as_bytes()).unwrap().problems[1..],
        [
            problem(3, "the line has neither an event nor an end"),
            problem(4, "the line has no at, t or run"),
        ]
    );
}

/// The texts that were let go behind each of `pieces`, then those at the end.
fn written(pieces: &[&str], redactor: Redactor) -> Vec<Vec<String>> {
    let mut lines = Lines::new("r".to_owned(), redactor);
    let text = |line: String| {
        serde_json::from_str::<Value>(&line).unwrap()["event"]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut steps = Vec::new();
    for (t, piece) in pieces.iter().enumerate() {
        let mut out = Vec::new();
        let stamp = Stamp { at: 1, t: t as u64 };
        lines.push(
            stamp,
            json!({"type": "text_delta", "text": piece}).to_string(),
            &mut out,
        );
        steps.push(out.into_iter().map(text).collect());
    }
    let mut out = Vec::new();
    lines.flush(&mut out);
    steps.push(out.into_iter().map(text).collect());
    steps
}

#[test]
fn pieces_that_begin_nothing_go_at_once() {
    let steps = written(&["Hello", " is", " sk", " \n"], Redactor::default());
    assert_eq!(steps, [vec!["Hello"], vec![" is"], vec![], vec![" sk", " \n"], vec![]]);
}

#[test]
fn a_key_in_pieces_goes() {
    let steps = written(&["use sk-a", "nt-api03-", "abcd", " now"], Redactor::default());
    assert_eq!(
        steps,
        [vec![], vec![], vec![], vec!["use [redacted]", "", "", " now"], vec![]]
    );
    // The cut is inside the prefix by which a key is known.
    let steps = written(&["use s", "k-ant-api03-", "abcd", "."], Redactor::default());
    assert_eq!(
        steps,
        [vec![], vec![], vec![], vec!["use [redacted]", "", "", "."], vec![]]
    );
    let redactor = Redactor::new([("MY_KEY", "correct horse battery")], []);
    let steps = written(&["say corr", "ect horse bat", "tery, please"], redactor);
    assert_eq!(steps, [vec![], vec![], vec!["say [redacted]", "", ", please"], vec![]]);
}

#[test]
fn what_only_looked_like_one_comes_as_it_was() {
    let steps = written(&["sk-", "i resort"], Redactor::default());
    assert_eq!(steps, [vec![], vec!["sk-", "i resort"], vec![]]);
    assert_eq!(written(&["eyJ"], Redactor::default()), [vec![], vec!["eyJ"]]);
}

#[test]
fn any_other_event_ends_the_waiting() {
    let mut lines = Lines::new("r".to_owned(), Redactor::default());
    let mut out = Vec::new();
    let stamp = Stamp { at: 7, t: 3 };
    lines.push(stamp, r#"{"type":"text_delta","text":"sk-ant-"}"#.to_owned(), &mut out);
    assert!(out.is_empty());
    lines.push(
        stamp,
        r#"{"type":"tool_call","toolCall":{"args":{"n":1.0}}}"#.to_owned(),
        &mut out,
    );
    assert_eq!(
        out,
        [
            r#"{"at":7,"t":3,"run":"r","event":{"type":"text_delta","text":"sk-ant-"}}"#,
            r#"{"at":7,"t":3,"run":"r","event":{"type":"tool_call","toolCall":{"args":{"n":1.0}}}}"#,
        ]
    );
}

proptest::proptest! {
    #[test]
    fn however_it_is_cut_no_key_gets_through(cuts in proptest::collection::vec(1usize..9, 1..20), before in "[a-z .]{0,12}") {
        let key = "sk-ant-api03-0123456789";
        let text = format!("{before} {key} and after");
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        let steps = written(&pieces, Redactor::default());
        proptest::prop_assert_eq!(steps.iter().flatten().count(), pieces.len());
        let all: String = steps.concat().concat();
        proptest::prop_assert!(!all.contains("0123456789") && !all.contains("api03"), "{}", all);
        proptest::prop_assert!(all.ends_with("[redacted] and after"), "{}", all);
    }
}
