//! Many runs at once, ends at any moment, and the neighbours.
use std::time::{Duration, Instant};

use deep_factor_providers::process::{self, End, Spec, Stdin, Waiting, kill_all, live_leaders};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_at_once() {
    let owner = next_owner();
    let mut runs = JoinSet::new();
    for number in 0..100usize {
        let prompt = number.to_string().repeat(50_000);
        let waiting = if number % 2 == 0 {
            Waiting::Auto
        } else {
            Waiting::Thread
        };
        let steps = json!(["countStdin", {"err": number.to_string()}, {"exit": number}]);
        let spec = Spec {
            stdin: Stdin::Bytes(prompt.clone().into()),
            owner,
            waiting,
            ..fake(steps)
        };
        runs.spawn(async move {
            let done = output(spec).await;
            let printed = (String::from_utf8(done.stdout).unwrap(), done.exit.stderr.clone());
            assert_eq!(printed, (prompt.len().to_string(), number.to_string()));
            assert_eq!(how(&done.exit), (End::Exited, Some(number as i32), None));
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
    reaped(owner).await;
}

/// The processes whose environment mentions the scene, also those that have not signed in yet.
#[cfg(target_os = "linux")]
fn survivors(scene: &Scene) -> Vec<i32> {
    let mark = scene.path("").into_os_string().into_encoded_bytes();
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        memchr::memmem::find(&environ, &mark).is_some() && lives(*pid)
    })
    .collect()
}

#[cfg(not(target_os = "linux"))]
fn survivors(scene: &Scene) -> Vec<i32> {
    scene.living()
}

fn family(scene: &Scene) -> Value {
    let stubborn = json!({"onSignal": {"TERM": [], "HUP": [], "INT": []}});
    let daemon = json!([scene.sign_in(), stubborn, "setsid", "forever"]);
    let member = json!([scene.sign_in(), stubborn, {"spawn": {"steps": daemon, "stdio": "inherit"}}, "forever"]);
    let parent = json!(["setsid", {"spawn": {"steps": daemon, "stdio": "null"}}]);
    json!([
        scene.sign_in(), {"spawn": {"steps": member}}, {"spawn": {"steps": parent, "wait": true}}, {"out": "ready"},
        stubborn, "forever"
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_ends_at_any_moment_leave_nobody() {
    let scene = Scene::new();
    let owner = next_owner();
    let mut runs = JoinSet::new();
    for number in 0..60u64 {
        // Any moment from before the exec to a complete family, the same ones in every run of the test. Windows starts more slowly.
        let unit = if cfg!(windows) { 300 } else { 50 };
        let moment = Duration::from_micros(number * number * unit);
        let limits = limits((number % 4 == 0).then_some(moment.as_millis() as u64), 50);
        let spec = Spec {
            owner,
            limits,
            ..fake(family(&scene))
        };
        let cancel = CancellationToken::new();
        let running = process::start(spec, cancel.clone()).unwrap();
        runs.spawn(async move {
            let wanted = match number % 4 {
                0 => End::Timeout,
                1 => {
                    tokio::time::sleep(moment).await;
                    cancel.cancel();
                    End::Cancelled
                }
                2 => {
                    tokio::time::sleep(moment).await;
                    running.closer().close();
                    End::Closed
                }
                _ => {
                    tokio::time::sleep(moment).await;
                    return drop(running);
                }
            };
            assert_eq!(running.exit().await.end, wanted);
        });
        if number % 10 == 9 {
            // Six at a time would do; ten make it crowded.
            while let Some(run) = runs.join_next().await {
                run.unwrap();
            }
        }
    }
    reaped(owner).await;
    assert_eq!(survivors(&scene), Vec::<i32>::new());
    assert!(
        scene.pids().len() > 30,
        "the test has seen {} fakes",
        scene.pids().len()
    );
}

/// Starts race with the end of their owner: each is refused or killed, none is missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_start_slips_through_kill_all() {
    let scene = Scene::new();
    let owner = next_owner();
    let runtime = tokio::runtime::Handle::current();
    let starters: Vec<_> = (0..3)
        .map(|_| {
            let (runtime, steps) = (runtime.clone(), json!([scene.sign_in(), "forever"]));
            std::thread::spawn(move || {
                let _inside = runtime.enter();
                let mut running = Vec::new();
                loop {
                    assert!(running.len() < 1000, "never refused");
                    match process::start(
                        Spec {
                            owner,
                            ..fake(steps.clone())
                        },
                        CancellationToken::new(),
                    ) {
                        Ok(run) => running.push(run),
                        Err(error) => return (running, error.to_string()),
                    }
                }
            })
        })
        .collect();
    let since = Instant::now();
    while live_leaders(owner).len() < 10 {
        assert!(since.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ended = tokio::task::spawn_blocking(move || kill_all(owner)).await.unwrap();
    let mut started = 0;
    for starter in starters {
        let (running, refusal) = starter.join().unwrap();
        assert_eq!(refusal, "the process's owner has ended");
        started += running.len();
        for run in running {
            assert_eq!(how(&run.exit().await), killed(End::Exited));
        }
    }
    assert_eq!(ended, started);
    reaped(owner).await;
    assert_eq!(survivors(&scene), Vec::<i32>::new());
}

/// libuv waits for its children by their ids; so does the standard library.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hosts_own_children_keep_their_statuses() {
    let host = tokio::task::spawn_blocking(move || {
        let run = |code: i32| {
            std::process::Command::new(program())
                .env("FAKE_CLI", json!([{"exit": code}]).to_string())
                .status()
        };
        (0..40).map(|code| run(code).unwrap().code()).collect::<Vec<_>>()
    });
    let mut ours = Vec::new();
    for number in 0..40u8 {
        let waiting = if number % 2 == 0 {
            Waiting::Auto
        } else {
            Waiting::Thread
        };
        ours.push(
            output(Spec {
                waiting,
                ..fake(json!([{"exit": number}]))
            })
            .await
            .exit
            .code,
        );
    }
    let expected: Vec<Option<i32>> = (0..40).map(Some).collect();
    assert_eq!((host.await.unwrap(), ours), (expected.clone(), expected));
}
