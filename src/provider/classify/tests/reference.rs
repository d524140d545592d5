//! The table and the lists in `docs/reference/errors.md` are generated from the code. `UPDATE_GOLDENS=1 cargo test` writes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::super::general_hint;
use dfp_model::error::{Category, Code};

const YES_NO: [&str; 2] = ["no", "yes"];

fn yes(value: bool) -> &'static str {
    YES_NO[usize::from(value)]
}

/// A clause as a sentence.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(char::to_uppercase);
    format!(
        "{}{}.",
        first.into_iter().flatten().collect::<String>(),
        letters.as_str()
    )
}

fn categories() -> String {
    let mut table = "| category | asked again | falls back | meaning |\n|---|---|---|---|\n".to_owned();
    for category in Category::ALL {
        let (retry, fallback) = (yes(category.should_retry()), yes(category.should_fallback()));
        writeln!(
            table,
            "| `{}` | {retry} | {fallback} | {} |",
            category.as_str(),
            category.description()
        )
        .unwrap();
    }
    table
}

fn codes() -> String {
    let mut table = String::new();
    for category in Category::ALL {
        writeln!(table, "### {}\n", category.as_str()).unwrap();
        for code in Code::ALL.iter().filter(|code| code.category() == category) {
            let own = match (code.should_fallback(), category.should_fallback()) {
                (true, false) => " Falls back.",
                (false, true) => " Does not fall back.",
                _ => "",
            };
            let (meaning, advice) = (code.description(), sentence(general_hint(*code)));
            writeln!(table, "- `{}`: {meaning}{own} {advice}", code.as_str()).unwrap();
        }
        table.push('\n');
    }
    table.trim_end().to_owned() + "\n"
}

/// The document with the text between `<!-- name -->` and `<!-- /name -->` replaced.
fn with(document: &str, name: &str, content: &str) -> String {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = document.find(&open).map(|at| at + open.len()).unwrap();
    let end = start + document[start..].find(&close).unwrap();
    format!("{}{content}{}", &document[..start], &document[end..])
}

#[test]
fn the_document_of_errors_is_the_code_s() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    let document = fs::read_to_string(&path).unwrap();
    let mut expected = document.clone();
    for (name, content) in [("categories", categories()), ("codes", codes())] {
        expected = with(&expected, name, &content);
    }
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let now = fs::read_to_string(&path).unwrap();
    let stale: Vec<_> = now
        .lines()
        .zip(expected.lines())
        .filter(|(is, should)| is != should)
        .take(1)
        .collect();
    assert_eq!(
        stale,
        [],
        "docs/reference/errors.md is stale: UPDATE_GOLDENS=1 writes it anew"
    );
    assert_eq!(now.lines().count(), expected.lines().count());
}
