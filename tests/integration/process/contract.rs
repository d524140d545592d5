//! What a start promises of its end, as one table: `src/process/unix.rs` and `src/process/windows.rs` are held to the same rows.
//!
//! A row says what the child does, what its caller does once `ready` has been printed, how it ends, and what was printed. Each is a test
//! of its own, for every way to wait for an exit, and of all that signed in nothing may be left. What a system can't do is ignored there,
//! for a reason of one word.

use std::process::{Command, Stdio};
use std::time::Duration;

use deep_factor_providers::process::{self, End, ProcessLimits, Spec, Stdin, Waiting, kill_all};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

const MIB: usize = 1024 * 1024;
/// Windows knows one way only.
const WAYS: &[Waiting] = if cfg!(windows) {
    &[Waiting::Auto]
} else {
    &[Waiting::Auto, Waiting::Thread]
};

/// What the caller does once the child has printed `ready`; who [`Caller::Waits`] waits from the beginning.
enum Caller {
    Waits,
    Cancels,
    Closes,
    Drops,
    /// Asks for the exit, and gives that up.
    GivesUp,
    /// Says that it has all it waits for.
    IsServed,
    KillsAll,
}

struct Case {
    steps: fn(&Scene) -> Value,
    stdin: Stdin,
    limits: ProcessLimits,
    caller: Caller,
    /// `None` where nobody is told.
    ends: Option<How<'static>>,
    /// How many bytes there are on stdout, and the last of them.
    prints: (usize, &'static str),
    /// No end comes earlier.
    after: Duration,
    /// So many processes have signed in.
    members: usize,
}

fn case(steps: fn(&Scene) -> Value) -> Case {
    Case {
        steps,
        stdin: Stdin::Null,
        limits: ProcessLimits::default(),
        caller: Caller::Waits,
        ends: code(0),
        prints: (0, ""),
        after: Duration::ZERO,
        members: 0,
    }
}

/// A case that is ended by its caller, with nothing behind `ready`.
fn ended(caller: Caller, ends: How<'static>, steps: fn(&Scene) -> Value) -> Case {
    Case {
        caller,
        ends: Some(ends),
        limits: limits(None, 200),
        prints: text("ready"),
        ..case(steps)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "what a row needs")]
fn code(code: i32) -> Option<How<'static>> {
    Some((End::Exited, Some(code), None))
}

#[expect(clippy::unnecessary_wraps, reason = "what a row needs")]
fn signal(name: &'static str) -> Option<How<'static>> {
    Some((End::Exited, None, Some(name)))
}

fn text(text: &'static str) -> (usize, &'static str) {
    (text.len(), text)
}

fn max_stdout(max_stdout: usize) -> ProcessLimits {
    ProcessLimits {
        max_stdout,
        ..ProcessLimits::default()
    }
}

/// More than any pipe holds.
fn prompt() -> Stdin {
    let mut prompt = vec![b'x'; 8 * MIB];
    prompt[2] = b'\n';
    Stdin::Bytes(prompt.into())
}

/// A child that nothing but its end ends, with one in a session of its own, that no pipe connects.
fn family(scene: &Scene) -> Value {
    let grandchild = child(
        scene,
        "null",
        &[json!("setsid"), ignoring_term(), scene.flag("up"), json!("forever")],
    );
    json!([
        ignoring_term(),
        scene.sign_in(),
        child(scene, "inherit", &[ignoring_term(), grandchild, json!("forever")]),
        scene.wait_flag("up"),
        {"out": "ready"},
        "forever"
    ])
}

async fn check(case: Case) {
    join_all(WAYS.iter().map(|waiting| check_one(&case, *waiting))).await;
}

async fn check_one(case: &Case, waiting: Waiting) {
    let scene = Scene::new();
    let owner = next_owner();
    let spec = Spec {
        owner,
        waiting,
        stdin: case.stdin.clone(),
        limits: case.limits,
        ..fake((case.steps)(&scene))
    };
    let cancel = CancellationToken::new();
    let mut running = process::start(spec, cancel.clone()).unwrap();
    let mut printed = Vec::new();
    while !matches!(case.caller, Caller::Waits) && !printed.ends_with(b"ready") {
        let chunk = tokio::time::timeout(LONG, running.next())
            .await
            .expect("the fake is silent");
        printed.extend_from_slice(&chunk.expect("stdout ended"));
    }
    let mut running = Some(running);
    match case.caller {
        Caller::Waits => {}
        Caller::Cancels => cancel.cancel(),
        Caller::Closes => running.as_ref().unwrap().closer().close(),
        Caller::IsServed => running.as_ref().unwrap().set_complete(true),
        Caller::Drops => drop(running.take()),
        Caller::GivesUp => {
            let mut exit = Box::pin(running.take().unwrap().exit());
            assert!(tokio::time::timeout(Duration::ZERO, &mut exit).await.is_err());
        }
        Caller::KillsAll => {
            let killed = tokio::task::spawn_blocking(move || kill_all(owner));
            assert_eq!(killed.await.unwrap(), 1);
        }
    }
    if let Some(mut running) = running {
        while let Some(chunk) = running.next().await {
            printed.extend_from_slice(&chunk);
        }
        let exit = running.exit().await;
        let tail = String::from_utf8_lossy(&printed[printed.len().saturating_sub(case.prints.1.len())..]);
        assert_eq!(
            (Some(how(&exit)), printed.len(), tail.as_ref()),
            (case.ends, case.prints.0, case.prints.1)
        );
        assert!(exit.timings.exit >= case.after, "{:?}", exit.timings);
    }
    scene.all_gone(case.members).await;
    reaped(owner).await;
}

macro_rules! contract {
    ($($(#[$note:meta])* $name:ident: $case:expr;)*) => {$(
        #[tokio::test]
        $(#[$note])*
        async fn $name() {
            check($case).await;
        }
    )*};
}

contract! {
    // The exit.
    the_end_of_its_steps: case(|_| json!([]));
    an_exit_code: Case { ends: code(41), ..case(|_| json!([{"exit": 41}])) };
    an_exit_code_like_a_shells_of_a_signal: Case { ends: code(137), ..case(|_| json!([{"exit": 137}])) };
    // An access violation. A Unix keeps eight bits of a code.
    #[cfg_attr(unix, ignore = "codes")]
    the_exit_code_of_a_crash: Case { ends: code(-1_073_741_819), ..case(|_| json!([{"exit": -1_073_741_819}])) };
    #[cfg_attr(windows, ignore = "signals")]
    killed_by_itself: Case { ends: signal("SIGKILL"), ..case(|_| json!([{"kill": "KILL"}])) };
    #[cfg_attr(windows, ignore = "signals")]
    ended_by_itself: Case { ends: signal("SIGTERM"), ..case(|_| json!([{"kill": "TERM"}])) };
    #[cfg_attr(windows, ignore = "signals")]
    crashed: Case { ends: signal("SIGSEGV"), ..case(|_| json!([{"kill": "SEGV"}])) };

    // Input and output.
    an_empty_input: Case {
        stdin: Stdin::Bytes("".into()), prints: text("0"), ..case(|_| json!(["countStdin"]))
    };
    no_input: Case { prints: text("0"), ..case(|_| json!(["countStdin"])) };
    megabytes_in_while_megabytes_come_out: Case {
        stdin: prompt(),
        prints: (MIB + 7, "\n8388608"),
        ..case(|_| json!([{"fill": {"bytes": MIB}}, {"fill": {"to": "stderr", "bytes": MIB}}, "countStdin"]))
    };
    an_input_that_nobody_reads: Case {
        stdin: prompt(), ends: code(3), prints: text("done"), ..case(|_| json!([{"out": "done"}, {"exit": 3}]))
    };
    an_input_that_is_closed_unread: Case {
        stdin: prompt(),
        ends: code(3),
        prints: text("done"),
        ..case(|_| json!(["closeStdin", {"sleep": 20}, {"out": "done"}, {"exit": 3}]))
    };
    an_input_of_which_a_line_is_read: Case {
        stdin: prompt(), ends: code(3), prints: text("done"), ..case(|_| json!(["readLine", {"out": "done"}, {"exit": 3}]))
    };
    output_up_to_its_limit: Case {
        limits: max_stdout(MIB), prints: (MIB, "x\n"), ..case(|_| json!([{"fill": {"bytes": MIB}}]))
    };
    output_beyond_its_limit: Case {
        limits: max_stdout(MIB),
        ends: Some(asked(End::OutputLimit)),
        prints: (MIB, "x\n"),
        ..case(|_| json!([{"fill": {"bytes": 5 * MIB}}, {"sleep": 60_000}]))
    };
    output_where_there_may_be_none: Case {
        limits: max_stdout(0), ends: Some(asked(End::OutputLimit)), ..case(|_| json!([{"out": "x"}, {"sleep": 60_000}]))
    };

    // Limits of time. The fake must have come to its last step before the time is over.
    a_timeout: Case {
        limits: limits(Some(2000), 60_000),
        ends: Some(asked(End::Timeout)),
        prints: text("a"),
        after: Duration::from_secs(2),
        ..case(|_| json!([{"out": "a"}, "forever"]))
    };
    #[cfg_attr(windows, ignore = "signals")]
    a_timeout_that_is_answered: Case {
        limits: limits(Some(2000), 60_000),
        ends: Some((End::Timeout, Some(0), None)),
        prints: text("alate"),
        after: Duration::from_secs(2),
        ..case(|_| json!([{"onSignal": {"TERM": [{"out": "late"}, {"exit": 0}]}}, {"out": "a"}, "forever"]))
    };
    a_timeout_that_is_not_heard: Case {
        limits: limits(Some(2000), 300),
        ends: Some(killed(End::Timeout)),
        prints: text("a"),
        // Where there is no way to ask, nobody waits for an answer.
        after: Duration::from_millis(if cfg!(windows) { 2000 } else { 2300 }),
        ..case(|_| json!([ignoring_term(), {"out": "a"}, "forever"]))
    };
    a_timeout_of_a_family: Case {
        limits: limits(Some(6000), 200),
        ends: Some(killed(End::Timeout)),
        prints: text("ready"),
        members: 3,
        ..case(family)
    };
    a_timeout_most_of_which_was_spent_before: Case {
        limits: ProcessLimits { spent: Duration::from_millis(3_599_700), ..limits(Some(3_600_000), 300) },
        ends: Some(asked(End::Timeout)),
        ..case(|_| json!(["forever"]))
    };
    silence: Case {
        limits: ProcessLimits { idle_timeout: Some(Duration::from_millis(1500)), ..limits(None, 100) },
        ends: Some(asked(End::IdleTimeout)),
        prints: text("x"),
        after: Duration::from_millis(1500),
        ..case(|_| json!([{"out": "x"}, "forever"]))
    };
    output_that_is_slow: Case {
        limits: ProcessLimits { idle_timeout: Some(Duration::from_millis(1500)), ..limits(None, 100) },
        after: Duration::from_secs(2),
        ..case(|_| json!((0..6).flat_map(|_| [json!({"sleep": 350}), json!({"err": "."})]).collect::<Vec<_>>()))
    };

    // What the caller does.
    cancelled: Case {
        members: 1,
        ..ended(Caller::Cancels, asked(End::Cancelled), |scene| json!([scene.sign_in(), {"out": "ready"}, "forever"]))
    };
    closed: Case {
        members: 1,
        ..ended(Caller::Closes, asked(End::Closed), |scene| json!([scene.sign_in(), {"out": "ready"}, "forever"]))
    };
    closed_with_an_open_input: Case {
        stdin: Stdin::Open,
        members: 1,
        ..ended(Caller::Closes, asked(End::Closed), |scene| json!([scene.sign_in(), {"out": "ready"}, "forever"]))
    };
    // The end of stdin comes before any signal, so a CLI can end by itself.
    closed_which_ends_its_input_first: Case {
        stdin: Stdin::Open,
        limits: limits(None, 60_000),
        prints: text("readyeof"),
        ..ended(Caller::Closes, (End::Closed, Some(0), None), |_| {
            json!([ignoring_term(), {"out": "ready"}, "readAll", {"out": "eof"}])
        })
    };
    #[cfg_attr(windows, ignore = "signals")]
    closed_while_it_is_stopped: Case {
        limits: limits(None, 60_000),
        ..ended(Caller::Closes, (End::Closed, Some(9), None), |_| {
            json!([{"onSignal": {"TERM": [{"exit": 9}]}}, {"out": "ready"}, {"kill": "STOP"}, "forever"])
        })
    };
    cancelled_with_a_family: Case { members: 3, ..ended(Caller::Cancels, killed(End::Cancelled), family) };
    closed_with_a_family: Case { members: 3, ..ended(Caller::Closes, killed(End::Closed), family) };
    // claude's Bash tool runs its commands in a session of their own (CLI-FACTS 1.9).
    closed_with_descendants_that_can_be_asked: Case {
        members: 2,
        ..ended(Caller::Closes, asked(End::Closed), |scene| {
            let grandchild = child(scene, "inherit", &[json!("setsid"), scene.flag("up"), json!("forever")]);
            let own = child(scene, "null", &[json!("setsid"), grandchild, json!("forever")]);
            json!([own, scene.wait_flag("up"), {"out": "ready"}, "forever"])
        })
    };
    dropped_with_a_family: Case { ends: None, members: 3, ..ended(Caller::Drops, asked(End::Closed), family) };
    given_up_with_a_family: Case { ends: None, members: 3, ..ended(Caller::GivesUp, asked(End::Closed), family) };
    killed_with_its_owner: Case { members: 3, ..ended(Caller::KillsAll, killed(End::Exited), family) };

    // What is left when it has ended, or when its caller has all it waits for.
    a_family_that_is_left_by_itself: Case {
        limits: limits(None, 200),
        ends: code(5),
        members: 2,
        ..case(|scene| {
            let stays = child(scene, "null", &[json!("setsid"), ignoring_term(), scene.flag("up"), json!("forever")]);
            json!([child(scene, "inherit", &[ignoring_term(), stays, json!("forever")]), scene.wait_flag("up"), {"exit": 5}])
        })
    };
    // Silent for longer than both limits: only the process itself can end this.
    served_and_ends_by_itself: Case {
        limits: ProcessLimits { idle_timeout: Some(Duration::from_secs(4)), ..limits(Some(4000), 60_000) },
        ends: code(7),
        prints: text("ready"),
        caller: Caller::IsServed,
        ..case(|_| json!([{"out": "ready"}, {"sleep": 4500}, {"exit": 7}]))
    };
    served_and_lingers: Case { members: 3, ..ended(Caller::IsServed, (End::Lingered, None, None), family) };
    served_and_lingers_with_what_can_be_asked: Case {
        members: 1,
        ..ended(Caller::IsServed, (End::Lingered, None, None), |scene| json!([scene.sign_in(), {"out": "ready"}, "forever"]))
    };
}

/// This program once more, as a host that is killed in the middle of a run.
#[tokio::test]
async fn the_host_is_killed() {
    const FOLDER: &str = "CONTRACT_HOST_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let steps = [
            vec![json!("readLine")],
            family(&Scene::at(folder.into())).as_array().unwrap().clone(),
        ];
        let _running = start(Spec {
            guarded: true,
            // Which comes when somebody looks after the run, should the host be killed.
            stdin: Stdin::Bytes("go\n".into()),
            limits: limits(None, 200),
            ..fake(json!(steps.concat()))
        });
        return std::future::pending().await;
    }
    let scene = Scene::new();
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::contract::the_host_is_killed"])
        .env(FOLDER, scene.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    scene.flagged("up").await;
    host.kill().unwrap();
    host.wait().unwrap();
    scene.all_gone(3).await;
}
