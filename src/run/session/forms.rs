//! The forms of kept processes: which there are, and which a provider has; and their calls.
//!
//! A form that remembers is sent the thread. One without memory is sent the prompt of the print form, or the session that carries it if
//! the CLI would read a prompt as more than text: the events and the verdict are those of a print run.

use std::pin::Pin;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::ahead::{self, NextCallJson};
use super::sessions::{Sessions, warning};
use super::{Reading, drive};
use crate::attempt::AttemptOutcome;
use crate::cli_attempt::{CliAttempt, CliCall};
use crate::cli_base::CliBase;
use crate::cli_request::{CliRequest, emulated};
use crate::print::{media_prompt, not_callable};
use dfp_exchange::acp::{KeptAgent, WarmAgent};
use dfp_exchange::claude_live::Claude;
use dfp_exchange::codex_live::Codex;
use dfp_exchange::copilot_live::Copilot;
use dfp_exchange::form::{Form, ListedModels, SessionCall, SetupOf, Takes};
use dfp_exchange::installed::Binary;
use dfp_exchange::live::kept::KeptReplies;
use dfp_exchange::opencode_live::Opencode;
use dfp_exchange::qwen_live::Qwen;
use dfp_exchange::random::uuid;
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, RunInfo};
use dfp_process::Vars;
use dfp_provider::MediaForm;
use dfp_provider::choices::Choices;
use dfp_provider::command::PrivateSession;
use dfp_provider::models::ListedModel;
use dfp_provider::options::{EngineKind, Options};
use dfp_provider::{Provider, SessionParts, WarmForm, WarmThread, command};

/// A boxed future that may fail with a provider's error.
pub(crate) type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, Box<ProviderError>>> + Send + 'a>>;

/// Makes the enums of all forms from the list of their names and types.
macro_rules! forms {
    ($($(#[$attribute:meta])* $name:ident($form:ty)),+ $(,)?) => {
        /// The kept processes of a provider, and their sessions.
        #[derive(Debug)]
        pub(crate) enum KeptEngine {
            $($(#[$attribute])* $name(Arc<Sessions<$form>>),)+
        }

        /// A call as one engine takes it: in one of these sessions, as it is sent there, or as a [prompt](as_prompt) for `None`.
        pub(crate) enum EngineCall {
            $($(#[$attribute])* $name(Arc<Sessions<$form>>, Option<SessionCall<SetupOf<$form>>>),)+
            /// A process for this call alone.
            Print,
        }

        impl KeptEngine {
            /// The engine that their calls have.
            pub fn engine(&self) -> EngineUsed {
                match self {
                    $($(#[$attribute])* KeptEngine::$name(_) => <$form>::ENGINE,)+
                }
            }

            /// Starts what the next call needs, and waits until it has answered.
            pub fn prewarm<'a>(&'a self, cli: &'a Arc<CliBase>, next: NextCallJson, env: &'a Arc<Vars>) -> Coming<'a, ()> {
                match self {
                    $($(#[$attribute])* KeptEngine::$name(sessions) => {
                        Box::pin(ahead::prewarm(sessions, cli, next, env))
                    })+
                }
            }

            /// The models that such a process tells for its login, or the reason why it does not.
            pub fn models<'a>(&'a self, cli: &'a Arc<CliBase>, env: &'a Arc<Vars>) -> Coming<'a, ListedModels> {
                match self {
                    $($(#[$attribute])* KeptEngine::$name(sessions) => {
                        Box::pin(ahead::models(sessions, cli, env))
                    })+
                }
            }

            /// The models that a process of `binary` has told, if one has; nothing is started.
            pub fn reported_models(&self, binary: &Binary) -> Option<Vec<ListedModel>> {
                match self {
                    $($(#[$attribute])* KeptEngine::$name(sessions) => sessions.form.reported_models(binary),)+
                }
            }

            /// Drops what is kept beside the sessions, since the provider is closed. The sessions end by themselves.
            pub fn forget(&self) {
                match self {
                    $($(#[$attribute])* KeptEngine::$name(sessions) => sessions.form.forget(),)+
                }
            }
        }

        /// The call of `request` as each engine takes it, the best first: the processes in `kept`, and then print.
        pub(crate) fn calls(kept: &[KeptEngine], cli: &CliBase, request: &mut CliRequest) -> Vec<EngineCall> {
            let mut parts = request.in_session(cli);
            let of_kept = kept.iter().filter_map(|kept| match kept {
                $($(#[$attribute])* KeptEngine::$name(sessions) => {
                    let call = match <$form>::TAKES {
                        Takes::Thread => Some(SessionCall::new::<$form>(parts.take()?)),
                        Takes::Prompt => None,
                    };
                    Some(EngineCall::$name(Arc::clone(sessions), call))
                })+
            });
            let print = cli.provider.has_print().then_some(EngineCall::Print);
            of_kept.chain(print).collect()
        }

        impl EngineCall {
            /// Makes an attempt of the call; `None` if the engine leaves it to the next one.
            pub fn attempt<'a>(
                &'a self,
                attempt: &'a CliAttempt<'a>,
                info: &'a mut RunInfo,
            ) -> Coming<'a, Option<AttemptOutcome>> {
                match self {
                    $($(#[$attribute])* EngineCall::$name(sessions, call) => {
                        Box::pin(drive(sessions, call.as_ref(), attempt, info))
                    })+
                    EngineCall::Print => Box::pin(async move { attempt.print(info).await.map(Some) }),
                }
            }
        }
    };
}

forms! {
    Claude(Claude),
    Qwen(Qwen),
    Codex(Codex),
    Opencode(Opencode),
    Copilot(Copilot),
    Agent(KeptAgent),
    Warm(WarmAgent),
    #[cfg(test)]
    MadeUp(super::tests::made_up::MadeUp),
}

/// The folders in `exchange/` of the forms that remember.
#[cfg(test)]
const FOLDERS: [&str; 6] = [
    "claude_live",
    "qwen_live",
    "codex_live",
    "opencode_live",
    "copilot_live",
    "acp",
];

/// The live processes of `provider`, whose form has its code in `exchange/<folder>`; `None` if there is no such form.
fn live(folder: &str, provider: &Provider, options: &Options, runs: &TaskTracker) -> Option<KeptEngine> {
    fn of<F: Form>(form: F, options: &Options, runs: &TaskTracker) -> Arc<Sessions<F>> {
        Arc::new(Sessions::new(form, options, runs))
    }
    let kept = || KeptReplies::of(&provider.id, options);
    Some(match folder {
        "claude_live" => KeptEngine::Claude(of(Claude::keeping(kept()), options, runs)),
        "qwen_live" => {
            let long_pauses = provider.errors.long_pauses;
            KeptEngine::Qwen(of(Qwen { long_pauses }, options, runs))
        }
        "codex_live" => KeptEngine::Codex(of(Codex::keeping(kept()), options, runs)),
        "opencode_live" => KeptEngine::Opencode(of(Opencode, options, runs)),
        "copilot_live" => KeptEngine::Copilot(of(Copilot, options, runs)),
        "acp" => {
            let own = provider.warm.unwrap_or(WarmForm::ANY);
            KeptEngine::Agent(of(KeptAgent { own }, options, runs))
        }
        _ => return None,
    })
}

/// The kept processes of `provider` that its calls may use, the best first.
pub(crate) fn of(provider: &Provider, options: &Options, runs: &TaskTracker) -> Vec<KeptEngine> {
    let form = provider.live.filter(|_| options.engine.may_be_live());
    let form = form.and_then(|form| live(form.folder, provider, options, runs));
    let warm = provider.warm.filter(|_| options.engine.may_be_warm());
    let warm = warm.map(|own| KeptEngine::Warm(Arc::new(Sessions::new(WarmAgent { own }, options, runs))));
    form.into_iter().chain(warm).collect()
}

/// A call that is sent as a prompt.
pub(super) struct Prompted<'a> {
    pub prompt: String,
    /// The prompt as a session of the CLI's own, for a process that gets it in that way.
    pub file: Option<PrivateSession>,
    pub options: &'a Options,
    /// The options of the process that the call itself chose.
    pub choices: Option<Choices>,
}

/// The call of `attempt` as a prompt, and what is the same of its turn for every form; `None` if it can't be one.
pub(super) async fn as_prompt<'a>(
    attempt: &CliAttempt<'a>,
) -> Result<Option<(Prompted<'a>, Reading<'a>)>, Box<ProviderError>> {
    let CliCall { cli, request, .. } = attempt.call;
    // The CLI calls tools or works for itself.
    if request.tool_server.is_some() || request.watching {
        return Ok(None);
    }
    let is_auto = cli.options.engine == EngineKind::Auto;
    let printed = request.printed(cli);
    let warm = cli.provider.warm.unwrap_or(WarmForm::ANY);
    let schema = request.native_schema().filter(|_| warm.takes_schema);
    // The CLI checks the answer against the schema in print form only.
    if is_auto && printed.asking_prompt.is_some() && schema.is_none() {
        return Ok(None);
    }
    let asking = printed.asking_prompt.as_ref().filter(|_| schema.is_none());
    let rendered = asking.unwrap_or(&printed.prompt);
    let prompt = &rendered.text;
    // A history is never read as a command, and holds blocks where the CLI has a form for them.
    let is_history = matches!(warm.thread, WarmThread::History { .. });
    let holds_blocks = is_history && matches!(cli.provider.media.form, Some(MediaForm::Session { .. }));
    let needs_own_process = if !rendered.media.is_empty() && !holds_blocks {
        Some("the thread holds images or documents")
    } else if !is_history && prompt.trim_start().starts_with('/') {
        // The CLI would answer `/help` itself, also behind white space (gemini 0.61.0), and a lone message is sent unchanged.
        Some("the prompt begins with \"/\"")
    } else {
        None
    };
    if let Some(why) = needs_own_process {
        if !cli.provider.has_print() {
            let reason = format!("{why}, which an agent may take for a command of its own");
            let error = cli.refuse(Code::UnsupportedContent, reason);
            return Err(Box::new(
                error.with_hint("leave `inputEncoding` at \"xml\", or put something before it"),
            ));
        }
        let message = format!("{why}, which a warm process does not take: asked in print form");
        if !is_auto {
            attempt.warn(warning("ENGINE_FALLBACK", message)).await;
        }
        return Ok(None);
    }
    let choices = request.chosen.options.as_ref().map(|options| options.choices.clone());
    let options = request.provider_options(cli);
    let id = uuid();
    let placed = match rendered.media.as_slice() {
        [] => Vec::new(),
        _ => media_prompt(cli, rendered)?.placed,
    };
    let parts = SessionParts {
        id: &id,
        prompt,
        media: &placed,
    };
    let file = is_history.then(|| command::session(&cli.provider, options, parts));
    let file = file.flatten().map(|file| PrivateSession {
        schema: schema.map(|schema| schema.text().to_owned()),
        ..file
    });
    let prompted = Prompted {
        prompt: prompt.clone(),
        file,
        options,
        choices,
    };
    let why_emulated = match asking {
        Some(_) => Some("a warm process can't be told one"),
        None => request.emulated_because,
    };
    let reading = Reading {
        text_calls: printed.text_calls.clone(),
        notes: {
            let uncallable = request.uncallable.then(not_callable);
            let emulated = why_emulated.and_then(|why| emulated(cli, why));
            uncallable.into_iter().chain(emulated).collect()
        },
        unfit: printed.unprintable.as_deref(),
    };
    Ok(Some((prompted, reading)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_provider::{ALL, custom};

    #[test]
    fn every_providers_form_is_here_and_every_form_is_a_providers() {
        let agent = custom::agent(r#"{"command":"a"}"#).unwrap();
        let named = ALL.iter().copied().chain([&agent]).filter_map(|provider| provider.live);
        let mut named: Vec<&str> = named.map(|live| live.folder).collect();
        let mut here: Vec<&str> = FOLDERS.to_vec();
        named.sort_unstable();
        here.sort_unstable();
        assert_eq!(named, here);
        let options = Options::parse(&agent, "{}").unwrap();
        for folder in here {
            assert!(
                live(folder, &agent, &options, &TaskTracker::new()).is_some(),
                "{folder}"
            );
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../exchange");
            assert!(
                std::path::Path::new(path).join(folder).join("mod.rs").is_file(),
                "{folder}"
            );
        }
    }
}
