//! Tests that docs/reference/providers.md agrees with the registry. `UPDATE_DOCS=1 cargo test -p dfp-provider tests::docs` rewrites
//! its table.

use std::path::Path;

use serde_json::Value;

use super::argv::line;
use crate::{ALL, Provider};

const BEGIN: &str = "<!-- The table is made of the registry (src/provider); a test compares them. -->\n";
const END: &str = "<!-- end -->\n";

pub(super) fn row(provider: &Provider) -> String {
    let about = provider.about;
    let versions = match about.versions {
        [] => "not measured".to_owned(),
        versions => versions.join(", "),
    };
    let cell = |text: &str| text.replace('|', "\\|");
    format!(
        "| {} | {versions} | `{} {}` | {} | {} | {} |\n",
        provider.id,
        provider.command,
        cell(&line(provider, "{}").argv()),
        cell(about.sent),
        cell(about.not_isolated),
        cell(about.limits)
    )
}

fn table() -> String {
    let head = "\n| provider | versions measured | command line by default | what is sent beside the thread | what is not \
                isolated | limits |\n| --- | --- | --- | --- | --- | --- |\n";
    ALL.iter()
        .fold(head.to_owned(), |table, provider| table + &row(provider))
        + "\n"
}

const SENT_BEGIN: &str =
    "<!-- The sizes are those of the recordings (__tests__/fixtures/drift); a test compares them. -->\n";

/// The table of the sizes of the first request in each CLI's recorded success.
fn sizes() -> String {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__tests__/fixtures/drift");
    let mut names: Vec<_> = std::fs::read_dir(&sets)
        .unwrap()
        .map(|set| set.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let row = |name: &String| {
        let recorded = ["success-stream-json", "success"]
            .iter()
            .find_map(|case| std::fs::read_to_string(sets.join(name).join(format!("{case}.meta.json"))).ok());
        let recorded: Value = serde_json::from_str(&recorded.unwrap()).unwrap();
        let cli = name.split('-').next().unwrap_or(name);
        let tools = recorded["request"]["tools"].as_array().map_or(0, Vec::len);
        let version = recorded["version"].as_str().unwrap();
        format!("| {cli} {version} | {} | {tools} |\n", recorded["request"]["bytes"])
    };
    let rows: String = names.iter().map(row).collect();
    format!("\n| CLI | bytes | tools of its own |\n| --- | --- | --- |\n{rows}\n")
}

/// Puts `table` between `begin` and the next [`END`] of docs/reference/providers.md, or compares it with the text there.
fn hold(begin: &str, table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/providers.md");
    // Both tests write the same file.
    static FILE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _writing = FILE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(begin).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, [before, begin, table, END, after].concat()).unwrap();
        return;
    }
    // Markdown is formatted elsewhere: spaces don't count.
    let squeeze = |text: &str| {
        text.split_whitespace()
            .filter(|word| !word.starts_with("--"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(squeeze(found), squeeze(table), "run it with UPDATE_DOCS=1");
}

#[test]
fn the_sizes_of_requests_are_those_of_the_recordings() {
    hold(SENT_BEGIN, &sizes());
}

#[test]
fn the_table_of_providers_is_the_registry() {
    hold(BEGIN, &table());
}
