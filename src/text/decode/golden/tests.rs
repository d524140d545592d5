//! Every recording of a real CLI, decoded and compared whole with `__tests__/fixtures/decode/<cli>.txt`.
//!
//! `UPDATE_GOLDENS=1 cargo test -p dfp-text decode::golden` writes the files anew; read the diff before you commit it.

use std::collections::HashSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::{Decoder, Wire};
use super::{Recording, decode, fixtures, line, recordings, short};
use crate::fold::Fold;
use crate::toolcall::TextCalls;
use dfp_model::event::{Event, kinds};

fn snapshot(events: &[Event], decoder: &Decoder) -> String {
    let mut text = String::new();
    for event in events {
        writeln!(text, "  {}", line(event)).unwrap();
    }
    let notes = decoder.diagnostics();
    for note in notes.iter().take(3) {
        writeln!(text, "  ! {}", short(note)).unwrap();
    }
    if notes.len() > 3 {
        writeln!(text, "  ! and {} more", notes.len() - 3).unwrap();
    }
    if let Some(plain) = decoder.plain_text() {
        writeln!(text, "  plain {}", short(&plain)).unwrap();
    }
    if decoder.cut_short() {
        text.push_str("  cut short\n");
    }
    text
}

fn check(cli: &str) {
    let mut text = String::new();
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (events, decoder) = decode(wire, [stdout.as_slice()]);
        write!(text, "{name} ({wire:?})\n{}", snapshot(&events, &decoder)).unwrap();
    }
    let path = fixtures().join("decode").join(format!("{cli}.txt"));
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (number, (is, was)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(is, was, "{}:{}", path.display(), number + 1);
    }
    assert_eq!(text.lines().count(), golden.lines().count(), "{}", path.display());
}

/// Checks that the deltas of every message, joined, are the message, and that a turn has at most one failure.
fn check_invariants(cli: &str) {
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (events, _) = decode(wire, [stdout.as_slice()]);
        let (mut streamed, mut failures) = (String::new(), 0);
        for event in &events {
            // An event is serialised under its name in the common vocabulary.
            let tag = serde_json::to_value(event).ok().map(|event| event["type"].clone());
            assert_eq!(
                tag.and_then(|tag| Some(tag.as_str()?.to_owned())),
                event.kind().map(kinds::name),
                "{event:?}"
            );
            match event {
                Event::TextDelta { text, .. } => streamed.push_str(text),
                Event::Message { content, .. } => assert_eq!(std::mem::take(&mut streamed), *content, "{cli}/{name}"),
                Event::Abandoned => streamed.clear(),
                Event::Failure(_) => failures += 1,
                Event::Outcome(_) => {
                    assert!(failures <= 1, "{cli}/{name}");
                    failures = 0;
                }
                _ => {}
            }
        }
        assert_eq!(streamed, "", "{cli}/{name}: deltas without a message");
        assert!(failures <= 1, "{cli}/{name}");
    }
}

/// Checks that the events are the same however the pipe cuts the bytes.
fn check_chunking(cli: &str) {
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (events, decoder) = decode(wire, [stdout.as_slice()]);
        let whole = format!("{events:?} {}", snapshot(&events, &decoder));
        for size in [1, 7, 4096] {
            let (events, decoder) = decode(wire, stdout.chunks(size));
            assert_eq!(
                format!("{events:?} {}", snapshot(&events, &decoder)),
                whole,
                "{cli}/{name} by {size}"
            );
        }
    }
}

/// Checks that the public events of a run, as a run log holds them, fold to the reply that the log has in `done`.
fn check_replay(cli: &str) {
    let fold = |events: Vec<Event>| {
        let (mut fold, mut public) = (Fold::new(HashSet::new(), TextCalls::Lenient), Vec::new());
        for event in events {
            fold.push(event, &mut public);
        }
        let reply = fold.finish(&mut public).reply;
        let texts = (reply.content, reply.messages, reply.thinking, reply.message_id);
        (format!("{texts:?} {:?}", reply.tool_calls), public)
    };
    for Recording { name, wire, stdout, .. } in recordings(cli) {
        let (reply, recorded) = fold(decode(wire, [stdout.as_slice()]).0);
        let (replayed, again) = fold(recorded.clone());
        assert_eq!(replayed, reply, "{cli}/{name}");
        // Folding keeps every event: the log of a killed run can be read as it is.
        let json = |events: &[Event]| serde_json::to_string(events).unwrap();
        assert_eq!(json(&again), json(&recorded), "{cli}/{name}");
    }
}

macro_rules! recorded {
    ($($name:ident $cli:literal;)*) => {$(
        mod $name {
            #[test]
            fn as_the_golden_file_says() {
                super::check($cli);
            }
            #[test]
            fn deltas_are_the_messages() {
                super::check_invariants($cli);
            }
            #[test]
            fn replayed_it_is_the_same_reply() {
                super::check_replay($cli);
            }
            #[test]
            fn any_chunking() {
                super::check_chunking($cli);
            }
        }
    )*};
}

recorded! {
    claude "claude";
    claude_2_1_330 "claude-2.1.330";
    qwen "qwen";
    qwen_0_24_4 "qwen-0.24.4";
    codex "codex";
    gemini "gemini";
    opencode "opencode";
    copilot "copilot";
    grok "grok";
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Cuts at random places of a recording that has deltas, snapshots, calls, control lines and four turns.
    #[test]
    fn cuts_anywhere(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9)) {
        let path = fixtures().join("recordings/claude-2.1.330/defer-live-multistep.stdout");
        let stdout = std::fs::read(path).unwrap();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stdout.len() + 1)).collect();
        cuts.extend([0, stdout.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &stdout[ends[0]..ends[1]]);
        let (whole, _) = decode(Wire::ClaudeStream, [stdout.as_slice()]);
        let (cut, _) = decode(Wire::ClaudeStream, pieces);
        prop_assert_eq!(format!("{cut:?}"), format!("{whole:?}"));
    }
}
