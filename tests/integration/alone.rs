//! Tests that need a process of their own: this program once more, with one test in it.

use std::process::Command;

/// Set in the program that runs one test.
const ALONE: &str = "INTEGRATION_TEST_ALONE";

/// Runs `body` in a process where nothing else runs. `name` is the full name of the test that calls this, as `cargo test` prints it.
pub fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    // A name that no test has would be a success without a test.
    let one_passed = output.status.success() && printed.contains("1 passed;");
    assert!(one_passed, "{printed}{}", String::from_utf8_lossy(&output.stderr));
}
