//! Guards the shape of the code: what a parameter is has a name, and a type is in one place.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::layers::{self, Crate, Module};

/// In how many files there may be `impl` blocks of one type. Those of traits are not counted: they stand with the type or the trait.
const MOST_FILES: usize = 2;

/// `text` from the bracket at its beginning to the one that closes it, without them.
fn within(text: &str) -> &str {
    let mut depth = 0;
    let closes = |(_, character): &(usize, char)| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    };
    let (end, _) = text.char_indices().find(closes).unwrap();
    &text[1..end]
}

/// `text` behind the generic parameters at its beginning, if there are any.
fn behind_generics(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    let (mut depth, mut before) = (0, ' ');
    let closes = |(_, character): &(usize, char)| {
        match character {
            '<' => depth += 1,
            '>' if before != '-' && before != '=' => depth -= 1,
            _ => {}
        }
        before = *character;
        depth == 0
    };
    let (end, _) = text.char_indices().find(closes).unwrap();
    &text[end + 1..]
}

/// What stands between the commas of `text` that are in no bracket.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut before, mut found) = (0, 0, ' ', Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        before = character;
    }
    found.push(text[begin..].trim());
    found.into_iter().filter(|part| !part.is_empty()).collect()
}

/// The parameters of `code`'s functions that are several in one.
fn tuples(code: &str) -> Vec<&str> {
    let function = Regex::new(r"\bfn\s+\w+").unwrap();
    let reference = Regex::new(r"^(?:&\s*(?:'\w+\s+)?(?:mut\s+)?)*").unwrap();
    let is_tuple = |text: &str| {
        let text = &text[reference.find(text).unwrap().end()..];
        text.starts_with('(') && parts(within(text)).len() > 1
    };
    let lists = function.find_iter(code).filter_map(|found| {
        let rest = behind_generics(&code[found.end()..]);
        rest.starts_with('(').then(|| parts(within(rest)))
    });
    let is_several = |part: &&str| {
        // What proptest draws is no parameter.
        let (pattern, kind) = match part.starts_with('(') {
            true => (*part, part[within(part).len() + 2..].trim_start().strip_prefix(':')),
            false => part
                .split_once(':')
                .map_or((*part, None), |(pattern, kind)| (pattern, Some(kind))),
        };
        kind.is_some_and(|kind| is_tuple(pattern) || is_tuple(kind.trim()))
    };
    lists.flatten().filter(is_several).collect()
}

#[test]
fn a_tuple_is_found_however_it_is_written() {
    let code = "fn a((x, y): (u8, u8)) {} fn b<T: Fn(u8) -> u8>(&self, pair: &'a (T, u8)) {}
                fn c(f: impl Fn((u8, u8)) -> u8, of: &'a (dyn A + 'b), (x): (u8), n: ()) {}
                fn d((x, y) in drawn()) {} fn e(all: Vec<(u8, u8)>) -> (u8, u8) {} fn f(p: &mut (u8, (u8, u8)), q: u8) {}";
    let found = ["(x, y): (u8, u8)", "pair: &'a (T, u8)", "p: &mut (u8, (u8, u8))"];
    assert_eq!(tuples(code), found);
}

#[test]
fn each_parameter_is_one_and_has_a_name() {
    let whole = Crate::read();
    let of = |(file, code): &(String, String)| -> Vec<String> {
        tuples(code).iter().map(|tuple| format!("{file}: {tuple}")).collect()
    };
    let found: Vec<String> = whole.files.values().flat_map(of).collect();
    assert_eq!(found, [""; 0]);
}

/// The types of the `impl` blocks of `code` that are of no trait, by the names it has for them.
fn implemented(code: &str) -> Vec<String> {
    let block = Regex::new(r"(?m)^\s*(?:unsafe\s+)?impl\b").unwrap();
    let name = Regex::new(r"^(?:&\s*(?:'\w+\s+)?(?:mut\s+)?|dyn\s+)*([\w:]+)").unwrap();
    let of = |found: regex::Match| {
        let head = code[found.end()..].split('{').next()?;
        let head = behind_generics(head.trim_start()).trim();
        let kind = Some(head).filter(|head| !head.contains(" for "))?;
        Some(name.captures(kind)?[1].to_owned())
    };
    block.find_iter(code).filter_map(of).collect()
}

#[test]
fn a_type_is_in_one_place() {
    let whole = Crate::read();
    let mut files: BTreeMap<(Module, String), BTreeSet<&str>> = BTreeMap::new();
    for (module, (file, code)) in &whole.files {
        for name in implemented(code) {
            let kind = whole.origin(module, code, &name);
            files.entry(kind).or_default().insert(file);
        }
    }
    assert!(files.len() > 200, "nothing is read");
    let scattered = files.iter().filter(|(_, files)| files.len() > MOST_FILES);
    let told = scattered.map(|((_, name), files)| format!("{name}: {files:?}"));
    assert_eq!(told.collect::<Vec<_>>(), [""; 0]);
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
    let of = |(path, _): (std::path::PathBuf, String)| {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let found = undocumented(code)
            .into_iter()
            .map(|item| format!("{}: {item}", path.display()));
        found.collect::<Vec<_>>()
    };
    let files = layers::modules().into_values().flatten();
    assert_eq!(files.flat_map(of).collect::<Vec<_>>(), [""; 0]);
}
