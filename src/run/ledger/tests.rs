//! Tests of ledgers: a store that fails, and calls at the same time, which are counted one by one.

mod store;

use super::*;

const NOW: u64 = 1_800_000_000_000;

fn ledger(requests: u64, store: Option<&Path>) -> Arc<Ledger> {
    let budget = Budget {
        requests: Some(requests),
        tokens: Some(100),
        cost_usd: None,
        plan: None,
        per: Per::Hour,
        store: store.map(|path| path.to_str().unwrap().to_owned()),
    };
    Arc::new(Ledger::new("a provider of this test", budget))
}

fn used(tokens: u64) -> Used {
    Used {
        tokens,
        cost_usd: None,
        answered: true,
    }
}

async fn let_in(ledger: &Arc<Ledger>, calls: usize) -> usize {
    let calls = (0..calls).map(|_| {
        let ledger = Arc::clone(ledger);
        tokio::spawn(async move { ledger.admit(NOW).await.is_ok() })
    });
    let mut admitted = 0;
    for call in calls.collect::<Vec<_>>() {
        admitted += usize::from(call.await.unwrap());
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_more_of_those_that_come_at_once_get_in_than_may() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let of_all = [ledger(7, Some(&store)), ledger(7, Some(&store))];
    assert_eq!(let_in(&of_all[0], 5).await, 5);
    assert_eq!(let_in(&of_all[1], 5).await, 2);
    assert_eq!(let_in(&of_all[0], 5).await, 0);
    // Without a store each ledger has its own count.
    for own in [ledger(7, None), ledger(7, None)] {
        assert_eq!(let_in(&own, 20).await, 7);
    }
}

#[tokio::test]
async fn what_the_store_did_not_take_is_counted_with_the_next_request_or_that_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let counting = ledger(9, Some(&store));
    counting.admit(NOW).await.unwrap();
    let kept = std::fs::read(&store).unwrap();
    std::fs::write(&store, "something else").unwrap();
    let why = counting.settle(used(99), NOW).await.unwrap_err();
    assert_eq!(why, format!("{}: it is no store of budgets", store.display()));
    assert!(matches!(counting.admit(NOW).await, Err(Refused::Store(_))));
    std::fs::write(&store, kept).unwrap();
    counting.admit(NOW).await.unwrap();
    counting.settle(used(1), NOW).await.unwrap();
    let Err(Refused::UsedUp(used_up)) = counting.admit(NOW).await else {
        panic!("its tokens are used up");
    };
    // The window began when the store was free, a moment after `NOW`.
    let expected = "100 of 100 tokens per hour; it begins anew at 2027-01-15T09:0";
    assert!(used_up.what.starts_with(expected), "{}", used_up.what);
}

#[tokio::test]
async fn status_shows_what_is_used_as_long_as_there_is_a_provider() {
    let counting = ledger(9, None);
    let shown = || {
        let budgets = activity::snapshot().budgets;
        let own = |budget: &BudgetActivity| budget.provider == "a provider that status shows";
        budgets.into_iter().find(own)
    };
    let counting = Arc::new(Ledger::new("a provider that status shows", counting.budget.clone()));
    assert_eq!(shown(), None);
    counting.admit(NOW).await.unwrap();
    counting.settle(used(5), NOW).await.unwrap();
    let expected = BudgetActivity {
        provider: "a provider that status shows".to_owned(),
        per: Per::Hour,
        store: None,
        limits: activity::BudgetLimits {
            requests: Some(9),
            tokens: Some(100),
            cost_usd: None,
            plan: None,
        },
        requests: 1,
        tokens: 5,
        cost_usd: 0.0,
        calls_without_cost: 1,
        resets_at: Some(NOW + 3_600_000),
        at: NOW,
    };
    assert_eq!(shown(), Some(expected));
    drop(counting);
    assert_eq!(shown(), None);
}

#[tokio::test]
async fn a_budget_of_the_plan_alone_refuses_and_shows_no_window_of_its_own() {
    let name = "a provider with a plan";
    let budget = Budget {
        requests: None,
        tokens: None,
        plan: Some(0.8),
        ..ledger(1, None).budget.clone()
    };
    let ledger = Arc::new(Ledger::new(name, budget));
    ledger.admit(NOW).await.unwrap();
    ledger.note_plan(PlanWindow {
        name: Some("five_hour".to_owned()),
        used: 0.81,
        resets_at: NOW + 1_000,
    });
    let refused = ledger.admit(NOW).await.unwrap_err();
    assert!(
        matches!(refused, Refused::UsedUp(UsedUp { limit: "plan", .. })),
        "{refused:?}"
    );
    ledger.admit(NOW + 1_000).await.unwrap();
    let shown = activity::snapshot().budgets;
    assert!(shown.iter().all(|budget| budget.provider != name), "{shown:?}");
}

#[tokio::test]
async fn a_store_that_another_keeps_is_busy_and_holds_up_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.json");
    let ledger = ledger(3, Some(&path));
    ledger.admit(NOW).await.unwrap();
    let held = dfp_record::checkpoint::lock(&path).unwrap().unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move { ledger.admit(NOW).await })
        })
        .collect();
    // The calls wait for the file, but not for each other, so the count in this process stays accessible.
    while Arc::strong_count(&ledger) < 7 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ledger.locked().window.requests, 1);
    drop(held);
    let mut admitted = 0;
    for waits in waiting {
        admitted += usize::from(waits.await.unwrap().is_ok());
    }
    assert_eq!(admitted, 2);
}
