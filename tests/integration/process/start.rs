//! Starting: what the child gets, and what each refusal says.
use std::path::Path;
use std::sync::Arc;

use deep_factor_providers::error::Code;
use deep_factor_providers::process::{self, EnvPlan, Spec, StartError, registry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

async fn refused(spec: Spec) -> (Code, String) {
    let error = process::start(spec, CancellationToken::new()).expect_err("it started");
    (error.code(), error.to_string())
}

async fn refused_at(path: &Path) -> (Code, String) {
    refused(Spec::new(path)).await
}

#[tokio::test]
async fn arguments_environment_and_folder_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let mut spec = fake(json!(["echo"]));
    spec.args = vec!["-p".into(), "two words".into(), "".into(), "ünï".into()];
    spec.cwd = Some(cwd.clone());
    spec.env.base = Some(Arc::new(vec![
        ("PATH".into(), "/bin".into()),
        ("CLAUDECODE".into(), "1".into()),
        ("PWD".into(), "/old".into()),
    ]));
    spec.env.drop = vec!["CLAUDECODE".into()];
    spec.env.user = vec![("MINE".into(), Some("x".into()))];
    let done = output(spec).await;
    let mut echo: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(echo["pid"].take().as_u64().is_some());
    let expected = json!({
        "argv": ["-p", "two words", "", "ünï"],
        "cwd": cwd,
        "env": {
            "PATH": "/bin", "FAKE_CLI": "[\"echo\"]", "MINE": "x", "PWD": cwd, "DEEP_FACTOR_RUN": done.exit.run_id,
        },
        "stdin": "",
        "pid": null,
    });
    assert_eq!(echo, expected);
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
async fn names_are_found_on_the_childs_path() {
    let scene = Scene::new();
    write_executable(&scene.path("my-cli"), "#!/bin/sh\necho found\n");
    let mut spec = Spec::new("my-cli");
    assert_eq!(refused(Spec::new("my-cli")).await.0, Code::CliNotFound);
    spec.env.user = vec![("PATH".into(), Some(scene.path("").into_os_string()))];
    assert_eq!(output(spec).await.stdout, b"found\n");
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

#[tokio::test]
async fn missing_things_are_told_apart() {
    let scene = Scene::new();
    let missing = scene.path("none");
    let says = |what: String| (Code::CliNotFound, what);
    assert_eq!(
        refused_at(&missing).await,
        says(format!("{} does not exist", missing.display()))
    );
    assert_eq!(
        refused(Spec::new("no-such-cli")).await,
        says("no-such-cli is not in any folder of the PATH".to_owned())
    );

    let script = scene.path("script");
    write_executable(&script, "#!/no/such/node\n");
    let needs = format!("{} needs /no/such/node, which is missing", script.display());
    assert_eq!(refused_at(&script).await, (Code::InterpreterNotFound, needs));
    write_executable(&script, "#!/usr/bin/env no-such-node\n");
    let needs = format!("{} needs no-such-node, which is missing", script.display());
    assert_eq!(refused_at(&script).await, (Code::InterpreterNotFound, needs));

    let in_cwd = |cwd: &Path| Spec {
        cwd: Some(cwd.to_owned()),
        ..fake(json!([]))
    };
    let folder = format!("the working folder {} does not exist", missing.display());
    assert_eq!(refused(in_cwd(&missing)).await, (Code::CwdNotFound, folder));
    let folder = format!("the working folder {} is not a folder", script.display());
    assert_eq!(refused(in_cwd(&script)).await, (Code::CwdNotFound, folder));
}

/// A binary for another C library: the kernel says ENOENT although the file is there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_missing_loader_is_named() {
    let scene = Scene::new();
    let binary = std::fs::read(env!("CARGO_BIN_EXE_fake-cli")).unwrap();
    let at = memchr::memmem::find(&binary, b"/lib64/ld-linux").expect("a binary with a loader");
    let patched = [&binary[..at], b"/lib99/ld-linux", &binary[at + 15..]].concat();
    let file = scene.path("patched");
    write_executable(&file, "");
    std::fs::write(&file, patched).unwrap();
    let needs = format!("{} needs /lib99/ld-linux-x86-64.so.2, which is missing", file.display());
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
        says("is not a program that this system can run")
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
    std::fs::copy(env!("CARGO_BIN_EXE_fake-cli"), &file).unwrap();
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

#[tokio::test]
async fn what_no_system_can_pass_on() {
    let mut spec = fake(json!([]));
    spec.args = vec!["a\0b".into()];
    assert_eq!(
        refused(spec).await,
        (Code::InvalidOption, "argument 1 contains a NUL character".to_owned())
    );
    let mut spec = fake(json!([]));
    spec.env = EnvPlan {
        user: vec![("A=B".into(), None)],
        ..spec.env
    };
    let text = "\"A=B\" can't be a variable of an environment, or its value holds a NUL character";
    assert_eq!(refused(spec).await, (Code::InvalidOption, text.to_owned()));
}

#[tokio::test]
async fn nothing_starts_for_who_has_ended() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(matches!(
        process::start(fake(json!([])), cancel),
        Err(StartError::Cancelled)
    ));
    let owner = next_owner();
    registry::kill_all(owner);
    let spec = Spec {
        owner,
        ..fake(json!([]))
    };
    assert_eq!(
        refused(spec).await,
        (Code::Closed, "the process's owner has ended".to_owned())
    );
}

#[test]
fn outside_of_a_runtime() {
    let error = process::start(fake(json!([])), CancellationToken::new());
    assert!(matches!(error, Err(StartError::NoRuntime)));
}
