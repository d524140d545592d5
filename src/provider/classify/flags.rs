//! Recognises refusals: a flag that the installed CLI doesn't know, or a schema that it can't read.
//!
//! In: a provider's id and the CLI's standard error. Out: the flag, or the reason why the schema is refused, so that the caller can
//! leave it out and ask again. Each option parser words a refusal in its own way (`provider::errors`); the provider's data names
//! the parser.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::rules;
use crate::errors::{ARGPARSE, GO_FLAG, PFLAG, RefusedFlag};
use dfp_model::error::clip;
use dfp_text::redact::plain;

/// The option parsers that a CLI of the user's own may use, besides those of the known CLIs.
const OTHERS: [RefusedFlag; 3] = [ARGPARSE, GO_FLAG, PFLAG];

/// The wordings of all parsers, each once.
static REFUSALS: LazyLock<Vec<(RefusedFlag, Option<Regex>)>> = LazyLock::new(|| {
    let mut all: Vec<(RefusedFlag, Option<Regex>)> = Vec::new();
    let of_providers = rules::ALL.iter().flat_map(|known| known.errors.refused_flags);
    for refusal in of_providers.chain(&OTHERS) {
        if all.iter().all(|(known, _)| known != refusal) {
            all.push((*refusal, Regex::new(&format!("(?i){}", refusal.sentence)).ok()));
        }
    }
    all
});

/// The flag that the CLI refused, with its dashes; `None` if no flag was refused, or the CLI doesn't say which (`opencode` prints
/// its help text only).
///
/// yargs names a flag without dashes, and takes a leading `no-` for a negation: `--no-input` is refused as `--input`, so compare
/// with both spellings. If the provider's parser is unknown, all wordings are tried.
pub fn unsupported_flag(provider: &str, stderr: &str) -> Option<String> {
    let text = plain(stderr);
    let own = rules::of(provider).map_or(&[][..], |known| known.errors.refused_flags);
    REFUSALS
        .iter()
        .filter(|(refusal, _)| own.is_empty() || own.contains(refusal))
        .find_map(|(refusal, pattern)| Some((refusal.prefix, pattern.as_ref()?.captures(&text)?.get(1)?.as_str())))
        .map(|(prefix, name)| match name {
            flag if flag.starts_with('-') => flag.to_owned(),
            letter if letter.len() == 1 => format!("-{letter}"),
            word => format!("{prefix}{word}"),
        })
}

/// The wordings by which providers refuse a schema, by id.
static SCHEMA_REFUSALS: LazyLock<HashMap<&str, Regex>> = LazyLock::new(|| {
    let sentences = rules::ALL
        .iter()
        .filter_map(|known| Some((known.id, known.errors.refused_schema?)));
    let compiled = sentences.filter_map(|(id, sentence)| Some((id, Regex::new(&format!("(?i){sentence}")).ok()?)));
    compiled.collect()
});

/// The reason why the CLI refused the schema for its answer; `None` if it did not.
pub fn refused_schema(provider: &str, stderr: &str) -> Option<String> {
    let text = plain(stderr);
    let found = SCHEMA_REFUSALS.get(provider)?.find(&text)?;
    Some(clip(found.as_str().trim_end(), 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_refused_with_a_reason() {
        let dialect = "--json-schema is not a valid JSON Schema: no schema with key or ref \"https://a/\"";
        let root = "--json-schema root must accept object-typed values";
        let table = [
            ("claude", format!("Error: {dialect}\n"), Some(dialect)),
            ("qwen", format!("\x1b[31m{dialect}\x1b[0m\n"), Some(dialect)),
            ("qwen", format!("\x1b[31m{root}\x1b[0m\n"), Some(root)),
            // This is a warning of a run that goes on.
            (
                "claude",
                "strict mode: \"items\" is 1-tuple, but minItems".to_owned(),
                None,
            ),
            ("claude", "error: unknown option '--json-schema'\n".to_owned(), None),
            ("codex", dialect.to_owned(), None),
        ];
        for (provider, stderr, expected) in table {
            assert_eq!(refused_schema(provider, &stderr).as_deref(), expected, "{stderr:?}");
        }
        assert_eq!(SCHEMA_REFUSALS.len(), 2);
    }

    #[test]
    fn every_parser_is_understood() {
        let table = [
            ("claude", "error: unknown option '--no-input'\n", Some("--no-input")),
            ("claude", "error: unknown option '--hello there'\n", Some("--hello")),
            ("claude", "error: unknown option '-x'", Some("-x")),
            (
                "codex",
                "error: unexpected argument '--no-input' found\n\n  tip: …",
                Some("--no-input"),
            ),
            ("codex", "Error: Unknown feature flag: goals", Some("--disable goals")),
            ("gemini", "Unknown argument: input\nUsage: gemini", Some("--input")),
            (
                "qwen",
                "\x1b[31mUnknown arguments: core-tools, coreTools\x1b[0m",
                Some("--core-tools"),
            ),
            ("gemini", "Unknown argument: z", Some("-z")),
            ("mine", "x: error: unrecognized arguments: --frob", Some("--frob")),
            ("mine", "flag provided but not defined: -frob", Some("-frob")),
            ("mine", "Error: unknown flag: --frob", Some("--frob")),
            ("opencode", "opencode run [message..]\n\nOptions:\n", None),
            ("claude", "Error: Input must be provided", None),
            ("claude", "Unknown argument: input", None),
            ("claude", "", None),
        ];
        for (provider, stderr, expected) in table {
            assert_eq!(unsupported_flag(provider, stderr).as_deref(), expected, "{stderr:?}");
        }
        assert!(REFUSALS.iter().all(|(_, pattern)| pattern.is_some()));
    }
}
