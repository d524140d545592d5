//! Reads token figures, however CLIs and APIs spell them, as one [`Usage`] with LangChain's meaning.
//!
//! | who | input | cached input |
//! |---|---|---|
//! | Anthropic, claude | `input_tokens` | `cache_read_input_tokens`, `cache_creation_input_tokens`: beside it |
//! | qwen 0.15.10 (tells `total_tokens`) | `input_tokens` | `cache_read_input_tokens`: part of it |
//! | codex 0.169.0 | `input_tokens` | `cached_input_tokens`, `cache_write_input_tokens`: part of it |
//! | OpenAI | `prompt_tokens` | `prompt_tokens_details.cached_tokens`: part of it |

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Count, Fields};
use dfp_model::message::Usage;

#[derive(Debug, Default, Deserialize)]
struct UsageFigures {
    input_tokens: Option<Count>,
    prompt_tokens: Option<Count>,
    output_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    total_tokens: Option<Count>,
    cache_read_input_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    cache_creation: Option<CacheCreation>,
    cached_input_tokens: Option<Count>,
    cache_write_input_tokens: Option<Count>,
    reasoning_output_tokens: Option<Count>,
    input_tokens_details: Option<Details>,
    prompt_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct Details {
    cached_tokens: Option<Count>,
    thinking_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
}

/// Anthropic's figures of what was written into the cache, by how long it is kept (claude 2.1.197 and 2.1.332, as their API tells it).
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<Count>,
    ephemeral_1h_input_tokens: Option<Count>,
}

/// Reads the figures in `raw`, if there are any.
pub fn read_usage(fields: &mut Fields, raw: Option<&RawValue>) -> Option<Usage> {
    let figures: UsageFigures = fields.read("usage", raw)?;
    let input_details = figures
        .input_tokens_details
        .or(figures.prompt_tokens_details)
        .unwrap_or_default();
    let output_details = figures
        .output_tokens_details
        .or(figures.completion_tokens_details)
        .unwrap_or_default();
    let written = figures.cache_creation.unwrap_or_default();
    // The CLI names both parts in each reply, mostly as 0.
    let some = |count: Option<Count>| count.map(|count| count.0).filter(|count| *count > 0);
    let input = figures.input_tokens.or(figures.prompt_tokens);
    let output = figures.output_tokens.or(figures.completion_tokens);
    if input.is_none() && output.is_none() {
        return None;
    }
    let count = |count: Option<Count>| count.unwrap_or_default().0;
    let (input, output) = (count(input), count(output));
    // Only a CLI that counts the cache as part of the input can give this sum.
    let cache_inside = figures.total_tokens == Some(Count(input.saturating_add(output)));
    let beside = count(figures.cache_read_input_tokens).saturating_add(count(figures.cache_creation_input_tokens));
    let input = if cache_inside {
        input
    } else {
        input.saturating_add(beside)
    };
    Some(Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input.saturating_add(output),
        cache_read_tokens: figures
            .cache_read_input_tokens
            .or(figures.cached_input_tokens)
            .or(input_details.cached_tokens)
            .map(|count| count.0),
        cache_write_tokens: figures
            .cache_creation_input_tokens
            .or(figures.cache_write_input_tokens)
            .map(|count| count.0),
        cache_write_5m_tokens: some(written.ephemeral_5m_input_tokens),
        cache_write_1h_tokens: some(written.ephemeral_1h_input_tokens),
        // Newer CLIs report 0 where older ones report nothing: both are read the same way.
        reasoning_tokens: some(
            figures
                .reasoning_output_tokens
                .or(output_details.thinking_tokens)
                .or(output_details.reasoning_tokens),
        ),
        estimated: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(json: &str) -> Option<Usage> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        read_usage(&mut Fields::default(), Some(raw))
    }

    fn expected(input: u64, output: u64, read: Option<u64>, write: Option<u64>, reasoning: Option<u64>) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input + output,
            cache_read_tokens: read,
            cache_write_tokens: write,
            reasoning_tokens: reasoning,
            ..Usage::default()
        }
    }

    #[test]
    fn every_spelling() {
        for (json, want) in [
            (
                r#"{"input_tokens":11,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":7,
                    "output_tokens_details":{"thinking_tokens":2},"service_tier":"standard","iterations":[]}"#,
                expected(19, 7, Some(5), Some(3), Some(2)),
            ),
            (
                r#"{"input_tokens":41,"output_tokens":9,"cache_read_input_tokens":13,"total_tokens":50}"#,
                expected(41, 9, Some(13), None, None),
            ),
            (
                r#"{"input_tokens":21,"cached_input_tokens":6,"cache_write_input_tokens":0,"output_tokens":9,"reasoning_output_tokens":4}"#,
                expected(21, 9, Some(6), Some(0), Some(4)),
            ),
            (
                r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":2},
                    "completion_tokens_details":{"reasoning_tokens":1}}"#,
                expected(10, 4, Some(2), None, Some(1)),
            ),
            (
                r#"{"input_tokens":10,"output_tokens":8}"#,
                expected(10, 8, None, None, None),
            ),
        ] {
            assert_eq!(usage(json), Some(want), "{json}");
        }
        let kept = r#"{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":7,
            "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}"#;
        let split = Usage {
            cache_write_5m_tokens: Some(3),
            cache_write_1h_tokens: Some(4),
            ..expected(8, 2, None, Some(7), None)
        };
        assert_eq!(usage(kept), Some(split));
        let none = kept.replace(":3", ":0").replace(":4", ":0");
        assert_eq!(usage(&none), Some(expected(8, 2, None, Some(7), None)));
        assert_eq!(usage("{}"), None);
        assert_eq!(usage(r#"{"input_tokens":"many"}"#), None);
    }
}
