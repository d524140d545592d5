//! Guards the architecture: a module uses only what lies below it, and the pure layers know no runtime and no Node.

// Test code: clippy.toml allows this in `#[test]` functions, and here are helpers of theirs.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, lowest first. A module may use those of lower layers and of its own.
const LAYERS: &[&[&str]] = &[
    &["message", "thread", "time"],
    &["error", "event"],
    &[
        "provider", "prompt", "toolcall", "breaker", "redact", "retry", "decode", "declare",
    ],
    &[
        "api", "classify", "command", "executor", "fold", "judge", "output", "runlog",
    ],
    &["process", "recorder", "replay"],
    &["bridge", "exchange"],
    &["run"],
    &["health"],
    &["agent", "claude_code"],
    &["binding"],
];

/// Modules from here on may use tokio, processes and files.
const FIRST_IMPURE: usize = 4;

/// What only an impure module may name.
const EFFECTS: &[&str] = &[
    "tokio",
    "std::process",
    "std::fs",
    "std::env::var",
    "std::net",
    "SystemTime::now",
    "Instant::now",
    "rustix",
    "tempfile",
];

fn layer_of(module: &str) -> usize {
    let found = LAYERS.iter().position(|layer| layer.contains(&module));
    found.unwrap_or_else(|| panic!("module `{module}` has no layer: add it to LAYERS"))
}

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

/// Every source file by its top-level module, without tests and comments.
fn modules() -> BTreeMap<String, Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let mut modules: BTreeMap<String, Vec<(PathBuf, String)>> = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let parts: Vec<_> = relative
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let module = parts[0].trim_end_matches(".rs").to_owned();
        let is_test = parts
            .iter()
            .any(|part| matches!(part.as_str(), "tests.rs" | "tests" | "golden.rs"));
        if matches!(module.as_str(), "lib" | "bin" | "js") || is_test {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        modules
            .entry(module)
            .or_default()
            .push((file, lines.collect::<Vec<_>>().join("\n")));
    }
    modules
}

#[test]
fn every_edge_points_down() {
    let modules = modules();
    let mut wrong = Vec::new();
    for (module, files) in &modules {
        let layer = layer_of(module);
        for (file, code) in files {
            for used in modules.keys().filter(|used| layer_of(used) > layer) {
                if code.contains(&format!("crate::{used}::")) || code.contains(&format!("crate::{used};")) {
                    wrong.push(format!("{} uses `{used}`, which lies above it", file.display()));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Folders whose files use each other in one direction only.
const WITHOUT_CIRCLES: &[&str] = &["run"];

/// The files of `folder` that each of its files uses, by `use super::…` and paths like it; `mod.rs` only lists them.
fn uses_within(folder: &str) -> BTreeMap<String, Vec<String>> {
    let files = modules().remove(folder).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let of_folder = files.into_iter().filter_map(|(path, code)| {
        let name = path.strip_prefix(&root).ok()?.to_str()?.strip_suffix(".rs")?.to_owned();
        (!name.contains(['/', '\\'])).then_some((name, code))
    });
    let codes: BTreeMap<String, String> = of_folder.collect();
    let names: Vec<&String> = codes.keys().collect();
    let uses = |name: &str, code: &str| -> Vec<String> {
        let grouped: String = code
            .split("use super::{")
            .skip(1)
            .filter_map(|rest| rest.split("};").next())
            .collect::<Vec<_>>()
            .join(",");
        let used = |other: &&&String| {
            let word = |text: &str| {
                text.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|word| word == other.as_str())
            };
            let named = code
                .split("super::")
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
            other.as_str() != name && (word(&grouped) || named.into_iter().any(|first| first == other.as_str()))
        };
        names.iter().filter(used).map(|other| (*other).clone()).collect()
    };
    codes
        .iter()
        .filter(|(name, _)| *name != "mod")
        .map(|(name, code)| (name.clone(), uses(name, code)))
        .collect()
}

#[test]
fn files_of_one_folder_are_no_circle() {
    for folder in WITHOUT_CIRCLES {
        let mut left = uses_within(folder);
        assert!(left.values().any(|uses| !uses.is_empty()), "{folder}: nothing is read");
        // Take away what uses nothing that is left, until only circles are.
        loop {
            let free: Vec<String> = left
                .iter()
                .filter(|(_, uses)| !uses.iter().any(|used| left.contains_key(used)))
                .map(|(name, _)| name.clone())
                .collect();
            if free.is_empty() {
                break;
            }
            left.retain(|name, _| !free.contains(name));
        }
        assert_eq!(left, BTreeMap::new(), "{folder}");
    }
}

#[test]
fn only_the_binding_knows_napi() {
    let users: Vec<_> = modules()
        .into_iter()
        .filter(|(module, files)| module != "binding" && files.iter().any(|(_, code)| code.contains("napi")))
        .map(|(module, _)| module)
        .collect();
    assert_eq!(users, Vec::<String>::new());
}

/// An `async fn` with `&self` borrows an object that Node frees with its environment, while the future still runs.
#[test]
fn no_future_borrows_what_javascript_holds() {
    for (path, text) in &modules()["binding"] {
        assert!(!text.contains("async fn"), "{path:?}: use `environment::promise`");
        let makes_promises = path.ends_with("environment.rs");
        assert_eq!(text.contains("spawn_future"), makes_promises, "{path:?}");
    }
}

#[test]
fn pure_layers_have_no_effects() {
    let mut wrong = Vec::new();
    for (module, files) in modules() {
        if layer_of(&module) >= FIRST_IMPURE {
            continue;
        }
        for (file, code) in files {
            for effect in EFFECTS.iter().filter(|effect| code.contains(**effect)) {
                wrong.push(format!("{} uses {effect}", file.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_picture_in_the_docs_has_these_layers() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md")).unwrap();
    let (_, rest) = page.split_once("<!-- layers").unwrap();
    let (table, _) = rest.split_once("<!-- end -->").unwrap();
    let row = |line: &str| -> Vec<String> {
        line.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let told: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(row)
        .filter(|names| !names.is_empty())
        .collect();
    let mut known: Vec<Vec<String>> = Vec::new();
    for layer in LAYERS {
        let mut names: Vec<_> = layer.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        known.push(names);
    }
    assert_eq!(told, known);
}
