//! The results of the recordings of 1.0.102 (`__tests__/fixtures/copilot-headless`), and the verdicts on them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::json;

use super::super::wire::CopilotProtocol;
use super::*;
use crate::rpc::Protocol;
use crate::rpc::message::{self, Message};
use dfp_model::message::ToolSpec;
use dfp_provider::judge::{CliRules, Context, Evidence, TurnEvidence, judge};
use dfp_text::decode::Wire;
use dfp_text::decode::golden::{fixtures, line};
use dfp_text::fold::Fold;
use dfp_text::toolcall::TextCalls;

fn tools() -> Tools {
    let tool =
        |name| -> ToolSpec { serde_json::from_value(json!({"name": name, "schema": {"type": "object"}})).unwrap() };
    Tools::new(&["add", "get_weather"].map(tool), dfp_provider::declare::MAX_NAME)
}

/// The verdict on a reply.
fn verdict(events: Vec<Event>) -> String {
    let copilot = dfp_provider::find("copilot").unwrap();
    let context = Context {
        provider: &copilot.id,
        rules: CliRules::from(copilot),
        now_ms: 1_795_294_800_000,
        local_offset_min: None,
    };
    let (mut fold, mut public) = (Fold::new(HashSet::new(), TextCalls::Off), Vec::new());
    for event in events {
        fold.push(event, &mut public);
    }
    let evidence = Evidence::Turn(TurnEvidence {
        wire: Wire::CopilotJson,
        flags: Vec::new(),
        stopped: None,
        diagnostics: Vec::new(),
        stdout_tail: String::new(),
    });
    match judge(&context, evidence, fold.finish(&mut public)) {
        Ok(reply) => format!(
            "{} calls, {} bytes of text",
            reply.tool_calls.len(),
            reply.content.len()
        ),
        Err(error) => format!(
            "{:?} {} {}",
            error.code,
            error.http_status.map_or("-".to_owned(), |status| status.to_string()),
            error.message.lines().next().unwrap_or_default(),
        ),
    }
}

/// A session that is being read.
struct Reading<'a> {
    reader: CopilotTurnReader<'a>,
    /// The events of the reply so far.
    events: Vec<Event>,
    /// True if the turn is over: further events belong to no turn, until the model is asked again or, after a failure, the
    /// session rests.
    is_over: bool,
    has_failed: bool,
    /// The results of its turns.
    text: String,
}

/// The replies of a recording, session by session in the order in which they begin.
fn play(case: &str) -> String {
    let tools = tools();
    let protocol = CopilotProtocol::default();
    let file = fixtures().join("copilot-headless").join(format!("{case}.stdout"));
    let recorded = std::fs::read_to_string(file).unwrap();
    let mut order: Vec<String> = Vec::new();
    let mut sessions: HashMap<String, Reading> = HashMap::new();
    for raw in recorded.lines() {
        let (_, raw) = raw.split_once('\t').unwrap();
        let Message::Notification { method, params } = message::read(raw) else {
            continue;
        };
        let Some((session, event)) = protocol.notification(&method, params) else {
            continue;
        };
        let reading = sessions.entry(session.clone()).or_insert_with(|| {
            order.push(session.clone());
            Reading {
                reader: CopilotTurnReader::new(&tools, false, &session, "m"),
                events: Vec::new(),
                is_over: true,
                has_failed: false,
                text: String::new(),
            }
        });
        match event {
            SessionEvent::Idle if reading.has_failed => {
                reading.has_failed = false;
                continue;
            }
            SessionEvent::CallStarted { .. } if reading.is_over && !reading.has_failed => {
                reading.reader = CopilotTurnReader::new(&tools, false, &session, "m");
                reading.is_over = false;
            }
            _ => {}
        }
        if reading.is_over {
            continue;
        }
        let step = reading.reader.push(event, &mut reading.events);
        for request in reading.reader.take_unfit() {
            writeln!(reading.text, "  unfit {}", &request[..8]).unwrap();
        }
        if step != TurnStep::More {
            reading.is_over = true;
            reading.has_failed = step == TurnStep::Failed;
            let events = std::mem::take(&mut reading.events);
            for event in &events {
                writeln!(reading.text, "  {}", line(event)).unwrap();
            }
            writeln!(reading.text, "  = {}", verdict(events)).unwrap();
        }
    }
    let mut text = String::new();
    for Reading { text: of, events, .. } in order.iter().filter_map(|session| sessions.remove(session)) {
        text += &of;
        for event in &events {
            writeln!(text, "  {}", line(event)).unwrap();
        }
        if !events.is_empty() {
            text += "  = not over\n";
        }
    }
    text
}

/// The replies are in `replies.txt`; `UPDATE_GOLDENS=1` writes it anew.
#[test]
fn recordings_come_to_these_replies() {
    let folder = fixtures().join("copilot-headless");
    let files = std::fs::read_dir(&folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".stdout")?.to_owned()))
        .collect();
    cases.sort_unstable();
    let replies: String = cases.iter().map(|case| format!("{case}\n{}", play(case))).collect();
    let file = folder.join("replies.txt");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&file, &replies).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), replies);
}
