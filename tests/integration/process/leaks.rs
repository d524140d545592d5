//! File descriptors, threads and zombies: as many after as before. Alone in its process, because it counts.
use std::time::Instant;

use deep_factor_providers::error::Code;
use deep_factor_providers::process::{self, Spec, Stdin, Waiting};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::alone::alone;

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Our threads by name, and our children.
fn threads_and_children() -> (usize, String) {
    let tasks = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .map(|task| task.unwrap().path())
    };
    let read = |file: std::path::PathBuf| std::fs::read_to_string(file).unwrap_or_default();
    let waiting = tasks()
        .filter(|task| read(task.join("comm")).starts_with("process-"))
        .count();
    (waiting, tasks().map(|task| read(task.join("children"))).collect())
}

#[test]
fn nothing_is_left_open() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    alone("process::leaks::nothing_is_left_open", || {
        runtime.block_on(count_before_and_after());
    });
}

async fn count_before_and_after() {
    let owner = next_owner();
    // The first run opens what stays open: the poller and the blocking pool. Something of the run itself may still be
    // open as it is counted here, so fewer files after the loop are as good. Each kind of run below happens five times or
    // more, so what one of them left open would be five files or more.
    output(fake(json!([]))).await;
    reaped(0).await;
    let first = files();

    for round in 0..5 {
        for waiting in [Waiting::Auto, Waiting::Thread] {
            let spec = |steps| Spec {
                owner,
                waiting,
                limits: limits(None, 100),
                ..fake(steps)
            };
            output(Spec {
                stdin: Stdin::Bytes(vec![0; 1 << 20].into()),
                ..spec(json!([]))
            })
            .await;
            output(Spec {
                stdin: Stdin::Bytes("x".into()),
                ..spec(json!(["echo"]))
            })
            .await;
            output(Spec {
                limits: limits(Some(20 + round), 20),
                ..spec(json!(["forever"]))
            })
            .await;
            let mut running = start(Spec {
                stdin: Stdin::Open,
                ..spec(json!(["readAll"]))
            });
            let stdin = running.stdin().unwrap();
            drop(running);
            drop(stdin);
            let missing = Spec {
                owner,
                ..Spec::new("/no/such/cli")
            };
            assert!(process::start(missing, CancellationToken::new()).is_err());
            let nowhere = Spec {
                cwd: Some("/no/such/folder".into()),
                ..spec(json!([]))
            };
            assert!(process::start(nowhere, CancellationToken::new()).is_err());
        }
    }
    reaped(owner).await;
    let since = Instant::now();
    let settled = loop {
        let (files, others) = (files(), threads_and_children());
        if files <= first && others == (0, String::new()) {
            break files;
        }
        assert!(
            since.elapsed() < LONG,
            "{first} files before, now {files}; threads and children: {others:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };

    // And where there are no descriptors left, the error says so and nothing is lost.
    let limit = getrlimit(Resource::Nofile);
    for spare in 0..8 {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(settled as u64 + spare),
                ..limit
            },
        )
        .unwrap();
        let spec = Spec {
            owner,
            stdin: Stdin::Open,
            ..fake(json!(["readAll"]))
        };
        match process::start(spec, CancellationToken::new()) {
            Ok(running) => drop(running),
            Err(error) => {
                assert_eq!(
                    (error.code(), error.to_string()),
                    (Code::SpawnFailed, "too many open files".to_owned())
                );
            }
        }
        setrlimit(Resource::Nofile, limit).unwrap();
        reaped(owner).await;
    }
    assert_eq!(output(fake(json!([{"out": "ok"}]))).await.stdout, b"ok");
}
