//! What only a Unix has at a start: process groups, modes, interpreters of scripts, a folder in `PWD`, and its own limits and refusals.
use std::path::Path;

use deep_factor_providers::error::Code;
use deep_factor_providers::process::Spec;
use serde_json::{Value, json};

use super::start::{refused, refused_at};
use super::*;

fn write_executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_missing_interpreter_is_named() {
    let scene = Scene::new();
    let script = scene.path("script");
    for (text, missing) in [
        ("#!/no/such/node\n", "/no/such/node"),
        ("#!/usr/bin/env no-such-node\n", "no-such-node"),
    ] {
        write_executable(&script, text);
        let needs = format!("{} needs {missing}, which is missing", script.display());
        assert_eq!(refused_at(&script).await, (Code::InterpreterNotFound, needs));
    }
}

#[tokio::test]
async fn pwd_is_the_users_if_he_says_so() {
    let mut spec = fake(json!(["echo"]));
    spec.cwd = Some("/".into());
    spec.env.user = vec![("PWD".into(), None)];
    let echo: Value = serde_json::from_slice(&output(spec).await.stdout).unwrap();
    assert_eq!((&echo["cwd"], &echo["env"]["PWD"]), (&json!("/"), &Value::Null));
}

#[tokio::test]
async fn the_child_leads_a_group_of_its_own() {
    let mut running = start(fake(json!([{"out": "ready"}, "forever"])));
    until(&mut running, "ready").await;
    let pid = rustix::process::Pid::from_raw(running.pid().cast_signed()).unwrap();
    assert_eq!(rustix::process::getpgid(Some(pid)).unwrap(), pid);
    assert_eq!(
        rustix::process::getsid(Some(pid)).unwrap(),
        rustix::process::getsid(None).unwrap()
    );
}

/// A binary for another C library: the kernel says ENOENT although the file is there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_missing_loader_is_named() {
    let scene = Scene::new();
    let binary = std::fs::read(program()).unwrap();
    let at = memchr::memmem::find(&binary, b"/lib64/ld-linux").expect("a binary with a loader");
    let patched = [&binary[..at], b"/lib99/ld-linux", &binary[at + 15..]].concat();
    let file = scene.path("patched");
    write_executable(&file, "");
    std::fs::write(&file, patched).unwrap();
    let needs = format!(
        "{} needs /lib99/ld-linux-x86-64.so.2, which is missing: it was built for glibc, and this system has another C library or processor",
        file.display()
    );
    assert_eq!(refused_at(&file).await, (Code::InterpreterNotFound, needs));
}

#[tokio::test]
async fn files_that_cannot_be_executed() {
    let scene = Scene::new();
    let file = scene.path("file");
    std::fs::write(&file, "text").unwrap();
    let says = |what: &str| (Code::CliNotExecutable, format!("{} {what}", file.display()));
    assert_eq!(refused_at(&file).await, says("is not executable"));
    write_executable(&file, "no script, no program");
    assert_eq!(
        refused_at(&file).await,
        says("is a text without a `#!` line, as a package leaves it whose install script did not run")
    );
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(refused_at(&file).await, says("is a folder"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn too_long_names_the_part_and_the_limit() {
    let mut spec = fake(json!(["echo"]));
    spec.args = vec!["-p".into(), "x".repeat(131_071).into()];
    let echo: Value = serde_json::from_slice(&output(spec).await.stdout).unwrap();
    assert_eq!(echo["argv"][1].as_str().unwrap().len(), 131_071);

    let mut spec = fake(json!([]));
    spec.args = vec!["-p".into(), "x".repeat(131_072).into()];
    let text = "argument 2 has 131072 bytes, more than the 131071 the operating system passes to a process";
    assert_eq!(refused(spec).await, (Code::PromptTooLong, text.to_owned()));

    let mut spec = fake(json!([]));
    spec.env.user = vec![("BIG".into(), Some("x".repeat(200_000).into()))];
    let text =
        "the environment variable BIG has 200004 bytes, more than the 131071 the operating system passes to a process";
    assert_eq!(refused(spec).await, (Code::PromptTooLong, text.to_owned()));

    let mut spec = fake(json!([]));
    spec.args = vec!["x".repeat(100_000).into(); 200];
    let (code, text) = refused(spec).await;
    assert_eq!(code, Code::PromptTooLong);
    assert!(
        text.starts_with("the command line with its environment has 20"),
        "{text}"
    );
}

/// Linux says ETXTBSY while somebody has the program open for writing.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_being_written() {
    let scene = Scene::new();
    let file = scene.path("cli");
    std::fs::copy(program(), &file).unwrap();
    let spec = || Spec {
        env: env_of(json!([{"out": "ok"}])),
        ..Spec::new(&file)
    };
    let writer = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    let text = format!("{} is being written just now", file.display());
    assert_eq!(refused(spec()).await, (Code::SpawnFailed, text));
    drop(writer);
    assert_eq!(output(spec()).await.stdout, b"ok");
}
