//! All rules: one table per CLI, and the tables that hold for every provider.
//!
//! In: a provider's id. Out: its [`Table`]. Adding a CLI is adding a file here and a line to [`TABLES`].

use super::rule::Table;

mod claude;
mod codex;
pub(super) mod common;
mod gemini;
mod openai;
mod opencode;
mod qwen;

/// Tables by provider id, in the order in which they are asked where the provider is not known.
pub static TABLES: [(&str, &Table); 6] = [
    ("claude", &claude::TABLE),
    ("codex", &codex::TABLE),
    ("gemini", &gemini::TABLE),
    ("qwen", &qwen::TABLE),
    ("opencode", &opencode::TABLE),
    ("openai", &openai::TABLE),
];

/// The table of one provider.
pub fn table(provider: &str) -> Option<&'static Table> {
    TABLES.iter().find(|(id, _)| *id == provider).map(|(_, table)| *table)
}

/// CLIs that exit with an HTTP status modulo 256 (gemini 0.61.0, json and stream-json: 400 is 144, 503 is 247).
const EXIT_IS_STATUS: [&str; 1] = ["gemini"];

/// The HTTP status behind an exit code, for CLIs that tell it so.
pub fn status_of_exit(provider: &str, exit: i32) -> Option<u16> {
    const STATUSES: [u16; 15] = [
        400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 504,
    ];
    if !EXIT_IS_STATUS.contains(&provider) {
        return None;
    }
    STATUSES.into_iter().find(|status| i32::from(status % 256) == exit)
}
