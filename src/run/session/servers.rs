//! The shared processes of a form: servers of many sessions each.
//!
//! In: what a call needs of its server ([`Wanted`]). Out: that server, which runs or is started, or the reason why there is none.
//! Unused servers end.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::sessions::{Sessions, start_failed};
use crate::capabilities;
use crate::cli_base::CliBase;
use crate::lifecycle::Lifecycle;
use crate::retry_loop::local_offset_min;
use dfp_exchange::form::{Form, Processes, Proof, ServerStart, SetupOf};
use dfp_exchange::host::{Host, of_exit};
use dfp_exchange::installed::{Binary, Installed};
use dfp_exchange::print::NotStarted;
use dfp_exchange::{Invocation, Unusable};
use dfp_model::error::{Category, Code, ProviderError};
use dfp_model::event::EngineUsed;
use dfp_process::activity::now_ms;
use dfp_process::{End, Exit, ProcessLimits, Vars, resident_bytes};
use dfp_provider::classify::{self, classify};
use dfp_provider::options::EngineKind;

/// A server that has grown beyond this takes no new calls: 180 MB are usual for codex after 300 conversations (0.169.0), 400 to 530 for
/// opencode (1.18.34), 370 for gemini after 100 sessions (0.61.0).
const MOST_MEMORY: u64 = 1 << 30;

/// The shortest interval between two checks whether a server is still needed.
const LOOK: Duration = Duration::from_secs(1);

/// Returns whether `server` uses too much memory.
fn has_grown(server: &impl AsRef<Host>) -> bool {
    resident_bytes(server.as_ref().pid()).is_some_and(|bytes| bytes > MOST_MEMORY)
}

/// The facts that calls must share to be served by one process.
#[derive(Debug, Clone)]
pub(crate) struct ServerKey {
    pub env: Arc<Vars>,
    pub binary: Binary,
}

impl ServerKey {
    /// The key of the calls with this environment and this binary.
    pub fn new(env: &Arc<Vars>, binary: &Binary) -> ServerKey {
        ServerKey {
            env: Arc::clone(env),
            binary: binary.clone(),
        }
    }
}

impl PartialEq for ServerKey {
    fn eq(&self, other: &Self) -> bool {
        self.binary == other.binary && (Arc::ptr_eq(&self.env, &other.env) || self.env == other.env)
    }
}

/// A server that takes calls.
#[derive(Debug)]
pub(crate) struct RunningServer<S> {
    pub key: ServerKey,
    pub service: Arc<S>,
    used: Instant,
    /// True if another server that takes its place is being started.
    pub is_being_replaced: bool,
}

impl<S: AsRef<Host>> RunningServer<S> {
    fn host(&self) -> &Host {
        (*self.service).as_ref()
    }
}

/// The rules for rules servers.
pub(crate) struct ServerRules<'a, S> {
    pub all: &'a Shared<S>,
    /// The greatest number of servers.
    pub most: usize,
    /// The time for which a server may stay unused.
    pub keep_alive: Duration,
    /// The lifecycle whose tasks end the servers.
    pub lifecycle: &'a Lifecycle,
}

/// The servers of one provider, the longest unused first.
#[derive(Debug)]
pub(crate) struct Servers<S>(Vec<RunningServer<S>>);

/// The servers behind a lock, which is never held while one is being started: those that run serve their calls meanwhile.
pub(crate) type Shared<S> = Arc<AsyncMutex<Servers<S>>>;

/// The locks of the starts that go on, one for each key.
#[derive(Debug, Default)]
pub(crate) struct Starts(Mutex<Vec<(ServerKey, Weak<AsyncMutex<()>>)>>);

impl Starts {
    /// The lock to hold while a server for `key` is started. After waiting for it, look again whether there is a server.
    pub fn of(&self, key: &ServerKey) -> Arc<AsyncMutex<()>> {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.retain(|(_, start)| start.strong_count() > 0);
        let known = starts.iter().find(|(of, _)| of == key);
        if let Some(start) = known.and_then(|(_, start)| start.upgrade()) {
            return start;
        }
        let start = Arc::default();
        starts.push((key.clone(), Arc::downgrade(&start)));
        start
    }
}

impl<S> Default for Servers<S> {
    fn default() -> Self {
        Servers(Vec::new())
    }
}

impl<S: AsRef<Host> + Send + Sync + 'static> Servers<S> {
    /// Returns the first server that `serves` selects, and drops those that take no calls any more.
    pub fn find(&mut self, serves: impl Fn(&RunningServer<S>) -> bool) -> Option<&mut RunningServer<S>> {
        self.0.retain(|known| known.host().takes_calls());
        let at = self.0.iter().position(serves)?;
        let mut found = self.0.remove(at);
        found.used = Instant::now();
        self.0.push(found);
        self.0.last_mut()
    }

    /// Retires the servers that `which` selects: they take no new calls, and end with those they have.
    pub fn retire(&mut self, which: impl Fn(&RunningServer<S>) -> bool) {
        self.0.retain(|known| {
            let goes = which(known);
            if goes {
                known.host().retire();
            }
            !goes
        });
    }

    /// The servers of `key`.
    pub fn of(&self, key: &ServerKey) -> impl Iterator<Item = &Arc<S>> {
        let of_key = self.0.iter().filter(move |known| known.key == *key);
        of_key.map(|known| &known.service)
    }

    /// Adds `service`, which was started for `key`; the longest unused servers above the greatest number are retired.
    pub fn add(&mut self, key: ServerKey, service: S, rules: &ServerRules<'_, S>) -> Arc<S> {
        let ServerRules {
            all,
            most,
            keep_alive,
            lifecycle,
        } = *rules;
        while self.0.len() >= most.max(1) {
            self.0.remove(0).host().retire();
        }
        if self.0.is_empty() {
            let unused = end_unused(Arc::clone(all), keep_alive);
            let closing = lifecycle.closing.clone();
            lifecycle.runs.spawn(async move {
                closing.run_until_cancelled(unused).await;
            });
        }
        let service = Arc::new(service);
        let dropped = drop_retired(Arc::clone(all), (*service).as_ref());
        let closing = lifecycle.closing.clone();
        lifecycle.runs.spawn(async move {
            closing.run_until_cancelled(dropped).await;
        });
        self.0.push(RunningServer {
            key,
            service: Arc::clone(&service),
            used: Instant::now(),
            is_being_replaced: false,
        });
        service
    }
}

/// Drops `host` as soon as it takes no calls any more: it ends with those it has then.
fn drop_retired<S: AsRef<Host> + Send + Sync + 'static>(
    all: Shared<S>,
    host: &Host,
) -> impl Future<Output = ()> + Send + use<S> {
    let (retired, over) = (host.retired().clone(), host.over().clone());
    async move {
        tokio::select! {
            () = retired.cancelled() => {}
            () = over.cancelled() => {}
        }
        all.lock().await.0.retain(|known| known.host().takes_calls());
    }
}

/// Ends servers that were unused for `keep_alive`, until there are none left.
async fn end_unused<S: AsRef<Host> + Send + Sync + 'static>(all: Shared<S>, keep_alive: Duration) {
    loop {
        tokio::time::sleep(keep_alive.clamp(LOOK, Duration::from_secs(30))).await;
        let servers = &mut all.lock().await.0;
        // A conversation of it, resting or not, counts as a use.
        let in_use = |known: &RunningServer<S>| Arc::strong_count(&known.service) > 1;
        for known in servers.iter_mut().filter(|known| in_use(known)) {
            known.used = Instant::now();
        }
        servers.retain(|known| in_use(known) || known.used.elapsed() < keep_alive);
        if servers.is_empty() {
            return;
        }
    }
}

/// The number of servers that a provider may have of `F`, and whether one that has grown serves calls until another is there.
fn shared<F: Form>() -> (usize, bool) {
    match F::PROCESSES {
        Processes::Own { .. } => (0, false),
        Processes::Shared {
            most_servers,
            serves_when_grown,
            ..
        } => (most_servers, serves_when_grown),
    }
}

impl<F: Form> Sessions<F> {
    /// Returns the server that is `wanted`: one that runs, or a new one.
    pub(super) async fn server(
        self: &Arc<Self>,
        cli: &Arc<CliBase>,
        wanted: Wanted<'_, F>,
    ) -> Result<Arc<F::Server>, Unusable> {
        let key = ServerKey::new(wanted.env, &wanted.installed.binary);
        if let Some(found) = self.find(cli, &key, wanted).await {
            return Ok(found);
        }
        let starting = self.starts.of(&key);
        let _starting = starting.lock().await;
        // Another call may have started the server meanwhile.
        if let Some(found) = self.find(cli, &key, wanted).await {
            return Ok(found);
        }
        let others: Vec<Arc<F::Server>> = self.servers.lock().await.of(&key).map(Arc::clone).collect();
        let server = self.start_server(cli, wanted, &others).await?;
        let mut servers = self.servers.lock().await;
        Ok(servers.add(key, server, &self.rules(cli)))
    }

    /// Returns the server that is `wanted`, if it runs. A server that has grown too large serves until the next one is there.
    async fn find(
        self: &Arc<Self>,
        cli: &Arc<CliBase>,
        key: &ServerKey,
        wanted: Wanted<'_, F>,
    ) -> Option<Arc<F::Server>> {
        let mut servers = self.servers.lock().await;
        let (_, serves_when_grown) = shared::<F>();
        if !serves_when_grown {
            servers.retire(|known| has_grown(&*known.service));
        }
        let found = servers.find(|known| known.key == *key && wanted.is_served_by(&known.service))?;
        let server = Arc::clone(&found.service);
        let is_worn = self.form.is_worn(&server) || has_grown(&*server);
        if is_worn && !std::mem::replace(&mut found.is_being_replaced, true) {
            self.replace(cli, key.clone(), wanted);
        }
        Some(server)
    }

    fn rules<'a>(&'a self, cli: &'a CliBase) -> ServerRules<'a, F::Server> {
        ServerRules {
            all: &self.servers,
            most: cli.options.max_concurrency.min(shared::<F>().0),
            keep_alive: cli.options.keep_alive,
            lifecycle: &cli.lifecycle,
        }
    }

    /// Starts a server. `others` run with the same environment and file.
    async fn start_server(
        &self,
        cli: &CliBase,
        wanted: Wanted<'_, F>,
        others: &[Arc<F::Server>],
    ) -> Result<F::Server, Unusable> {
        let Wanted { installed, env, setup } = wanted;
        let start = ServerStart {
            installed,
            options: &cli.options,
            setup: setup.map(|setup| &**setup),
            others,
            surroundings: &|| cli.surroundings(&installed.binary, env, None),
            closing: &cli.lifecycle.closing,
        };
        let started = self.form.serve(start).await;
        let server = started.map_err(|error| not_ready(cli, installed, error))?;
        if cli.options.engine == EngineKind::Auto {
            take_proof(cli, F::ENGINE, &installed.binary, F::proof(&server))?;
        }
        Ok(server)
    }

    /// Starts another server in the place of the `wanted` one, which serves calls until then.
    fn replace(self: &Arc<Self>, cli: &Arc<CliBase>, key: ServerKey, wanted: Wanted<'_, F>) {
        let (sessions, of_task) = (Arc::clone(self), Arc::clone(cli));
        let (installed, setup) = (wanted.installed.clone(), wanted.setup.cloned());
        cli.lifecycle.runs.spawn(async move {
            let wanted: Wanted<'_, F> = Wanted {
                installed: &installed,
                env: &key.env,
                setup: setup.as_ref(),
            };
            let is_old = |known: &RunningServer<F::Server>| {
                known.key == key && known.is_being_replaced && wanted.is_served_by(&known.service)
            };
            // The new server loads whatever the old one has loaded.
            let others: Vec<Arc<F::Server>> = sessions.servers.lock().await.of(&key).map(Arc::clone).collect();
            let started = sessions.start_server(&of_task, wanted, &others).await;
            drop(others);
            let mut servers = sessions.servers.lock().await;
            match started {
                Ok(server) => {
                    servers.retire(is_old);
                    drop(servers.add(key.clone(), server, &sessions.rules(&of_task)));
                }
                // The next call that finds the old server too large tries again.
                Err(_) => {
                    if let Some(found) = servers.find(is_old) {
                        found.is_being_replaced = false;
                    }
                }
            }
        });
    }
}

/// Remembers the evidence that a server of `binary` supports sessions.
///
/// # Errors
/// [`Unusable::Unsupported`]: by its version, it does not.
fn take_proof(cli: &CliBase, engine: EngineUsed, binary: &Binary, proof: Proof<'_>) -> Result<(), Unusable> {
    match proof {
        Proof::Version(version) => cli.take_version(binary, version).map_err(Unusable::unsupported),
        Proof::Probe(why) => {
            capabilities::settle(engine, binary, why);
            Ok(())
        }
    }
}

/// The server that calls need.
pub(super) struct Wanted<'a, F: Form> {
    pub installed: &'a Installed,
    pub env: &'a Arc<Vars>,
    /// The setup of the session for which the server is needed.
    pub setup: Option<&'a Arc<SetupOf<F>>>,
}

impl<F: Form> Clone for Wanted<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Form> Copy for Wanted<'_, F> {}

impl<F: Form> Wanted<'_, F> {
    fn is_served_by(self, server: &F::Server) -> bool {
        F::serves(server, self.installed, self.setup.map(|setup| &**setup))
    }
}

/// The reason for which there is no server of `installed`.
fn not_ready(cli: &CliBase, installed: &Installed, error: NotStarted) -> Unusable {
    match error {
        NotStarted::Unsupported(reason) => match login_missing(cli, &reason) {
            Some(error) => Unusable::Failed(error),
            None => Unusable::unsupported(reason),
        },
        NotStarted::Refused(message) => refused(cli, &message),
        NotStarted::Ended(None) => Unusable::unsupported("it ended before it was ready"),
        NotStarted::Ended(Some(exit)) if matches!(exit.end, End::Cancelled | End::Closed) => Unusable::Cancelled,
        NotStarted::Ended(Some(exit)) => ended_early(cli, installed, &exit),
        error @ (NotStarted::Process(_)
        | NotStarted::Scratch { .. }
        | NotStarted::OutOfReach(_)
        | NotStarted::Tools(_)) => start_failed(cli, &error),
    }
}

/// The error of a call that fails because a login is missing or refused. That says nothing about the program, which serves the next
/// call with another login.
pub(crate) fn login_missing(cli: &CliBase, reason: &str) -> Option<Box<ProviderError>> {
    let context = classify::TextFacts {
        provider: cli.id(),
        local_offset_min: local_offset_min(),
        ..classify::TextFacts::default()
    };
    let found = classify::classify_text(reason, &context, now_ms());
    (found.category == Category::Authentication).then(|| Box::new(found.into_error(cli.id())))
}

/// Judges a server that has refused to serve: its configuration is wrong, which is this call's failure, or it does not know such
/// requests.
fn refused(cli: &CliBase, message: &str) -> Unusable {
    let found = classify(&classify::FailureFacts {
        provider: cli.id(),
        stderr_text: Some(message),
        local_offset_min: local_offset_min(),
        now_ms: now_ms(),
        ..classify::FailureFacts::default()
    });
    match found.code {
        Code::Unknown | Code::EmptyResponse | Code::Crashed | Code::UnsupportedFlag | Code::InvalidOption => {
            Unusable::unsupported(format!("it refuses: {message}"))
        }
        _ => Unusable::Failed(Box::new(found.into_error(cli.id()))),
    }
}

/// Judges a server that has ended before it was ready: its configuration is wrong, or the CLI has no servers.
fn ended_early(cli: &CliBase, installed: &Installed, exit: &Exit) -> Unusable {
    if let Some(error) = cli.crash(exit) {
        return Unusable::Failed(error);
    }
    let ended = Invocation::of(cli.id(), &installed.line).ended(of_exit(exit), &ProcessLimits::default());
    if let Some(flag) = ended.refused_flag {
        return Unusable::FlagRefused(flag);
    }
    let found = classify(&classify::FailureFacts {
        provider: cli.id(),
        exit_code: exit.code,
        signal: exit.signal.as_deref(),
        stderr_text: Some(&exit.stderr),
        local_offset_min: local_offset_min(),
        now_ms: now_ms(),
        ..classify::FailureFacts::default()
    });
    match found.code {
        Code::Unknown | Code::EmptyResponse | Code::Crashed | Code::UnsupportedFlag | Code::InvalidOption => {
            let reason = match classify::unsupported_flag(cli.id(), &exit.stderr) {
                Some(flag) => format!("it does not know {flag}"),
                None => format!("it ended instead of becoming ready: {}", found.reason),
            };
            Unusable::Unsupported {
                reason,
                may_have_asked: false,
                ended: Some(Box::new(ended)),
            }
        }
        _ => Unusable::Failed(Box::new(found.into_error(cli.id()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_exchange::installed::Binary;
    use dfp_process::{Resolved, Timings};
    use dfp_provider::command::Mode;

    /// The judgement of a codex server that ends with this code and stderr, whose command line has `--some-flag` as an optional
    /// flag.
    fn of_end(code: i32, stderr: &str) -> Unusable {
        let base = CliBase::new("codex", r#"{"engine": "live"}"#, u64::MAX).unwrap();
        let known = dfp_provider::command::Installed::default();
        let mut line = dfp_provider::command::build(base.provider(), &base.options, Mode::Live, true, &known).unwrap();
        line.optional_flags = vec!["--some-flag".to_owned()];
        let file = std::env::current_exe().unwrap();
        let resolved = Resolved {
            file,
            prefix: Vec::new(),
            interpreter: None,
            called_with: None,
            also_on_path: None,
        };
        let installed = Installed {
            line,
            binary: Binary::new(resolved, None),
        };
        let exit = Exit {
            run_id: String::new(),
            pid: 1,
            end: End::Exited,
            code: Some(code),
            signal: None,
            stderr: stderr.to_owned(),
            stderr_bytes: stderr.len() as u64,
            stdout_bytes: 0,
            stdout_bytes_at_end: 0,
            timings: Timings::default(),
        };
        not_ready(&base, &installed, NotStarted::Ended(Some(exit.into())))
    }

    #[test]
    fn a_server_without_a_flag_it_can_do_without_is_started_once_more() {
        let end = of_end(2, "error: unexpected argument '--some-flag' found\n");
        let Unusable::FlagRefused(flag) = end else {
            panic!("not a refused flag")
        };
        assert_eq!(flag, "--some-flag");
    }

    #[test]
    fn a_server_without_a_flag_it_needs_does_not_serve() {
        let end = of_end(2, "error: unexpected argument '--listen' found\n");
        let Unusable::Unsupported {
            reason,
            may_have_asked,
            ended,
        } = end
        else {
            panic!("not unsupported")
        };
        assert_eq!(reason, "it does not know --listen");
        assert!(!may_have_asked);
        assert!(ended.is_some());
    }

    #[test]
    fn a_missing_login_is_the_calls_failure_and_says_nothing_of_the_program() {
        for (provider, reason, code) in [
            (
                "grok",
                "it opens no session: Not signed in. To authenticate without a browser, run:",
                Code::NotLoggedIn,
            ),
            (
                "copilot",
                "it refuses: No GitHub OAuth token or Copilot HMAC key provided",
                Code::NotLoggedIn,
            ),
            (
                "codex",
                "it ended instead of becoming ready: Not logged in",
                Code::NotLoggedIn,
            ),
        ] {
            let base = CliBase::new(provider, "{}", u64::MAX).unwrap();
            let error = login_missing(&base, reason).unwrap();
            assert_eq!((error.code, &*error.provider), (code, provider), "{reason}");
        }
        let base = CliBase::new("codex", "{}", u64::MAX).unwrap();
        for reason in [
            "it does not know --listen",
            "it did not answer the handshake within 60 s",
        ] {
            assert!(login_missing(&base, reason).is_none(), "{reason}");
        }
    }

    #[test]
    fn a_refusal_for_a_broken_configuration_is_the_calls_failure_alone() {
        let base = CliBase::new("codex", "{}", u64::MAX).unwrap();
        let Unusable::Failed(error) = refused(&base, "failed to load configuration: config.toml:1:1: invalid TOML")
        else {
            panic!("not a failure of the call's")
        };
        assert_eq!(error.code, Code::InvalidConfig);
        let Unusable::Unsupported { reason, .. } = refused(&base, "unknown variant `initialize`") else {
            panic!("not unsupported")
        };
        assert_eq!(reason, "it refuses: unknown variant `initialize`");
    }

    #[test]
    fn a_killed_server_says_nothing_of_its_program() {
        let Unusable::Failed(error) = of_end(137, "") else {
            panic!("not a failure of the call's")
        };
        assert_eq!(error.code, Code::Crashed);
    }
}
