//! No panic may take Node with it: whatever runs on JavaScript's thread is caught, and becomes an exception there.

use std::fs;
use std::path::Path;

/// The synchronous functions of `source` that napi exports without catching panics. Asynchronous ones run on the runtime, which
/// catches by itself (`__tests__/panic.test.ts` shows both).
fn uncaught(source: &str) -> Vec<String> {
    let mut exported: Option<&str> = None;
    let mut found = Vec::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[napi") {
            exported = Some(line);
        } else if let Some(attribute) = exported.filter(|_| !line.starts_with("#[") && !line.starts_with("//")) {
            exported = None;
            if line.starts_with("pub fn") && !attribute.contains("catch_unwind") {
                found.push(line.to_owned());
            }
        }
    }
    found
}

#[test]
fn the_binding_catches_panics() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/binding")).unwrap() {
        let path = entry.unwrap().path();
        let found = uncaught(&fs::read_to_string(&path).unwrap());
        assert_eq!(
            found,
            Vec::<String>::new(),
            "{}: write #[napi(catch_unwind)]",
            path.display()
        );
    }
}

#[test]
fn and_what_does_not_is_found() {
    let source = "#[napi]\n#[inline]\npub fn a() {}\n#[napi]\npub async fn b() {}\n#[napi(catch_unwind)]\npub fn c() {}\n\
                  #[napi(constructor)]\npub fn d() {}\n#[napi]\npub struct E {}\npub fn f() {}";
    assert_eq!(uncaught(source), ["pub fn a() {}", "pub fn d() {}"]);
}
