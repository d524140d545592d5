//! Calls in print form, with one process for each, which may call the caller's tools over a bridge.
//!
//! In: an attempt, and an installed CLI. Out: the outcome of its process. A CLI that takes a server of tools calls them during its turn:
//! each attempt has a bridge of its own ([`ToolServer`]), so that nothing of a failed attempt reaches the next. Each call is reported
//! once: as a [`ToolCallRequest`], not as an event of the CLI.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::attempt::{AttemptOutcome, AttemptStart, failed, run_attempt};
use super::capabilities;
use super::cli_attempt::{CliAttempt, CliCall};
use super::cli_base::{CliBase, not_found, not_started};
use super::cli_request::emulated;
use super::retry_loop::millis;
use dfp_exchange::bridge::{self, Bridge, BridgeOptions, Connection, ToolCallRequest, Traffic};
use dfp_exchange::installed::Installed;
use dfp_exchange::print::{NotStarted, Print, Surroundings, not_offered};
use dfp_exchange::{Ended, Evidence, Exchange, StopReason, Unusable, random, stream_json};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, Event, Failure, RunInfo};
use dfp_model::message::content::{Media, Source, decoded, encoded};
use dfp_process::{Hold, ProcessLimits, StartError, Vars};
use dfp_provider::MediaForm;
use dfp_provider::command::{self, MediaFile, MediaPrompt, Mode, RUN_FOLDER};
use dfp_provider::declare::mcp::{Callbacks, Declarations};
use dfp_provider::options::Options;
use dfp_text::fold::Fold;
use dfp_text::prompt::{Placed, Rendered};

impl CliAttempt<'_> {
    /// Makes the attempt with one process for this call alone.
    pub async fn print(&self, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall {
            cli,
            request,
            base_env,
            cancel,
            sink,
            ..
        } = self.call;
        info.engine = Some(EngineUsed::Print);
        let printed = request.printed(cli);
        if let Some(refused) = &printed.unprintable {
            return Err(refused.clone());
        }
        let bridge = match &request.tool_server {
            None => None,
            Some(server) => Some(
                server
                    .open()
                    .map_err(|error| not_started(cli, &NotStarted::Tools(error)))?,
            ),
        };
        let options = request.provider_options(cli);
        let bridged_options = bridge.as_ref().map(|bridge| bridge.with_bridge(options));
        let options = bridged_options.as_ref().unwrap_or(options);
        let with_schema = request.native_schema().map(|schema| Options {
            output_schema: Some(schema.text().to_owned()),
            ..options.clone()
        });
        let line_of = |prompt: &Rendered, options| {
            let media = match prompt.media.as_slice() {
                [] => None,
                _ => Some(media_prompt(cli, prompt)?),
            };
            let mode = media.as_ref().map_or(Mode::Print(&prompt.text), Mode::PrintMedia);
            printing(cli, mode, options, request.wants_pieces(), base_env)
        };
        let mut prompt = &printed.prompt;
        let Installed { mut line, binary } = line_of(prompt, with_schema.as_ref().unwrap_or(options))?;
        let mut emulated_because = request.emulated_because.map(Cow::from);
        let not_taken = request.native_schema().and_then(|schema| match line.has_schema {
            false => Some(Cow::from("the installed CLI does not know the flag for it")),
            true => {
                let reason = self.call.schema_refusal(&binary, schema)?;
                Some(Cow::from(format!("the installed CLI does not take it ({reason})")))
            }
        });
        if let (Some(why), Some(asking)) = (not_taken, &printed.asking_prompt) {
            emulated_because = Some(why);
            prompt = asking;
            line = line_of(prompt, options)?.line;
        }
        // The wait for a place does not count.
        let spent = self.spent();
        let Some(permit) = self.permit(binary.file(), info).await else {
            return Ok(AttemptOutcome::Cancelled);
        };
        let limits = ProcessLimits {
            spent,
            ..self.limits(EngineUsed::Print)
        };
        let mut fields = json!({"attempt": self.number, "file": binary.file().to_string_lossy(), "flags": line.flags});
        if !spent.is_zero()
            && let Some(left) = limits.time_left()
        {
            fields["leftMs"] = millis(left).into();
        }
        let opening = AttemptStart {
            message: "started",
            fields,
            notes: {
                let uncallable = request.uncallable.then(not_callable);
                let emulated = emulated_because.and_then(|why| emulated(cli, &why));
                let choices = match self.call.has_dropped_schema() {
                    false => request.notes(self.number, cli, EngineUsed::Print, base_env),
                    // The attempt that ended with the refusal has sent them.
                    true => Vec::new(),
                };
                choices.into_iter().chain(uncallable).chain(emulated).collect()
            },
        };
        let surroundings = Surroundings {
            file: Some(binary.resolved().clone()),
            base_env: Arc::clone(base_env),
            limits,
            owner: cli.owner,
            permit: Some(permit),
            tracker: cli.lifecycle.runs.clone(),
            tees: request.tees.clone(),
        };
        let mut print = match Print::start(line, &cli.provider, surroundings, cancel) {
            Ok(print) => print,
            Err(NotStarted::Process(StartError::Cancelled)) => return Ok(AttemptOutcome::Cancelled),
            Err(error) => return Err(not_started(cli, &error)),
        };
        if let Some(observer) = &request.observer {
            print.set_observer(Arc::clone(observer));
        }
        let fold = match request.watching {
            true => Fold::watching(),
            false => Fold::new(request.call_ids.clone(), printed.text_calls.clone())
                .with_own_tools(request.own_tools(cli))
                .with_listener(sink.has_listener()),
        };
        let attempt = self.print_attempt(&limits, || prompt.text.clone(), fold, opening);
        let exchange: Box<dyn Exchange> = match bridge {
            None => Box::new(print),
            Some(bridge) => Box::new(BridgedPrint { print, bridge }),
        };
        let outcome = run_attempt(attempt, exchange, info).await;
        let outcome = outcome.map_err(|error| failed(error, cli.id()))?;
        if let AttemptOutcome::FlagRefused(flag) = &outcome {
            capabilities::remember_refused(&binary, flag);
        }
        if let (AttemptOutcome::SchemaRefused(reason), Some(schema)) = (&outcome, request.native_schema()) {
            capabilities::remember_refused_schema(&binary, schema.text(), reason);
        }
        Ok(outcome)
    }
}

/// The CLI as it is started as one process for one call.
fn printing(
    cli: &CliBase,
    mode: Mode,
    options: &Options,
    partial: bool,
    env: &Arc<Vars>,
) -> Result<Installed, Box<ProviderError>> {
    match cli.look(env) {
        Ok(program) => program.printing(&cli.provider, options, mode, partial),
        // An unfit prompt is reported first.
        Err(error) => {
            let nothing_known = command::Installed::default();
            let line = command::build(&cli.provider, options, mode, partial, &nothing_known);
            Err(line.err().unwrap_or_else(|| not_found(cli, error)))
        }
    }
}

pub(super) fn not_callable() -> Event {
    Event::Warning {
        code: "TOOLS_NOT_CALLABLE".to_owned(),
        message: "tools are bound, but with `textToolCalls: \"off\"` the model does not learn of them in print form"
            .to_owned(),
    }
}

/// The sentence before a thread whose blocks are attached as files.
const ATTACHED: &str =
    "The images and documents of this conversation are attached to this message, in the order of their indexes.\n\n";

/// Writes `rendered`, which has blocks, in the form of this provider.
///
/// # Errors
/// `UNSUPPORTED_CONTENT` where data are no base64, or there is no form. `INTERNAL` where the system gives no random bytes.
pub(crate) fn media_prompt(cli: &CliBase, rendered: &Rendered) -> Result<MediaPrompt, Box<ProviderError>> {
    match cli.provider.media.form {
        Some(MediaForm::UserLine) => Ok(MediaPrompt {
            text: stream_json::user(&stream_json::of_rendered("", rendered)),
            files: Vec::new(),
            placed: Vec::new(),
        }),
        Some(MediaForm::Files) => Ok(MediaPrompt {
            text: format!("{ATTACHED}{}", rendered.text),
            files: files(cli, rendered, |index, media| {
                format!("{}-{index}.{}", media.kind.tag(), extension(media))
            })?,
            placed: Vec::new(),
        }),
        Some(MediaForm::Session { side, pixels }) => {
            let mut placed = rendered.media.clone();
            for (index, Placed { media, .. }) in (1..).zip(&mut placed) {
                let bytes = block(cli, index, media)?;
                // The CLI takes one way to write them alone.
                media.source = Source::Base64(encoded(&bytes));
                let of = format!("block {index} of the thread, {},", media.name());
                let why = match imagesize::blob_size(&bytes) {
                    Err(_) => format!("{of} can't be read as an image"),
                    Ok(size) if size.width.min(size.height) < side || size.width * size.height < pixels => format!(
                        "{of} has {} × {} pixels, and {} takes images from {side} a side and {pixels} in all",
                        size.width,
                        size.height,
                        cli.id()
                    ),
                    Ok(_) => continue,
                };
                return Err(cli.refuse(Code::UnsupportedContent, why));
            }
            Ok(MediaPrompt {
                text: rendered.text.clone(),
                files: Vec::new(),
                placed,
            })
        }
        Some(MediaForm::NamedFiles) => {
            let random = random::bits().map(|bits| bits as u64).map_err(|error| {
                let reason = format!("the files of a prompt can't be named: {error}");
                cli.refuse(Code::Internal, reason)
            })?;
            // The file names are random, so that no text of a thread can name one of them.
            let name = |index: usize, media: &Media| format!("{index:06}-{random:016x}.{}", extension(media));
            let names = rendered.media.iter().enumerate();
            let names = names.map(|(at, placed)| format!("@{} ", name(at + 1, &placed.media)));
            Ok(MediaPrompt {
                text: format!(
                    "{}\n\n{ATTACHED}{}",
                    names.collect::<String>().trim_end(),
                    rendered.text
                ),
                files: files(cli, rendered, |index, media| {
                    format!("{RUN_FOLDER}/{}", name(index, media))
                })?,
                placed: Vec::new(),
            })
        }
        None => {
            let reason = format!("{} takes text only", cli.id());
            Err(cli.refuse(Code::UnsupportedContent, reason))
        }
    }
}

/// The bytes of the block `media`, the thread's `index`th, which must be base64.
fn block(cli: &CliBase, index: usize, media: &Media) -> Result<Vec<u8>, Box<ProviderError>> {
    let bytes = match &media.source {
        Source::Base64(data) => decoded(data),
        _ => None,
    };
    bytes.ok_or_else(|| {
        let reason = format!("block {index} of the thread, {}, is no base64", media.name());
        cli.refuse(Code::UnsupportedContent, reason)
    })
}

/// The blocks of `rendered` as files; `name` gets the index of each, from 1.
fn files(
    cli: &CliBase,
    rendered: &Rendered,
    name: impl Fn(usize, &Media) -> String,
) -> Result<Vec<MediaFile>, Box<ProviderError>> {
    let blocks = (1..).zip(&rendered.media);
    let files = blocks.map(|(index, Placed { media, .. })| {
        Ok(MediaFile {
            name: name(index, media),
            bytes: block(cli, index, media)?,
        })
    });
    files.collect()
}

/// The extension of a file with this block: CLIs tell the type by it.
fn extension(media: &Media) -> &'static str {
    match media.mime.as_deref() {
        Some("image/png") => "png",
        Some("image/jpeg") => "jpg",
        Some("image/gif") => "gif",
        Some("image/webp") => "webp",
        Some("application/pdf") => "pdf",
        _ => "bin",
    }
}

/// The time for which a call waits for the CLI's output to announce it. Output and call come by two ways, and on a busy machine the
/// call may be first; text that the model wrote before it would then be reported after it.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(1);

/// A call's tools, to be served over a bridge.
pub(super) struct ToolServer {
    pub declarations: Declarations,
    pub consumer: mpsc::Sender<ToolCallRequest>,
    pub options: BridgeOptions,
}

/// The open bridge of one attempt.
struct OpenBridge<'a> {
    server: &'a ToolServer,
    bridge: Bridge,
    traffic: watch::Receiver<Traffic>,
    /// Stops the CLI's idle clock while calls wait for the caller: that silence is not the CLI's.
    hold: Option<Hold>,
    /// The ids of calls in the CLI's events that are reported as [`ToolCallRequest`] instead.
    hidden: HashSet<String>,
    /// The arguments of the calls that have not gone on, by the model's ids. The output has them as the model wrote them; in the
    /// arguments with which claude calls the bridge, escapes that stood there as text are resolved.
    written: HashMap<String, Box<RawValue>>,
    calls: mpsc::Receiver<ToolCallRequest>,
    queue: Queue,
}

/// Calls on their way to the caller.
#[derive(Debug, Default)]
struct Queue {
    /// The calls that the output has not announced yet, each with the time at which it goes on without.
    early: VecDeque<(ToolCallRequest, Instant)>,
    /// The number of calls that the output has announced, and the number that have gone on.
    announced: usize,
    gone_on: usize,
    /// True if the output has not announced a call in time: then no call waits for it any more.
    unannounced: bool,
}

impl Queue {
    fn push(&mut self, call: ToolCallRequest) {
        self.early.push_back((call, Instant::now() + ANNOUNCED_WITHIN));
    }

    /// The next call that may go on.
    fn pop(&mut self) -> Option<ToolCallRequest> {
        let (_, until) = self.early.front()?;
        self.unannounced |= self.announced <= self.gone_on && *until <= Instant::now();
        if self.announced <= self.gone_on && !self.unannounced {
            return None;
        }
        self.gone_on += 1;
        self.early.pop_front().map(|(call, _)| call)
    }

    /// Waits until the first early call may go on without an announcement; forever if there is none.
    async fn patience(&self) {
        match self.early.front() {
            Some((_, until)) => sleep_until(*until).await,
            None => std::future::pending().await,
        }
    }
}

impl ToolServer {
    /// Opens a bridge for one attempt.
    fn open(&self) -> io::Result<OpenBridge<'_>> {
        let (consumer, calls) = bridge::call_channel();
        let bridge = Bridge::start_for(self.declarations.clone(), self.options, consumer)?;
        Ok(OpenBridge {
            server: self,
            traffic: bridge.traffic(),
            bridge,
            hold: None,
            hidden: HashSet::new(),
            written: HashMap::new(),
            calls,
            queue: Queue::default(),
        })
    }
}

impl OpenBridge<'_> {
    /// Returns `options` for a CLI that knows the bridge.
    fn with_bridge(&self, options: &Options) -> Options {
        Options {
            callbacks: Some(Callbacks {
                url: self.bridge.url().to_owned(),
                token: self.bridge.token().to_owned(),
            }),
            ..options.clone()
        }
    }

    /// Waits for the events of `print`. The CLI's idle clock stands while it waits for the caller.
    async fn next(&mut self, print: &mut Print, events: &mut Vec<Event>) -> ControlFlow<()> {
        loop {
            if self.traffic.borrow_and_update().waiting == 0 {
                self.hold = None;
            } else {
                self.hold.get_or_insert_with(|| print.process().hold());
            }
            tokio::select! {
                progress = print.next(events) => return progress,
                Ok(()) = self.traffic.changed() => {}
                Some(call) = self.calls.recv() => {
                    self.queue.push(call);
                    self.let_go_on().await;
                }
                () = self.queue.patience() => self.let_go_on().await,
            }
        }
    }

    /// Hands on the calls that the output has announced. Call this when the events before them have been sent.
    async fn let_go_on(&mut self) {
        while let Some(mut call) = self.queue.pop() {
            if let Some(args) = self.written.remove(&call.call.id) {
                call.call.args = args;
            }
            // If nobody takes the call any more, it is dropped, and the bridge answers it.
            let _ = self.server.consumer.send(call).await;
        }
    }

    /// The event that the run reports for `event`: `None` if it is about a call that was reported already. A call of an unknown
    /// tool keeps the name that the caller uses for it.
    fn pass(&mut self, event: Event) -> Option<Event> {
        let declarations = &self.server.declarations;
        match event {
            Event::ToolCall { tool_call } if declarations.ours(&tool_call.name).is_some() => {
                // Some CLIs report a call twice, when it begins and when it ends.
                if self.hidden.insert(tool_call.id.clone()) {
                    self.queue.announced += 1;
                    self.written.insert(tool_call.id, tool_call.args);
                }
                None
            }
            Event::ToolCall { mut tool_call } => {
                tool_call.name = declarations.callers_name(&tool_call.name);
                Some(Event::ToolCall { tool_call })
            }
            Event::ToolResult { ref tool_call_id, .. } if self.hidden.contains(tool_call_id) => None,
            other => Some(other),
        }
    }

    /// Returns whether the CLI has asked for the tools.
    fn reached(&self) -> bool {
        *self.bridge.connected().borrow() >= Connection::Listed
    }

    /// The failure of a CLI that has asked for the tools and does not offer all of them to its model. The CLI reports its model's
    /// tools before it calls the model.
    fn missing(&self, offered: &[String]) -> Option<Failure> {
        let missing = self.server.declarations.missing(offered);
        (self.reached() && !missing.is_empty()).then(|| not_offered(&missing))
    }

    /// Returns whether any tool was called.
    fn used(&self) -> bool {
        self.traffic.borrow().all > 0
    }
}

/// A process whose CLI calls the caller's tools over a bridge.
struct BridgedPrint<'a> {
    pub print: Print,
    pub bridge: OpenBridge<'a>,
}

#[async_trait]
impl Exchange for BridgedPrint<'_> {
    fn keeps_limits(&self) -> bool {
        self.print.keeps_limits()
    }

    fn pid(&self) -> Option<u32> {
        self.print.pid()
    }

    fn elapsed(&self) -> Duration {
        self.print.elapsed()
    }

    fn received_bytes(&self) -> u64 {
        self.print.received_bytes()
    }

    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        // The text before them is out by now.
        self.bridge.let_go_on().await;
        let mut printed = Vec::new();
        let progress = self.bridge.next(&mut self.print, &mut printed).await;
        if let Some(missing) = self
            .print
            .take_offered()
            .and_then(|offered| self.bridge.missing(&offered))
        {
            events.push(Event::Failure(missing));
            self.print.give_up();
        }
        events.extend(printed.into_iter().filter_map(|event| self.bridge.pass(event)));
        progress
    }

    fn stop(&mut self, reason: StopReason) {
        self.print.stop(reason);
    }

    async fn finish(self: Box<Self>) -> Result<Box<Ended>, Unusable> {
        let BridgedPrint { print, mut bridge } = *self;
        bridge.let_go_on().await;
        let mut ended = Box::new(print).finish().await?;
        if let Evidence::Process(process) = &mut ended.evidence {
            process.unreached = !bridge.reached();
        }
        ended.has_side_effects = bridge.used();
        bridge.bridge.close().await;
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use tokio::sync::oneshot;
    use tokio::time::advance;

    use super::*;
    use dfp_model::message::ToolCall;

    #[test]
    fn base64_is_read_however_it_is_written() {
        for (data, expected) in [
            ("/+8=", Some(&[0xff, 0xef][..])),
            ("/+8", Some(&[0xff, 0xef])),
            ("_-8", Some(&[0xff, 0xef])),
            ("/+\r\n8=", Some(&[0xff, 0xef])),
            ("A", None),
            ("/etc/passwd.", None),
            ("/+8_", None),
        ] {
            assert_eq!(decoded(data).as_deref(), expected, "{data}");
        }
    }

    fn call(id: &str) -> ToolCallRequest {
        let (reply, _) = oneshot::channel();
        let call = ToolCall {
            id: id.to_owned(),
            name: "add".to_owned(),
            args: RawValue::from_string("{}".to_owned()).unwrap(),
        };
        ToolCallRequest { call, reply }
    }

    fn gone(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|request| request.call.id)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_on_when_the_output_has_spoken_of_them() {
        let mut queue = Queue::default();
        queue.push(call("a"));
        queue.push(call("b"));
        assert_eq!(gone(&mut queue), [""; 0]);
        queue.announced += 1;
        assert_eq!(gone(&mut queue), ["a"]);
        queue.announced += 2;
        assert_eq!(gone(&mut queue), ["b"]);
        // The output has announced the call before it came.
        queue.push(call("c"));
        assert_eq!(gone(&mut queue), ["c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_which_the_output_does_not_speak_wait_once() {
        let mut queue = Queue::default();
        queue.push(call("a"));
        advance(ANNOUNCED_WITHIN / 2).await;
        queue.push(call("b"));
        assert_eq!(gone(&mut queue), [""; 0]);
        queue.patience().await;
        assert_eq!(gone(&mut queue), ["a", "b"]);
        queue.push(call("c"));
        assert_eq!(gone(&mut queue), ["c"]);
    }
}
