//! Ending: every reason, every kind of stubbornness, and nothing left behind.
use std::time::{Duration, Instant};

use deep_factor_providers::process::{End, ProcessLimits, Spec, kill_all, limit, live_leaders};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;

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
        // Windows has no way to ask.
        if stubborn || cfg!(windows) {
            // It has its grace, and the answer was there before.
            let [grandchild] = scene.living()[..] else {
                panic!("the grandchild did not have its grace")
            };
            kill(grandchild);
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
        &[scene.wait_flag("said"), json!({"sleep": 20}), json!({"out": "late"})],
    );
    let limits = ProcessLimits {
        drain: Duration::from_secs(3_600),
        ..ProcessLimits::default()
    };
    let spec = Spec {
        limits,
        ..fake(json!([late, {"out": "early "}, scene.flag("said")]))
    };
    // Nobody waits for so long a drain: the end of the pipe ends it.
    let done = tokio::time::timeout(LONG, output(spec)).await.expect("it waits on");
    assert_eq!(done.stdout, b"early late");
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
    assert_eq!(live_leaders(mine), expected);
    assert_eq!(kill_all(mine), 3);
    let kept = runs.pop().unwrap();
    for run in runs {
        assert_eq!(how(&run.exit().await), killed(End::Exited));
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
    kill_all(other);
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
