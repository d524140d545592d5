//! libFuzzer over the target that `FUZZ_TARGET` names.
#![no_main]

#[path = "../targets.rs"]
#[allow(dead_code, reason = "the seeds are for the other driver")]
mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use targets::{TARGETS, Target};

static CHOSEN: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("set FUZZ_TARGET to one of {}", names.join(", ")))
});

fuzz_target!(|data: &[u8]| (CHOSEN.run)(data));
