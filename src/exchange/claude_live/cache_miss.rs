//! The reason why an answer found much less in the prompt cache than the answer before it had left there, in the CLI's words.
//!
//! In: the usage of a session's answers, one after the other. Out: whether the CLI is asked ([`CacheWatch::asks`]), and the cause that it tells
//! ([`cause`]). The answer waits for it, but not for long: a CLI that hangs holds back no reply. The cause is shown, and nothing depends on it.
//!
//! `get_session_cost` takes 1 to 4 ms and asks no API (2.1.332). 2.1.197 answers with costs alone: then there is no cause.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use dfp_model::event::Event;
use dfp_text::redact::one_line;

/// The time for which an answer waits for the cause.
const LIMIT: Duration = Duration::from_millis(500);

/// The least tokens in the cache whose loss counts: the vendor's API caches no shorter beginnings for most models.
const LEAST: u64 = 1024;

/// The beginning of the line about the prompt cache (2.1.330, 2.1.332).
const LINE: &str = "Prompt cache";

/// The prompt cache of a session, as far as its answers tell of it.
#[derive(Debug, Default)]
pub struct CacheWatch {
    /// The tokens that the last answer has left in the cache.
    cached: u64,
    held: Option<Held>,
}

/// The last events of a turn, which wait for the cause.
#[derive(Debug)]
struct Held {
    events: Vec<Event>,
    until: Instant,
}

impl CacheWatch {
    /// Takes note of the last `events` of a turn of so many `requests`; returns whether the CLI is to be asked: less than half of what was
    /// cached was found. The usage of several requests is a sum, which doesn't tell how much is cached.
    pub fn asks(&mut self, events: &[Event], requests: usize) -> bool {
        let usage = events.iter().find_map(|event| match event {
            Event::Outcome(outcome) if !outcome.is_error => outcome.usage.as_ref(),
            _ => None,
        });
        let Some(usage) = usage else { return false };
        if requests > 1 {
            self.cached = 0;
            return false;
        }
        let (read, written) = (
            usage.cache_read_tokens.unwrap_or_default(),
            usage.cache_write_tokens.unwrap_or_default(),
        );
        let before = std::mem::replace(&mut self.cached, read.saturating_add(written));
        before >= LEAST && read < before / 2
    }

    /// Holds the last events of a turn back until the CLI has answered.
    pub fn hold(&mut self, events: Vec<Event>) {
        let until = Instant::now() + LIMIT;
        self.held = Some(Held { events, until });
    }

    /// The time by which the events go out in any case; `None` if none are held.
    pub fn until(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Moves the events that were held to `events`, with the `cause`; returns whether there were any.
    pub fn release(&mut self, cause: Option<String>, events: &mut Vec<Event>) -> bool {
        let Some(mut held) = self.held.take() else { return false };
        for event in &mut held.events {
            if let Event::Outcome(outcome) = event {
                outcome.cache_miss.clone_from(&cause);
            }
        }
        events.append(&mut held.events);
        true
    }
}

/// The line about the prompt cache in `answer`, the JSON with which the CLI has answered, fit to be shown.
pub fn cause(answer: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct SessionCost {
        text: String,
    }
    let cost: SessionCost = serde_json::from_str(answer).ok()?;
    let lines = cost.text.lines().map(str::trim).filter(|line| line.starts_with(LINE));
    let line = one_line(&lines.collect::<Vec<_>>().join(" "));
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::event::Outcome;
    use dfp_model::message::Usage;

    fn answer(read: u64, written: u64) -> Vec<Event> {
        let usage = Usage {
            input_tokens: read + written + 10,
            cache_read_tokens: Some(read),
            cache_write_tokens: Some(written),
            ..Usage::default()
        };
        vec![Event::Outcome(Box::new(Outcome {
            usage: Some(usage),
            ..Outcome::default()
        }))]
    }

    #[test]
    fn the_cli_is_asked_where_much_was_cached_and_little_of_it_found() {
        let asked = |answers: &[(u64, u64)]| {
            let mut watch = CacheWatch::default();
            let asks = |(read, written): &(u64, u64)| watch.asks(&answer(*read, *written), 1);
            answers.iter().map(asks).collect::<Vec<_>>()
        };
        assert_eq!(
            asked(&[(0, 50_000), (50_000, 100), (0, 50_100), (50_100, 9)]),
            [false, false, true, false]
        );
        // Nothing was cached, or too little to say anything of.
        assert_eq!(asked(&[(0, 0), (0, 0)]), [false, false]);
        assert_eq!(asked(&[(0, 1_000), (0, 1_000)]), [false, false]);
        assert_eq!(asked(&[(0, 50_000), (25_000, 25_000)]), [false, false]);
    }

    #[test]
    fn the_sum_of_several_requests_is_not_what_is_cached() {
        let mut watch = CacheWatch::default();
        let turns = [
            (101_000, 52_000, 3),
            (52_000, 100, 1),
            (0, 52_100, 2),
            (52_100, 9, 1),
            (0, 9, 1),
        ];
        let asked = turns.map(|(read, written, requests)| watch.asks(&answer(read, written), requests));
        assert_eq!(asked, [false, false, false, false, true]);
    }

    #[test]
    fn a_failed_turn_says_nothing_of_the_cache() {
        let mut watch = CacheWatch::default();
        watch.asks(&answer(0, 50_000), 1);
        let failed = Event::Outcome(Box::new(Outcome {
            is_error: true,
            ..Outcome::default()
        }));
        assert!(!watch.asks(&[failed], 1));
        assert!(watch.asks(&answer(0, 50_000), 1));
    }

    #[test]
    fn the_events_that_were_held_go_out_once_with_the_cause() {
        let mut watch = CacheWatch::default();
        assert_eq!(watch.until(), None);
        watch.hold(answer(0, 1));
        let mut events = Vec::new();
        assert!(watch.until().is_some() && watch.release(Some("w".to_owned()), &mut events));
        assert!(!watch.release(Some("w".to_owned()), &mut events) && watch.until().is_none());
        let [Event::Outcome(outcome)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(outcome.cache_miss.as_deref(), Some("w"));
    }

    /// The texts of 2.1.332 (recording `cache-miss-model`) and of 2.1.197.
    #[test]
    fn the_cause_is_the_line_about_the_cache_made_fit_to_be_shown() {
        let text = "Estimated cost:        $0.2668\nPrompt cache (main):   3 requests · 1 miss (likely cause: model\u{1b}[31m changed, key sk-ant-api03-aaaaaaaaaaaaaaaaaaaa)";
        let answer = serde_json::json!({ "text": text }).to_string();
        assert_eq!(
            cause(&answer).as_deref(),
            Some("Prompt cache (main): 3 requests · 1 miss (likely cause: model changed, key [redacted])")
        );
        assert_eq!(cause(r#"{"text":"Total cost:            $0.0002"}"#), None);
        assert_eq!(cause("{}"), None);
        let long = serde_json::json!({"text": format!("Prompt cache {}", "x".repeat(1 << 20))}).to_string();
        assert!(cause(&long).is_some_and(|line| line.len() < 10_000));
    }
}
