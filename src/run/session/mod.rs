//! Calls served by kept processes: one driver for all forms.
//!
//! In: a call, and the [`Sessions`](sessions::Sessions) of its form. Out: an [`AttemptOutcome`], or nothing where the next engine makes
//! the call. The driver waits for a place, gets a session, and runs the turn. If the session is gone, it takes another; if the CLI does
//! not serve the engine, the next engine's turn comes. The call's time runs from its place on, whatever has to be started for it.
//!
//! [`forms`] has the list of forms. The [`sessions`] of a form have processes of their own, which are tried once ([`auto`]) and started
//! [ahead], or are those of [`servers`].
//!
//! An API may refuse a field that the form has put into the call's request: then the call is made once more without it ([`Refusals`]).

pub(super) mod ahead;
pub(super) mod forms;
pub(super) mod servers;
pub(super) mod sessions;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use self::forms::as_prompt;
use self::servers::login_missing;
use self::sessions::{Begun, Sessions, TurnAsked, store_warning, warning};
use crate::attempt::{AttemptOutcome, AttemptStart, run_attempt};
use crate::auto;
use crate::capabilities::{self, ApiRefusal, LiveSupport};
use crate::cli_attempt::{CliAttempt, CliCall};
use crate::cli_base::{CliBase, not_found};
use crate::programs::Program;
use dfp_exchange::form::{Form, SentField, SessionCall, SetupOf};
use dfp_exchange::installed::{Binary, Installed};
use dfp_exchange::live::kept::KeptReplies;
use dfp_exchange::live::session::Origin;
use dfp_exchange::{Evidence, Unusable};
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::event::{EngineUsed, Event, RunInfo};
use dfp_process::Vars;
use dfp_provider::errors::{Refused, RequestField};
use dfp_provider::options::EngineKind;
use dfp_text::fold::Fold;
use dfp_text::toolcall::TextCalls;

/// The parts of a turn that are the same for every form.
pub(crate) struct Reading<'a> {
    /// The rule for which text of the answer is a call.
    pub text_calls: TextCalls,
    /// The events that are reported when the turn has begun.
    pub notes: Vec<Event>,
    /// The reason for which this engine can't make the call.
    pub unfit: Option<&'a ProviderError>,
}

impl Reading<'_> {
    /// The parts for a call that is sent as a thread.
    fn of_thread(attempt: &CliAttempt<'_>) -> Reading<'static> {
        Reading {
            text_calls: attempt.call.request.session_text_calls.clone(),
            notes: attempt.pending_note().into_iter().collect(),
            unfit: None,
        }
    }
}

/// Makes an attempt of a call in one of the sessions of its form; `None` if the next engine is to make it. `call` is the call as a
/// session takes it; `None` if it is sent as a [prompt](as_prompt).
pub(crate) async fn drive<F: Form>(
    sessions: &Arc<Sessions<F>>,
    call: Option<&SessionCall<SetupOf<F>>>,
    attempt: &CliAttempt<'_>,
    info: &mut RunInfo,
) -> Result<Option<AttemptOutcome>, Box<ProviderError>> {
    let CliCall { cli, base_env, .. } = attempt.call;
    let prompt;
    let (call, reading) = match call {
        Some(call) => (call, Reading::of_thread(attempt)),
        None => {
            let Some((made, reading)) = as_prompt(attempt).await? else {
                return Ok(None);
            };
            prompt = SessionCall::of_prompt::<F>(made.prompt, made.file, made.options, made.choices);
            (&prompt, reading)
        }
    };
    let call = sessions.as_known(call, base_env);
    let decide = |program: Arc<Program>, is_looked_at| {
        let options = F::options(Some(&call.setup), call.choices.as_ref());
        Ok(Decided {
            installed: program.installed(&cli.provider, &cli.options, F::ENGINE, options, F::line)?,
            program,
            is_looked_at,
        })
    };
    let fields = |without: &[&'static str]| match call.without(without) {
        Some(other) => other.fields,
        None => call.fields.clone(),
    };
    let begin = |turn: NextTurn| -> Beginning<'_> {
        Box::pin(async move {
            let other = call.without(&turn.without);
            let asked = TurnAsked {
                attempt,
                call: other.as_ref().unwrap_or(call),
                installed: &turn.decided.installed,
                support: turn.decided.program.support(&cli.provider, F::ENGINE),
                is_looked_at: turn.decided.is_looked_at,
                takes_waiting: turn.takes_waiting,
            };
            sessions.begin(&asked).await
        })
    };
    let driven = Driven {
        engine: F::ENGINE,
        may_continue: call.may_continue(),
        kept: sessions.form.kept(),
        decide: &decide,
        fields: &fields,
        begin: &begin,
    };
    driven.drive(attempt, reading, info).await
}

/// A turn that begins.
type Beginning<'a> = Pin<Box<dyn Future<Output = Result<Begun, Unusable>> + Send + 'a>>;

/// The fields that a call puts into its request, if it does without those of some names.
type FieldsWithout<'a> = dyn Fn(&[&'static str]) -> Vec<SentField> + Sync + 'a;

/// The turn that the driver wants next.
struct NextTurn {
    decided: Decided,
    /// The names of the fields that the call does without.
    without: Vec<&'static str>,
    /// False once a waiting process turned out to be gone.
    takes_waiting: bool,
}

/// A call as the driver sees it: what depends on the form is behind functions, so that the driver is compiled once.
struct Driven<'a> {
    engine: EngineUsed,
    /// True if a session may know the beginning of the thread.
    may_continue: bool,
    /// The replies that the form keeps.
    kept: Option<&'a KeptReplies>,
    /// The facts of an installed CLI, which was looked at for this turn or is known from the cache.
    decide: &'a (dyn Fn(Arc<Program>, bool) -> Result<Decided, Box<ProviderError>> + Sync),
    fields: &'a FieldsWithout<'a>,
    /// Begins a turn.
    begin: &'a (dyn Fn(NextTurn) -> Beginning<'a> + Sync),
}

impl Driven<'_> {
    /// Makes an attempt of the call; `None` if the next engine is to make it.
    async fn drive(
        &self,
        attempt: &CliAttempt<'_>,
        reading: Reading<'_>,
        info: &mut RunInfo,
    ) -> Result<Option<AttemptOutcome>, Box<ProviderError>> {
        let CliCall { cli, base_env, .. } = attempt.call;
        let engine = self.engine;
        info.engine = Some(engine);
        let is_auto = cli.options.engine == EngineKind::Auto;
        // From the cache, if somebody has looked at the CLI a short while ago.
        let known = match self.may_continue {
            true => cli.programs.known(base_env),
            false => None,
        };
        let mut decided = match known {
            Some(known) => (self.decide)(known, false)?,
            None => self.look(cli, base_env)?,
        };
        if decided.leaves(attempt, engine).await? {
            return Ok(None);
        }
        if let Some(refused) = reading.unfit {
            return Err(Box::new(refused.clone()));
        }
        let mut permit = match attempt.permit(decided.file(), info).await {
            Some(permit) => permit,
            None => return Ok(Some(AttemptOutcome::Cancelled)),
        };
        attempt.start_clock();
        let model = attempt.call.request.provider_options(cli).choices.model.as_deref();
        let mut notes = attempt.call.request.notes(attempt.number, cli, engine, base_env);
        notes.extend(reading.notes);
        let mut refusals = Refusals::of(self.fields, decided.program.binary(), model);
        let mut takes_waiting = true;
        loop {
            let installed = Arc::clone(&decided.installed);
            let turn = NextTurn {
                decided: decided.clone(),
                without: refusals.without.clone(),
                takes_waiting,
            };
            let outcome = match in_time(attempt, engine, (self.begin)(turn)).await {
                Ok(begun) => {
                    let notes = match refusals.is_again() {
                        true => Vec::new(),
                        false => notes.clone(),
                    };
                    let told = (reading.text_calls.clone(), notes);
                    run_turn(attempt, engine, &installed, begun, told, info).await
                }
                Err(why) => Err(why),
            };
            match outcome {
                Ok(outcome) => {
                    if matches!(outcome, AttemptOutcome::Replied(_) | AttemptOutcome::AskAgain(_)) {
                        refusals.answered();
                    }
                    note_outcome(attempt, engine, &installed.binary, self.kept, &outcome).await;
                    return Ok(Some(outcome));
                }
                Err(Unusable::FlagRefused(flag)) => {
                    capabilities::remember_refused(&installed.binary, &flag);
                    return Ok(Some(AttemptOutcome::FlagRefused(flag)));
                }
                Err(Unusable::Cancelled) => return Ok(Some(AttemptOutcome::Cancelled)),
                Err(Unusable::Failed(mut error)) => {
                    // A warning tells the beginning of its message alone.
                    attempt.call.sink.redactor().clean_error(&mut error);
                    match refusals.failed(&error) {
                        Some(warnings) if !attempt.call.sink.is_committed() => {
                            for warning in warnings {
                                attempt.warn(warning).await;
                            }
                        }
                        _ => return Err(error),
                    }
                }
                Err(Unusable::Left(_)) if is_auto => return Ok(None),
                Err(Unusable::Left(why)) => return Err(auto::refused(cli, engine, why, None)),
                Err(Unusable::Vanished) => takes_waiting = false,
                Err(Unusable::NotLookedAt) => {
                    let now = self.look(cli, base_env)?;
                    let is_same_file = now.file() == decided.file();
                    decided = now;
                    if decided.leaves(attempt, engine).await? {
                        return Ok(None);
                    }
                    if !is_same_file {
                        drop(permit);
                        permit = match attempt.permit(decided.file(), info).await {
                            Some(permit) => permit,
                            None => return Ok(Some(AttemptOutcome::Cancelled)),
                        };
                    }
                }
                Err(Unusable::Unsupported {
                    reason,
                    may_have_asked,
                    ended,
                }) => {
                    drop(permit);
                    let evidence = ended.as_ref().map(|ended| &ended.evidence);
                    let binary = decided.program.binary();
                    fall_back(attempt, engine, binary, &reason, may_have_asked, evidence).await?;
                    return Ok(None);
                }
            }
        }
    }

    /// The facts of the installed CLI, by a look at it.
    fn look(&self, cli: &CliBase, env: &Arc<Vars>) -> Result<Decided, Box<ProviderError>> {
        let program = cli.look(env).map_err(|error| not_found(cli, error))?;
        (self.decide)(program, true)
    }
}

/// Notes what the `outcome` of a turn says of `binary`, and waits until the store of `kept` has its reply.
async fn note_outcome(
    attempt: &CliAttempt<'_>,
    engine: EngineUsed,
    binary: &Binary,
    kept: Option<&KeptReplies>,
    outcome: &AttemptOutcome,
) {
    // A reply that its caller has is in the store.
    if let Some(kept) = kept {
        kept.stored().await;
    }
    if let Some(warning) = store_warning(kept) {
        attempt.warn(warning).await;
    }
    match outcome {
        AttemptOutcome::FlagRefused(flag) => capabilities::remember_refused(binary, flag),
        AttemptOutcome::Replied(_) => capabilities::remember_reply(engine, binary),
        _ => {}
    }
}

/// Leaves the attempt to the next engine, since the CLI lacks something for `used`, and remembers that of `binary`. `evidence` is that of its
/// process's end.
///
/// # Errors
/// A login is missing; `LIVE_UNSUPPORTED` if the caller wants no other engine, or the model may have been asked.
async fn fall_back(
    attempt: &CliAttempt<'_>,
    used: EngineUsed,
    binary: &Binary,
    reason: &str,
    may_have_asked: bool,
    evidence: Option<&Evidence>,
) -> Result<(), Box<ProviderError>> {
    let cli = attempt.call.cli;
    if let Some(error) = login_missing(cli, reason) {
        return Err(error);
    }
    if cli.has_another_form() {
        let remember = match may_have_asked {
            true => capabilities::remember_unserved,
            false => capabilities::remember_not_begun,
        };
        remember(used, binary, reason.to_owned());
    }
    // No model is asked twice.
    if !cli.has_another_form() || may_have_asked {
        return Err(auto::refused(cli, used, reason, evidence));
    }
    attempt.warn(fallen_back(used, reason)).await;
    Ok(())
}

/// The known facts of the installed CLI at the beginning of a turn.
#[derive(Clone)]
struct Decided {
    program: Arc<Program>,
    installed: Arc<Installed>,
    is_looked_at: bool,
}

impl Decided {
    fn file(&self) -> &Path {
        self.program.binary().file()
    }

    /// Returns whether the attempt is left to the next engine, since the CLI is known not to serve `used`.
    ///
    /// # Errors
    /// `LIVE_UNSUPPORTED` if the caller wants no other engine.
    async fn leaves(&self, attempt: &CliAttempt<'_>, used: EngineUsed) -> Result<bool, Box<ProviderError>> {
        let cli = attempt.call.cli;
        let LiveSupport::Unserved(unserved) = self.program.support(&cli.provider, used) else {
            return Ok(false);
        };
        if cli.has_another_form() {
            if cli.tells(used, unserved, &self.program) {
                attempt.warn(fallen_back(used, &unserved.why)).await;
            }
            return Ok(true);
        }
        match cli.is_refused(used, unserved) {
            true => Err(auto::refused(cli, used, &unserved.why, None)),
            false => Ok(false),
        }
    }
}

/// Waits for `starting`, unless the call is cancelled or its time is up before.
async fn in_time<T>(
    attempt: &CliAttempt<'_>,
    engine: EngineUsed,
    starting: impl Future<Output = Result<T, Unusable>>,
) -> Result<T, Unusable> {
    let limit = attempt.limits(engine).timeout;
    let since = attempt.start_clock();
    let late = async {
        match limit {
            Some(limit) => tokio::time::sleep_until(since + limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = attempt.call.cancel.cancelled() => Err(Unusable::Cancelled),
        started = starting => started,
        () = late => {
            let limit = limit.unwrap_or_default().as_millis();
            let reason = format!("no answer within {limit} ms: the CLI did not become ready");
            Err(Unusable::Failed(attempt.call.cli.refuse(Code::Timeout, reason)))
        }
    }
}

/// Runs a turn that was begun: reports its beginning, with `told` of the call and the session's facts, and drives its exchange.
async fn run_turn(
    attempt: &CliAttempt<'_>,
    engine_used: EngineUsed,
    installed: &Installed,
    begun: Begun,
    (text_calls, told): (TextCalls, Vec<Event>),
    info: &mut RunInfo,
) -> Result<AttemptOutcome, Unusable> {
    let CliCall { cli, request, sink, .. } = attempt.call;
    let Begun {
        turn,
        origin,
        session,
        notes,
        sent,
        figures,
    } = begun;
    if engine_used == EngineUsed::Live {
        info.continued = Some(origin == Origin::Continued);
        info.session = Some(session);
    }
    let mut fields = json!({"attempt": attempt.number, "flags": installed.line.flags});
    if let (Value::Object(fields), Value::Object(figures)) = (&mut fields, figures) {
        fields.extend(figures);
    }
    let opening = AttemptStart {
        message: match origin {
            Origin::Continued => "continued",
            Origin::Fresh | Origin::Spare => "started",
        },
        fields,
        notes: told.into_iter().chain(notes).collect(),
    };
    let fold = Fold::new(request.call_ids.clone(), text_calls)
        .with_own_tools(request.own_tools(cli))
        .with_listener(sink.has_listener());
    run_attempt(attempt.attempt(engine_used, sent, fold, opening), turn, info).await
}

/// The warning that the next engine makes the call, with the reason.
fn fallen_back(engine: EngineUsed, reason: &str) -> Event {
    let what = auto::takes(engine);
    let message = format!("the installed CLI takes no {what} ({reason}): asked in print form");
    warning("ENGINE_FALLBACK", message)
}

/// The status of an answer to a request that an API can't take.
const BAD_REQUEST: u16 = 400;

/// A call whose API refuses a field that the call has put into its request: made once more without it.
///
/// An API names what it refuses, as a rule, and that is remembered for the binary, with its login and environment, and for the model. If it
/// refuses a request and names nothing, the call is made once without any such field: if that succeeds, the fields were at fault; if not,
/// such refusals of this API are never again taken for theirs.
struct Refusals<'a> {
    fields: &'a FieldsWithout<'a>,
    binary: Binary,
    model: String,
    /// The names of the fields that the call does without.
    without: Vec<&'static str>,
    /// The names of those fields that were left out although the API has named none.
    suspects: Vec<&'static str>,
    /// True once the call was refused: it is made once more.
    is_again: bool,
}

impl<'a> Refusals<'a> {
    /// The refusals of a call with `fields` by the API of `binary`, which asks `model`.
    fn of(fields: &'a FieldsWithout<'a>, binary: &Binary, model: Option<&str>) -> Refusals<'a> {
        let model = model.unwrap_or_default().to_owned();
        let is_refused = |name: &'static str, value: &str| {
            capabilities::is_of_api(binary, &ApiRefusal::OfField(model.clone(), name))
                || capabilities::is_of_api(binary, &ApiRefusal::of_value(&model, name, value))
        };
        let all = fields(&[]);
        let refused = all.iter().filter(|sent| is_refused(sent.field.name, &sent.value));
        Refusals {
            without: refused.map(|sent| sent.field.name).collect(),
            fields,
            binary: binary.clone(),
            suspects: Vec::new(),
            is_again: false,
            model,
        }
    }

    /// Returns whether the call is made once more: what is told once of it has been told.
    fn is_again(&self) -> bool {
        self.is_again
    }

    /// The fields of the call as it is made.
    fn sent(&self) -> Vec<SentField> {
        (self.fields)(&self.without)
    }

    /// Takes the failure of the call; returns the warnings with which it is made once more, if a field of its may be at fault.
    pub fn failed(&mut self, error: &ProviderError) -> Option<Vec<Event>> {
        if error.http_status != Some(BAD_REQUEST) {
            return None;
        }
        if !self.suspects.is_empty() {
            self.remember(ApiRefusal::Unrelated(self.model.clone()));
            return None;
        }
        let named: Vec<&'static RequestField> = self.named(&error.message);
        let left_out: Vec<&'static RequestField> = match named.is_empty() {
            false => named,
            true if self.may_be_at_fault(error) => self.sent().iter().map(|sent| sent.field).collect(),
            true => return None,
        };
        if left_out.is_empty() {
            return None;
        }
        self.is_again = true;
        self.without.extend(left_out.iter().map(|field| field.name));
        let why = clip(&error.message, 160);
        let of_field = |field: &&RequestField| {
            let message = format!(
                "{} is asked {}: the API has refused a request with `{}`: {why}",
                error.provider, field.otherwise, field.name
            );
            warning(field.warning, message)
        };
        Some(left_out.iter().map(of_field).collect())
    }

    /// Notes that the call was answered: the fields without which it was made once more were at fault.
    pub fn answered(&mut self) {
        for name in std::mem::take(&mut self.suspects) {
            self.remember(ApiRefusal::OfField(self.model.clone(), name));
        }
    }

    /// The fields of the call that a refusal with `message` names, which are remembered.
    fn named(&self, message: &str) -> Vec<&'static RequestField> {
        let mut named = Vec::new();
        for sent in &self.sent() {
            let name = sent.field.name;
            let refusal = match sent.field.refused(message) {
                None => continue,
                Some(Refused::Field) => ApiRefusal::OfField(self.model.clone(), name),
                Some(Refused::Value) => ApiRefusal::of_value(&self.model, name, &sent.value),
            };
            self.remember(refusal);
            named.push(sent.field);
        }
        named
    }

    /// Returns whether fields may be at fault for a refusal that names none; then they are suspects.
    fn may_be_at_fault(&mut self, error: &ProviderError) -> bool {
        let is_innocent = || capabilities::is_of_api(&self.binary, &ApiRefusal::Unrelated(self.model.clone()));
        if error.code != Code::InvalidRequest || is_innocent() {
            return false;
        }
        self.suspects = self.sent().iter().map(|sent| sent.field.name).collect();
        true
    }

    fn remember(&self, refusal: ApiRefusal) {
        capabilities::remember_of_api(&self.binary, refusal);
    }
}
