//! Starting: what the child gets, and what each refusal says.
use std::path::Path;
use std::sync::Arc;

use deep_factor_providers::error::Code;
use deep_factor_providers::process::{self, EnvPlan, Spec, StartError, kill_all};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

pub async fn refused(spec: Spec) -> (Code, String) {
    let error = process::start(spec, CancellationToken::new()).expect_err("it started");
    (error.code(), error.to_string())
}

pub async fn refused_at(path: &Path) -> (Code, String) {
    refused(Spec::new(path)).await
}

#[tokio::test]
async fn arguments_environment_and_folder_arrive() {
    let folder = tempfile::tempdir().unwrap();
    // macOS's is behind a link. Windows's would get a prefix, and PWD is no more than any other variable there.
    let cwd = if cfg!(windows) {
        folder.path().to_owned()
    } else {
        folder.path().canonicalize().unwrap()
    };
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
    let pwd = if cfg!(windows) { "/old".into() } else { cwd.clone() };
    let expected = json!({
        "argv": ["-p", "two words", "", "ünï"],
        "cwd": cwd,
        "env": {
            "PATH": "/bin", "FAKE_CLI": "[\"echo\"]", "MINE": "x", "PWD": pwd, "DEEP_FACTOR_RUN": done.exit.run_id,
        },
        "stdin": "",
        "pid": null,
    });
    if let (true, Value::Object(env)) = (cfg!(windows), &mut echo["env"]) {
        // No program starts without some of the system's own.
        env.retain(|name, _| expected["env"].get(name).is_some() || name == "CLAUDECODE");
    }
    assert_eq!(echo, expected);
}

#[tokio::test]
async fn names_are_found_on_the_childs_path() {
    let scene = Scene::new();
    let file = scene.path(&format!("my-cli{}", std::env::consts::EXE_SUFFIX));
    std::fs::copy(program(), file).unwrap();
    let mut spec = Spec {
        env: env_of(json!([{"out": "found"}])),
        ..Spec::new("my-cli")
    };
    assert_eq!(refused(Spec::new("my-cli")).await.0, Code::CliNotFound);
    spec.env.user = vec![("PATH".into(), Some(scene.path("").into_os_string()))];
    assert_eq!(output(spec).await.stdout, b"found");
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

    let file = scene.path("file");
    std::fs::write(&file, "").unwrap();
    let in_cwd = |cwd: &Path| Spec {
        cwd: Some(cwd.to_owned()),
        ..fake(json!([]))
    };
    let folder = format!("the working folder {} does not exist", missing.display());
    assert_eq!(refused(in_cwd(&missing)).await, (Code::CwdNotFound, folder));
    let folder = format!("the working folder {} is not a folder", file.display());
    assert_eq!(refused(in_cwd(&file)).await, (Code::CwdNotFound, folder));
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
    kill_all(owner);
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
