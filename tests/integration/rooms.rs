//! What the compiler can't say of the rooms: their files are read here as text.
//!
//! Which room may use which stands in their Cargo.toml, and that the pure ones know no file, clock and process in their clippy.toml.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file below `src`, without tests and comments, with its path from there.
pub(crate) fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let mut sources = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let is_test = |part: &String| matches!(part.as_str(), "tests.rs" | "tests" | "golden.rs" | "golden");
        if parts[0] == "bin" || parts.iter().any(is_test) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        sources.push((parts.join("/"), code.to_owned()));
    }
    sources.sort_unstable();
    assert!(sources.len() > 100, "nothing is read");
    sources
}

/// `code` without the lines that are comments.
pub(crate) fn without_comments(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// An `async fn` with `&self` borrows an object that Node frees with its environment, while the future still runs.
#[test]
fn no_future_borrows_what_javascript_holds() {
    let files = sources();
    let binding: Vec<_> = files.iter().filter(|(path, _)| path.starts_with("binding/")).collect();
    assert!(binding.len() > 5, "nothing is read");
    for (path, text) in binding {
        let text = without_comments(text);
        assert!(!text.contains("async fn"), "{path}: use `binding::promise`");
        assert_eq!(text.contains("spawn_future"), path == "binding/mod.rs", "{path}");
    }
}

/// The page that a new person reads first names the rooms that there are, in their order.
#[test]
fn the_architecture_page_has_these_rooms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let (_, rest) = page.split_once("<!-- rooms").unwrap();
    let (table, _) = rest.split_once("<!-- end -->").unwrap();
    let documented: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("members = [\n").unwrap();
    let (members, _) = rest.split_once(']').unwrap();
    let members = members
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"src/")?.strip_suffix("\","));
    assert_eq!(documented, members.chain(["binding"]).collect::<Vec<_>>());
}

/// The public types, traits, constants and functions of `text` without a doc comment. A module has its own, and a field, a variant, a
/// method and a plain `new` have one where their names and types don't say it all: a comment that only repeats them is noise.
fn undocumented(text: &str) -> Vec<&str> {
    let item = Regex::new(r"^\s*pub (?:(?:async|const|unsafe) )*(?:fn|struct|enum|trait|type|static|const|union) \w+")
        .unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_bare = |at: &usize| {
        let above = lines[..*at].iter().rev().map(|line| line.trim_start());
        let behind_attributes = |line: &&str| !line.starts_with("#[") && !line.starts_with(")]");
        let is_plain = lines[*at].contains("self") || lines[*at].contains("fn new");
        item.is_match(lines[*at])
            && !is_plain
            && !above
                .clone()
                .find(behind_attributes)
                .is_some_and(|line| line.starts_with("///"))
    };
    (0..lines.len()).filter(is_bare).map(|at| lines[at].trim()).collect()
}

#[test]
fn an_undocumented_item_is_found() {
    let text = "/// A.\n#[must_use]\npub fn a() {}\npub const fn b() {}\npub fn of(&self) {}\nmod m {\n    pub struct C;\n}\npub(crate) fn d() {}\n/// E.\n\npub enum E {}";
    assert_eq!(
        undocumented(text),
        ["pub const fn b() {}", "pub struct C;", "pub enum E {}"]
    );
}

#[test]
fn public_items_are_documented() {
    let of = |(path, text): &(String, String)| {
        let found = undocumented(text).into_iter().map(|item| format!("{path}: {item}"));
        found.collect::<Vec<_>>()
    };
    assert_eq!(sources().iter().flat_map(of).collect::<Vec<_>>(), [""; 0]);
}
