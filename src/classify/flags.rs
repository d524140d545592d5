//! The flag that an installed CLI does not know.
//!
//! In: a provider's id and what it printed on standard error. Out: the flag, so that the caller can leave it out and ask
//! again. Each option parser has its own sentence; the table names them all.

use std::sync::LazyLock;

use regex::Regex;

use crate::redact::plain;

/// A sentence of an option parser, its first group the flag, the CLIs that are built with that parser, and what a
/// bare word is to be put behind. Only the flag's first word is taken: what follows may be a prompt.
const SENTENCES: &[(&str, &[&str], &str)] = &[
    // commander (claude 2.1.197): error: unknown option '--no-input'
    (r"unknown option '(--?\w[\w-]*)", &["claude"], "--"),
    // clap (codex-cli 0.169.0): error: unexpected argument '--no-input' found
    (r"unexpected argument '(--?\w[\w-]*)", &["codex"], "--"),
    // A feature that codex does not know; unknown ones are fatal (CLI-FACTS 2). The wording is not measured.
    (r"unknown feature flag: (\w[\w-]*)", &["codex"], "--disable "),
    // yargs (gemini 0.61.0, qwen 0.15.10): Unknown argument: input; Unknown arguments: core-tools, coreTools
    (r"unknown arguments?: (\w[\w-]*)", &["gemini", "qwen"], "--"),
    // argparse: unrecognized arguments: --frob
    (r"unrecognized arguments?:? '?(--?\w[\w-]*)", &[], "--"),
    // Go: flag provided but not defined: -frob
    (r"flag provided but not defined: (--?\w[\w-]*)", &[], "--"),
    // pflag (Go): unknown flag: --frob
    (r"unknown flag:? '?(--?\w[\w-]*)", &[], "--"),
];

static PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    SENTENCES
        .iter()
        .map(|(sentence, ..)| Regex::new(&format!("(?i){sentence}")).ok())
        .collect()
});

/// The flag that the CLI refused, with its dashes. yargs names it without them and takes a leading `no-` for a negation:
/// `--no-input` is refused as `--input`, so compare with both spellings. `None` if no flag was refused, or the CLI does
/// not say which (`opencode` answers with its help text alone). A provider whose parser is not known is asked for all.
pub fn unsupported_flag(provider: &str, stderr: &str) -> Option<String> {
    let text = plain(stderr);
    let known = SENTENCES.iter().any(|(_, of, _)| of.contains(&provider));
    SENTENCES
        .iter()
        .zip(PATTERNS.iter())
        .filter(|((_, of, _), _)| !known || of.contains(&provider))
        .find_map(|((.., before), pattern)| Some((*before, pattern.as_ref()?.captures(&text)?.get(1)?.as_str())))
        .map(|(before, name)| match name {
            flag if flag.starts_with('-') => flag.to_owned(),
            letter if letter.len() == 1 => format!("-{letter}"),
            word => format!("{before}{word}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(PATTERNS.iter().all(Option::is_some));
    }
}
