//! Interrupted and resumed runs: wherever they were interrupted, they end the same, and nothing happens twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A model that answers by the thread: the number of its own messages there is the number of the step.
#[derive(Debug)]
struct Scripted {
    steps: Vec<Vec<ToolCall>>,
    asked: Mutex<Vec<usize>>,
}

impl Scripted {
    fn new(steps: Vec<Vec<ToolCall>>) -> Arc<Scripted> {
        let asked = Mutex::default();
        Arc::new(Scripted { steps, asked })
    }
}

impl Model for Scripted {
    fn id(&self) -> &str {
        "fake"
    }

    fn ready(&self, _env: &Arc<Vars>) -> Result<(), Box<ProviderError>> {
        Ok(())
    }

    fn redactor(&self, _env: &Vars) -> Redactor {
        Redactor::default()
    }

    fn calls(&self) -> CallDelivery {
        CallDelivery::Callbacks
    }

    fn begin(self: Arc<Self>, request: Request) -> Run {
        let answers = request.messages.iter().filter(|message| message.role.as_str() == "ai");
        let step = answers.count();
        self.asked.lock().unwrap().push(step);
        let calls = self.steps.get(step).cloned().unwrap_or_default();
        Run::scripted(
            Vec::new(),
            move |_| async move { reply(&format!("step {step}"), calls) },
        )
    }

    fn begin_with_callbacks(self: Arc<Self>, _: Request) -> ScriptedRun {
        panic!("a run that is to survive takes its calls with the end of a turn")
    }
}

fn spec(checkpoint: &Value) -> Value {
    let tools = ["once", "again", "asked"].map(|name| json!({"name": name, "schema": {}}));
    let agent = |name: Value, ask: bool| {
        json!({"name": name, "path": "", "tools": tools, "permissions": {"ask": ask}, "limits": {}, "how": {},
               "onResume": {"again": "rerun", "asked": "ask", "once": "fail"}})
    };
    let mut spec = json!({
        "agents": [agent(Value::Null, true), agent(json!("helper"), false)],
        "messages": [{"type": "human", "content": "Go."}],
        "builtins": {"completionReport": true},
        "handoff": {},
        "runId": "job-1",
        "checkpoint": true,
    });
    for (name, value) in checkpoint.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    spec
}

/// Everything that happens outside the runs in the attempts at one.
#[derive(Default)]
struct World {
    entries: Vec<String>,
    /// How often each tool call ran, by idempotency key.
    executed: BTreeMap<String, u32>,
    /// Ids of calls about which the host was asked, and whether because they were interrupted.
    questions: Vec<(String, bool)>,
}

/// One attempt at the run; the machine goes down before entry number `down`.
async fn attempt(world: &mut World, models: [&Arc<Scripted>; 2], spec: &Value, down: usize) -> Option<Value> {
    let mut agent = Agent::new(&spec.to_string()).unwrap();
    let talks = |agent: &Agent| {
        models
            .into_iter()
            .enumerate()
            .map(|(index, model)| {
                let model = Arc::clone(model) as Arc<dyn Model>;
                let (way, path) = agent.tool_calls(index).unwrap();
                Conversation::new(&model, way, &path).unwrap()
            })
            .collect::<Vec<_>>()
    };
    let models = talks(&agent);
    let json = serde_json::to_string(&world.entries).unwrap();
    if let Err(error) = agent.resume(&json, &models) {
        return Some(json!({"error": error}));
    }
    let run = agent.start(models, None, false).unwrap();
    while let Some(batch) = run.next().await {
        for event in serde_json::from_str::<Vec<Value>>(&batch).unwrap() {
            let request = || u32::try_from(event["request"].as_u64().unwrap()).unwrap();
            match event["type"].as_str().unwrap() {
                "append" => {
                    if world.entries.len() == down {
                        return None;
                    }
                    world.entries.push(event["entry"].as_str().unwrap().to_owned());
                    run.stored(request(), "null").unwrap();
                }
                "execute" => {
                    let key = event["idempotencyKey"].as_str().unwrap();
                    *world.executed.entry(key.to_owned()).or_default() += 1;
                    done(&run, request(), &format!("{key} done"));
                }
                "ask" => {
                    let interrupted = event["interrupted"].as_bool().unwrap();
                    world
                        .questions
                        .push((event["toolCall"]["id"].as_str().unwrap().to_owned(), interrupted));
                    run.decide(request(), r#"{"allow": true}"#).unwrap();
                }
                _ => {}
            }
        }
    }
    Some(serde_json::from_str(run.result().await.unwrap().get()).unwrap())
}

fn handoff(id: &str) -> ToolCall {
    ToolCall {
        args: RawValue::from_string(r#"{"agent":"helper","task":"Help."}"#.to_owned()).unwrap(),
        ..tool_call(id, "handoff")
    }
}

fn script() -> [Arc<Scripted>; 2] {
    let report = ToolCall {
        args: RawValue::from_string(r#"{"summary":"well","n":1.50}"#.to_owned()).unwrap(),
        ..tool_call("r", "completion-report")
    };
    [
        Scripted::new(vec![
            vec![
                tool_call("a", "again"),
                tool_call("b", "once"),
                tool_call("c", "nothing"),
            ],
            vec![handoff("h"), tool_call("d", "again")],
            vec![tool_call("e", "asked"), report],
        ]),
        Scripted::new(vec![vec![tool_call("a", "again"), tool_call("x", "once")]]),
    ]
}

/// The part of a result that doesn't depend on where the run was interrupted.
fn end(result: &Value) -> Value {
    let mut result = result.clone();
    result.as_object_mut().unwrap().remove("resumed");
    result
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// The steps that the model was asked for, sorted: one that is there twice was asked for twice.
fn asked(model: &Arc<Scripted>) -> Vec<usize> {
    let mut asked = model.asked.lock().unwrap().clone();
    asked.sort_unstable();
    asked
}

#[test]
fn any_prefix_of_a_run_leads_to_its_end_and_nothing_is_done_twice() {
    let [root, helper] = script();
    let mut whole = World::default();
    let result = block_on(attempt(&mut whole, [&root, &helper], &spec(&json!({})), usize::MAX)).unwrap();
    assert_eq!(
        (&result["status"], &result["output"]),
        (&json!("completed"), &json!("step 3"))
    );
    assert_eq!(result["completionReport"].to_string(), r#"{"summary":"well","n":1.5}"#);
    // One `run`; 4 and 2 turns; decisions (only the root asks); tools that begin and end, with the end of the handoff.
    let kinds: Vec<String> = whole
        .entries
        .iter()
        .map(|entry| {
            let entry: Value = serde_json::from_str(entry).unwrap();
            assert_eq!(entry["v"], 1);
            entry["type"].as_str().unwrap().to_owned()
        })
        .collect();
    let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
    assert_eq!(
        ["run", "turn", "decision", "tool_begun", "tool_ended"].map(count),
        [1, 6, 4, 6, 7]
    );
    for down in 0..whole.entries.len() {
        let [root, helper] = script();
        let mut world = World::default();
        let spec = spec(&json!({}));
        assert!(block_on(attempt(&mut world, [&root, &helper], &spec, down)).is_none());
        let before = world.executed.clone();
        let kept: Vec<Value> = world
            .entries
            .iter()
            .map(|entry| serde_json::from_str(entry).unwrap())
            .collect();
        let again = block_on(attempt(&mut world, [&root, &helper], &spec, usize::MAX)).unwrap();
        assert_eq!(
            (&again["status"], &again["output"], &again["steps"]),
            (&result["status"], &result["output"], &result["steps"])
        );
        assert_eq!(
            (&again["usage"], &again["costUsd"]),
            (&result["usage"], &result["costUsd"]),
            "interrupted at {down}"
        );
        let of = |kind: &str| {
            kept.iter()
                .filter(|entry| entry["type"] == kind)
                .map(|entry| entry["at"].as_str().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(again["resumed"].is_null(), down == 0);
        if down > 0 {
            let turns = of("turn").iter().filter(|at| !at.contains('/')).count();
            assert_eq!(again["resumed"]["steps"], json!(turns), "{}", again["resumed"]);
        }
        // A turn is asked for again only if its reply was lost before it was stored.
        assert!(asked(&root).len() + asked(&helper).len() <= 7, "interrupted at {down}");
        for at in of("tool_ended") {
            let key = format!("job-1/{at}");
            assert_eq!(world.executed.get(&key), before.get(&key), "interrupted at {down}");
        }
        for (key, count) in &world.executed {
            // `b` and the helper's `x` must not run twice, wherever the run was interrupted.
            let once = ["job-1/1.2", "job-1/2.1/1.2"].contains(&key.as_str());
            assert!(*count <= if once { 1 } else { 2 }, "{key} interrupted at {down}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// A run may be interrupted any number of times.
    #[test]
    fn a_run_that_goes_down_again_and_again_ends_as_one_that_does_not(downs in proptest::collection::vec(0_usize..6, 0..12)) {
        let [root, helper] = script();
        let mut whole = World::default();
        let spec = spec(&json!({}));
        let result = block_on(attempt(&mut whole, [&root, &helper], &spec, usize::MAX)).unwrap();
        let [root, helper] = script();
        let mut world = World::default();
        let mut last = None;
        for more in downs.iter().map(|more| *more + 1) {
            let down = world.entries.len() + more;
            last = block_on(attempt(&mut world, [&root, &helper], &spec, down));
            if last.is_some() {
                break;
            }
        }
        let last = match last {
            Some(last) => last,
            None => block_on(attempt(&mut world, [&root, &helper], &spec, usize::MAX)).unwrap(),
        };
        prop_assert_eq!(&last["output"], &result["output"]);
        prop_assert_eq!(&last["usage"], &result["usage"]);
        prop_assert_eq!(&last["steps"], &result["steps"]);
        for key in ["job-1/1.2", "job-1/2.1/1.2"] {
            prop_assert!(world.executed.get(key).is_none_or(|count| *count <= 1));
        }
        let ended = end(&block_on(attempt(&mut world, [&root, &helper], &spec, usize::MAX)).unwrap());
        // A run that is over stays over: nothing is asked, run or stored any more.
        prop_assert_eq!(ended, end(&last));
    }
}

#[test]
fn a_tool_that_had_begun_is_what_its_own_word_says() {
    let [root, helper] = script();
    let mut world = World::default();
    let spec = spec(&json!({}));
    // Interrupted where `once` has begun and not ended.
    let ends = |world: &World| {
        world
            .entries
            .iter()
            .any(|entry| entry.contains("tool_begun") && entry.contains(r#""at":"1.2""#))
    };
    let mut down = 0;
    while !ends(&world) {
        world = World::default();
        down += 1;
        block_on(attempt(&mut world, [&root, &helper], &spec, down));
    }
    let ran = world.executed.get("job-1/1.2").copied();
    let result = block_on(attempt(&mut world, [&root, &helper], &spec, usize::MAX)).unwrap();
    assert_eq!(world.executed.get("job-1/1.2").copied(), ran);
    let told = result["messages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|message| message["tool_call_id"] == "b")
        .unwrap();
    assert_eq!(
        (told["status"].as_str(), told["content"].as_str()),
        (
            Some("error"),
            Some(
                "\"once\" had begun when the run was interrupted, and did not say that it ended. It is unknown whether it \
                 happened: find out before you call it again"
            )
        )
    );
    // Interrupted behind the beginning of `asked`: the host is asked, and the tool runs with the same key.
    let mut world = World::default();
    let mut down = 0;
    while !world
        .entries
        .iter()
        .any(|entry| entry.contains("tool_begun") && entry.contains(r#""at":"3.1""#))
    {
        world = World::default();
        down += 1;
        block_on(attempt(&mut world, [&root, &helper], &spec, down));
    }
    world.questions.clear();
    let result = block_on(attempt(&mut world, [&root, &helper], &spec, usize::MAX)).unwrap();
    assert_eq!(
        (world.questions, &result["status"]),
        (vec![("e".to_owned(), true)], &json!("completed"))
    );
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let [root, helper] = script();
    let mut world = World::default();
    block_on(attempt(&mut world, [&root, &helper], &spec(&json!({})), 3));
    let entries = world.entries;
    let refused = |change: Value, entries: Vec<String>| {
        let mut world = World {
            entries,
            ..World::default()
        };
        let result = block_on(attempt(&mut world, [&root, &helper], &spec(&change), usize::MAX)).unwrap();
        let error = &result["error"];
        // The text behind the reason is the hint.
        let message = error["message"].as_str().unwrap();
        let reason = message.rsplit_once(". ").map_or(message, |(reason, _)| reason);
        format!("{} {}", error["code"].as_str().unwrap(), reason)
    };
    let other = json!({"messages": [{"type": "human", "content": "Stop."}]});
    assert_eq!(
        refused(other, entries.clone()),
        "CHECKPOINT_MISMATCH the checkpoint is of another run: \"messages\" has changed"
    );
    assert_eq!(
        refused(json!({"runId": "job-2"}), entries.clone()),
        "CHECKPOINT_MISMATCH the checkpoint is of another run: it is the run \"job-1\""
    );
    let mut newer = entries.clone();
    newer.push(r#"{"v":2,"seq":3,"type":"turn","whatever":true}"#.to_owned());
    assert_eq!(
        refused(json!({}), newer),
        "CHECKPOINT_INVALID the checkpoint can't be read: entry 3 is of version 2, and this package knows versions up to 1"
    );
    let holed = vec![entries[0].clone(), entries[2].clone()];
    assert_eq!(
        refused(json!({}), holed),
        "CHECKPOINT_INVALID the checkpoint can't be read: entry 1 is missing: entry 2 follows on 0"
    );
    // An entry that the store has twice counts once.
    let mut twice = entries.clone();
    twice.insert(1, entries[0].clone());
    let mut world = World {
        entries: twice,
        ..World::default()
    };
    let result = block_on(attempt(&mut world, [&root, &helper], &spec(&json!({})), usize::MAX)).unwrap();
    assert_eq!(result["status"], "completed");

    let mut callbacks = spec(&json!({}));
    callbacks["agents"][1]["how"] = json!({"toolCalls": "callbacks"});
    let error = Agent::new(&callbacks.to_string()).unwrap_err();
    assert_eq!(error.code, Code::InvalidOption);
    assert!(
        error
            .message
            .contains("calls in the middle of a turn can't be gone on from"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_store_that_fails_ends_the_run_before_anything_is_done_unrecorded() {
    for (answer, code) in [
        (json!({"locked": true, "message": "it is another's"}), "RUN_LOCKED"),
        (
            json!({"locked": false, "message": "the disk is full"}),
            "CHECKPOINT_FAILED",
        ),
    ] {
        for fails in 0..4 {
            let [root, helper] = script();
            let agent = Agent::new(&spec(&json!({})).to_string()).unwrap();
            let models = [&root, &helper].map(|model| {
                let model = Arc::clone(model) as Arc<dyn Model>;
                Conversation::new(&model, ToolCalls::Turns, "toolCalls").unwrap()
            });
            let mut agent = agent;
            agent.resume("[]", &models).unwrap();
            let run = agent.start(models.into(), None, false).unwrap();
            let (mut appended, mut executed_after) = (0, 0);
            while let Some(batch) = run.next().await {
                for event in serde_json::from_str::<Vec<Value>>(&batch).unwrap() {
                    let request = || u32::try_from(event["request"].as_u64().unwrap()).unwrap();
                    match event["type"].as_str().unwrap() {
                        "append" => {
                            let answer = if appended >= fails {
                                answer.to_string()
                            } else {
                                "null".to_owned()
                            };
                            appended += 1;
                            run.stored(request(), &answer).unwrap();
                        }
                        "execute" => executed_after += u32::from(appended > fails),
                        "ask" => run.decide(request(), r#"{"allow": true}"#).unwrap(),
                        _ => {}
                    }
                }
            }
            let result: Value = serde_json::from_str(run.result().await.unwrap().get()).unwrap();
            assert_eq!(
                (&result["status"], &result["error"]["code"]),
                (&json!("failed"), &json!(code))
            );
            assert_eq!(executed_after, 0);
            assert!(root.asked.lock().unwrap().len() <= 1);
        }
    }
}
