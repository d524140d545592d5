//! Links the addon against symbols that Node provides at load time; on Linux x64 the linker also folds what is equal.

use std::env::var;
use std::process::Command;

fn main() {
    napi_build::setup();
    if folds_equal_sections() {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}

/// Whether the linker of an optimised addon is LLVM's: rustc brings it, and takes it by itself on this target since 1.90. Microsoft's linker
/// folds equal functions by default, and others don't know the options.
fn folds_equal_sections() -> bool {
    let is = |name: &str, value: &str| var(name).is_ok_and(|of| of == value);
    let names_another = var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    is("PROFILE", "release")
        && is("TARGET", "x86_64-unknown-linux-gnu")
        && is("HOST", "x86_64-unknown-linux-gnu")
        && !names_another
        && minor_version().is_some_and(|minor| minor >= 90)
}

/// The 95 of rustc 1.95.0.
fn minor_version() -> Option<u32> {
    let said = Command::new(var("RUSTC").ok()?).arg("--version").output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.split('.').nth(1)?.parse().ok()
}
