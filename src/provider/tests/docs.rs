//! Tests that docs/reference/providers.md agrees with the registry. `UPDATE_DOCS=1 cargo test -p dfp-provider tests::docs` rewrites
//! its table.

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
    let head = "\n| provider | versions measured | command line by default | [sent](sent.md) beside the thread and our system prompt | what is not \
                isolated | limits |\n| --- | --- | --- | --- | --- | --- |\n";
    ALL.iter()
        .fold(head.to_owned(), |table, provider| table + &row(provider))
        + "\n"
}

#[test]
fn the_table_of_providers_is_the_registry() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/providers.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, [before, BEGIN, &table(), END, after].concat()).unwrap();
        return;
    }
    // Markdown is formatted elsewhere: spaces don't count.
    let squeeze = |text: &str| {
        text.split_whitespace()
            .filter(|word| !word.starts_with("--"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(squeeze(found), squeeze(&table()), "run it with UPDATE_DOCS=1");
}
