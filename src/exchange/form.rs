//! What a kept process of one kind is to whoever makes calls of it: a form.
//!
//! In: a call ([`SessionCall`]). Out: what its session is set up with, what the session is sent (all of the thread, or only what is
//! new), and a turn of it as an [`Exchange`](super::Exchange). A process serves one conversation ([`ProcessForm`]) or many. Who drives it
//! (`run::session`) knows no more of a form than this.

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
use crate::command::{CommandLine, PrivateSession};
use crate::event::{EngineUsed, Reply};
use crate::message::{Message, Role, ToolSpec};
use crate::process::ProcessLimits;
use crate::prompt::Encoding;
use crate::provider::Guard;
use crate::provider::choices::Choices;
use crate::provider::options::{Options, SystemPrompt};

/// A call, before it is known which form takes it.
#[derive(Debug)]
pub struct CallParts<'a> {
    pub messages: Vec<Message>,
    /// What is said behind it, and is no part of it.
    pub note: Option<String>,
    /// The caller's own messages, where more stands behind them: its next call goes on with those and the reply.
    pub callers: Option<Arc<Vec<Message>>>,
    /// The tools that are bound.
    pub tools: &'a [ToolSpec],
    /// The options that the call is made with.
    pub options: &'a Options,
    /// What of them is the call's own choice.
    pub choices: Option<Choices>,
    /// What the answer is to be.
    pub output: SessionOutput<'a>,
    /// How a thread is written that can't be sent natively.
    pub encoding: Encoding,
    /// What keeps a text of the user's from being a command of the CLI's.
    pub guard: Option<Guard>,
}

/// A call as a session takes it that is set up with `T`.
#[derive(Debug)]
pub struct SessionCall<T> {
    pub thread: Arc<SessionThread>,
    /// What is said behind it, and is no part of it.
    pub note: Option<String>,
    /// The thread that its caller's next call goes on with.
    pub callers: Arc<SessionThread>,
    /// What its session is set up with.
    pub setup: Arc<T>,
    /// What its process is started with that is the call's own.
    pub choices: Option<Choices>,
    /// How a thread is written that can't be sent natively.
    pub encoding: Encoding,
    /// What keeps a text of the user's from being a command of the CLI's.
    pub guard: Option<Guard>,
    /// The prompt of the print form, for a form that [takes](Takes) nothing else; empty for all others.
    pub prompt: Arc<str>,
    /// The same as a session of the CLI's own, for a process that gets it so.
    pub file: Option<Arc<PrivateSession>>,
}

impl<T> SessionCall<T> {
    /// Whether a session may know its beginning: one knows what a model has said.
    pub fn may_continue(&self) -> bool {
        self.thread
            .messages()
            .iter()
            .rev()
            .any(|message| message.role == Role::Ai)
    }

    /// The call of `prompt`, or of the session that it has become, made with `options`, of which `choices` are its own, as `F` takes it.
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

    /// The call of `parts` as `F` takes it.
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

/// Why a session that knows a thread's beginning can't go on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyAnew {
    /// The thread is another one, or has more than a session takes at once.
    OtherThread,
    /// One of the results has so many characters, or all of them have.
    LongResults {
        length: usize,
        /// Of more than so many, a session shortens one.
        longest: usize,
    },
}

/// What a kept process is started with, over its provider's own options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessOptions {
    /// What its calls choose; `None` for the provider's own choices.
    pub choices: Option<Choices>,
    /// Its system prompt, where that stands on its command line; `None` for the provider's own.
    pub system_prompt: Option<SystemPrompt>,
}

impl ProcessOptions {
    /// What `own` comes to with them.
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

/// What of a call is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Its thread, in messages and tools of the CLI's own, by sessions that may know the beginning of it.
    Thread,
    /// The prompt of the print form, with calls written in the answer, by sessions that know nothing else.
    Prompt,
}

/// How a call reaches a kept process of one kind.
pub trait Form: Debug + Send + Sync + Sized + 'static {
    /// The engine that its calls have.
    const ENGINE: EngineUsed = EngineUsed::Live;

    /// What of a call is sent.
    const TAKES: Takes = Takes::Thread;

    /// Which system messages of a thread are the session's system prompt.
    const SYSTEM_MESSAGES: SystemMessages = SystemMessages::All;

    /// By this, sessions are distinguished.
    type Setup: PartialEq + Debug + Send + Sync + 'static;
    /// What goes on from call to call.
    type Session: Keepable<Setup = Self::Setup> + Debug;
    /// What a turn begins with.
    type Input: Send + Sync;

    /// What the session of a call is set up with.
    fn setup(parts: &SetupParts<'_>) -> Self::Setup;

    /// What a process for sessions with this setup is started with; `choices` is what a call chooses.
    fn options(setup: Option<&Self::Setup>, choices: Option<&Choices>) -> ProcessOptions;

    /// The command line of a process, made of that of the CLI in `file`.
    fn line(line: CommandLine, _file: &Path) -> CommandLine {
        line
    }

    /// What is new in the thread of `call` to a session that knows `known`.
    ///
    /// # Errors
    /// [`WhyAnew`]: another session is needed.
    fn addition(call: &SessionCall<Self::Setup>, known: &KnownThread) -> Result<Self::Input, WhyAnew>;
}

/// What a process is started with, beside its command line.
#[derive(Debug)]
pub struct ProcessStart<'a, I> {
    /// What it is set up with, where that is known.
    pub setup: Option<&'a Arc<Setup>>,
    /// What its first turn begins with, where there is one already.
    pub input: Option<&'a I>,
}

/// A form with a process for each conversation.
pub trait ProcessForm: Form<Setup = Setup, Session: ProcessSession> {
    /// A CLI of which nothing is known is asked for the handshake before it is sent anything of a thread.
    const IS_TRIED_FIRST: bool;
    /// A process can be started without knowing its setup.
    const STARTS_BARE: bool;

    /// What a session begins with that knows nothing: all of the thread.
    ///
    /// # Errors
    /// The system gives no random bytes.
    fn whole(call: &SessionCall<Setup>) -> io::Result<Self::Input>;

    /// What is sent with `input`, as text: to be counted where nobody tells usage.
    fn text(input: &Self::Input) -> String;

    /// Whether a process that was started without it can't begin with `input`.
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
    /// The process.
    fn host(&self) -> &Host;
}

/// What a server is started with.
pub struct ServerStart<'a, F: ServerForm> {
    pub installed: &'a Installed,
    pub options: &'a Options,
    /// What the session is set up with for which it is started.
    pub setup: Option<&'a F::Setup>,
    /// Those that run with the same environment and of the same file.
    pub others: &'a [Arc<F::Server>],
    /// What its process has around it.
    pub surroundings: &'a (dyn Fn() -> Surroundings + Sync),
    /// Cancelled when the provider is closed.
    pub closing: &'a CancellationToken,
}

/// By what a server that has started is known to do what its sessions need.
#[derive(Debug)]
pub enum Proof<'a> {
    /// By its version, if it tells one, which is held against what is known of versions.
    Version(Option<&'a str>),
    /// It was asked for each; as text for people.
    Probe(String),
}

/// Where a turn is to be.
#[derive(Debug)]
pub enum TurnTarget<S, H> {
    /// In a session that knows the thread's beginning.
    Session(Box<S>),
    /// In one that this server is to open.
    Server(Arc<H>),
}

/// Whose a call is.
#[derive(Debug)]
pub struct Caller<'a, T> {
    /// What its session is set up with, and the environment, which chooses the login.
    pub key: &'a SessionKey<T>,
    pub provider: &'a str,
    /// The login that the provider has chosen.
    pub login: Option<&'a str>,
}

/// What the work of a turn needs beside what it begins with.
#[derive(Debug)]
pub struct WorkParts<'a, T> {
    /// What its session is set up with.
    pub setup: Arc<T>,
    /// The limits it has.
    pub limits: &'a ProcessLimits,
    /// Tracks what it leaves to be done.
    pub tracker: &'a TaskTracker,
}

/// A form with a process for many conversations.
pub trait ServerForm: Form {
    /// How many conversations may rest: none where a session lives for one call.
    const MOST_RESTING: usize;

    /// How many servers a provider may have, if `maxConcurrency` allows more.
    const MOST_SERVERS: usize = usize::MAX;

    /// Whether a server that has grown too large serves calls until another is there; otherwise it takes no new ones at once.
    const SERVES_WHEN_GROWN: bool = false;

    /// The process.
    type Server: Server;
    /// What a turn begins with, and where.
    type TurnInput: Send;
    /// A turn.
    type Work: Work<Session = Self::Session>;

    /// Whether `server` serves sessions with this setup, and is what `installed` would be started as.
    fn serves(server: &Self::Server, installed: &Installed, setup: Option<&Self::Setup>) -> bool;

    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// [`NoHost`].
    fn start(&self, start: ServerStart<'_, Self>) -> impl Future<Output = Result<Self::Server, NoHost>> + Send;

    /// By what `server` is known to do what its sessions need.
    fn proof(server: &Self::Server) -> Proof<'_>;

    /// Whether another server is to take the place of `server` for calls to come, though nothing is wrong with it: it serves them until
    /// that one is there.
    fn is_worn(&self, _server: &Self::Server) -> bool {
        false
    }

    /// What `server` has not that a session with this setup needs, though it serves others: the call is the next engine's.
    fn lacks(_server: &Self::Server, _setup: &Self::Setup) -> Option<&'static str> {
        None
    }

    /// Has `server` load what a session with this setup needs.
    fn prepare(_server: &Self::Server, _setup: &Self::Setup) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The model at `place` where that takes no images, as far as the CLI knows: asked of who is sent one.
    fn blind_model(
        _place: &TurnTarget<Self::Session, Self::Server>,
        _setup: &Self::Setup,
    ) -> impl Future<Output = Option<String>> + Send {
        std::future::ready(None)
    }

    /// All of the thread, to a session that `server` is to open.
    fn open(
        &self,
        server: Arc<Self::Server>,
        call: &SessionCall<Self::Setup>,
        caller: &Caller<'_, Self::Setup>,
    ) -> Self::TurnInput;

    /// What is new, to a session that knows the rest.
    fn resume(session: Box<Self::Session>, input: Self::Input) -> Self::TurnInput;

    /// The server of a session.
    fn server(session: &Self::Session) -> &Arc<Self::Server>;

    /// The turn that begins with `opening`.
    fn work(opening: Self::TurnInput, parts: WorkParts<'_, Self::Setup>) -> Self::Work;

    /// What is sent of a call with this thread or this prompt, as text: to be counted where nobody tells usage.
    fn sent(thread: &SessionThread, _prompt: &str) -> String {
        thread.text()
    }

    /// Keeps what is known of the reply to `thread`.
    fn remember(
        &self,
        _known: ReplyFactsOf<Self>,
        _reply: &Reply,
        _thread: &SessionThread,
        _server: &Self::Server,
        _caller: &Caller<'_, Self::Setup>,
    ) {
    }

    /// Gives back what is kept beside the sessions: the provider is closed.
    fn forget(&self) {}
}

/// What a turn of `F` tells of its reply beside its events.
pub type ReplyFactsOf<F> = <<F as ServerForm>::Work as Work>::ReplyFacts;
