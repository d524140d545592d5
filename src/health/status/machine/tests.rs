//! What belongs to whom among the processes of a machine, and marks and texts that are odd.

use proptest::prelude::*;

use super::*;
use dfp_process::activity::{AllRuns, ProcessActivity, ProcessState, Runs};

const DEAD: u32 = u32::MAX - 7;

fn environment(entries: &[&str]) -> Vec<u8> {
    entries.join("\0").into_bytes()
}

fn process(pid: u32, run: &str) -> ProcessActivity {
    ProcessActivity {
        pid,
        provider: "claude".to_owned(),
        engine: "live".to_owned(),
        state: ProcessState::Resting,
        started_at: 5,
        run: run.to_owned(),
        conversations: vec!["c".to_owned()],
        usage: None,
    }
}

fn of(run: &str, pid: u32, owner: Option<&str>) -> Marked {
    Marked {
        pid,
        run: run.to_owned(),
        owner: owner.and_then(super::owner),
    }
}

#[test]
fn what_belongs_to_a_process_is_its_own_and_the_rest_is_left_over() {
    let snapshot = Snapshot {
        process_wide: AllRuns {
            limit: 4,
            running: 1,
            waiting: 2,
        },
        per_binary: Default::default(),
        processes: vec![process(DEAD, "run-1")],
        rate_limits: Vec::new(),
        budgets: Vec::new(),
        gateways: Vec::new(),
    };
    let marks = [
        of("run-1", DEAD, Some("10:7:live:claude")),
        of("run-1", DEAD + 1, Some("10:7:live:claude")),
        // The program exists; it is about to end this process, or has not published it yet.
        of("run-2", DEAD + 2, Some("10:7:print:codex")),
        of("run-3", DEAD + 3, Some("11:7:print:codex")),
        of("run-4", DEAD + 4, None),
    ];
    let machine = put_together(vec![(10, snapshot)], &marks, |owner| owner.pid == 10);
    let seen: Vec<_> = machine.hosts[0]
        .processes
        .iter()
        .map(|p| (p.pid, p.descendants))
        .collect();
    assert_eq!(seen, [(DEAD, Some(1))]);
    let left: Vec<_> = machine
        .leftovers
        .iter()
        .map(|one| (one.pid, one.provider.as_deref(), one.owner))
        .collect();
    assert_eq!(left, [(DEAD + 3, Some("codex"), Some(11)), (DEAD + 4, None, None)]);
}

#[test]
fn an_owner_whose_id_is_somebody_elses_is_gone() {
    let id = std::process::id();
    let start = started(i32::try_from(id).unwrap()).unwrap();
    let owner = |start: u64| owner(&format!("{id}:{start}:live:claude")).unwrap();
    assert!(is_alive(&owner(start)));
    assert!(is_alive(&owner(0)));
    assert!(!is_alive(&owner(start + 1)));
}

#[test]
fn marks_are_read_and_what_is_none_is_not() {
    let run = "DEEP_FACTOR_RUN=00ab-1";
    let owner = "DEEP_FACTOR_OWNER=7:12345:print:my:own";
    let read = marked(3, &environment(&["A=b", run, owner])).unwrap();
    let expected = Marked {
        pid: 3,
        run: "00ab-1".to_owned(),
        owner: Some(Owner {
            pid: 7,
            start: 12345,
            engine: "print".to_owned(),
            provider: "my:own".to_owned(),
        }),
    };
    assert_eq!(read, expected);
    assert_eq!(marked(3, &environment(&["A=b", owner])), None);
    assert_eq!(marked(3, &environment(&["XDEEP_FACTOR_RUN=1"])), None);
    for foreign in [
        "",
        "7",
        "x:1:print:claude",
        "7:1:print",
        "7:-1:print:claude",
        "7:1:a\u{1b}[2J:claude",
    ] {
        let entry = format!("DEEP_FACTOR_OWNER={foreign}");
        let read = marked(3, &environment(&[run, &entry])).unwrap();
        assert_eq!(read.owner, None, "{foreign:?}");
    }
}

#[test]
fn odd_texts_hide_no_program() {
    let one = |conversation: &str, provider: &str, binary: &str| {
        let mut process = process(DEAD, "run-1");
        process.conversations = vec![conversation.to_owned()];
        process.provider = provider.to_owned();
        let all = AllRuns {
            limit: 4,
            running: 0,
            waiting: 0,
        };
        Snapshot {
            process_wide: all,
            per_binary: [(binary.to_owned(), Runs { running: 1, waiting: 1 })].into(),
            processes: vec![process],
            rate_limits: Vec::new(),
            budgets: Vec::new(),
            gateways: Vec::new(),
        }
    };
    let odd = one("a\u{1b}]0;b\u{7}\u{9b}c", &"x".repeat(5_000), "/bin/a\nb");
    let seen = one("a\u{fffd}]0;b\u{fffd}\u{fffd}c", &"x".repeat(4_096), "/bin/a\u{fffd}b");
    assert_eq!(shown(odd), seen);
    assert_eq!(shown(seen.clone()), seen);
}

proptest! {
    #[test]
    fn no_environment_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut environment = b"DEEP_FACTOR_RUN=r\0DEEP_FACTOR_OWNER=".to_vec();
        environment.extend(bytes);
        if let Some(Marked { owner: Some(owner), .. }) = marked(1, &environment) {
            prop_assert!(is_shown(&owner.provider) && is_shown(&owner.engine));
        }
    }
}
