//! The health check: four separate facts about a provider, each with its time, and advice about each problem.
//!
//! In: a [`CliProvider`], the depth of the check ([`Level`]) and an environment. Out: a [`Report`]; an unhealthy CLI is a report, too,
//! never an error. [`status`] shows the activity of this process and of others of ours on this machine. The commands, and the way their answers are read, are data of the provider (`provider::Checks`).

mod report;
pub mod status;

pub use report::{Level, Login, Problem, Report, Severity, SignedInBy, Timings};

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use dfp_model::error::{Category, Code, ProviderError};
use dfp_model::message::{Message, Role, ToolSpec};
use dfp_process::{Output, Vars};
use dfp_provider::classify;
use dfp_provider::options::{TOOL_FUNCTIONS, TOOL_NAMESPACE};
use dfp_provider::{LoginCheck, LoginKind};
use dfp_run::commands;
use dfp_run::request::{CallOptions, Request};
use dfp_run::user_settings;
use dfp_run::{CliProvider, Ended, Run};
use dfp_run::{Model as _, ProviderObject};
use dfp_text::redact::plain;
use report::{COMMAND_LIMIT, Finding, answer, description, host, kind, text, version};

/// The time that the tiny request may take in all, waiting and further attempts included.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// The text of the tiny request.
const QUESTION: &str = "Reply with the word OK.";

/// The text of the tiny request that finds out the form in which tools are offered, with the tool's name.
const TOOL_QUESTION: &str = "Call the tool report_ready once, with ready set to true.";
const TOOL: &str = "report_ready";
const TOOL_SCHEMA: &str = r#"{"type":"object","properties":{"ready":{"type":"boolean"}},"required":["ready"]}"#;

/// The result of a check; `None` if it was cancelled.
type Looked = Result<Option<Report>, Box<ProviderError>>;

/// A check that goes on. Dropping it ends the processes it has started.
#[derive(Debug)]
pub struct Check {
    cancel: CancellationToken,
    task: AsyncMutex<Option<JoinHandle<Looked>>>,
}

/// A provider object whose health can be checked.
pub trait Checkable: ProviderObject {
    /// Begins a check. Must be called inside the runtime; returns at once. `env` is that of [`ProviderObject::start`].
    ///
    /// # Errors
    /// `CLOSED` if the provider was closed.
    fn check(self: Arc<Self>, level: Level, env: Option<Vars>) -> Result<Check, Box<ProviderError>>;
}

impl Checkable for CliProvider {
    fn check(self: Arc<Self>, level: Level, env: Option<Vars>) -> Result<Check, Box<ProviderError>> {
        let base = env.unwrap_or_else(|| std::env::vars_os().collect());
        Check::begin(&self, |cli, cancel| {
            let base = Arc::new(base);
            async move {
                let look = Look {
                    settings: user_settings::UserSettingsFile::all(&cli, &base),
                    cli,
                    base,
                    cancel,
                };
                look.report(level).await
            }
        })
    }
}

impl Check {
    /// Begins a check of `provider` with `report`, which ends early if it is cancelled.
    fn begin<P: ProviderObject + 'static, F>(
        provider: &Arc<P>,
        report: impl FnOnce(Arc<P>, CancellationToken) -> F,
    ) -> Result<Check, Box<ProviderError>>
    where
        F: Future<Output = Report> + Send + 'static,
    {
        if let Some(error) = provider.lifecycle().refusal() {
            return Err(error);
        }
        let (of_task, cancel) = (Arc::clone(provider), provider.lifecycle().token());
        let (report, cancelled) = (report(Arc::clone(provider), cancel.clone()), cancel.clone());
        let look = async move {
            let report = report.await;
            match of_task.lifecycle().refusal() {
                Some(error) => Err(error),
                None => Ok((!cancelled.is_cancelled()).then_some(report)),
            }
        };
        Ok(Check {
            cancel,
            task: AsyncMutex::new(Some(tokio::spawn(look))),
        })
    }

    /// The report, once; `None` if the check was cancelled.
    ///
    /// # Errors
    /// `CLOSED` if the provider was closed during the check.
    pub async fn result(&self) -> Looked {
        match self.task.lock().await.take() {
            Some(task) => task.await.unwrap_or_else(|panic| {
                let reason = format!("a bug in this package stopped the look: {panic}");
                Err(Box::new(ProviderError::new("", Code::Internal, reason)))
            }),
            None => Ok(None),
        }
    }

    /// Ends the check.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

struct Look {
    cli: Arc<CliProvider>,
    base: Arc<Vars>,
    /// The user's settings of the CLI.
    settings: Vec<user_settings::UserSettingsFile>,
    cancel: CancellationToken,
}

impl Look {
    /// Makes the report: looks for the program, then asks for the version, the login and an answer, as far as `level` goes. Without
    /// a program it stops at once.
    async fn report(&self, level: Level) -> Report {
        let mut report = Report {
            provider: self.cli.id().to_owned(),
            installed: false,
            path: None,
            searched: Vec::new(),
            version: None,
            version_tested: None,
            login: self.cli.login().map(str::to_owned),
            authenticated: Login::Unknown,
            signed_in_by: None,
            engine: None,
            answering: (level >= Level::Request).then_some(false),
            tool_form: None,
            pure: (!self.cli.is_pure()).then_some(false),
            problems: Vec::new(),
            timings_ms: Timings::default(),
        };
        let began = Instant::now();
        match commands::file(&self.cli, &self.base) {
            Ok(file) => {
                report.installed = true;
                report.path = Some(file.to_string_lossy().into_owned());
            }
            Err(error) => {
                report.searched = error.problems.iter().map(|place| place.field.clone()).collect();
                report.problems.push(Problem::of(&error));
            }
        }
        report.timings_ms.command = Some(millis(began));
        if !report.installed {
            return report;
        }
        if level >= Level::Version {
            let began = Instant::now();
            if self.version(&mut report).await {
                report.timings_ms.version = Some(millis(began));
            }
        }
        if level >= Level::Version && report.installed {
            report.problems.extend(self.user_settings());
        }
        if level >= Level::Auth
            && let Some(check) = self.cli.provider().checks.login
        {
            let began = Instant::now();
            self.login(&check, &mut report).await;
            report.timings_ms.auth = Some(millis(began));
        }
        if level >= Level::Auth && report.installed {
            report.problems.extend(self.ended_login());
        }
        if level >= Level::Request {
            let began = Instant::now();
            self.request(&mut report).await;
            report.timings_ms.request = Some(millis(began));
        }
        // This comes last, since the request may have found it out.
        report.engine = self.cli.engine_choice(&self.base).unwrap_or_default();
        report
    }

    async fn ask(&self, args: &[&str], without: &[&str]) -> Result<Output, Box<ProviderError>> {
        let limit = COMMAND_LIMIT;
        match self.settings.is_empty() {
            // They decide on the login, too, and calls win over them.
            false if args == self.login_args() => {
                commands::ask_as_in_calls(&self.cli, args, without, &self.base, limit, &self.cancel).await
            }
            _ => commands::ask(&self.cli, args, without, &self.base, limit, &self.cancel).await,
        }
    }

    fn login_args(&self) -> &'static [&'static str] {
        let login = self.cli.provider().checks.login;
        login.map_or(&[], |check| check.args)
    }

    /// The problems of the user's settings that affect calls, or would.
    fn user_settings(&self) -> Vec<Problem> {
        let all = self.settings.iter().flat_map(|found| self.settings_of(found));
        let redactor = self.cli.redactor(&self.base);
        let told = all.map(|(message, hint)| {
            let message = redactor.redact_error(&message).into_owned();
            Finding::UserSettings.problem(message, hint)
        });
        told.collect()
    }

    /// The problems of one settings file, each with advice.
    fn settings_of(&self, found: &user_settings::UserSettingsFile) -> Vec<(String, String)> {
        let file = found.path.display();
        let whose = match found.is_machines() {
            true => "ask whoever keeps this machine: its settings win over the provider's".to_owned(),
            false => match self.cli.provider().login_dir {
                Some(_) => format!(
                    "remove it there, or give the provider a `login` folder of its own ({file} is then another)"
                ),
                None => "remove it there".to_owned(),
            },
        };
        let mut told = Vec::new();
        let beating = found.beating_env(&self.cli);
        if !beating.is_empty() {
            told.push((user_settings::beats(found, &beating), whose.clone()));
        }
        if commands::has_settings(&self.cli) {
            told.extend(self.variables_of(found));
        }
        told.extend(found.unbeaten().map(|one| (found.says(one), whose.clone())));
        told
    }

    /// The problems of the variables that one file sets, beside those that beat the provider's.
    fn variables_of(&self, found: &user_settings::UserSettingsFile) -> Vec<(String, String)> {
        let file = found.path.display();
        let (held, left): (Vec<_>, Vec<_>) = found.env().partition(|(name, _)| commands::holds(&self.cli, name));
        let provider = self.cli.provider();
        let gateways = provider.checks.login.map_or(&[][..], |check| check.gateways);
        let is_gateway = |name: &str| gateways.iter().any(|gateway| gateway.name == name);
        let lets_in = |name: &str| is_gateway(name) || provider.key_env.contains(&name);
        let names = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let left: Vec<_> = left.into_iter().filter(|(name, _)| lets_in(name)).collect();
        let mut told = Vec::new();
        if !held.is_empty() && !found.is_machines() {
            let message = format!("{file} sets {}, which this provider sets or takes away", names(&held));
            told.push((
                message,
                "calls get what the provider says; in a terminal the file still counts".to_owned(),
            ));
        }
        let helpers: Vec<_> = found
            .logins()
            .filter(|name| !commands::settles(&self.cli, name))
            .collect();
        if !left.is_empty() || !helpers.is_empty() {
            let hosts = left.iter().filter(|(name, _)| is_gateway(name));
            let hosts: Vec<_> = hosts
                .filter_map(|(name, url)| Some(format!("{name} is {}", host(url)?)))
                .collect();
            let all = [names(&left), helpers.join(", ")]
                .into_iter()
                .filter(|part| !part.is_empty());
            let all = all.collect::<Vec<_>>().join(", ");
            let hosts = if hosts.is_empty() {
                String::new()
            } else {
                format!(" ({})", hosts.join(", "))
            };
            let message = format!("{file} sets {all}{hosts}, which beats the environment in calls, too");
            let hint = "remove it there, or set or take away (`undefined`) the same variables in `env`; `auth: \"subscription\"` leaves keys out";
            told.push((message, hint.to_owned()));
        }
        told
    }

    /// The value of `name` in a call, if it is text and not empty: the user's settings beat the environment, and the provider beats
    /// both.
    fn variable(&self, name: &str) -> Option<String> {
        let is_held = commands::holds(&self.cli, name);
        let has_ours = commands::has_settings(&self.cli);
        let beats = |found: &&user_settings::UserSettingsFile| has_ours && (found.is_machines() || !is_held);
        let mut files: Vec<_> = self.settings.iter().filter(beats).collect();
        files.sort_by_key(|found| !found.is_machines());
        let mut env = files.into_iter().flat_map(user_settings::UserSettingsFile::env);
        let found = env.find(|(set, _)| *set == name);
        let text = match found {
            Some((_, value)) => Some(value.to_owned()),
            None => commands::variable(&self.cli, name, &self.base).ok().flatten(),
        };
        text.filter(|text| !text.is_empty())
    }

    /// Finds out the version; returns whether the CLI could be asked.
    async fn version(&self, report: &mut Report) -> bool {
        let provider = self.cli.provider();
        let args = provider.version_args();
        if args.is_empty() {
            return false;
        }
        let output = match self.ask(&args, &[]).await {
            Ok(output) => output,
            Err(error) => {
                // The file is there and can't be executed after all.
                report.installed = false;
                report.problems.push(Problem::of(&error));
                return true;
            }
        };
        let found = output
            .exit
            .success()
            .then(|| text(&output))
            .and_then(|text| version(&text));
        let Some(found) = found else {
            let message = format!(
                "`{}` {}",
                self.command(&args),
                description(&output, &self.cli.redactor(&self.base))
            );
            report.problems.push(Finding::VersionUnknown.problem(message, BY_HAND));
            return true;
        };
        let measured = provider.about.versions;
        let tested = measured.contains(&found.as_str());
        if !tested && !measured.is_empty() {
            let message = format!("version {found} was not measured; {} were", measured.join(", "));
            let hint = "it will most likely work; if a call fails with UNSUPPORTED_FLAG or MALFORMED_RESPONSE, install one that was";
            let message = match measured {
                [one] => format!("version {found} was not measured; {one} was"),
                _ => message,
            };
            report.problems.push(Finding::VersionNotMeasured.problem(message, hint));
        }
        report.version = Some(found);
        report.version_tested = Some(tested);
        true
    }

    /// Asks the CLI for its login, and reports it, with the key in the environment that would replace it.
    async fn login(&self, check: &LoginCheck, report: &mut Report) {
        if !report.installed {
            return;
        }
        let output = match self.ask(check.args, &[]).await {
            Ok(output) => output,
            Err(error) => return report.problems.push(Problem::of(&error)),
        };
        report.authenticated = answer(check, &output);
        match report.authenticated {
            Login::Yes => {
                let told = kind(check, &output, |name| self.is_set(name));
                let is_plan = matches!(told, Some((LoginKind::Plan, _)));
                report.signed_in_by = self.signed_in_by(check, told);
                // A CLI that reports that it uses its login uses no key.
                if !is_plan {
                    report.problems.extend(self.key_beside_login(check).await);
                }
            }
            Login::No => {
                let id = self.cli.id();
                let error = ProviderError::new(id, Code::NotLoggedIn, format!("{id} is not logged in"));
                report.problems.push(Problem::of(&error));
            }
            Login::Unknown => {
                let message = format!(
                    "`{}` {}",
                    self.command(check.args),
                    description(&output, &self.cli.redactor(&self.base))
                );
                report.problems.push(Finding::LoginUnknown.problem(message, BY_HAND));
            }
        }
    }

    fn is_set(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    /// The kind of login that is in effect: the CLI's own report (`told`), if requests go to the vendor.
    fn signed_in_by(&self, check: &LoginCheck, told: Option<(LoginKind, Vec<String>)>) -> Option<SignedInBy> {
        let gateway = check.gateways.iter().find_map(|gateway| {
            let url = self.variable(gateway.name)?;
            let host = host(&url).unwrap_or_else(|| "no URL".to_owned());
            (host != gateway.own_host).then(|| format!("{} is {host}", gateway.name))
        });
        let kind = told.as_ref().map(|(kind, _)| *kind);
        let said = told.map(|(_, words)| format!("`{}` says {}", self.command(check.args), words.join(", ")));
        let why: Vec<String> = gateway.iter().cloned().chain(said).collect();
        let kind = gateway.map(|_| LoginKind::Gateway).or(kind)?;
        let redactor = self.cli.redactor(&self.base);
        let why = redactor.redact_error(&plain(&why.join("; "))).into_owned();
        Some(SignedInBy { kind, why })
    }

    /// The problem that the vendor has ended a kind of login, if the CLI may have that kind.
    fn ended_login(&self) -> Option<Problem> {
        let ended = self.cli.provider().checks.ended_login?;
        let is_another = ended.unless.iter().any(|name| self.is_set(name));
        (!is_another).then(|| Finding::LoginEnded.problem(ended.message.to_owned(), ended.hint))
    }

    /// A key in the environment silently beats a subscription's login and is billed (CLI-FACTS 1.4). Both are there if the
    /// CLI is still logged in without the key.
    async fn key_beside_login(&self, check: &LoginCheck) -> Option<Problem> {
        let keys = self.cli.provider().key_env;
        let present = commands::present(&self.cli, keys, &self.base).ok()?;
        if present.is_empty() {
            return None;
        }
        let output = self.ask(check.args, keys).await.ok()?;
        if answer(check, &output) != Login::Yes {
            return None;
        }
        let names = present.join(", ");
        let message = format!("{names} in the environment beats the login, silently, and is what is billed");
        let hint = format!("unset {names}, or use `auth: \"subscription\"`, which leaves it out");
        Some(Finding::KeyBeatsLogin.problem(message, hint))
    }

    /// Makes the tiny request. A CLI that has several forms of tools is offered one, and then the other if the API may have refused
    /// the form.
    async fn request(&self, report: &mut Report) {
        if !report.installed {
            return;
        }
        let Some(form) = self.cli.tool_form() else {
            let run = self.begin(&self.cli, tiny_request());
            return answered(self.cli.id(), &run, &self.cancel, report).await;
        };
        let asked = self.offer(&self.cli).await;
        let refused = match &asked {
            Ended::Failed(error) if form == TOOL_FUNCTIONS && may_be_the_form(error.category) => error.message.clone(),
            _ => {
                report.tool_form = calls(&asked).then_some(form);
                return settled(self.cli.id(), asked, report);
            }
        };
        // The second choice: tools in a form that codex's own do not hide (CODEX-LIVE §3.3).
        let cli = Arc::new(self.cli.with_tool_namespace());
        let again = self.offer(&cli).await;
        cli.close().await;
        if matches!(again, Ended::Replied(_)) {
            report.tool_form = calls(&again).then_some(TOOL_NAMESPACE);
            let message =
                format!("the API refuses tools that are plain functions ({refused}), and takes them in a namespace");
            let hint = "set `toolForm: \"namespace\"`";
            report.problems.push(Finding::ToolForm.problem(message, hint));
            return settled(self.cli.id(), again, report);
        }
        settled(self.cli.id(), asked, report);
    }

    fn begin(&self, cli: &Arc<CliProvider>, request: Request) -> Run {
        let env = Some(Arc::clone(&self.base));
        Arc::clone(cli).begin(Request { env, ..request })
    }

    /// Makes the tiny request in which a tool is to be called.
    async fn offer(&self, cli: &Arc<CliProvider>) -> Ended {
        let run = self.begin(cli, tool_request());
        within_limit(&run, &self.cancel).await
    }

    fn command(&self, args: &[&str]) -> String {
        format!("{} {}", self.cli.provider().command, args.join(" "))
    }
}

fn tiny_request() -> Request {
    request(QUESTION, Vec::new())
}

/// The tiny request whose answer is a call.
fn tool_request() -> Request {
    let schema = RawValue::from_string(TOOL_SCHEMA.to_owned()).unwrap_or_default();
    let tool = ToolSpec {
        name: TOOL.to_owned(),
        description: Some("Reports whether the model can call tools.".to_owned()),
        schema,
    };
    request(TOOL_QUESTION, vec![tool])
}

fn request(question: &str, tools: Vec<ToolSpec>) -> Request {
    Request {
        messages: vec![Message::new(Role::Human, question)],
        tools,
        options: CallOptions {
            timeout: u64::try_from(REQUEST_LIMIT.as_millis()).ok(),
            once: true,
            ..CallOptions::default()
        },
        ..Request::default()
    }
}

/// Writes the result of the tiny request into the report.
async fn answered(id: &str, run: &Run, cancel: &CancellationToken, report: &mut Report) {
    settled(id, within_limit(run, cancel).await, report);
}

/// Returns whether the model has made a call.
fn calls(ended: &Ended) -> bool {
    matches!(ended, Ended::Replied(reply) if !reply.tool_calls.is_empty())
}

/// Returns whether another form of tools may succeed.
fn may_be_the_form(category: Category) -> bool {
    matches!(category, Category::Validation | Category::Unknown | Category::Server)
}

/// Writes the end of the tiny request into the report. An answer also shows that the login is good, and a refusal that it is not.
fn settled(id: &str, ended: Ended, report: &mut Report) {
    match ended {
        Ended::Replied(_) => {
            report.answering = Some(true);
            // The request was answered, so a missing login that the CLI reported was not needed.
            report.authenticated = Login::Yes;
            let not_logged_in = Code::NotLoggedIn.as_str();
            report.problems.retain(|problem| problem.code != not_logged_in);
        }
        Ended::Failed(error) => {
            if error.category == Category::Authentication {
                report.authenticated = Login::No;
            }
            let known = report
                .problems
                .iter()
                .any(|problem| problem.code == error.code.as_str());
            if !known {
                report.problems.push(Problem::of(&error));
            }
        }
        Ended::Cancelled => {
            let limit = REQUEST_LIMIT.as_secs();
            let reason = format!("there was no answer within {limit} s");
            let error = ProviderError::new(id, Code::Timeout, reason);
            report.problems.push(Problem {
                hint: classify::hint(id, Code::ConnectionFailed).to_owned(),
                ..Problem::of(&error)
            });
        }
    }
}

/// Waits for the end of the run; the run is cancelled when the check is, or when it takes too long.
async fn within_limit(run: &Run, cancel: &CancellationToken) -> Ended {
    let ended = run.result();
    tokio::pin!(ended);
    tokio::select! {
        ended = &mut ended => return ended,
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(REQUEST_LIMIT) => {}
    }
    run.cancel();
    ended.await
}

const BY_HAND: &str = "run it by hand to see what it says";

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
