//! Ending: every reason, every kind of stubbornness, and nothing left behind.
use std::time::{Duration, Instant};

use deep_factor_providers::process::{self, End, ProcessLimits, Spec, Stdin, Waiting, limit, registry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

/// A child that signs in and runs `steps`.
fn child(scene: &Scene, stdio: &str, steps: &[Value]) -> Value {
    let steps = [&[scene.sign_in()], steps].concat();
    json!({"spawn": {"steps": steps, "stdio": stdio}})
}

fn ignoring_term() -> Value {
    json!({"onSignal": {"TERM": [], "HUP": [], "INT": []}})
}

#[tokio::test]
async fn statuses_are_kept() {
    for waiting in [Waiting::Auto, Waiting::Thread] {
        let exit_of = |steps| async move { output(Spec { waiting, ..fake(steps) }).await.exit };
        assert_eq!(how(&exit_of(json!([])).await), (End::Exited, Some(0), None));
        assert_eq!(
            how(&exit_of(json!([{"exit": 41}])).await),
            (End::Exited, Some(41), None)
        );
        assert_eq!(
            how(&exit_of(json!([{"exit": 137}])).await),
            (End::Exited, Some(137), None)
        );
        assert_eq!(
            how(&exit_of(json!([{"kill": "KILL"}])).await),
            (End::Exited, None, Some("SIGKILL"))
        );
        assert_eq!(
            how(&exit_of(json!([{"kill": "TERM"}])).await),
            (End::Exited, None, Some("SIGTERM"))
        );
        assert_eq!(
            how(&exit_of(json!([{"kill": "SEGV"}])).await),
            (End::Exited, None, Some("SIGSEGV"))
        );
    }
}

#[tokio::test]
async fn what_was_spent_before_its_start_is_gone_from_its_time() {
    let hour = Duration::from_secs(3600);
    let spec = Spec {
        limits: ProcessLimits {
            timeout: Some(hour),
            spent: hour - Duration::from_millis(300),
            ..limits(None, 300)
        },
        ..fake(json!([{"out": "a"}, "forever"]))
    };
    let done = output(spec).await;
    assert_eq!(how(&done.exit), (End::Timeout, None, Some("SIGTERM")));
    assert!(done.exit.timings.exit < hour / 2, "{:?}", done.exit.timings);
}

#[tokio::test]
async fn a_timeout_is_a_timeout_whatever_the_child_makes_of_it() {
    let cases = [
        (
            json!([{"out": "a"}, "forever"]),
            "a",
            (End::Timeout, None, Some("SIGTERM")),
        ),
        (
            json!([{"onSignal": {"TERM": [{"out": "late"}, {"exit": 0}]}}, {"out": "a"}, "forever"]),
            "alate",
            (End::Timeout, Some(0), None),
        ),
        (
            json!([ignoring_term(), {"out": "a"}, "forever"]),
            "a",
            (End::Timeout, None, Some("SIGKILL")),
        ),
    ];
    let mut runs = tokio::task::JoinSet::new();
    for (steps, text, end) in cases {
        for waiting in [Waiting::Auto, Waiting::Thread] {
            // The fake must have come to its last step before the time is over.
            let spec = Spec {
                limits: limits(Some(2000), 300),
                waiting,
                ..fake(steps.clone())
            };
            runs.spawn(async move {
                let done = output(spec).await;
                assert_eq!(
                    (String::from_utf8_lossy(&done.stdout).as_ref(), how(&done.exit)),
                    (text, end)
                );
                let least = if end.2 == Some("SIGKILL") { 2300 } else { 2000 };
                assert!(
                    done.exit.timings.exit >= Duration::from_millis(least),
                    "{:?}",
                    done.exit.timings
                );
            });
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

#[tokio::test]
async fn silence_ends_a_run_and_any_output_keeps_it() {
    let idle = ProcessLimits {
        idle_timeout: Some(Duration::from_millis(1500)),
        ..limits(None, 100)
    };
    let quiet = output(Spec {
        limits: idle,
        ..fake(json!([{"out": "x"}, "forever"]))
    });
    let chatter: Vec<Value> = (0..6)
        .flat_map(|_| [json!({"sleep": 350}), json!({"err": "."})])
        .collect();
    let chatty = output(Spec {
        limits: idle,
        ..fake(json!(chatter))
    });
    let (quiet, chatty) = tokio::join!(quiet, chatty);
    assert_eq!(how(&quiet.exit), (End::IdleTimeout, None, Some("SIGTERM")));
    assert!(quiet.exit.timings.exit >= Duration::from_millis(1500));
    assert_eq!(
        (how(&chatty.exit), chatty.exit.stderr.as_str()),
        ((End::Exited, Some(0), None), "......")
    );
    assert!(chatty.exit.timings.exit > Duration::from_millis(2000));
}

#[tokio::test]
async fn cancelling_closing_and_dropping() {
    let scene = Scene::new();
    let spec = || Spec {
        stdin: Stdin::Open,
        ..fake(json!([scene.sign_in(), {"out": "ready"}, "forever"]))
    };
    let cancel = CancellationToken::new();
    let mut running = process::start(spec(), cancel.clone()).unwrap();
    until(&mut running, "ready").await;
    cancel.cancel();
    assert_eq!(how(&running.exit().await), (End::Cancelled, None, Some("SIGTERM")));

    let mut running = start(spec());
    until(&mut running, "ready").await;
    running.closer().close();
    assert_eq!(how(&running.exit().await), (End::Closed, None, Some("SIGTERM")));

    let mut running = start(spec());
    until(&mut running, "ready").await;
    drop(running);

    let mut running = start(spec());
    until(&mut running, "ready").await;
    // A future that is given up is a run that is given up.
    let mut exit = Box::pin(running.exit());
    assert!(tokio::time::timeout(Duration::ZERO, &mut exit).await.is_err());
    drop(exit);
    scene.all_gone(4).await;
}

/// The end of stdin comes before any signal, so a CLI can end by itself.
#[tokio::test]
async fn ending_closes_stdin_first() {
    let steps = json!([ignoring_term(), {"out": "ready"}, "readAll", {"out": "eof"}]);
    let mut running = start(Spec {
        stdin: Stdin::Open,
        limits: limits(None, 60_000),
        ..fake(steps)
    });
    until(&mut running, "ready").await;
    running.closer().close();
    until(&mut running, "eof").await;
    assert_eq!(how(&running.exit().await), (End::Closed, Some(0), None));
}

#[tokio::test]
async fn a_stopped_process_ends_as_well() {
    let scene = Scene::new();
    let steps = json!([scene.sign_in(), {"onSignal": {"TERM": [{"exit": 9}]}}, scene.flag("ready"), {"kill": "STOP"}, "forever"]);
    let running = start(Spec {
        limits: limits(None, 60_000),
        ..fake(steps)
    });
    scene.flagged("ready").await;
    running.closer().close();
    assert_eq!(how(&running.exit().await), (End::Closed, Some(9), None));
}

/// ocp#474: the answer came minutes late because a helper process had inherited the pipes.
#[tokio::test]
async fn a_grandchild_that_holds_the_pipes_delays_nothing_and_is_gone() {
    for stubborn in [false, true] {
        let scene = Scene::new();
        let mut steps = vec![scene.flag("up"), json!("forever")];
        if stubborn {
            steps.insert(0, ignoring_term());
        }
        let steps = json!([child(&scene, "inherit", &steps), scene.wait_flag("up"), {"out": "answer"}]);
        let owner = next_owner();
        let spec = Spec {
            owner,
            // Nobody waits for so long a grace.
            limits: limits(None, 3_600_000),
            ..fake(steps)
        };
        let done = output(spec).await;
        assert_eq!(
            (done.stdout.as_slice(), how(&done.exit)),
            (&b"answer"[..], (End::Exited, Some(0), None))
        );
        if stubborn {
            // It has its grace, and the answer was there before.
            let [grandchild] = scene.living()[..] else {
                panic!("the grandchild did not have its grace")
            };
            let grandchild = rustix::process::Pid::from_raw(grandchild).unwrap();
            rustix::process::kill_process(grandchild, rustix::process::Signal::KILL).unwrap();
        }
        scene.all_gone(1).await;
        reaped(owner).await;
    }
}

/// What a helper still writes in time belongs to the answer.
#[tokio::test]
async fn output_that_comes_shortly_after_the_exit() {
    let scene = Scene::new();
    let late = child(
        &scene,
        "inherit",
        &[scene.flag("up"), json!({"sleep": 20}), json!({"out": "late"})],
    );
    let limits = ProcessLimits {
        drain: Duration::from_secs(3_600),
        ..ProcessLimits::default()
    };
    let spec = Spec {
        limits,
        ..fake(json!([late, scene.wait_flag("up"), {"out": "early "}]))
    };
    // Nobody waits for so long a drain: the end of the pipe ends it.
    let done = tokio::time::timeout(LONG, output(spec)).await.expect("it waits on");
    assert_eq!(done.stdout, b"early late");
}

#[tokio::test]
async fn a_grandchild_that_writes_without_end() {
    let scene = Scene::new();
    let spam = json!([scene.sign_in(), ignoring_term(), "setsid", scene.flag("up"), {"fill": {"bytes": 1 << 28}}]);
    let steps = json!([{"spawn": {"steps": spam}}, scene.wait_flag("up"), {"out": "answer"}]);
    let limits = ProcessLimits {
        drain: Duration::from_millis(50),
        max_stdout: usize::MAX,
        ..limits(None, 100)
    };
    let done = output(Spec { limits, ..fake(steps) }).await;
    assert_eq!(how(&done.exit), (End::Exited, Some(0), None));
    assert!(
        done.exit.stdout_bytes < 1 << 28,
        "it was listened to until it had nothing more to say"
    );
    // Not of the group and after a success, so it is left alone, but not listened to. The closed pipe ends it.
    scene.all_gone(1).await;
}

/// claude's Bash tool runs its commands in a session of their own (CLI-FACTS 1.9).
#[tokio::test]
async fn descendants_in_sessions_of_their_own_are_ended() {
    for (stubborn, signal) in [(false, "SIGTERM"), (true, "SIGKILL")] {
        let scene = Scene::new();
        let mut steps = vec![json!("setsid"), scene.flag("up"), json!("forever")];
        let mut own = vec![];
        if stubborn {
            steps.insert(0, ignoring_term());
            own.push(ignoring_term());
        }
        let grandchild = child(&scene, "inherit", &steps);
        own.extend([
            child(&scene, "null", &[json!("setsid"), grandchild, json!("forever")]),
            scene.wait_flag("up"),
        ]);
        own.extend([json!({"out": "ready"}), json!("forever")]);
        let owner = next_owner();
        let mut running = start(Spec {
            owner,
            limits: limits(None, 200),
            ..fake(json!(own))
        });
        until(&mut running, "ready").await;
        running.closer().close();
        assert_eq!(how(&running.exit().await), (End::Closed, None, Some(signal)));
        scene.all_gone(2).await;
        reaped(owner).await;
    }
}

/// Forked twice and reparented before anybody looked: only its environment tells whose it is.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn daemons_are_found_by_their_environment() {
    let scene = Scene::new();
    let daemon = child(
        &scene,
        "null",
        &[ignoring_term(), json!("setsid"), scene.flag("up"), json!("forever")],
    );
    let steps = json!([
        {"spawn": {"steps": ["setsid", daemon], "wait": true}}, scene.wait_flag("up"), {"out": "ready"}, "forever"
    ]);
    let mut running = start(Spec {
        limits: limits(None, 100),
        ..fake(steps)
    });
    until(&mut running, "ready").await;
    drop(running);
    scene.all_gone(1).await;
}

#[tokio::test]
async fn a_permit_is_held_until_the_exit() {
    let limiter = limit::Limiter::new(1);
    let permit = limiter
        .acquire("fake", limit::DEFAULT_CONCURRENCY, &CancellationToken::new())
        .await
        .unwrap();
    let mut running = start(Spec {
        permit: Some(permit),
        ..fake(json!([{"out": "ready"}, "forever"]))
    });
    until(&mut running, "ready").await;
    assert_eq!(limiter.snapshot().all.running, 1);
    running.closer().close();
    running.exit().await;
    assert_eq!(limiter.snapshot().all.running, 0);
}

#[tokio::test]
async fn killing_all_of_an_owner() {
    let scene = Scene::new();
    let (mine, other) = (next_owner(), next_owner());
    let escapee = child(
        &scene,
        "null",
        &[
            ignoring_term(),
            json!("setsid"),
            scene.flag("up-{{pid}}"),
            json!("forever"),
        ],
    );
    let steps = json!([ignoring_term(), scene.sign_in(), escapee, {"sleep": 1}, {"out": "ready"}, "forever"]);
    let mut runs = Vec::new();
    for owner in [mine, mine, mine, other] {
        let mut running = start(Spec {
            owner,
            ..fake(steps.clone())
        });
        until(&mut running, "ready").await;
        runs.push(running);
    }
    let since = Instant::now();
    while scene.pids().len() < 8 {
        assert!(since.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut expected: Vec<u32> = runs[..3].iter().map(|run| run.pid()).collect();
    expected.sort_unstable();
    assert_eq!(registry::live(mine), expected);
    assert_eq!(registry::kill_all(mine), 3);
    let kept = runs.pop().unwrap();
    for run in runs {
        assert_eq!(how(&run.exit().await), (End::Exited, None, Some("SIGKILL")));
    }
    reaped(mine).await;
    let since = Instant::now();
    while scene.living().len() > 2 {
        assert!(since.elapsed() < LONG, "left behind: {:?}", scene.living());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        scene.living().contains(&kept.pid().cast_signed()),
        "another owner's process was killed"
    );
    drop(kept);
    registry::kill_all(other);
    scene.all_gone(8).await;
}

/// The runtime goes (as Node's does with its last environment) and takes the runs along.
#[test]
fn the_end_of_the_runtime_is_the_end_of_its_runs() {
    let scene = Scene::new();
    let owner = next_owner();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let running = runtime.block_on(async {
        let escapee = child(
            &scene,
            "null",
            &[ignoring_term(), json!("setsid"), scene.flag("up"), json!("forever")],
        );
        let steps =
            json!([ignoring_term(), scene.sign_in(), escapee, scene.wait_flag("up"), {"out": "ready"}, "forever"]);
        let mut running = start(Spec { owner, ..fake(steps) });
        until(&mut running, "ready").await;
        running
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    other.block_on(async {
        assert_eq!(how(&running.exit().await), (End::Closed, None, None));
        scene.all_gone(2).await;
        reaped(owner).await;
    });
}

/// `steps` with an owner that has all it waits for when "whole" has come.
async fn complete(spec: Spec) -> process::Exit {
    let mut running = start(spec);
    until(&mut running, "whole").await;
    running.set_complete(true);
    running.exit().await
}

#[tokio::test]
async fn complete_output_leaves_the_process_its_grace_and_no_limit_of_time_ends_it() {
    // Silent for longer than both limits: only the process itself can end this.
    let spec = Spec {
        limits: ProcessLimits {
            idle_timeout: Some(Duration::from_millis(4000)),
            ..limits(Some(4000), 60_000)
        },
        ..fake(json!([{"out": "whole"}, {"sleep": 4500}, {"exit": 7}]))
    };
    let exit = complete(spec).await;
    assert_eq!(how(&exit), (End::Exited, Some(7), None));
}

#[tokio::test]
async fn a_process_that_does_not_exit_after_complete_output_is_ended_with_all_it_started() {
    for own in [json!({"out": ""}), ignoring_term()] {
        let scene = Scene::new();
        let owner = next_owner();
        let escapee = child(
            &scene,
            "null",
            &[json!("setsid"), scene.flag("away"), ignoring_term(), json!("forever")],
        );
        let steps = json!([
            own,
            scene.sign_in(),
            child(&scene, "inherit", &[ignoring_term(), json!("forever")]),
            escapee,
            scene.wait_flag("away"),
            {"out": "whole"},
            "forever"
        ]);
        let spec = Spec {
            owner,
            limits: limits(None, 200),
            ..fake(steps)
        };
        let exit = complete(spec).await;
        assert_eq!(how(&exit), (End::Lingered, None, None));
        reaped(owner).await;
        scene.all_gone(3).await;
    }
}

#[tokio::test]
async fn output_that_goes_on_is_not_complete_any_more() {
    let scene = Scene::new();
    let spec = Spec {
        limits: limits(Some(3000), 300),
        ..fake(json!([{"out": "whole"}, scene.wait_flag("more"), {"out": "more"}, "forever"]))
    };
    let mut running = start(spec);
    until(&mut running, "whole").await;
    running.set_complete(true);
    running.set_complete(false);
    std::fs::write(scene.path("more"), "").unwrap();
    assert_eq!(running.exit().await.end, End::Timeout);
}

/// What a run leaves in a session of its own is found by its mark, whoever its parent was and however the run ended.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ended_by_itself_leaves_nobody_in_another_session() {
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..12 {
        runs.spawn(async move {
            let scene = Scene::new();
            let owner = next_owner();
            let stays = [json!("setsid"), ignoring_term(), scene.flag("away"), json!("forever")];
            // Every third has parents that are gone.
            let leaves = match n % 3 {
                0 => child(&scene, "null", &[json!("setsid"), child(&scene, "null", &stays)]),
                _ => child(&scene, "null", &stays),
            };
            let count = if n % 3 == 0 { 3 } else { 2 };
            let spec = Spec {
                owner,
                limits: limits(None, 100),
                ..fake(json!([scene.sign_in(), leaves, scene.wait_flag("away"), {"exit": n % 2}]))
            };
            let tracker = spec.tracker.clone();
            assert_eq!(how(&output(spec).await.exit), (End::Exited, Some(n % 2), None));
            tracker.close();
            tracker.wait().await;
            assert_eq!((scene.pids().len(), scene.living()), (count, vec![]));
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}
