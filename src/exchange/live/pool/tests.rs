use std::future::pending;

use super::*;
use crate::EndedProcess;
use crate::live::session::{Pulse, TurnInput};
use crate::live::thread::Pending;
use crate::live::turn::{Report, TurnEnd};
use dfp_model::event::Reply;
use dfp_model::message::{Message, MessageFields, Role};

/// A session with a name, in this very process, and the names of those that have ended.
#[derive(Debug)]
struct Named {
    name: &'static str,
    ended: Arc<Mutex<Vec<&'static str>>>,
}

impl Session for Named {
    type Setup = ();
    type Input = ();
    type ReplyFacts = ();

    fn pid(&self) -> u32 {
        std::process::id()
    }

    async fn turn(&mut self, _: TurnInput<Named>, _: &Report) -> TurnEnd<()> {
        TurnEnd::Failed
    }

    async fn stop(self, _: Duration) -> Option<EndedProcess> {
        None
    }

    async fn idle(&mut self) -> Pulse {
        pending().await
    }

    async fn ended(self, _: bool) -> Option<EndedProcess> {
        self.end();
        None
    }

    fn end(self) {
        self.ended.lock().unwrap().push(self.name);
    }
}

/// A pool, and the names of its sessions that have ended.
struct Scene {
    pool: Arc<Pool<Named>>,
    tracker: TaskTracker,
    ended: Arc<Mutex<Vec<&'static str>>>,
    key: SessionKey<()>,
}

impl Scene {
    fn new(bounds: Bounds) -> Scene {
        let tracker = TaskTracker::new();
        Scene {
            pool: Arc::new(Pool::new(bounds, 1, Duration::from_secs(60), 0, tracker.clone())),
            tracker,
            ended: Arc::default(),
            key: SessionKey {
                setup: Arc::new(()),
                env: Arc::default(),
            },
        }
    }

    /// Parks a session whose thread is a message of its name, and returns the sessions that have ended for it.
    async fn park(&self, name: &'static str, calls: usize) -> Vec<&'static str> {
        let call = Pending {
            api: "c".to_owned(),
            id: "c".to_owned(),
        };
        let known = thread(name).known_with(&Reply::default(), vec![call; calls]);
        let session = Named {
            name,
            ended: Arc::clone(&self.ended),
        };
        self.pool.park(session, self.key.clone(), known);
        // A session that is told to end is ended by its task.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        std::mem::take(&mut *self.ended.lock().unwrap())
    }

    fn eviction(&self, name: &str) -> Option<EvictionReason> {
        let said = Message::from(MessageFields::new(Role::Ai, ""));
        let messages = [name, "and on"].map(|text| Message::from(MessageFields::new(Role::Human, text)));
        let [first, second] = messages;
        let thread = SessionThread::new(vec![first, said, second]);
        self.pool.eviction(&self.key, &thread)
    }
}

fn thread(name: &str) -> SessionThread {
    SessionThread::new(vec![Message::from(MessageFields::new(Role::Human, name))])
}

#[tokio::test]
async fn who_waits_for_a_result_stays_and_the_last_of_too_many_goes() {
    let scene = Scene::new(Bounds::of_sessions(3));
    assert_eq!(scene.park("answered 1", 0).await, [""; 0]);
    assert_eq!(scene.park("waits 1", 1).await, [""; 0]);
    assert_eq!(scene.park("answered 2", 0).await, [""; 0]);
    assert_eq!(scene.park("waits 2", 1).await, ["answered 1"]);
    assert_eq!(scene.park("answered 3", 0).await, ["answered 2"]);
    assert_eq!(scene.park("waits 3", 1).await, ["answered 3"]);
    assert_eq!(scene.park("waits 4", 1).await, ["waits 4"]);
    assert_eq!(scene.park("answered 4", 0).await, ["answered 4"]);
    assert_eq!(scene.eviction("answered 1"), Some(EvictionReason::Displaced));
    assert_eq!(scene.eviction("answered 1"), None);
    let waits = scene.pool.claim(&scene.key, &thread("another"), |_| Some(())).await;
    assert!(waits.is_none());
    scene.pool.lock().waiting.clear();
    scene.tracker.close();
    scene.tracker.wait().await;
    let mut ended = std::mem::take(&mut *scene.ended.lock().unwrap());
    ended.sort_unstable();
    assert_eq!(ended, ["waits 1", "waits 2", "waits 3"]);
}

#[tokio::test]
async fn those_at_rest_have_a_bound_of_memory_as_well() {
    if resident_bytes(std::process::id()).is_none() {
        return;
    }
    // The last session that is left may take more.
    let scene = Scene::new(Bounds { number: 10, memory: 1 });
    assert_eq!(scene.park("one", 0).await, [""; 0]);
    assert_eq!(scene.park("two", 0).await, ["one"]);
    assert_eq!(scene.eviction("one"), Some(EvictionReason::Crowded));
}
