//! The health check of an API: is it there, does it take the key, does it answer.
//!
//! In: an [`ApiProvider`], the depth of the check, and an environment. Out: the [`Report`] of every provider. "Installed" means here
//! that the server answers at all; its list of models shows whether it takes the key, if it has such a list.

use std::sync::Arc;
use std::time::Instant;

use super::report::Finding;
use super::{Check, Checkable, Level, Login, Problem, Report, SignedInBy, Timings, answered, millis, tiny_request};
use dfp_model::error::{Category, ProviderError};
use dfp_process::Vars;
use dfp_provider::LoginKind;
use dfp_run::api::{ApiProvider, Prepared, Probe};

impl Checkable for ApiProvider {
    fn check(self: Arc<Self>, level: Level, env: Option<Vars>) -> Result<Check, Box<ProviderError>> {
        // The environment is read here, on the caller's thread.
        let prepared = Prepared::new(&self, env.as_ref());
        Check::begin(&self, |api, cancel| async move {
            let mut report = empty(&api, level);
            let look = async {
                reach(&prepared, level, &mut report).await;
                if level >= Level::Request && report.installed {
                    let began = Instant::now();
                    let run = prepared.call(tiny_request());
                    answered(api.id(), &run, &cancel, &mut report).await;
                    report.timings_ms.request = Some(millis(began));
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = look => {}
            }
            report
        })
    }
}

/// The report before anything was asked.
fn empty(api: &ApiProvider, level: Level) -> Report {
    Report {
        provider: api.id().to_owned(),
        installed: false,
        path: Some(api.place()),
        searched: Vec::new(),
        version: None,
        version_tested: None,
        login: None,
        authenticated: Login::Unknown,
        signed_in_by: None,
        engine: None,
        answering: (level >= Level::Request).then_some(false),
        tool_form: None,
        pure: None,
        problems: Vec::new(),
        timings_ms: Timings::default(),
    }
}

/// Asks for the list of models, whose answer shows that the API is there.
async fn reach(prepared: &Prepared, level: Level, report: &mut Report) {
    let began = Instant::now();
    let probe = prepared.look().await;
    let took = Some(millis(began));
    report.timings_ms.command = took;
    report.installed = !matches!(probe, Probe::Nothing(_));
    let asked = level >= Level::Auth;
    if asked {
        report.timings_ms.auth = took;
        report.signed_in_by = prepared.has_key().then(|| SignedInBy {
            kind: LoginKind::Key,
            why: "it is asked with an API key".to_owned(),
        });
        if let Some(error) = prepared.no_key() {
            report.authenticated = Login::No;
            report.problems.push(Problem::of(error));
        }
    }
    match probe {
        Probe::Nothing(error) => report.problems.push(Problem::of(&error)),
        _ if !asked || prepared.no_key().is_some() => {}
        Probe::Listed => report.authenticated = Login::Yes,
        Probe::Answered(error) if error.category == Category::Authentication => {
            report.authenticated = Login::No;
            report.problems.push(Problem::of(&error));
        }
        Probe::Answered(error) => {
            let status = error.http_status.unwrap_or_default();
            let message =
                format!("the server gives no list of models (HTTP status {status}), so the key was not tried");
            let hint = "level \"request\" tries it with a request";
            report.problems.push(Finding::LoginUnknown.problem(message, hint));
        }
    }
}
