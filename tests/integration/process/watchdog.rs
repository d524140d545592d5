//! The watchdog and a run's beginning. Alone in its process, because the watchdog is the whole process's.
use std::sync::mpsc;

use bytes::Bytes;
use deep_factor_providers::process::{self, Spec, Stdin};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::alone::alone;

fn cat(guarded: bool) -> Spec {
    Spec {
        guarded,
        stdin: Stdin::Bytes(Bytes::from_static(b"hello")),
        ..Spec::new("/bin/cat")
    }
}

#[test]
fn a_run_gets_its_input_when_the_watchdog_knows_of_it() {
    let name = "process::watchdog::a_run_gets_its_input_when_the_watchdog_knows_of_it";
    alone(name, start_while_the_watchdog_is_missing);
}

fn start_while_the_watchdog_is_missing() {
    // The only thread that may start the watchdog is taken until the gate opens.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().unwrap();
    let (gate, opened) = mpsc::channel::<()>();
    runtime.block_on(async {
        let taken = tokio::task::spawn_blocking(move || opened.recv());
        let mut guarded = process::start(cat(true), CancellationToken::new()).unwrap();
        // One without a watchdog is over meanwhile: there was time for an answer.
        let other = process::output(cat(false), CancellationToken::new()).await.unwrap();
        assert_eq!((other.stdout.as_slice(), other.exit.success()), (&b"hello"[..], true));
        assert_eq!(
            guarded.next().now_or_never(),
            None,
            "it must not have been given its input"
        );

        gate.send(()).unwrap();
        taken.await.unwrap().unwrap();
        assert_eq!(guarded.next().await, Some(Bytes::from_static(b"hello")));
        assert_eq!(guarded.next().await, None);
        assert!(guarded.exit().await.success());
    });
}
