//! A form: the way in which calls are made of one kind of kept process.
//!
//! In: a call ([`SessionCall`]). Out: the setup of its session, the input for the session (the whole thread, or only its new
//! part), and a turn as an [`Exchange`](super::Exchange). A process serves one conversation ([`ProcessForm`]) or many
//! ([`ServerForm`]). The driver of a form (`run::session`) knows no more of it than this.

use std::borrow::Cow;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host::{Host, NoHost};
use super::installed::Installed;
use super::live::keep::Keepable;
use super::live::pool::SessionKey;
use super::live::process_turn::ProcessSession;
use super::live::setup::{SessionOutput, Setup, SetupParts};
use super::live::thread::{KnownThread, SessionThread, SystemMessages};
use super::live::turn::Work;
use super::print::{NotStarted, Surroundings};
use dfp_model::event::{EngineUsed, Reply};
use dfp_model::message::{Message, Role, ToolSpec};
use dfp_process::ProcessLimits;
use dfp_provider::Guard;
use dfp_provider::choices::Choices;
use dfp_provider::command::{CommandLine, PrivateSession};
use dfp_provider::options::{Options, SystemPrompt};
use dfp_text::prompt::Encoding;

/// A call, before it is known which form takes it.
#[derive(Debug)]
pub struct CallParts<'a> {
    pub messages: Vec<Message>,
    /// Text that is said after the thread and is no part of it.
    pub note: Option<String>,
    /// The caller's own messages, if `messages` has more after them: the caller's next call continues from those and the reply.
    pub callers: Option<Arc<Vec<Message>>>,
    /// The tools that are bound.
    pub tools: &'a [ToolSpec],
    /// The options that the call is made with.
    pub options: &'a Options,
    /// The options among them that the call itself chose.
    pub choices: Option<Choices>,
    /// The wanted kind of answer.
    pub output: SessionOutput<'a>,
    /// The encoding of a thread that can't be sent natively.
    pub encoding: Encoding,
    /// The guard that keeps a text of the user's from being a command of the CLI's.
    pub guard: Option<Guard>,
}

/// A call in the shape that a session with setup `T` takes.
#[derive(Debug)]
pub struct SessionCall<T> {
    pub thread: Arc<SessionThread>,
    /// Text that is said after the thread and is no part of it.
    pub note: Option<String>,
    /// The thread from which the caller's next call continues.
    pub callers: Arc<SessionThread>,
    /// The setup of the call's session.
    pub setup: Arc<T>,
    /// The options of the process that the call itself chose.
    pub choices: Option<Choices>,
    /// The encoding of a thread that can't be sent natively.
    pub encoding: Encoding,
    /// The guard that keeps a text of the user's from being a command of the CLI's.
    pub guard: Option<Guard>,
    /// The prompt of the print form, for a form that [takes](Takes) nothing else; empty for all others.
    pub prompt: Arc<str>,
    /// The prompt as a session of the CLI's own, for a process that gets it in that way.
    pub file: Option<Arc<PrivateSession>>,
}

impl<T> SessionCall<T> {
    /// Returns whether a session may know the beginning of the thread: a session knows what a model has said, so there must be a
    /// reply.
    pub fn may_continue(&self) -> bool {
        self.thread
            .messages()
            .iter()
            .rev()
            .any(|message| message.role == Role::Ai)
    }

    /// Makes a call of `prompt`, or of the session in `file` that it has become, with `options`, of which `choices` are the
    /// call's own, as `F` takes it.
    pub fn of_prompt<F: Form<Setup = T>>(
        prompt: String,
        file: Option<PrivateSession>,
        options: &Options,
        choices: Option<Choices>,
    ) -> SessionCall<T> {
        let call = SessionCall::new::<F>(CallParts {
            messages: Vec::new(),
            note: None,
            callers: None,
            tools: &[],
            options,
            choices,
            output: SessionOutput::Text,
            encoding: Encoding::Text,
            guard: None,
        });
        SessionCall {
            prompt: prompt.into(),
            file: file.map(Arc::new),
            ..call
        }
    }

    /// Makes a call of `parts` as `F` takes it.
    pub fn new<F: Form<Setup = T>>(parts: CallParts<'_>) -> SessionCall<T> {
        let thread = Arc::new(SessionThread::with(parts.messages, F::SYSTEM_MESSAGES));
        let setup = F::setup(&SetupParts {
            system: thread.system(),
            tools: parts.tools,
            options: parts.options,
            choices: parts.choices.as_ref(),
            output: parts.output,
        });
        let callers = parts
            .callers
            .map(|callers| Arc::new(SessionThread::with(callers.to_vec(), F::SYSTEM_MESSAGES)));
        SessionCall {
            callers: callers.unwrap_or_else(|| Arc::clone(&thread)),
            thread,
            note: parts.note,
            setup: Arc::new(setup),
            choices: parts.choices,
            encoding: parts.encoding,
            guard: parts.guard,
            prompt: Arc::default(),
            file: None,
        }
    }
}

/// The reason why a session that knows the beginning of a thread can't continue it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyAnew {
    /// The thread is another one, or its new part is more than a session takes at once.
    OtherThread,
    /// A result, or all results together, have more characters than a session takes whole.
    LongResults {
        length: usize,
        /// The limit: a session shortens a result with more characters than this.
        longest: usize,
    },
}

/// The options that a kept process is started with, over those of its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessOptions {
    /// The choices of its calls; `None` for the provider's own choices.
    pub choices: Option<Choices>,
    /// The system prompt, if it is on the process's command line; `None` for the provider's own.
    pub system_prompt: Option<SystemPrompt>,
}

impl ProcessOptions {
    /// The provider's `own` options with these in their places.
    pub fn over<'a>(&self, own: &'a Options) -> Cow<'a, Options> {
        let chosen = own.chosen(self.choices.as_ref());
        match &self.system_prompt {
            None => chosen,
            Some(system_prompt) => Cow::Owned(Options {
                system_prompt: system_prompt.clone(),
                ..chosen.into_owned()
            }),
        }
    }
}

/// The part of a call that is sent to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The thread, in messages and tools of the CLI's own, to sessions that may know its beginning.
    Thread,
    /// The prompt of the print form, with tool calls written in the answer, to sessions that know nothing else.
    Prompt,
}

/// The way in which a call reaches a kept process of one kind.
pub trait Form: Debug + Send + Sync + Sized + 'static {
    /// The engine that is reported for its calls.
    const ENGINE: EngineUsed = EngineUsed::Live;

    /// The part of a call that is sent.
    const TAKES: Takes = Takes::Thread;

    /// The system messages of a thread that make up the session's system prompt.
    const SYSTEM_MESSAGES: SystemMessages = SystemMessages::All;

    /// The setup of a session. Sessions with different setups are not exchangeable.
    type Setup: PartialEq + Debug + Send + Sync + 'static;
    /// The session that is kept between calls.
    type Session: Keepable<Setup = Self::Setup> + Debug;
    /// The input that a turn begins with.
    type Input: Send + Sync;

    /// The setup of the session that a call needs.
    fn setup(parts: &SetupParts<'_>) -> Self::Setup;

    /// The options of a process for sessions with this setup; `choices` are those of a call.
    fn options(setup: Option<&Self::Setup>, choices: Option<&Choices>) -> ProcessOptions;

    /// The command line of a process, made from that of the CLI in `file`.
    fn line(line: CommandLine, _file: &Path) -> CommandLine {
        line
    }

    /// The input for a session that knows `known`: the new part of the thread of `call`.
    ///
    /// # Errors
    /// [`WhyAnew`]: another session is needed.
    fn addition(call: &SessionCall<Self::Setup>, known: &KnownThread) -> Result<Self::Input, WhyAnew>;
}

/// The inputs that a process is started with, beside its command line.
#[derive(Debug)]
pub struct ProcessStart<'a, I> {
    /// The setup, if it is known.
    pub setup: Option<&'a Arc<Setup>>,
    /// The input of its first turn, if there is one already.
    pub input: Option<&'a I>,
}

/// A form with a process for each conversation.
pub trait ProcessForm: Form<Setup = Setup, Session: ProcessSession> {
    /// True if a CLI of which nothing is known must pass the handshake before it is sent anything of a thread.
    const IS_TRIED_FIRST: bool;
    /// True if a process can be started without knowing its setup.
    const STARTS_BARE: bool;

    /// The input for a session that knows nothing: the whole thread.
    ///
    /// # Errors
    /// The system gives no random bytes.
    fn whole(call: &SessionCall<Setup>) -> io::Result<Self::Input>;

    /// The text that is sent with `input`. Its tokens are estimated if the CLI reports no usage.
    fn text(input: &Self::Input) -> String;

    /// Returns whether `input` needs a process that is started for it: one that was started without it can't begin with it.
    fn needs_own_process(_input: &Self::Input) -> bool {
        false
    }

    /// Starts a process.
    ///
    /// # Errors
    /// [`NotStarted`].
    fn start(
        &self,
        installed: &Installed,
        surroundings: Surroundings,
        cancel: &CancellationToken,
        start: ProcessStart<'_, Self::Input>,
    ) -> Result<Self::Session, NotStarted>;

    /// Begins a turn with `input`, in a session that is, or is to be, set up with `setup`.
    fn begin(session: &mut Self::Session, input: Self::Input, setup: &Arc<Setup>);
}

/// A process that serves many sessions.
pub trait Server: Debug + Send + Sync + 'static {
    /// The host of the process.
    fn host(&self) -> &Host;
}

/// The parts that a server is started with.
pub struct ServerStart<'a, F: ServerForm> {
    pub installed: &'a Installed,
    pub options: &'a Options,
    /// The setup of the session for which the server is started.
    pub setup: Option<&'a F::Setup>,
    /// The servers that run with the same environment and from the same file.
    pub others: &'a [Arc<F::Server>],
    /// Makes the surroundings of the process.
    pub surroundings: &'a (dyn Fn() -> Surroundings + Sync),
    /// Cancelled when the provider is closed.
    pub closing: &'a CancellationToken,
}

/// Evidence that a started server supports sessions.
#[derive(Debug)]
pub enum Proof<'a> {
    /// The version that the server tells, if any, which is compared with the versions known to work.
    Version(Option<&'a str>),
    /// The server was asked for each capability; the text is for people.
    Probe(String),
}

/// The place where a turn is to run.
#[derive(Debug)]
pub enum TurnTarget<S, H> {
    /// A session that knows the beginning of the thread.
    Session(Box<S>),
    /// A new session that this server is to open.
    Server(Arc<H>),
}

/// The caller of a server's session.
#[derive(Debug)]
pub struct Caller<'a, T> {
    /// The setup of the session, and the environment, which chooses the login.
    pub key: &'a SessionKey<T>,
    pub provider: &'a str,
    /// The login that the provider has chosen.
    pub login: Option<&'a str>,
}

/// The parts that a turn's work needs beside its input.
#[derive(Debug)]
pub struct WorkParts<'a, T> {
    /// The setup of the session.
    pub setup: Arc<T>,
    /// The limits of the turn.
    pub limits: &'a ProcessLimits,
    /// Tracks the tasks that the turn leaves behind.
    pub tracker: &'a TaskTracker,
}

/// A form with a process for many conversations.
pub trait ServerForm: Form {
    /// The number of conversations that may rest at a time: 0 if a session lives for one call.
    const MOST_RESTING: usize;

    /// The number of servers that a provider may have, if `maxConcurrency` allows more.
    const MOST_SERVERS: usize = usize::MAX;

    /// True if a server that has grown too large serves calls until another is there. Otherwise it takes no new ones at once.
    const SERVES_WHEN_GROWN: bool = false;

    /// The process that serves the sessions.
    type Server: Server;
    /// The input of a turn, and its place.
    type TurnInput: Send;
    /// The work of a turn.
    type Work: Work<Session = Self::Session>;

    /// Returns whether `server` serves sessions with this setup, and is the process that `installed` would start.
    fn serves(server: &Self::Server, installed: &Installed, setup: Option<&Self::Setup>) -> bool;

    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`NoHost`].
    fn start(&self, start: ServerStart<'_, Self>) -> impl Future<Output = Result<Self::Server, NoHost>> + Send;

    /// The evidence that `server` supports its sessions.
    fn proof(server: &Self::Server) -> Proof<'_>;

    /// Returns whether another server should replace `server` for later calls, though nothing is wrong with it: it serves them
    /// until the other one is there.
    fn is_worn(&self, _server: &Self::Server) -> bool {
        false
    }

    /// The feature that `server` lacks for a session with this setup, though it serves others. The call goes to the next engine
    /// then.
    fn lacks(_server: &Self::Server, _setup: &Self::Setup) -> Option<&'static str> {
        None
    }

    /// Makes `server` load what a session with this setup needs.
    fn prepare(_server: &Self::Server, _setup: &Self::Setup) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The model at `place`, if the CLI knows that it takes no images. Asked only for calls with an image.
    fn blind_model(
        _place: &TurnTarget<Self::Session, Self::Server>,
        _setup: &Self::Setup,
    ) -> impl Future<Output = Option<String>> + Send {
        std::future::ready(None)
    }

    /// The input for a new session that `server` is to open: the whole thread.
    fn open(
        &self,
        server: Arc<Self::Server>,
        call: &SessionCall<Self::Setup>,
        caller: &Caller<'_, Self::Setup>,
    ) -> Self::TurnInput;

    /// The input for a session that knows the rest: the new part.
    fn resume(session: Box<Self::Session>, input: Self::Input) -> Self::TurnInput;

    /// The server of a session.
    fn server(session: &Self::Session) -> &Arc<Self::Server>;

    /// The work of the turn that begins with `opening`.
    fn work(opening: Self::TurnInput, parts: WorkParts<'_, Self::Setup>) -> Self::Work;

    /// The text that is sent for a call with this thread or this prompt. Its tokens are estimated if the CLI reports no usage.
    fn sent(thread: &SessionThread, _prompt: &str) -> String {
        thread.text()
    }

    /// Keeps the facts that are known of the reply to `thread`.
    fn remember(
        &self,
        _known: ReplyFactsOf<Self>,
        _reply: &Reply,
        _thread: &SessionThread,
        _server: &Self::Server,
        _caller: &Caller<'_, Self::Setup>,
    ) {
    }

    /// Gives back what is kept beside the sessions, since the provider is closed.
    fn forget(&self) {}
}

/// The facts that a turn of `F` reports of its reply beside its events.
pub type ReplyFactsOf<F> = <<F as ServerForm>::Work as Work>::ReplyFacts;
