//! Tests of the waits before an attempt and for a plan, and of the breaker.

use proptest::prelude::*;

use super::*;

fn error(code: Code) -> ProviderError {
    ProviderError::new("claude", code, "x")
}

#[test]
fn doubles_up_to_its_limit_and_ends() {
    let policy = Policy {
        max_attempts: 6,
        base_delay_ms: 100,
        max_delay_ms: 500,
        jitter: 0.0,
        max_elapsed_ms: 10_000,
        own_limits: false,
    };
    let delays: Vec<_> = (1..=6)
        .map(|attempt| policy.delay_after(attempt, &error(Code::ServerError), 0, 0.9))
        .collect();
    assert_eq!(delays, [Some(100), Some(200), Some(400), Some(500), Some(500), None]);
}

#[test]
fn the_providers_word_is_a_minimum_and_the_time_limit_holds() {
    let policy = Policy {
        max_delay_ms: 1_000,
        max_elapsed_ms: 60_000,
        ..Policy::default()
    };
    let mut limited = error(Code::RateLimited);
    limited.retry_after_ms = Some(34_000);
    assert_eq!(policy.delay_after(1, &limited, 0, 0.5), Some(34_000));
    assert_eq!(policy.delay_after(1, &limited, 30_000, 0.5), None);
}

#[test]
fn only_categories_that_may_be_retried_are() {
    let asked_for = Policy {
        own_limits: true,
        ..Policy::default()
    };
    for code in Code::ALL {
        let retried = asked_for.delay_after(1, &error(*code), 0, 0.0).is_some();
        let expected = matches!(
            code.category(),
            Category::RateLimit | Category::Network | Category::Server | Category::Timeout
        );
        assert_eq!(retried, expected, "{}", code.as_str());
    }
    assert_eq!(Policy::NEVER.delay_after(1, &error(Code::ServerError), 0, 0.0), None);
}

#[test]
fn limits_of_our_own_are_no_reason_to_try_again_by_default() {
    for (code, expected) in [
        (Code::Timeout, None),
        (Code::IdleTimeout, None),
        (Code::RequestTimeout, Some(500)),
    ] {
        assert_eq!(
            Policy::default().delay_after(1, &error(code), 0, 0.0),
            expected,
            "{}",
            code.as_str()
        );
    }
}

proptest! {
    #[test]
    fn never_more_than_the_documented_delay(
        attempt in 1u32..200, base in 0u64..u64::MAX, most in 0u64..u64::MAX, jitter in -1.0..2.0f64, random in 0.0..1.0f64,
    ) {
        let policy = Policy { max_attempts: 300, base_delay_ms: base, max_delay_ms: most, jitter, max_elapsed_ms: u64::MAX, own_limits: false };
        let delay = policy.delay_after(attempt, &error(Code::ServerError), 0, random);
        // An f64 holds 53 bits, so a delay beyond them may round up by one part in 2^52.
        prop_assert!(delay.is_some_and(|delay| delay as f64 <= most as f64));
    }
}

const HOUR: u64 = 3_600_000;

fn used_up(resets_at: Option<u64>) -> ProviderError {
    ProviderError {
        resets_at,
        ..ProviderError::new("claude", Code::UsageLimit, "x")
    }
}

#[test]
fn waits_for_the_moment_and_a_little_longer() {
    let wait = QuotaWait { max_wait_ms: 2 * HOUR };
    let error = used_up(Some(HOUR));
    assert_eq!(wait.until(&error, 0, 0, 0.0), Some(HOUR));
    assert_eq!(wait.until(&error, 0, 0, 0.5), Some(HOUR + 2_500));
    assert_eq!(wait.until(&error, HOUR - 2_000, 0, 0.5), Some(HOUR + 100));
    let said_how_long = ProviderError {
        retry_after_ms: Some(HOUR),
        ..used_up(None)
    };
    assert_eq!(wait.until(&said_how_long, 5, 0, 0.0), Some(HOUR + 5));
    // This moment has passed.
    assert_eq!(wait.until(&error, 3 * HOUR, 0, 0.0), Some(3 * HOUR + LEAST_MS));
}

#[test]
fn fails_where_it_would_be_too_long_or_for_ever() {
    let wait = QuotaWait { max_wait_ms: HOUR };
    assert_eq!(wait.until(&used_up(Some(HOUR)), 0, 0, 0.9), Some(HOUR + 4_500));
    assert_eq!(wait.until(&used_up(Some(HOUR + 1)), 0, 0, 0.0), None);
    assert_eq!(wait.until(&used_up(Some(HOUR)), 0, 1, 0.0), None);
    assert_eq!(wait.until(&used_up(None), 0, 0, 0.0), None);
    // The moment has passed each time: every wait counts.
    assert_eq!(wait.until(&used_up(Some(0)), 1, HOUR, 0.0), None);
}

#[test]
fn nothing_but_a_used_up_plan_is_waited_for() {
    for code in Code::ALL {
        let error = ProviderError {
            resets_at: Some(2_000),
            ..ProviderError::new("claude", *code, "x")
        };
        let waits = QuotaWait { max_wait_ms: HOUR }.until(&error, 0, 0, 0.0).is_some();
        assert_eq!(waits, code.category() == Category::Quota, "{}", code.as_str());
    }
}

const SETTINGS: BreakerSettings = BreakerSettings {
    failure_threshold: 3,
    window_ms: 1_000,
    reset_ms: 100,
};

/// A call that is let through, and ends at the same moment with `outcome`.
fn call(breaker: &mut Breaker, outcome: CallOutcome, now: u64) {
    let Admission::Go(ticket) = breaker.admit(now) else {
        panic!("not let through at {now}: {breaker:?}");
    };
    breaker.report(ticket, outcome, now);
}

fn opened(now: u64) -> Breaker {
    let mut breaker = Breaker::new(SETTINGS);
    for _ in 0..SETTINGS.failure_threshold {
        call(&mut breaker, CallOutcome::Failure, now);
    }
    breaker
}

#[test]
fn opens_after_failures_in_a_row_and_lets_one_through_when_the_time_has_come() {
    let mut breaker = opened(0);
    assert_eq!(breaker.phase(99), Phase::Open);
    assert_eq!(breaker.admit(99), Admission::Wait(100));
    assert_eq!(breaker.phase(100), Phase::HalfOpen);
    let Admission::Go(probe) = breaker.admit(100) else {
        panic!("no probe")
    };
    assert_eq!(breaker.admit(150), Admission::Wait(200));
    breaker.report(probe, CallOutcome::Success, 150);
    assert_eq!(breaker.phase(150), Phase::Closed);
}

#[test]
fn a_probe_that_fails_opens_it_again_and_one_that_says_nothing_leaves_it_to_the_next() {
    let mut breaker = opened(0);
    call(&mut breaker, CallOutcome::Neither, 100);
    call(&mut breaker, CallOutcome::Failure, 101);
    assert_eq!(breaker.admit(200), Admission::Wait(201));
}

#[test]
fn a_probe_that_never_reports_keeps_others_back_for_reset_ms() {
    let mut breaker = opened(0);
    let Admission::Go(lost) = breaker.admit(100) else {
        panic!("no probe")
    };
    assert_eq!(breaker.admit(199), Admission::Wait(200));
    let Admission::Go(probe) = breaker.admit(200) else {
        panic!("no second probe")
    };
    breaker.report(lost, CallOutcome::Success, 201);
    assert_eq!(
        breaker.phase(201),
        Phase::HalfOpen,
        "the lost probe has no say any more"
    );
    breaker.report(probe, CallOutcome::Success, 202);
    assert_eq!(breaker.phase(202), Phase::Closed);
}

#[test]
fn success_and_age_forget_failures() {
    let mut breaker = Breaker::new(SETTINGS);
    for outcome in [
        CallOutcome::Failure,
        CallOutcome::Failure,
        CallOutcome::Success,
        CallOutcome::Failure,
    ] {
        call(&mut breaker, outcome, 0);
    }
    call(&mut breaker, CallOutcome::Failure, 1_001);
    call(&mut breaker, CallOutcome::Neither, 1_001);
    call(&mut breaker, CallOutcome::Failure, 1_001);
    assert_eq!(breaker.phase(1_001), Phase::Closed);
    call(&mut breaker, CallOutcome::Failure, 2_001);
    assert_eq!(breaker.phase(2_001), Phase::Open);
}

#[test]
fn quota_opens_it_at_once_until_the_limit_ends() {
    for (resets_at, until) in [(Some(5_000), 5_000), (None, 110), (Some(3), 110)] {
        let mut breaker = Breaker::new(SETTINGS);
        call(&mut breaker, CallOutcome::Quota(resets_at), 10);
        assert_eq!(breaker.admit(until - 1), Admission::Wait(until), "{resets_at:?}");
        assert!(matches!(breaker.admit(until), Admission::Go(_)), "{resets_at:?}");
    }
}

#[test]
fn calls_from_before_have_no_say() {
    let mut breaker = Breaker::new(SETTINGS);
    let Admission::Go(early) = breaker.admit(0) else {
        panic!("closed, and not let through")
    };
    for _ in 0..3 {
        call(&mut breaker, CallOutcome::Failure, 0);
    }
    breaker.report(early, CallOutcome::Success, 50);
    assert_eq!(breaker.phase(50), Phase::Open);
    call(&mut breaker, CallOutcome::Success, 100);
    breaker.report(early, CallOutcome::Failure, 101);
    assert_eq!(breaker.phase(101), Phase::Closed);
}

#[test]
fn a_clock_set_back_does_not_keep_it_open() {
    let mut breaker = opened(1_000_000);
    assert!(matches!(breaker.admit(10), Admission::Go(_)));
}

fn outcomes() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        3 => Just(CallOutcome::Success),
        5 => Just(CallOutcome::Failure),
        1 => Just(CallOutcome::Neither),
        1 => prop::option::of(0u64..20_000).prop_map(CallOutcome::Quota),
    ]
}

/// A step of a history: time passes, a call wants to go, or the n-th call under way ends.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Call,
    End(usize, CallOutcome),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u64..150).prop_map(Step::Wait),
        Just(Step::Call),
        (0usize..8, outcomes()).prop_map(|(which, outcome)| Step::End(which, outcome)),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// In any history: an open breaker lets no call go, a half-open one lets one probe go per `reset_ms`, and a closed one lets
    /// every call go. A call that has to wait is let through at the named time, and fewer failures than the threshold never open
    /// the breaker.
    #[test]
    fn keeps_its_promises(history in steps()) {
        let mut breaker = Breaker::new(SETTINGS);
        let mut now = 0;
        let mut under_way = Vec::new();
        let mut failures = 0;
        let mut last_probe: Option<u64> = None;
        for step in history {
            match step {
                Step::Wait(ms) => now += ms,
                Step::Call => {
                    let before = breaker.phase(now);
                    match breaker.admit(now) {
                        Admission::Go(ticket) => {
                            prop_assert_ne!(before, Phase::Open);
                            if before == Phase::HalfOpen {
                                let alone = last_probe.is_none_or(|at| now >= at + SETTINGS.reset_ms);
                                prop_assert!(alone, "a second probe at {now}, the first at {last_probe:?}");
                                last_probe = Some(now);
                            }
                            under_way.push((ticket, before));
                        }
                        Admission::Wait(until) => {
                            prop_assert_ne!(before, Phase::Closed);
                            prop_assert!(until > now);
                        }
                    }
                }
                Step::End(which, outcome) if which < under_way.len() => {
                    let (ticket, admitted) = under_way.remove(which);
                    let before = breaker.phase(now);
                    breaker.report(ticket, outcome, now);
                    failures = match outcome {
                        CallOutcome::Failure => failures + 1,
                        _ => failures,
                    };
                    let quota = matches!(outcome, CallOutcome::Quota(_));
                    if admitted == Phase::HalfOpen || quota {
                        // Any outcome of a probe allows the next one.
                        last_probe = None;
                    }
                    if before == Phase::Closed && breaker.phase(now) != Phase::Closed {
                        prop_assert!(quota || failures >= SETTINGS.failure_threshold);
                        failures = 0;
                    }
                }
                Step::End(..) => {}
            }
        }
        if let Admission::Wait(until) = breaker.admit(now) {
            prop_assert!(matches!(breaker.admit(until), Admission::Go(_)));
        }
    }
}
