//! A ready opencode server: it listens, its version supports its sessions, and it keeps what is written into them.
//!
//! In: a command line of `serve`. Out: an [`OpencodeService`], or the reason why there is none. The vendor does not promise that text can
//! be written into sessions: a version other than the measured ones is tested with a session of its own that no model sees
//! ([`OpencodeService::start`]).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::history::{self, Ids, ReplayTarget};
use super::server::{self, AGENT, Http, HttpFailure, Id, InputPart, Lack, OpencodeServer, Prompt, SessionOpened};
use super::{Model, ModelFacts, ToolSet, model_facts};
use crate::bridge::{Bridge, BridgeOptions};
use crate::host::{Heartbeat, Host, Patience};
use crate::print::{NotStarted, Surroundings};
use dfp_model::message::{Message, MessageFields, Role, ToolCall, ToolSpec};
use dfp_provider::command::CommandLine;
use dfp_provider::declare::mcp::{Declarations, SERVER};

/// The time that a server may take to listen: two to three seconds on an idle machine.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// The time for which a server that has served may leave a request unanswered that needs neither network nor model: 20 ms as a
/// rule; but the first request in a folder loads everything for the folder (1.18.34).
const PATIENCE: Patience = Patience {
    first: HANDSHAKE,
    later: Duration::from_secs(20),
};
/// The path that every server answers at once.
const HEALTH: &str = "/global/health";
/// The versions whose exchanges were recorded.
const MEASURED: &[&str] = &["1.18.34"];
/// The number of folders with tools that are kept without a session in them: each takes 50 MB.
const MOST_SETS: usize = 4;

/// A server that is ready.
#[derive(Debug)]
pub struct OpencodeService {
    pub server: OpencodeServer,
    /// The command line that it was started with: it serves no other calls.
    pub line: CommandLine,
    pub version: String,
    /// The ids for replayed items.
    pub ids: Ids,
    /// Its folders, the longest unused first. Locked while one is being made.
    sets: AsyncMutex<Vec<Arc<ToolSet>>>,
    made: AtomicUsize,
    /// The model of sessions that choose none.
    model: Mutex<Option<Model>>,
    /// The facts of each model that was asked about.
    facts: Mutex<HashMap<Model, ModelFacts>>,
}

impl OpencodeService {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(
        line: CommandLine,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<OpencodeService, NotStarted> {
        let server = OpencodeServer::start(line.clone(), surroundings, PATIENCE, cancel).await?;
        let version = tokio::time::timeout(HANDSHAKE, version(&server)).await;
        let version = match version.unwrap_or_else(|_| Err(Lack::of("it does not tell its version"))) {
            Ok(version) => version,
            Err(lack) => return Err(server.no_host(lack).await),
        };
        let service = OpencodeService {
            server,
            line,
            version,
            ids: Ids::default(),
            sets: AsyncMutex::default(),
            made: AtomicUsize::new(0),
            model: Mutex::default(),
            facts: Mutex::default(),
        };
        if !MEASURED.contains(&service.version.as_str()) {
            let probe = tokio::time::timeout(HANDSHAKE, service.probe()).await;
            if let Err(mut lack) = probe.unwrap_or_else(|_| Err(Lack::of("it does not answer"))) {
                let (version, why) = (&service.version, lack.what);
                lack.what = format!("opencode {version} does not do what they need: {why}");
                return Err(service.server.no_host(lack).await);
            }
        }
        Ok(service)
    }

    /// Tests whether the server supports its sessions.
    async fn probe(&self) -> Result<(), Lack> {
        let set = self.tool_set(&probe_tools()).await;
        let set = set.map_err(|failure| Lack::answered("it takes no tools: POST /mcp", &failure))?;
        probe_session(&self.server.http, &set, &self.version, &self.ids).await
    }

    /// The host of the process.
    pub fn host(&self) -> &Host {
        &self.server.host
    }

    /// Sends a request that the server can answer at once, to check that it answers.
    pub fn heartbeat(&self) -> Heartbeat {
        let http = self.server.http.clone();
        self.server
            .host
            .heartbeat(async move { http.ask(Method::GET, HEALTH, None).await })
    }

    /// The folder of sessions with `tools`: an existing one, or a new one.
    ///
    /// # Errors
    /// The reason why there is none.
    pub async fn tool_set(&self, tools: &Declarations) -> Result<Arc<ToolSet>, HttpFailure> {
        let mut sets = self.sets.lock().await;
        if let Some(at) = sets.iter().position(|set| set.tools == *tools) {
            let found = sets.remove(at);
            sets.push(Arc::clone(&found));
            return Ok(found);
        }
        let unused = |set: &Arc<ToolSet>| Arc::strong_count(set) == 1;
        while sets.iter().filter(|set| unused(set)).count() >= MOST_SETS
            && let Some(at) = sets.iter().position(unused)
        {
            let set = sets.remove(at);
            let path = server::of_directory("/instance/dispose", &set.directory);
            // If this fails, the server only keeps the memory.
            let _ = self.server.ask(Method::POST, &path).await;
        }
        let unfit = |why: String| HttpFailure::Unfit(why);
        let directory = self
            .make_folder()
            .map_err(|error| unfit(format!("no folder can be made for the tools: {error}")))?;
        let bridge = match tools.tools() {
            [] => None,
            _ => {
                // Nobody receives the calls: a call that got past the permission is answered with an error.
                let (nobody, _) = mpsc::channel(1);
                let bridge = Bridge::start_for(tools.clone(), BridgeOptions::default(), nobody);
                let bridge = bridge.map_err(|error| unfit(format!("the tools can't be declared: {error}")))?;
                self.connect(&bridge, &directory).await?;
                Some(bridge)
            }
        };
        let set = Arc::new(ToolSet {
            tools: tools.clone(),
            directory,
            bridge,
        });
        sets.push(Arc::clone(&set));
        Ok(set)
    }

    /// Declares the tools of `bridge` in `directory`.
    async fn connect(&self, bridge: &Bridge, directory: &str) -> Result<(), HttpFailure> {
        #[derive(Deserialize)]
        struct McpServerStatus {
            #[serde(default)]
            status: String,
        }
        let path = server::of_directory("/mcp", directory);
        let body = server::mcp(SERVER, bridge.url(), bridge.token());
        let answer = self.server.send(Method::POST, &path, &body).await?;
        let servers: HashMap<String, McpServerStatus> = serde_json::from_slice(&answer).unwrap_or_default();
        if servers.get(SERVER).is_some_and(|known| known.status == "connected") {
            return Ok(());
        }
        let answer: String = String::from_utf8_lossy(&answer).chars().take(200).collect();
        Err(HttpFailure::Unfit(format!("opencode did not take the tools: {answer}")))
    }

    fn make_folder(&self) -> std::io::Result<String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder: PathBuf = self.server.host.folder().join(format!("t{number}"));
        std::fs::create_dir_all(&folder)?;
        // The real path, by which opencode will name the folder.
        let folder = std::fs::canonicalize(folder)?;
        folder
            .into_os_string()
            .into_string()
            .map_err(|_| std::io::Error::other("its path is no Unicode"))
    }

    /// The model of a session whose setup chooses `chosen`, in the folder `directory`; `None` if nobody has chosen one and
    /// opencode knows none.
    pub async fn model(&self, chosen: Option<&Model>, directory: &str) -> Option<Model> {
        if let Some(model) = chosen {
            return Some(model.clone());
        }
        if let Some(model) = self.known_model() {
            return Some(model);
        }
        self.warm(directory).await.ok()?;
        self.known_model()
    }

    /// Asks opencode for the facts of `model` in the folder `directory`; `None` if it does not name the model. A call needs them first: for a
    /// model that takes no images opencode silently sends a text in place of one, and it silently ignores an unknown variant.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub(super) async fn facts(&self, model: &Model, directory: &str) -> Result<Option<ModelFacts>, HttpFailure> {
        let locked = || self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = locked().get(model) {
            return Ok(Some(facts.clone()));
        }
        let path = server::of_directory("/provider", directory);
        let answer = self.server.ask(Method::GET, &path).await?;
        let facts = model_facts(&answer, model);
        if let Some(facts) = &facts {
            locked().insert(model.clone(), facts.clone());
        }
        Ok(facts)
    }

    fn known_model(&self) -> Option<Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the instance of `directory` load everything for a turn, without a request to a model.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn warm(&self, directory: &str) -> Result<(), HttpFailure> {
        #[derive(Deserialize)]
        struct Added {
            info: ProbeInfo,
        }
        #[derive(Deserialize)]
        struct ProbeInfo {
            model: Model,
        }
        let server = &self.server;
        let at = |path: &str| server::of_directory(path, directory);
        let opened = server
            .send(Method::POST, &at("/session"), &server::new_session())
            .await?;
        let Ok(SessionOpened { id }) = serde_json::from_slice(&opened) else {
            return Err(HttpFailure::Unfit("opencode opened a session without an id".to_owned()));
        };
        let parts = [InputPart::Text { text: "x".to_owned() }];
        let prompt = Prompt {
            agent: AGENT,
            model: None,
            variant: None,
            format: None,
            system: "",
            no_reply: true,
            parts: &parts,
        };
        let added = server.send(Method::POST, &at(&server::messages(&id)), &prompt).await;
        // The rest is loaded by these requests, which the first turn would otherwise wait for.
        let _ = server.ask(Method::GET, &at("/agent")).await;
        let _ = server.ask(Method::GET, &at("/provider")).await;
        let _ = server.ask(Method::DELETE, &at(&server::session(&id))).await;
        if let Ok(Added { info }) = serde_json::from_slice(&added?) {
            *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.model);
        }
        Ok(())
    }
}

async fn version(server: &OpencodeServer) -> Result<String, Lack> {
    #[derive(Deserialize)]
    struct Health {
        version: String,
    }
    let answer = server.ask(Method::GET, HEALTH).await;
    let answer =
        answer.map_err(|failure| Lack::answered("it does not tell its version: GET /global/health", &failure))?;
    let health: Health = serde_json::from_slice(&answer)
        .map_err(|_| Lack::of("it does not tell its version: the answer to GET /global/health has none"))?;
    Ok(health.version)
}

/// The tool that is called in the history.
const TOOL: &str = "probe";

/// The tools with which a server is probed.
fn probe_tools() -> Declarations {
    let schema = serde_json::value::to_raw_value(&json!({"type": "object"}));
    let tool = schema.ok().map(|schema| ToolSpec {
        name: TOOL.to_owned(),
        description: None,
        schema,
    });
    Declarations::new(tool.as_slice())
}

/// Writes a history with a call of one of `set`'s tools ([`probe_tools`]) into a session, and a result over that call, and reads both back.
///
/// # Errors
/// The feature that the server lacks.
async fn probe_session(http: &Http, set: &ToolSet, version: &str, ids: &Ids) -> Result<(), Lack> {
    let model = Model {
        provider: "probe".to_owned(),
        id: "probe".to_owned(),
    };
    let place = ReplayTarget {
        directory: &set.directory,
        version,
        model: &model,
        tools: &set.tools,
        ids,
    };
    let mut answer = MessageFields::new(Role::Ai, "one");
    answer.tool_calls.push(ToolCall {
        id: "call_probe".to_owned(),
        name: TOOL.to_owned(),
        args: serde_json::value::to_raw_value(&json!({"a": 1})).map_err(|error| Lack::of(error.to_string()))?,
    });
    let (body, session) = history::replay(&[Message::new(Role::Human, "zero"), answer.into()], &place);
    let at = |path: &str| server::of_directory(path, &set.directory);
    let replayed = http.send(Method::POST, &at("/sync/replay"), &body).await;
    replayed.map_err(|failure| Lack::answered("it takes no history: POST /sync/replay", &failure))?;
    let session = Id::new(&session).ok_or_else(|| Lack::of("no id"))?;
    let read = async || {
        let kept = http.ask(Method::GET, &at(&server::messages(&session)), None).await;
        let kept =
            kept.map_err(|failure| Lack::answered("it does not tell a history: GET /session/…/message", &failure))?;
        let kept = serde_json::from_slice::<Value>(&kept);
        kept.map_err(|_| Lack::of("it does not tell a history: the answer to GET /session/…/message is no JSON"))
    };
    let kept = read().await?;
    let part = &kept[1]["parts"][1];
    let told = (
        &kept[0]["parts"][0]["text"],
        &kept[1]["parts"][0]["text"],
        &part["callID"],
    );
    if told != (&json!("zero"), &json!("one"), &json!("call_probe")) {
        return Err(Lack::of(
            "it does not keep a history: after POST /sync/replay it tells another one",
        ));
    }
    let id = |name: &str| part[name].as_str().and_then(Id::new);
    let (Some(message), Some(own)) = (id("messageID"), id("id")) else {
        return Err(Lack::of(
            "it does not name the parts of a history: GET /session/…/message has no ids",
        ));
    };
    let mut result = part.clone();
    result["state"] = json!({
        "status": "completed", "input": {"a": 1}, "output": "two", "title": "", "metadata": {}, "time": {"start": 1, "end": 1},
    });
    let path = at(&server::part(&session, &message, &own));
    let written = http.send(Method::PATCH, &path, &result).await;
    written.map_err(|failure| Lack::answered("it takes no result of a call: PATCH /session/…/part", &failure))?;
    let kept = read().await?;
    // A failure here costs only memory.
    let _ = http.ask(Method::DELETE, &at(&server::session(&session)), None).await;
    match kept[1]["parts"][1]["state"]["output"] == json!("two") {
        true => Ok(()),
        false => Err(Lack::of(
            "it does not keep a result of a call: after PATCH /session/…/part it tells another one",
        )),
    }
}
