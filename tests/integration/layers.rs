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
        "provider", "prompt", "toolcall", "breaker", "budget", "redact", "retry", "decode", "declare", "schema",
    ],
    &[
        "api", "classify", "command", "executor", "fold", "judge", "output", "runlog",
    ],
    &["checkpoint", "ledger", "process", "recorder", "replay"],
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
pub(crate) type Module = Vec<String>;

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
pub(crate) struct Crate {
    /// The file and the code of each module.
    pub(crate) files: BTreeMap<Module, (String, String)>,
    /// What a module hands on (`pub use`), by the name it has there.
    handed_on: BTreeMap<(Module, String), Module>,
}

impl Crate {
    pub(crate) fn read() -> Crate {
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

    /// What is written in place of `name` in the file of `module`: the module in which that is written down, and its name there.
    pub(crate) fn origin(&self, module: &Module, code: &str, name: &str) -> (Module, String) {
        let import = Regex::new(r"\buse\s+([^;]+);").unwrap();
        let mut paths = Vec::new();
        for found in import.captures_iter(code) {
            leaves(&found[1], "", &mut paths);
        }
        let path = match name.split_once("::") {
            Some(_) => Some(name.to_owned()),
            None => paths.into_iter().find(|path| path.ends_with(&format!("::{name}"))),
        };
        let path = path.and_then(|path| self.absolute(module, &split(&path)));
        let home = path.as_deref().and_then(|path| self.home(path));
        let name = name.rsplit("::").next().unwrap_or_default().to_owned();
        (home.unwrap_or_else(|| module.clone()), name)
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

    /// What each file uses, and, `with_calls`, whose methods it calls.
    fn edges(&self, with_calls: bool) -> BTreeMap<&Module, BTreeSet<Module>> {
        let uses = self.files.iter();
        let mut edges: BTreeMap<&Module, BTreeSet<Module>> = uses
            .map(|(module, (_, code))| (module, self.uses(module, code)))
            .collect();
        assert!(
            edges.values().filter(|uses| !uses.is_empty()).count() > 100,
            "nothing is read"
        );
        if with_calls {
            let calls = self.calls();
            assert!(calls.len() > 100, "no calls are read");
            for (module, called) in calls {
                edges.entry(module).or_default().insert(called.clone());
            }
        }
        edges
    }

    /// Which file calls a method that is written down in which other of its folder: of those whose name is no other's.
    fn calls(&self) -> BTreeSet<(&Module, &Module)> {
        let method = Regex::new(r"\bfn\s+(\w+)\s*(?:<[^(]*>)?\(\s*(?:&\s*(?:'\w+\s+)?)?(?:mut\s+)?self\b").unwrap();
        let call = Regex::new(r"\.\s*(\w+)(?:::<[^(]*>)?\(").unwrap();
        let mut homes: BTreeMap<&str, BTreeSet<&Module>> = BTreeMap::new();
        for (module, (_, code)) in &self.files {
            for found in method.captures_iter(code) {
                homes.entry(found.get(1).unwrap().as_str()).or_default().insert(module);
            }
        }
        homes.retain(|name, _| !OF_OTHERS.contains(name));
        let mut calls = BTreeSet::new();
        for (module, (_, code)) in &self.files {
            for found in call.captures_iter(code) {
                let homes = homes.get(found.get(1).unwrap().as_str());
                if let Some(home) = homes.filter(|homes| homes.len() == 1).and_then(|homes| homes.first())
                    && *home != module
                    && home.split_last().map(|(_, folder)| folder) == module.split_last().map(|(_, folder)| folder)
                {
                    calls.insert((module, *home));
                }
            }
        }
        calls
    }

    /// The files that come to themselves again by what they use, or, `with_calls`, by whose methods they call.
    fn circles(&self, with_calls: bool) -> Vec<&Module> {
        let edges = self.edges(with_calls);
        let returns = |module: &&&Module| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![**module]);
            while let Some(at) = next.pop() {
                next.extend(edges[at].iter().filter(|used| seen.insert(*used)));
            }
            seen.contains(**module)
        };
        edges.keys().filter(returns).copied().collect()
    }

    /// The circles as text, each file with what of it leads on to the others.
    fn told(&self, with_calls: bool) -> Vec<String> {
        let edges = self.edges(with_calls);
        let circles: BTreeSet<&Module> = self.circles(with_calls).into_iter().collect();
        let file = |module: &Module| self.files[module].0.clone();
        let told = circles.iter().map(|module| {
            let onward = edges[*module].iter().filter(|used| circles.contains(used));
            format!(
                "{} -> {}",
                file(module),
                onward.map(file).collect::<Vec<_>>().join(", ")
            )
        });
        told.collect()
    }
}

/// Methods of ours whose names other crates' types have as well: a call of one tells nothing.
const OF_OTHERS: &[&str] = &["chain", "clone", "extend", "remove", "skip", "stdin", "wait"];

#[test]
fn files_do_not_use_each_other_in_circles() {
    assert_eq!(Crate::read().told(false), [""; 0]);
}

/// A method may stand in a file that knows more than the one which calls it: `use` does not show that.
#[test]
fn files_do_not_call_each_other_in_circles() {
    assert_eq!(Crate::read().told(true), [""; 0]);
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
