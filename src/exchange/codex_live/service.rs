//! A ready codex server: it has answered, its version supports its sessions, and the user's configuration is known.
//!
//! In: a command line of `app-server` and the vendor's catalog. Out: a [`CodexService`], or the reason why there is none.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::form;
use super::inbound::CodexProtocol;
use super::launch::{self, Home, Keep};
use super::settings::UserConfig;
use super::wire::{ConfigRead, Initialize, Interrupt, ThreadDelete, ThreadList, Unsubscribe};
use crate::host::{Heartbeat, Host, Patience};
use crate::print::{self, NotStarted, Surroundings};
use crate::rpc::{Answering, RpcHost};
use dfp_model::listed_model::ListedModel;
use dfp_provider::command::{Arg, CommandLine};

/// The time that a server may take to answer: a tenth of a second on an idle machine.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// The time for which a server that has served may leave a request unanswered that needs neither network nor model:
/// `thread/start` takes 10 to 17 ms (0.169.0). No load of the machine makes that a hundred times longer.
const PATIENCE: Patience = Patience {
    first: HANDSHAKE,
    later: Duration::from_secs(10),
};
/// The first version that reports the end of a response (CODEX-LIVE §8).
const OLDEST: (u32, u32) = (0, 150);
/// The first version of which it is known that a resumed thread asks for the same bytes, and how the end of a response is found.
const OLDEST_RESUMING: (u32, u32) = (0, 169);
/// The first version that sends the tier [`FLEX`] for every model: 0.150.0 does not.
const OLDEST_FLEX: (u32, u32) = (0, 169);
const FLEX: &str = "flex";

/// The parts with which a server is started.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The command line of `codex app-server` with the settings of a process.
    pub line: &'a CommandLine,
    /// The vendor's model catalog; null if it is not available: models get entries of our own then.
    pub vendor: &'a Value,
    /// The models that calls have chosen.
    pub models: Vec<&'a str>,
    /// True if the user's configuration may name the model.
    pub asks_config: bool,
    /// The parts of the vendor's catalog that stay as they are.
    pub keep: Keep,
    /// True if the user's configuration applies.
    pub with_config: bool,
}

/// A server that is ready.
#[derive(Debug)]
pub struct CodexService {
    pub server: Arc<RpcHost<CodexProtocol>>,
    /// The user's configuration.
    pub config: UserConfig,
    /// codex's version, if it tells one.
    pub version: Option<String>,
    /// The empty folder of its threads.
    pub folder: String,
    /// True if its home is a private one, which it shares with this process.
    has_own_home: bool,
    /// The models in its catalog: for others it would hide tools, cut results and shorten threads (CODEX-LIVE pitfalls 1 and 2).
    models: Vec<String>,
    /// The levels of reasoning that they have by themselves, as far as that is known.
    efforts: HashMap<String, String>,
    /// The service tiers of all its models, once a call has chosen one; `None` if it does not tell.
    tiers: OnceCell<Option<HashMap<String, Vec<String>>>>,
    /// True if it has not written of a resumed thread what is needed here.
    writes_too_little: AtomicBool,
    /// The settings that it does not take.
    refused: Mutex<Vec<String>>,
}

impl CodexService {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`NotStarted`].
    pub async fn start(
        plan: &Plan<'_>,
        surroundings: impl Fn() -> Surroundings,
        cancel: &CancellationToken,
    ) -> Result<CodexService, NotStarted> {
        let mut home = Home::Links;
        let mut models: Vec<String> = plan.models.iter().map(|model| (*model).to_owned()).collect();
        loop {
            let names: Vec<&str> = models.iter().map(String::as_str).collect();
            let catalog = launch::catalog(plan.vendor, &names, plan.keep);
            let surroundings = surroundings();
            let mut line = plan.line.clone();
            launch::prepare_home(&mut line, home, plan.with_config, &catalog);
            let mut service = RpcHost::ready(line, surroundings, PATIENCE, cancel, CodexService::handshake).await?;
            // Only now the parts are known with which it should have been started.
            let listed = launch::slugs(&catalog);
            let unlisted = service.config.model.as_deref().filter(|_| plan.asks_config);
            let unlisted = unlisted.filter(|model| !listed.contains(model));
            match (unlisted, home) {
                (_, Home::Links) if service.config.keyring && plan.with_config => home = Home::Users,
                (Some(model), _) => models.push(model.to_owned()),
                _ => {
                    service.has_own_home = home == Home::Links && plan.line.launch.is_none();
                    let effort = |model: &&str| {
                        let effort = launch::default_effort(&catalog, model)?;
                        Some(((*model).to_owned(), effort.to_owned()))
                    };
                    service.efforts = listed.iter().filter_map(effort).collect();
                    service.models = listed.into_iter().map(str::to_owned).collect();
                    return Ok(service);
                }
            }
        }
    }

    /// Makes the handshake, checks codex's version, and reads the user's configuration.
    async fn handshake(server: RpcHost<CodexProtocol>) -> Result<CodexService, NotStarted> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeAnswer {
            #[serde(default)]
            user_agent: String,
        }
        let initialize = Initialize::default();
        let answer = server.shake("initialize", &initialize, NotStarted::Refused).await?;
        let agent = serde_json::from_str::<InitializeAnswer>(answer.get()).map(|answer| answer.user_agent);
        let version = agent.ok().as_deref().and_then(version_of).map(str::to_owned);
        if let Some(version) = &version
            && numbers(version).is_some_and(|numbers| numbers < OLDEST)
        {
            let (major, minor) = OLDEST;
            let reason = format!("codex {version} does not tell where a response ends; {major}.{minor}.0 does");
            return Err(NotStarted::Unsupported(reason));
        }
        server.notify::<()>("initialized", None);
        let folder = server.folder();
        let read = ConfigRead { cwd: &folder };
        let config = server.shake("config/read", &read, NotStarted::Refused).await?;
        let config = UserConfig::read(config.get());
        Ok(CodexService {
            server: Arc::new(server),
            config,
            version,
            folder,
            has_own_home: false,
            models: Vec::new(),
            efforts: HashMap::new(),
            tiers: OnceCell::new(),
            writes_too_little: AtomicBool::new(false),
            refused: Mutex::default(),
        })
    }

    /// The host of the process.
    pub fn host(&self) -> &Host {
        self.server.host()
    }

    /// Interrupts the turn `turn` of the thread `thread`.
    pub fn interrupt(&self, thread: &str, turn: &str) -> Answering {
        let interrupt = Interrupt {
            thread_id: thread,
            turn_id: turn,
        };
        self.server.post("turn/interrupt", &interrupt)
    }

    /// Makes the server forget the thread `thread`.
    pub fn unsubscribe(&self, thread: &str) {
        drop(
            self.server
                .post("thread/unsubscribe", &Unsubscribe { thread_id: thread }),
        );
    }

    /// Makes the server forget the thread `thread`, which was resumed, and remove what it has stored of it.
    pub fn delete(&self, thread: &str) -> Answering {
        self.server.post("thread/delete", &ThreadDelete { thread_id: thread })
    }

    /// The private folder of a server that resumes threads as if it had always had them: one of a version of which that is known, and
    /// whose home is a private one that it shares with this process. A newer version may write other lines than those that are known:
    /// once that was [seen](CodexService::resumes_no_more), it resumes none.
    pub fn resumes(&self) -> Option<&Path> {
        let version = self.version.as_deref().and_then(numbers);
        let writes_enough = !self.writes_too_little.load(Ordering::Relaxed);
        let folder = self
            .server
            .private_folder()
            .filter(|_| self.has_own_home && writes_enough);
        folder.filter(|_| version >= Some(OLDEST_RESUMING))
    }

    /// Notes that it has not written of a resumed thread what is needed here.
    pub fn resumes_no_more(&self) {
        self.writes_too_little.store(true, Ordering::Relaxed);
    }

    /// Checks that the server answers: it is asked for the list of its threads.
    pub fn heartbeat(&self) -> Heartbeat {
        self.server.heartbeat("thread/loaded/list", &ThreadList {})
    }

    /// Returns whether threads of `model` can be opened; `None` is the model of the user's configuration.
    pub fn serves(&self, model: Option<&str>) -> bool {
        model.is_none_or(|model| self.models.iter().any(|known| known == model))
    }

    /// The level of reasoning of `model` where nothing is chosen, if that is known: the one of the user's configuration, or its own.
    pub fn default_effort(&self, model: &str) -> Option<&str> {
        let users = self.config.effort.as_deref();
        users.or_else(|| self.efforts.get(model).map(String::as_str))
    }

    /// Asks once which service tiers its models have: 2 ms (0.169.0).
    pub async fn learn_tiers(&self) {
        let ask = async || {
            let models = form::list(self, true).await.ok()?;
            let tiers = |model: ListedModel| Some((model.id, model.service_tiers?));
            Some(models.into_iter().filter_map(tiers).collect())
        };
        self.tiers.get_or_init(ask).await;
    }

    /// The service tiers that it sends to the API for `model`, beside those of no choice; `None` if it has not told them.
    pub fn tiers(&self, model: &str) -> Option<Vec<&str>> {
        let version = self.version.as_deref().and_then(numbers);
        let flex = (version >= Some(OLDEST_FLEX)).then_some(FLEX);
        let own = self.tiers.get()?.as_ref()?.get(model)?;
        Some(own.iter().map(String::as_str).chain(flex).collect())
    }

    /// The models in its catalog.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(String::as_str)
    }

    /// The settings of a thread that it has refused.
    pub fn refused_settings(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that it does not take the setting `name`.
    pub fn remember_refused(&self, name: String) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}

/// The vendor's model catalog, from the binary that `line` starts; null if it is not available.
pub async fn vendors_catalog(line: &CommandLine, surroundings: Surroundings, cancel: &CancellationToken) -> Value {
    let mut line = line.clone();
    line.args = ["debug", "models", "--bundled"]
        .map(|word| Arg::Text(word.to_owned()))
        .to_vec();
    launch::with_empty_home(&mut line);
    match print::output(line, surroundings, cancel).await {
        Ok(output) if output.exit.success() => serde_json::from_slice(&output.stdout).unwrap_or_default(),
        _ => Value::Null,
    }
}

/// The version in the user agent: `0.169.0` in `deep_factor_providers/0.169.0 (Debian 12.0.0; x86_64) …`.
fn version_of(agent: &str) -> Option<&str> {
    agent
        .split_once('/')?
        .1
        .split([' ', '('])
        .next()
        .filter(|version| !version.is_empty())
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_user_agent() {
        let agent = "dfp/0.169.0 (Debian 12.0.0; x86_64) unknown (dfp; 0.1)";
        assert_eq!(version_of(agent), Some("0.169.0"));
        assert_eq!(version_of("dfp/0.170.0-alpha.3 (x)").and_then(numbers), Some((0, 170)));
        assert_eq!(version_of("dfp"), None);
        assert!(numbers("0.149.9") < Some(OLDEST) && numbers("1.0.0") > Some(OLDEST));
        assert_eq!(numbers("next"), None);
    }
}
