//! Guards the architecture: a module uses only what lies below it, and the pure layers know no runtime and no Node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The layers, lowest first. A module may use those of lower layers and of its own.
const LAYERS: &[&[&str]] = &[
    &["message", "thread", "time"],
    &["error", "event"],
    &[
        "provider", "prompt", "toolcall", "breaker", "redact", "retry", "decode", "declare", "schema",
    ],
    &[
        "api", "classify", "command", "executor", "fold", "judge", "output", "runlog",
    ],
    &["checkpoint", "process", "recorder", "replay"],
    &["bridge", "exchange"],
    &["run"],
    &["health", "status"],
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
pub(crate) fn modules() -> BTreeMap<String, Vec<(PathBuf, String)>> {
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

/// The name of a module, as a path from the crate.
type Module = Vec<String>;

fn split(path: &str) -> Module {
    path.split("::").map(|part| part.trim().to_owned()).collect()
}

/// Every path of a `use` tree such as `super::{a::B, c}`.
fn leaves(tree: &str, before: &str, found: &mut Vec<String>) {
    let Some((head, group)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        return found.push(format!("{before}{}", name.trim()));
    };
    let (before, group) = (format!("{before}{}", head.trim()), group.trim().trim_end_matches('}'));
    let (mut depth, mut begin) = (0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                leaves(&group[begin..at], &before, found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    // A tree's last brace may be its group's own.
    let rest = group[begin..].trim();
    if !rest.is_empty() {
        leaves(
            &format!(
                "{rest}{}",
                "}".repeat(rest.matches('{').count() - rest.matches('}').count())
            ),
            &before,
            found,
        );
    }
}

/// All files and what they use of each other.
struct Crate {
    /// The file and the code of each module.
    files: BTreeMap<Module, (String, String)>,
    /// What a module hands on (`pub use`), by the name it has there.
    handed_on: BTreeMap<(Module, String), Module>,
}

impl Crate {
    fn read() -> Crate {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut whole = Crate {
            files: BTreeMap::new(),
            handed_on: BTreeMap::new(),
        };
        for (path, code) in modules().into_values().flatten() {
            let file = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            let module = file.trim_end_matches(".rs").trim_end_matches("/mod").split('/');
            whole.files.insert(module.map(str::to_owned).collect(), (file, code));
        }
        let public = Regex::new(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);").unwrap();
        let renamed = Regex::new("#\\[path = \"(\\w+)\\.rs\"\\]\\s*(?:pub\\s+)?mod (\\w+);").unwrap();
        let mut handed_on = BTreeMap::new();
        for (module, (_, code)) in &whole.files {
            let mut paths = Vec::new();
            for found in public.captures_iter(code) {
                leaves(&found[1], "", &mut paths);
            }
            for path in paths {
                if let Some(path) = whole.absolute(module, &split(&path)) {
                    handed_on.insert((module.clone(), path.last().unwrap().clone()), path);
                }
            }
            for found in renamed.captures_iter(code) {
                let file = [module.clone(), vec![found[1].to_owned()]].concat();
                handed_on.entry((module.clone(), found[2].to_owned())).or_insert(file);
            }
        }
        Crate { handed_on, ..whole }
    }

    /// `path`, as `module` writes it, from the crate; `None` for another crate's.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let own = |path: &[String]| [module.as_slice(), path].concat();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some(own(&path[1..])),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let kept = module.len().checked_sub(ups)?;
                Some([&module[..kept], &path[ups..]].concat())
            }
            first => {
                let child = own(&[first.to_owned()]);
                let is_child =
                    self.files.contains_key(&child) || self.handed_on.contains_key(&(module.clone(), first.to_owned()));
                is_child.then(|| own(path))
            }
        }
    }

    /// The module in whose file `path` is written down.
    fn home(&self, path: &[String]) -> Option<Module> {
        let length = (1..=path.len())
            .rev()
            .find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let onward = rest
            .first()
            .and_then(|name| self.handed_on.get(&(module.to_vec(), name.clone())));
        match onward {
            Some(onward) => self.home(&[onward.as_slice(), &rest[1..]].concat()),
            None => Some(module.to_vec()),
        }
    }

    /// The modules whose files `module`'s uses.
    fn uses(&self, module: &Module, code: &str) -> BTreeSet<Module> {
        let public = Regex::new(r"\bpub(?:\([^)]*\))?\s+use\s+[^;]+;").unwrap();
        let visible = Regex::new(r"pub\(in [^)]*\)").unwrap();
        let import = Regex::new(r"\buse\s+([^;]+);").unwrap();
        let literal = Regex::new(r#"(?s)"(?:[^"\\]|\\.)*""#).unwrap();
        let path = Regex::new(r"\b[a-z_][a-z_0-9]*(?:::[A-Za-z_0-9]+)+").unwrap();
        let code = literal.replace_all(code, "");
        let code = visible.replace_all(&public.replace_all(&code, ""), "").into_owned();
        let mut paths = Vec::new();
        for found in import.captures_iter(&code) {
            leaves(&found[1], "", &mut paths);
        }
        let body = import.replace_all(&code, "");
        paths.extend(path.find_iter(&body).map(|found| found.as_str().to_owned()));
        let paths = paths.iter().filter_map(|path| self.absolute(module, &split(path)));
        paths
            .filter_map(|path| self.home(&path))
            .filter(|home| home != module)
            .collect()
    }

    /// The files that come to themselves again by what they use.
    fn circles(&self) -> Vec<&Module> {
        let uses: BTreeMap<&Module, BTreeSet<Module>> = self
            .files
            .iter()
            .map(|(module, (_, code))| (module, self.uses(module, code)))
            .collect();
        assert!(
            uses.values().filter(|uses| !uses.is_empty()).count() > 100,
            "nothing is read"
        );
        let returns = |module: &&&Module| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![**module]);
            while let Some(at) = next.pop() {
                next.extend(uses[at].iter().filter(|used| seen.insert(*used)));
            }
            seen.contains(**module)
        };
        uses.keys().filter(returns).copied().collect()
    }
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let whole = Crate::read();
    let circles = whole.circles();
    let files: Vec<&str> = circles.iter().map(|module| whole.files[*module].0.as_str()).collect();
    assert_eq!(files, [""; 0]);
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
    let documented: Vec<_> = table
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
    assert_eq!(documented, known);
}
