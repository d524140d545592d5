//! Guards that a CLI is known in its own folders and nowhere else: no other code has its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use deep_factor_providers::provider;
use regex::Regex;

use crate::rooms;

/// Where a CLI's name may stand: a file or a folder of `src`, what of it holds a name there, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("provider/lib.rs", r"^(pub mod \w+;|&\w+::\w+,)$", "the registry"),
    ("exchange/lib.rs", r"^pub mod \w+_live;$", "the folders of the forms"),
    (
        "run/session/forms.rs",
        r#"exchange::\w+_live|^"\w+_live"|^\w+\(\w+\),$|^KeptEngine::\w+\(of\("#,
        "the registry of the forms",
    ),
    (
        "text/decode/",
        "",
        "a wire format is called after the CLI that prints it",
    ),
    ("model/error.rs", "", "texts of errors"),
    ("provider/classify/rules.rs", "", "texts of errors"),
    (
        "model/message/reasoning.rs",
        "anthropic-claude-v1",
        "the name of a form of sealed reasoning",
    ),
    ("text/redact/rules.rs", "model claude-", "texts that rules are tried on"),
    (
        "record/runlog/",
        "claude-code|Claude Code adapter",
        "the adapter, which is of one CLI",
    ),
    ("agent/claude_code/", "", "the adapter, which is of one CLI"),
    (
        "agent/lib.rs",
        r"^pub mod claude_code;$",
        "the adapter, which is of one CLI",
    ),
    (
        "lib.rs",
        r"^pub use dfp_agent::\{claude_code, executor\};$",
        "the adapter, which is of one CLI",
    ),
    ("binding/", "claude_code|ClaudeCode", "the adapter, which is of one CLI"),
    ("js/claude-code", "", "the adapter, which is of one CLI"),
    ("provider/models.rs", "", "names of models, and of who makes them"),
    (
        "provider/custom.rs",
        r#"^(?:\("[\w -]+", KnownAgent::naming\(ToolNaming::\w+\)\),|"OpenCode",)$"#,
        "what agents over ACP call themselves",
    ),
    (
        "js/core.cjs",
        r"[cC]laudeCode|claude-code",
        "the adapter, which is of one CLI",
    ),
    ("js/index.mjs", "", "an entry: what is exported by name"),
    ("js/native-entry.mjs", "", "an entry: what is exported by name"),
    ("js/langchain/index.mjs", "", "an entry: what is exported by name"),
    ("js/ai-sdk/index.mjs", "", "an entry: what is exported by name"),
    (
        "js/ai-sdk/providers.cjs",
        r"^\w+Cli: ofCli\(",
        "what is exported by name",
    ),
    ("js/cli-text.mjs", "", "texts for people"),
    (
        "js/cli/serve.mjs",
        r"\?\? \[|^const KEEPS_REPLIES",
        "the default of the command line, and which CLIs have an option",
    ),
    ("js/gateway/options.cjs", r"such as \{", "a text for people"),
    (
        "js/gateway/plans.cjs",
        r#"x-codex-|CODEX|"codex"|codex\)|const codex|codex !==|= codex;|tells codex"#,
        "headers with the windows of a plan, as that CLI reads them",
    ),
    (
        "js/gateway/responses.cjs",
        r#"plan: "codex""#,
        "headers with the windows of a plan, as that CLI reads them",
    ),
    (
        "js/cli/provider.mjs",
        "\"claude\" : API",
        "the default of the command line",
    ),
    ("js/testing/double/", "", "the double, which is of one CLI"),
    ("js/testing/scripted-cli.cjs", r"claude: \(\) =>", "the doubles by name"),
    ("js/testing/codes.cjs", "CLAUDE_INVALID_CONFIG", "a code of errors"),
    ("js/suite/", r"(?i)claude[-_]?code", "the adapter, which is of one CLI"),
];

/// The source files by their paths in `src`, without tests and comments.
fn files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files: Vec<(String, String)> = rooms::sources();
    for (_, code) in &mut files {
        *code = rooms::without_comments(code);
    }
    let comments = Regex::new(r"(?ms)/\*.*?\*/|^\s*//[^\n]*$").unwrap();
    let mut scripts = Vec::new();
    scripts_in(&root.join("js"), &mut scripts);
    for path in scripts {
        let text = fs::read_to_string(&path).unwrap();
        files.push((relative(&root, &path), comments.replace_all(&text, "").into_owned()));
    }
    files
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap();
    path.iter()
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

fn scripts_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scripts_in(&path, found);
        } else if path.extension().is_some_and(|it| it == "cjs" || it == "mjs") && !path.ends_with("js/native.cjs") {
            // `native.cjs` is made by napi: there after a build only.
            found.push(path);
        }
    }
}

#[test]
fn a_cli_is_named_in_its_own_folders_alone() {
    let ids: Vec<&str> = provider::ALL.iter().map(|provider| &*provider.id).collect();
    let name = Regex::new(&format!(r"(?i)({})", ids.join("|"))).unwrap();
    let own = Regex::new(&format!(
        r"^(?:provider/(?:{0})/|exchange/(?:{0})_live/|exchange/acp/)",
        ids.join("|")
    ))
    .unwrap();
    let allowed: Vec<Regex> = ALLOWED.iter().map(|(_, line, _)| Regex::new(line).unwrap()).collect();
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (path, code) in files() {
        if own.is_match(&path) {
            continue;
        }
        for line in code.lines().map(str::trim).filter(|line| name.is_match(line)) {
            let row = (0..ALLOWED.len()).find(|at| path.starts_with(ALLOWED[*at].0) && allowed[*at].is_match(line));
            match row {
                Some(row) => drop(used.insert(row)),
                None => wrong.push(format!("{path}: {line}")),
            }
        }
    }
    assert_eq!(
        wrong,
        Vec::<String>::new(),
        "a fact of a CLI stands in `provider/<id>` or in its form's folder"
    );
    let unused = (0..ALLOWED.len())
        .filter(|row| !used.contains(row))
        .map(|row| ALLOWED[row]);
    assert_eq!(
        unused.collect::<Vec<_>>(),
        [],
        "rows of ALLOWED that allow nothing any more"
    );
}
