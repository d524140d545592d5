//! Feeding and draining.
use std::time::Duration;

use bytes::Bytes;
use deep_factor_providers::process::{End, ProcessLimits, Spec, Stdin, StdinClosed, Waiting};
use serde_json::json;

use super::*;

const MIB: usize = 1024 * 1024;

fn fed(stdin: impl Into<Bytes>, steps: serde_json::Value) -> Spec {
    Spec {
        stdin: Stdin::Bytes(stdin.into()),
        ..fake(steps)
    }
}

/// The first byte is there before the child looks for it, however late the runtime comes to it.
#[tokio::test]
#[cfg_attr(windows, ignore = "pipes")]
async fn the_prompt_is_in_the_pipe_when_start_returns() {
    let scene = Scene::new();
    let running = start(fed("prompt\n", json!(["readLine", scene.flag("read"), "forever"])));
    // This runtime has one thread, which stays here: nothing but `start` itself can have written.
    let since = std::time::Instant::now();
    while !scene.path("read").exists() {
        assert!(since.elapsed() < LONG, "no input");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(running);
}

#[tokio::test]
async fn chunks_carry_every_byte_in_order() {
    let text = "a💡é\u{10FFFF}\r\n".repeat(40);
    let steps = json!([{"chunks": {"text": text, "size": 3, "delayMs": 0}}, {"outHex": "ff00fe"}]);
    let mut running = start(fake(steps));
    let (mut all, mut empty) = (Vec::new(), 0);
    while let Some(chunk) = running.next().await {
        empty += usize::from(chunk.is_empty());
        all.extend_from_slice(&chunk);
    }
    assert_eq!(all, [text.as_bytes(), &[0xff, 0, 0xfe]].concat());
    let exit = running.exit().await;
    assert_eq!(
        (empty, exit.stdout_bytes, how(&exit)),
        (0, all.len() as u64, (End::Exited, Some(0), None))
    );
}

#[tokio::test]
async fn ten_megabytes_of_stderr() {
    let steps = json!([{"err": "unknown option --x\n"}, {"fill": {"to": "stderr", "bytes": 10_000_000}}, {"err": "fatal: why\n"}, {"exit": 1}]);
    let exit = output(fake(steps)).await.exit;
    assert_eq!(
        (how(&exit), exit.stderr_bytes),
        ((End::Exited, Some(1), None), 10_000_030)
    );
    assert!(exit.stderr.starts_with("unknown option --x\nxxx") && exit.stderr.ends_with("xxx\nfatal: why\n"));
    assert!(
        exit.stderr
            .contains(&format!("\n… {} bytes left out …\n", 10_000_030 - 32 * 1024))
    );
    assert!(exit.stderr.len() < 33 * 1024);
}

#[tokio::test]
async fn stderr_can_be_looked_at_meanwhile() {
    let mut running = start(fake(json!([{"err": "warning"}, {"out": "ready"}, "forever"])));
    until(&mut running, "ready").await;
    while running.stderr() != "warning" {
        tokio::task::yield_now().await;
    }
}

/// Back-pressure: who takes nothing has little in memory; the deadline comes all the same; and nothing is lost.
#[tokio::test]
async fn a_consumer_that_takes_nothing() {
    let spec = Spec {
        limits: ProcessLimits {
            max_stdout: 64 * MIB,
            ..limits(Some(400), 100)
        },
        ..fake(json!([{"fill": {"bytes": 32 * MIB}}]))
    };
    let mut running = start(spec);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let mut taken = 0;
    while let Some(chunk) = running.next().await {
        taken += chunk.len() as u64;
    }
    let exit = running.exit().await;
    assert_eq!((exit.end, exit.stdout_bytes), (End::Timeout, taken));
    assert!(taken <= 3 * MIB as u64, "{taken} bytes were in flight");
}

#[tokio::test]
async fn a_slow_consumer_loses_nothing() {
    let mut running = start(fake(json!([{"fill": {"bytes": 4 * MIB}}, {"out": "end"}])));
    let mut all = Vec::new();
    while let Some(chunk) = running.next().await {
        all.extend_from_slice(&chunk);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!((all.len(), &all[4 * MIB..]), (4 * MIB + 3, &b"end"[..]));
    assert!(running.exit().await.success());
}

/// The process is long gone when its output is taken; patience is for pipes, not for consumers.
#[tokio::test]
async fn a_late_consumer_loses_nothing() {
    let limits = ProcessLimits {
        drain: Duration::ZERO,
        ..ProcessLimits::default()
    };
    let spec = Spec {
        limits,
        ..fake(json!([{"fill": {"bytes": MIB + 32 * 1024}}]))
    };
    let mut running = start(spec);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut taken = 0;
    while let Some(chunk) = running.next().await {
        taken += chunk.len();
    }
    assert_eq!(taken, MIB + 32 * 1024);
}

#[tokio::test]
async fn closing_stdout_is_not_exiting() {
    let scene = Scene::new();
    let steps = json!([{"out": "all"}, "closeStdout", scene.wait_flag("go"), {"err": "late"}, {"exit": 5}]);
    let mut running = start(fake(steps));
    assert_eq!(running.next().await.unwrap(), "all");
    assert_eq!(running.next().await, None);
    std::fs::write(scene.path("go"), "").unwrap();
    let exit = running.exit().await;
    assert_eq!(
        (how(&exit), exit.stderr.as_str()),
        ((End::Exited, Some(5), None), "late")
    );
}

#[tokio::test]
async fn a_live_session() {
    for waiting in [Waiting::Auto, Waiting::Thread] {
        let steps = json!([{"eachLine": [{"out": "{{n}}:{{line}}\n"}]}, {"out": "bye"}]);
        let mut running = start(Spec {
            stdin: Stdin::Open,
            waiting,
            ..fake(steps)
        });
        let stdin = running.stdin().unwrap();
        assert!(running.stdin().is_none());
        for (line, answer) in [("one\n", "0:one\n"), ("two\n", "1:two\n")] {
            stdin.write_all(line).await.unwrap();
            until(&mut running, answer).await;
        }
        let long = format!("{}\n", "x".repeat(MIB));
        stdin.write_all(long.clone()).await.unwrap();
        until(&mut running, "xxx\n").await;
        stdin.close();
        until(&mut running, "bye").await;
        assert!(running.exit().await.success());
    }
}

#[tokio::test]
async fn writing_to_who_is_gone() {
    let mut running = start(Spec {
        stdin: Stdin::Open,
        ..fake(json!(["readLine", {"exit": 4}]))
    });
    let stdin = running.stdin().unwrap();
    stdin.write_all("go\n").await.unwrap();
    assert_eq!(how(&running.exit().await), (End::Exited, Some(4), None));
    let mut closed = Ok(());
    while closed.is_ok() {
        closed = stdin.write_all("more\n").await;
    }
    assert_eq!(closed, Err(StdinClosed));
}

#[tokio::test]
async fn timings_tell_the_story() {
    let done = output(fake(json!([{"sleep": 30}, {"out": "x"}, {"sleep": 30}]))).await;
    let timings = done.exit.timings;
    let first = timings.first_byte.unwrap();
    assert!(timings.queued.is_zero() && first >= Duration::from_millis(30));
    // When a byte or an exit is noticed depends on the machine, but neither is noticed before it happened.
    assert!(timings.exit >= Duration::from_millis(60) && timings.settled >= timings.exit.max(first));
    assert_eq!(output(fake(json!([]))).await.exit.timings.first_byte, None);
}

/// The exit and the last bytes become known in one moment: the bytes decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_than_the_limit_is_never_a_success_however_soon_the_process_exits() {
    const LIMIT: usize = 5_000;
    let mut runs = tokio::task::JoinSet::new();
    for worker in 0..8 {
        runs.spawn(async move {
            // Where a start takes longer, fewer.
            for n in 0..if cfg!(windows) { 20 } else { 250 } {
                let more = [0, 1, 70_000][(worker + n) % 3];
                let waiting = if n % 2 == 0 { Waiting::Auto } else { Waiting::Thread };
                let spec = Spec {
                    limits: ProcessLimits {
                        max_stdout: LIMIT,
                        ..limits(None, 2000)
                    },
                    waiting,
                    ..fake(json!([{"fill": {"bytes": LIMIT + more}}]))
                };
                let done = output(spec).await;
                let end = if more == 0 { End::Exited } else { End::OutputLimit };
                assert_eq!((done.exit.end, done.stdout.len()), (end, LIMIT), "{more} over");
            }
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}
