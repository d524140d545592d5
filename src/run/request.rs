//! A call, from its JSON to its checked form, and the content that a provider takes.
//!
//! In: an [`EncodedRequest`] from JavaScript, or a [`Request`] that was made here. Out: `Checked`. The JSON is read once, on the
//! runtime's threads; then messages and tools are values, and only the arguments of tools stay the text they were. Content that the
//! provider can't take is refused before anything starts, with `UNSUPPORTED_CONTENT`, which names the block, the provider, and those that
//! can take it.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::cli_base::CliBase;
use super::record::RecordOptions;
use super::structured;
use dfp_exchange::bridge::{BridgeOptions, ToolCallRequest};
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::content::{self, Accepts, Refused, Takes, Why};
use dfp_model::message::{Message, Role, ToolSpec};
use dfp_model::retry::{DEFAULT_MAX_WAIT_MS, QuotaWait};
use dfp_model::thread::Thread;
use dfp_process::limit::NestedPermit;
use dfp_process::{Tees, Vars};
use dfp_provider::MediaForm;
use dfp_provider::choices::CallChoices;
use dfp_provider::options::{EngineKind, OutputFormat, PromptStyle};
use dfp_record::runlog::Prompt;
use dfp_text::decode::LineObserver;
use dfp_text::schema::Schema;

/// The options of a call beside its messages and tools.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CallOptions {
    /// True if somebody reads the events.
    pub events: bool,
    /// True if pieces of messages are wanted.
    pub partial: bool,
    /// The limit of an attempt, ms, instead of the provider's; 0 means none.
    pub timeout: Option<u64>,
    /// Overrides the provider's option whether to wait for a used-up plan.
    #[serde(default)]
    pub quota: Option<QuotaChoice>,
    /// True if somebody takes the records.
    #[serde(default)]
    pub log: bool,
    /// The place where the run is recorded.
    pub record: Option<RecordOptions>,
    /// True for the caller of the adapter, whose lone user message may be a whole thread. A user's text never is.
    #[serde(default)]
    pub documents: bool,
    /// True in an agent's run: a model without tools calls none, and a call of its that can't be read is reported back to it.
    #[serde(default)]
    pub unknown_tools: bool,
    /// The JSON Schema that the reply has to fit.
    #[serde(default, rename = "outputSchema")]
    pub output_schema: Option<SchemaOnce>,
    /// True if the thread does not go on, so that no session is kept for it.
    #[serde(default)]
    pub once: bool,
    /// The options that the call chooses for itself (`model`, `reasoning`, `toolChoice`, …), not checked yet.
    #[serde(default)]
    pub choices: ChoicesOnce,
}

/// The JSON Schema that a reply has to fit. Only its text is shared here, since the compiled schema is cached elsewhere.
pub type SchemaOnce = ReadOnce<Box<RawValue>, ()>;
/// The options that a call chooses for itself, read once.
pub type ChoicesOnce = ReadOnce<Map<String, Value>, CallChoices>;

/// A call's own choice whether to wait for a plan.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaChoice {
    wait: bool,
    max_wait_ms: Option<u64>,
}

impl CallOptions {
    /// The time that one attempt may take, if the provider's own limit is `own`.
    pub(super) fn timeout_or(&self, own: Option<Duration>) -> Option<Duration> {
        self.timeout
            .map_or(own, |ms| (ms > 0).then(|| Duration::from_millis(ms)))
    }

    /// The wait for a used-up plan, if the provider's own option is `own`.
    pub(super) fn quota_or(&self, own: Option<QuotaWait>) -> Option<QuotaWait> {
        let given = |choice: QuotaChoice| {
            choice.wait.then(|| QuotaWait {
                max_wait_ms: choice.max_wait_ms.unwrap_or(DEFAULT_MAX_WAIT_MS),
            })
        };
        self.quota.map_or(own, given)
    }
}

/// A call: a thread, the tools it may call, and its options.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub messages: Vec<Message>,
    /// The tools the model may call.
    pub tools: Vec<ToolSpec>,
    /// The further options of the call.
    pub options: CallOptions,
    /// The environment that a process of the call inherits; `None` is this process's own.
    pub env: Option<Arc<Vars>>,
    /// A place beside the queue, for a call whose answer another call waits for.
    pub nested_permit: Option<NestedPermit>,
    /// The compiled form of [`CallOptions::output_schema`] (set by `Unread::read`).
    pub output: Option<Arc<Schema>>,
    /// The receiver of the tool calls, if a CLI itself is to call the tools.
    pub callbacks: Option<(mpsc::Sender<ToolCallRequest>, BridgeOptions)>,
    /// The work that a CLI is to do for itself: nothing else of the call is read then.
    pub watched: Option<Watched>,
}

/// The work that a CLI does for itself: its events are passed on unchanged.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The prompt, which goes to it unchanged.
    pub prompt: String,
    /// The receivers of copies of what the process prints.
    pub tees: Tees,
    /// The observer of the lines that the process prints, as they are decoded.
    pub observer: Arc<dyn LineObserver>,
}

/// A call as the façade encodes it.
#[derive(Debug)]
pub struct EncodedRequest {
    pub messages: Thread,
    /// The tools: an array of [`ToolSpec`]s.
    pub tools: String,
    /// The [`CallOptions`] as JSON.
    pub options: String,
}

/// The fault of a call that can't be read, before the provider is known.
pub(super) type Unreadable = (Code, String);

/// A call that was not read yet.
#[derive(Debug)]
pub(super) enum Unread {
    Encoded(EncodedRequest),
    /// A call that was made here. Its schema is not compiled yet.
    Made(Box<Request>),
}

impl Unread {
    /// Reads the call's JSON, and compiles its schema, which may take its time. `timeout` is the provider's.
    ///
    /// # Errors
    /// The part that can't be read, and the reason; the schema is not usable, or compiling it took too long.
    pub(super) async fn read(self, timeout: Option<Duration>) -> Result<Request, Unreadable> {
        let unreadable = |code, what: &str| {
            let what = what.to_owned();
            move |error: serde_json::Error| (code, format!("{what} can't be read: {error}"))
        };
        let mut request = match self {
            Unread::Made(request) => *request,
            Unread::Encoded(encoded) => Request {
                messages: (encoded.messages.read())
                    .map_err(|why| (Code::InvalidMessages, format!("messages can't be read: {why}")))?,
                tools: serde_json::from_str(&encoded.tools).map_err(unreadable(Code::InvalidTool, "tools"))?,
                options: serde_json::from_str(&encoded.options)
                    .map_err(unreadable(Code::InvalidOption, "the call's options"))?,
                ..Request::default()
            },
        };
        let Some(schema) = &request.options.output_schema else {
            return Ok(request);
        };
        let timeout = request.options.timeout_or(timeout);
        let time_up = async {
            match timeout {
                Some(timeout) => sleep(timeout).await,
                None => pending().await,
            }
        };
        let compiled = tokio::select! {
            biased;
            compiled = structured::read(schema.original()) => compiled.map_err(|reason| (Code::InvalidOption, reason)),
            () = time_up => Err((Code::Timeout, "`timeout` had passed before `outputSchema` was compiled".to_owned())),
        };
        request.output = Some(compiled?);
        Ok(request)
    }
}

fn unwritable(error: serde_json::Error) -> Unreadable {
    (
        Code::InvalidMessages,
        format!("messages can't be written into the run log: {error}"),
    )
}

/// A call that the provider can take.
pub(super) struct Checked {
    /// The messages, with text as content wherever it is nothing else.
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub options: CallOptions,
    /// The compiled schema of the option `outputSchema`.
    pub output: Option<Arc<Schema>>,
    /// The thread's call ids, which no new call may repeat.
    pub call_ids: HashSet<String>,
    /// The thread as its run log has it, if there is to be one.
    pub recorded: Option<Prompt>,
    pub nested_permit: Option<NestedPermit>,
}

impl Request {
    /// Checks the call. `accepts` is the content that the provider `who` takes beside text; `check_timeout` checks the call's own
    /// timeout.
    ///
    /// # Errors
    /// The part that the provider can't take.
    pub(super) fn check(
        self,
        who: &str,
        accepts: &Accepts,
        check_timeout: impl Fn(u64) -> Result<(), String>,
    ) -> Result<Checked, Unreadable> {
        let Request {
            mut messages,
            tools,
            options,
            nested_permit,
            output,
            ..
        } = self;
        if let Some(ms) = options.timeout
            && let Err(allowed) = check_timeout(ms)
        {
            let reason = format!("the call's option \"timeout\" must be {allowed}; given: {ms}");
            return Err((Code::InvalidOption, reason));
        }
        // The log has the thread as it came.
        let recorded = match &options.record {
            Some(record) => Some((to_raw_value(&messages).map_err(unwritable)?, record.prompts)),
            None => None,
        };
        settle(&mut messages, accepts, who).map_err(|reason| (Code::UnsupportedContent, reason))?;
        let says_something = |message: &Message| {
            !message.content.as_text().trim().is_empty() || !message.tool_calls.is_empty() || message.role == Role::Tool
        };
        if !messages.iter().any(says_something) {
            let reason = "there is nothing to send: no message has any text".to_owned();
            return Err((Code::EmptyPrompt, reason));
        }
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        let call_ids = calls.map(|call| call.id.clone()).filter(|id| !id.is_empty()).collect();
        let recorded = recorded.map(|(thread, whole)| {
            let names = tools.iter().map(|tool| tool.name.clone()).collect();
            Prompt::new(thread, &messages, names, whole)
        });
        Ok(Checked {
            recorded,
            messages,
            tools,
            options,
            output,
            call_ids,
            nested_permit,
        })
    }
}

/// A value given as a `G`, which is read as a `T`. A clone shares both.
#[derive(Debug)]
pub struct ReadOnce<G, T>(Arc<Contents<G, T>>);

#[derive(Debug)]
struct Contents<G, T> {
    original: G,
    read: OnceLock<Result<T, String>>,
}

impl<G, T> ReadOnce<G, T> {
    fn new(original: G) -> ReadOnce<G, T> {
        let read = OnceLock::new();
        ReadOnce(Arc::new(Contents { original, read }))
    }

    /// The value as it was given.
    pub fn original(&self) -> &G {
        &self.0.original
    }

    /// The value as `read` reads it; `read` is called the first time only.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn read(&self, read: impl FnOnce(&G) -> Result<T, String>) -> Result<&T, String> {
        let known = self.0.read.get_or_init(|| read(&self.0.original));
        known.as_ref().map_err(Clone::clone)
    }
}

impl<G, T> Clone for ReadOnce<G, T> {
    fn clone(&self) -> ReadOnce<G, T> {
        ReadOnce(Arc::clone(&self.0))
    }
}

impl<G: Default, T> Default for ReadOnce<G, T> {
    fn default() -> ReadOnce<G, T> {
        ReadOnce::new(G::default())
    }
}

impl<'de, G: Deserialize<'de>, T> Deserialize<'de> for ReadOnce<G, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReadOnce<G, T>, D::Error> {
        G::deserialize(deserializer).map(ReadOnce::new)
    }
}

/// Turns the content of `messages` into text wherever it holds nothing else.
///
/// # Errors
/// A block of a type that is not known, or one that `accepts` does not have, which is what `who` takes.
pub(super) fn settle(messages: &mut [Message], accepts: &Accepts, who: &str) -> Result<(), String> {
    content::settle(messages)
        .and_then(|()| content::check(messages, accepts))
        .map_err(|refused| reason(&refused, who, accepts))
}

fn reason(Refused { at, what, why }: &Refused, who: &str, accepts: &Accepts) -> String {
    match why {
        Why::NotTaken => format!("{at} is {what}, which {who} can't take: it takes {}", taken(accepts)),
        Why::Address => {
            format!(
                "{at} is the address of {what}, which {who} takes only with its data, as base64 or bytes; nothing is fetched here"
            )
        }
        Why::TooLarge { bytes, limit } => {
            format!("{at} is {what} of {bytes} bytes as base64, and {who} takes {limit} of one")
        }
        Why::TooLargeTogether { bytes, limit } => format!(
            "{at} is {what} with which what is no text in this thread has {bytes} bytes as base64, and {who} takes {limit} in one request"
        ),
    }
}

/// The accepted kinds of content in words.
fn taken(accepts: &Accepts) -> String {
    let (users, results) = match (accepts.users, accepts.results) {
        (Takes::TEXT, Takes::TEXT) => return "text only".to_owned(),
        both => both,
    };
    let kinds = |takes: Takes| match takes.kinds {
        [] => "text only".to_owned(),
        kinds => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.plural()).collect();
            format!("text and {}", names.join(" and "))
        }
    };
    let types = match users.types {
        [] => String::new(),
        types => format!(" ({})", types.join(", ")),
    };
    format!("{}{types} of the user and {} of tools", kinds(users), kinds(results))
}

/// The content beside text that this provider takes with the engine of its options.
pub(super) fn accepts(cli: &CliBase) -> &Accepts {
    match cli.options.engine {
        EngineKind::Live => &cli.provider.media.live,
        EngineKind::Auto if cli.provider.live.is_some() => &cli.provider.media.live,
        EngineKind::Print | EngineKind::Warm | EngineKind::Auto => print_accepts(cli),
    }
}

/// The content beside text that one process per call takes.
pub(super) fn print_accepts(cli: &CliBase) -> &Accepts {
    let options = &cli.options;
    match cli.provider.media.form {
        // The CLI reads lines only if it also writes them, and only from standard input.
        Some(MediaForm::UserLine)
            if options.output_format != OutputFormat::StreamJson || options.prompt_style != PromptStyle::Stdin =>
        {
            &Accepts::TEXT
        }
        // The files have to lie in the folder it runs in, and no other file may lie there that a text could name.
        Some(MediaForm::NamedFiles) if options.built_in_tools || options.cwd.is_some() => &Accepts::TEXT,
        _ => &cli.provider.media.print,
    }
}

/// The hint for content that the live engine takes and print does not.
const LIVE_TAKES_IT: &str = "set `engine: \"live\"`, whose engine takes it, with a version of the CLI that has one";

/// The reason for which `messages` can't be the prompt of one process per call.
pub(super) fn unprintable(cli: &CliBase, messages: &[Message]) -> Option<Box<ProviderError>> {
    let accepts = print_accepts(cli);
    let refused = content::check(messages, accepts).err()?;
    let who = format!("{}'s print engine", cli.id());
    let refusal = refuse_content(cli, &refused, &who, accepts);
    // The call comes from a live engine that the installed CLI does not have, or other CLIs are not known to have it.
    let is_for_live = cli.provider.live.is_some() && content::check(messages, &cli.provider.media.live).is_ok();
    Some(match is_for_live {
        true => Box::new(refusal.with_hint(LIVE_TAKES_IT)),
        false => refusal,
    })
}

/// The error of a block that `who`, which takes what `accepts` says, can't take.
pub(super) fn refuse_content(cli: &CliBase, refused: &Refused, who: &str, accepts: &Accepts) -> Box<ProviderError> {
    cli.refuse(Code::UnsupportedContent, reason(refused, who, accepts))
}

#[cfg(test)]
mod tests;
