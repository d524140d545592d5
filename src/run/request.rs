//! A call, from its JSON to its checked form.
//!
//! In: an [`EncodedRequest`] from JavaScript, or a [`Request`] that was made here. Out: `Checked`. The JSON is read once, on the
//! runtime's threads; then messages and tools are values, and only the arguments of tools stay the text they were.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::record::RecordOptions;
use super::{content, structured};
use dfp_model::error::Code;
use dfp_model::message::content::Accepts;
use dfp_model::message::{Message, Role, ToolSpec};
use dfp_model::retry::quota::{DEFAULT_MAX_WAIT_MS, QuotaWait};
use dfp_model::thread::Thread;
use dfp_process::Vars;
use dfp_process::limit::NestedPermit;
use dfp_provider::choices::CallChoices;
use dfp_record::runlog::Prompt;
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
    /// The compiled form of [`CallOptions::output_schema`] (set by `Request::compile`).
    pub output: Option<Arc<Schema>>,
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

impl EncodedRequest {
    /// Reads the call's JSON.
    ///
    /// # Errors
    /// The part that can't be read, and the reason.
    pub(super) fn read(self) -> Result<Request, Unreadable> {
        let unreadable = |code, what: &str| {
            let what = what.to_owned();
            move |error: serde_json::Error| (code, format!("{what} can't be read: {error}"))
        };
        Ok(Request {
            messages: (self.messages.read())
                .map_err(|why| (Code::InvalidMessages, format!("messages can't be read: {why}")))?,
            tools: serde_json::from_str(&self.tools).map_err(unreadable(Code::InvalidTool, "tools"))?,
            options: serde_json::from_str(&self.options)
                .map_err(unreadable(Code::InvalidOption, "the call's options"))?,
            ..Request::default()
        })
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
    /// Compiles the call's schema, which may take its time: before [`Request::check`], which needs it. `timeout` is the provider's.
    ///
    /// # Errors
    /// The text is no usable schema, or compiling it took too long.
    pub(super) async fn compile(&mut self, timeout: Option<Duration>) -> Result<(), Unreadable> {
        let Some(schema) = &self.options.output_schema else {
            return Ok(());
        };
        let timeout = self.options.timeout_or(timeout);
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
        self.output = Some(compiled?);
        Ok(())
    }

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
        content::settle(&mut messages, accepts, who).map_err(|reason| (Code::UnsupportedContent, reason))?;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_shared_is_read_once_whatever_comes_of_it() {
        for (original, expected) in [("7", Ok(7)), ("x", Err("no number: x".to_owned()))] {
            let times = Cell::new(0);
            let read = |text: &String| {
                times.set(times.get() + 1);
                text.parse().map_err(|_| format!("no number: {text}"))
            };
            let first: ReadOnce<String, u32> = serde_json::from_value(original.into()).unwrap();
            let second = first.clone();
            assert_eq!(
                [first.read(read), second.read(read)],
                [
                    expected.as_ref().map_err(Clone::clone),
                    expected.as_ref().map_err(Clone::clone)
                ]
            );
            assert_eq!((times.get(), second.original().as_str()), (1, original));
        }
    }
}
