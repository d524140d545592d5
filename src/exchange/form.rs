//! A form: the way in which calls are made of one kind of kept process.
//!
//! In: a call ([`SessionCall`]). Out: the setup of its session, the input for the session (the whole thread, or only its new
//! part), and the session itself, whose turns are [`Exchange`](super::Exchange)s. A process serves one conversation or many
//! ([`Processes`]). The driver of a form (`run::session`) knows no more of it than this.

use std::borrow::Cow;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host::Host;
use super::installed::{Binary, Installed};
use super::live::kept::{KeptReplies, StoreRefused};
use super::live::pool::SessionKey;
use super::live::session::{Session, SessionProcess};
use super::live::setup::{NextCall, SessionOutput, SetupParts};
use super::live::thread::{KnownThread, SessionThread, SystemMessages};
use super::print::{NotStarted, Surroundings};
use dfp_model::event::{EngineUsed, Reply};
use dfp_model::message::{Message, Role, ToolSpec};
use dfp_process::ProcessLimits;
use dfp_provider::Guard;
use dfp_provider::choices::{Choices, ToolChoice};
use dfp_provider::command::{CommandLine, PrivateSession};
use dfp_provider::errors::RequestField;
use dfp_provider::models::ListedModel;
use dfp_provider::options::{Options, SystemPrompt};
use dfp_text::prompt::Encoding;

/// A call, before it is known which form takes it.
#[derive(Debug, Clone)]
pub struct CallParts<'a> {
    pub messages: Vec<Message>,
    /// Text that is said after the thread and is no part of it, where no field of a request says it.
    pub note: Option<String>,
    /// The caller's own messages, if `messages` has more after them: the caller's next call continues from those and the reply.
    pub callers: Option<Arc<Vec<Message>>>,
    /// The tools that are bound.
    pub tools: &'a [ToolSpec],
    /// The tools that the call is to call.
    pub tool_choice: Option<&'a ToolChoice>,
    /// The tools that are bound and not offered, since the call is to call none.
    pub forbidden: &'a [ToolSpec],
    /// The options that the call is made with.
    pub options: &'a Options,
    /// The options among them that the call itself chose.
    pub choices: Option<Choices>,
    /// The provider's own choices.
    pub own: &'a Choices,
    /// The wanted kind of answer.
    pub output: SessionOutput<'a>,
    /// The encoding of a thread that can't be sent natively.
    pub encoding: Encoding,
    /// The guard that keeps a text of the user's from being a command of the CLI's.
    pub guard: Option<Guard>,
}

/// A field that a call puts into the requests of its session.
#[derive(Debug, Clone)]
pub struct SentField {
    pub field: &'static RequestField,
    /// Its value, as JSON.
    pub value: String,
}

/// The setup of a call that sends no field of some names.
#[derive(Debug)]
struct OtherSetup<T> {
    without: Vec<&'static str>,
    setup: Arc<T>,
    /// The fields that it does send.
    fields: Vec<SentField>,
}

/// The text `words` behind the thread, if none of `fields` says it.
fn said(words: Option<&String>, fields: &[SentField]) -> Option<String> {
    let is_said = fields.iter().any(|sent| sent.field.is_in_words_otherwise);
    words.filter(|_| !is_said).cloned()
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
    /// The fields that the setup puts into the requests of the session.
    pub fields: Vec<SentField>,
    /// The setups without some of these fields.
    others: Vec<OtherSetup<T>>,
    /// The text that is said after the thread if no field says it.
    words: Option<String>,
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
    /// This call with all system messages in the system prompt, if some of them [may](SystemMessages::may_place) be messages of the
    /// thread. An agent that moves them to the end of each thread goes on with a session that knows them so.
    pub joined: Option<Box<SessionCall<T>>>,
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

    /// This call without the fields of these names; `None` if it has none of them.
    pub fn without(&self, names: &[&'static str]) -> Option<SessionCall<T>> {
        let is_left_out = |sent: &&SentField| names.contains(&sent.field.name);
        let without: Vec<&str> = self
            .fields
            .iter()
            .filter(is_left_out)
            .map(|sent| sent.field.name)
            .collect();
        let other = self.others.iter().find(|other| other.without == without)?;
        Some(SessionCall {
            thread: Arc::clone(&self.thread),
            note: said(self.words.as_ref(), &other.fields),
            callers: Arc::clone(&self.callers),
            setup: Arc::clone(&other.setup),
            fields: other.fields.clone(),
            others: Vec::new(),
            words: self.words.clone(),
            choices: self.choices.clone(),
            encoding: self.encoding,
            guard: self.guard,
            prompt: Arc::clone(&self.prompt),
            file: self.file.clone(),
            joined: None,
        })
    }

    /// Makes a call of `prompt`, or of the session in `file` that it has become, with `options`, of which `choices` are the
    /// call's own, as `F` takes it.
    pub fn of_prompt<F: Form<Session: Session<Setup = T>>>(
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
            tool_choice: None,
            forbidden: &[],
            options,
            own: &options.choices,
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
    pub fn new<F: Form<Session: Session<Setup = T>>>(parts: CallParts<'_>) -> SessionCall<T> {
        let may_place = F::SYSTEM_MESSAGES.may_place(&parts.messages);
        let joined = may_place.then(|| SessionCall::with::<F>(parts.clone(), SystemMessages::All));
        SessionCall {
            joined: joined.map(Box::new),
            ..SessionCall::with::<F>(parts, F::SYSTEM_MESSAGES)
        }
    }

    /// Makes a call of `parts` whose system prompt is made from the messages that `prompt` names.
    fn with<F: Form<Session: Session<Setup = T>>>(parts: CallParts<'_>, prompt: SystemMessages) -> SessionCall<T> {
        let thread = Arc::new(SessionThread::with(parts.messages, prompt));
        let setup_without = |refused: &[&str]| {
            F::setup(&SetupParts {
                system: thread.system(),
                tools: parts.tools,
                tool_choice: parts.tool_choice,
                forbidden: parts.forbidden,
                options: parts.options,
                choices: parts.choices.as_ref(),
                own: parts.own,
                output: parts.output,
                refused,
            })
        };
        let setup = setup_without(&[]);
        let fields = F::sent_fields(&setup);
        let others = (1..1_usize << fields.len()).map(|chosen| {
            let left_out = fields.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
            let without: Vec<&str> = left_out.map(|(_, sent)| sent.field.name).collect();
            let setup = Arc::new(setup_without(&without));
            let fields = F::sent_fields(&setup);
            OtherSetup { without, setup, fields }
        });
        let others: Vec<_> = others.collect();
        let callers = parts
            .callers
            .map(|callers| Arc::new(SessionThread::with(callers.to_vec(), prompt)));
        SessionCall {
            callers: callers.unwrap_or_else(|| Arc::clone(&thread)),
            thread,
            note: said(parts.note.as_ref(), &fields),
            words: parts.note,
            setup: Arc::new(setup),
            others,
            fields,
            choices: parts.choices,
            encoding: parts.encoding,
            guard: parts.guard,
            prompt: Arc::default(),
            file: None,
            joined: None,
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

/// The processes in which the sessions of a form live.
#[derive(Debug, Clone, Copy)]
pub enum Processes {
    /// Each session has a process of its own.
    Own {
        /// True if a CLI of which nothing is known must pass the handshake before it is sent anything of a thread.
        is_tried_first: bool,
        /// True if a process can be started without knowing its setup.
        starts_bare: bool,
    },
    /// One process serves many sessions.
    Shared {
        /// The number of conversations that may rest at a time: 0 if a session lives for one call.
        most_resting: usize,
        /// The number of servers that a provider may have, if `maxConcurrency` allows more.
        most_servers: usize,
        /// True if a server that has grown too large serves calls until another is there. Otherwise it takes no new ones at once.
        serves_when_grown: bool,
    },
}

impl Processes {
    /// Processes that serve any number of sessions, of which `most_resting` may rest, with as many servers as `maxConcurrency` allows.
    pub const fn shared(most_resting: usize) -> Processes {
        Processes::Shared {
            most_resting,
            most_servers: usize::MAX,
            serves_when_grown: false,
        }
    }

    /// Returns whether one process serves many sessions.
    pub const fn are_shared(self) -> bool {
        matches!(self, Processes::Shared { .. })
    }

    /// Returns whether a CLI of which nothing is known must pass the handshake before it is sent anything of a thread.
    pub const fn are_tried_first(self) -> bool {
        matches!(
            self,
            Processes::Own {
                is_tried_first: true,
                ..
            }
        )
    }

    /// Returns whether a process for one session can be started without knowing its setup.
    pub const fn start_bare(self) -> bool {
        matches!(self, Processes::Own { starts_bare: true, .. })
    }
}

/// The setup of a form's sessions.
pub type SetupOf<F> = <<F as Form>::Session as Session>::Setup;
/// The input that a turn of a form begins with.
pub type InputOf<F> = <<F as Form>::Session as Session>::Input;
/// The facts that a turn of a form reports of its reply beside its events.
pub type ReplyFactsOf<F> = <<F as Form>::Session as Session>::ReplyFacts;

/// The way in which a call reaches a kept process of one kind.
///
/// A session is opened from a setup and the thread ([`whole`](Form::whole)), with everything that the caller knows of the thread;
/// a session that knows the thread's beginning gets its new part ([`addition`](Form::addition)). The methods with a body are for
/// some forms alone.
pub trait Form: Debug + Send + Sync + Sized + 'static {
    /// The engine that is reported for its calls.
    const ENGINE: EngineUsed = EngineUsed::Live;

    /// The part of a call that is sent.
    const TAKES: Takes = Takes::Thread;

    /// The system messages of a thread that make up the session's system prompt.
    const SYSTEM_MESSAGES: SystemMessages = SystemMessages::All;

    /// The processes in which its sessions live.
    const PROCESSES: Processes;

    /// True if every thread is told natively to a session that knows nothing ([`retold`](Form::retold)).
    const RETELLS: bool = false;

    /// The session that is kept between calls.
    type Session: Session;

    /// The process that serves many sessions, or [`Host`] alone where each session has a process of its own.
    type Server: AsRef<Host> + Debug + Send + Sync + 'static;

    /// The setup of the session that a call needs.
    fn setup(parts: &SetupParts<'_>) -> SetupOf<Self>;

    /// The fields that `setup` puts into requests, where another setup would do without them.
    fn sent_fields(_setup: &SetupOf<Self>) -> Vec<SentField> {
        Vec::new()
    }

    /// The options of a process for sessions with this setup; `choices` are those of a call. A server that is sent the choices with
    /// each session needs none.
    fn options(_setup: Option<&SetupOf<Self>>, _choices: Option<&Choices>) -> ProcessOptions {
        ProcessOptions::default()
    }

    /// The command line of a process, made from that of the CLI in `file`.
    fn line(line: CommandLine, _file: &Path) -> CommandLine {
        line
    }

    /// The input for a session that knows nothing: the whole thread of `call`. A shared process is there already.
    ///
    /// # Errors
    /// The system gives no random bytes.
    fn whole(&self, call: &SessionCall<SetupOf<Self>>, caller: &Caller<'_, Self>) -> io::Result<InputOf<Self>>;

    /// The input for a session that knows `known`: the new part of the thread of `call`.
    ///
    /// # Errors
    /// [`WhyAnew`]: another session is needed.
    fn addition(call: &SessionCall<SetupOf<Self>>, known: &KnownThread) -> Result<InputOf<Self>, WhyAnew>;

    /// The text that is sent for a call. Its tokens are estimated if the CLI reports no usage.
    fn text(call: &SessionCall<SetupOf<Self>>, _input: &InputOf<Self>) -> SentText {
        let thread = Arc::clone(&call.thread);
        Box::new(move || thread.text())
    }

    /// Makes a session, which knows nothing: a process of its own is started, and a session in a shared one opens with its first
    /// turn.
    ///
    /// # Errors
    /// [`NotStarted`].
    fn session(&self, home: SessionHome<'_, Self>) -> Result<Self::Session, NotStarted>;

    /// The way in which `input`, for a session that knows nothing, tells a thread that has a reply of the model's.
    fn retold(_input: &InputOf<Self>) -> Retold {
        match Self::RETELLS {
            true => Retold::Natively,
            false => Retold::InWords(None),
        }
    }

    /// Returns whether `input` needs a process that is started for it: one that was started without it can't begin with it.
    fn needs_own_process(_input: &InputOf<Self>) -> bool {
        false
    }

    /// The likely setup of the next call's session; `None` if that is not known. `last` is that of the last call.
    fn next_setup(_last: Option<&SetupOf<Self>>, next: &NextCall<'_>) -> Option<SetupOf<Self>> {
        Some(Self::setup(&SetupParts {
            system: next.system,
            tools: next.tools.unwrap_or_default(),
            options: next.options,
            choices: None,
            own: &next.options.choices,
            output: SessionOutput::Text,
            tool_choice: None,
            forbidden: &[],
            refused: &[],
        }))
    }

    /// Starts a shared process and waits until it is ready.
    ///
    /// # Errors
    /// [`NotStarted`].
    fn serve(&self, _start: ServerStart<'_, Self>) -> impl Future<Output = Result<Self::Server, NotStarted>> + Send {
        std::future::ready(Err(NotStarted::Unsupported(
            "each session has its own process".to_owned(),
        )))
    }

    /// Returns whether `server` serves sessions with this setup, and is the process that `installed` would start.
    fn serves(_server: &Self::Server, _installed: &Installed, _setup: Option<&SetupOf<Self>>) -> bool {
        true
    }

    /// The evidence that `server` supports its sessions.
    fn proof(_server: &Self::Server) -> Proof<'_> {
        Proof::Probe("it has answered the handshake".to_owned())
    }

    /// Returns whether another server should replace `server` for later calls, though nothing is wrong with it: it serves them
    /// until the other one is there.
    fn is_worn(&self, _server: &Self::Server) -> bool {
        false
    }

    /// The feature that `server` lacks for a session with this setup, though it serves others. The call goes to the next engine
    /// then.
    fn lacks(_server: &Self::Server, _setup: &SetupOf<Self>) -> Option<&'static str> {
        None
    }

    /// True if its processes tell the models of their login ([`models`](Form::models), [`reported_models`](Form::reported_models)).
    const LISTS_MODELS: bool = false;

    /// The models that `server` has for its login, without a request to a model.
    ///
    /// # Errors
    /// The reason why it does not tell.
    fn models(_server: &Arc<Self::Server>, _asked: ModelsAsked<'_>) -> impl Future<Output = ListedModels> + Send {
        std::future::ready(Err("it has no list of models".to_owned()))
    }

    /// The models that a process of `binary` has told when it was started, where each session has a process of its own.
    fn reported_models(&self, _binary: &Binary) -> Option<Vec<ListedModel>> {
        None
    }

    /// Makes `server` load what a session with this setup needs.
    fn prepare(_server: &Self::Server, _setup: &SetupOf<Self>) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Keeps the facts that are known of the reply to `thread`.
    fn remember(
        &self,
        _known: ReplyFactsOf<Self>,
        _reply: &Reply,
        _thread: &SessionThread,
        _caller: &Caller<'_, Self>,
    ) {
    }

    /// Loads what the store has of the thread of `call`, for [`whole`](Form::whole).
    ///
    /// # Errors
    /// The store's folder is not used.
    fn recollect(
        &self,
        _call: &SessionCall<SetupOf<Self>>,
        _caller: &Caller<'_, Self>,
    ) -> impl Future<Output = Result<(), StoreRefused>> + Send {
        std::future::ready(Ok(()))
    }

    /// The replies that it keeps beside the sessions, if it does.
    fn kept(&self) -> Option<&KeptReplies> {
        None
    }

    /// Gives back what is kept beside the sessions, since the provider is closed.
    fn forget(&self) {}
}

/// The models that a CLI has told, or the reason why it does not tell.
pub type ListedModels = Result<Vec<ListedModel>, String>;

/// The parts that the question for models is asked with.
#[derive(Debug, Clone, Copy)]
pub struct ModelsAsked<'a> {
    /// The provider's own options.
    pub options: &'a Options,
    /// Tracks the tasks that the question leaves behind.
    pub tracker: &'a TaskTracker,
}

/// The text that was sent, which is made only if it is asked for.
pub type SentText = Box<dyn FnOnce() -> String + Send>;

/// The place where a session is made.
#[derive(Debug)]
pub enum SessionHome<'a, F: Form> {
    /// A process of its own, which is to be started.
    Own(Box<OwnProcess<'a, F>>),
    /// A server, in which the session is to be opened.
    Shared(InServer<F>),
}

/// The parts with which a process for one session is started.
#[derive(Debug)]
pub struct OwnProcess<'a, F: Form> {
    pub installed: &'a Installed,
    pub surroundings: Surroundings,
    /// Cancelled when the provider is closed.
    pub closing: &'a CancellationToken,
    /// The setup, if it is known.
    pub setup: Option<&'a Arc<SetupOf<F>>>,
    /// The input of the first turn, if there is one already.
    pub input: Option<&'a InputOf<F>>,
}

/// The place of a session in a server.
#[derive(Debug)]
pub struct InServer<F: Form> {
    pub server: Arc<F::Server>,
    pub setup: Arc<SetupOf<F>>,
    /// The limits of its turns.
    pub limits: ProcessLimits,
    /// Tracks the tasks that the session leaves behind.
    pub tracker: TaskTracker,
}

impl<F: Form> InServer<F> {
    /// The host of the server.
    pub fn host(&self) -> &Host {
        (*self.server).as_ref()
    }

    /// The process in which the session lives.
    pub fn process(&self) -> Option<SessionProcess<'_>> {
        Some(SessionProcess::Shared(self.host(), &self.tracker))
    }
}

impl<'a, F: Form> SessionHome<'a, F> {
    /// The process to be started.
    ///
    /// # Errors
    /// The session's place is in a server.
    pub fn own(self) -> Result<OwnProcess<'a, F>, NotStarted> {
        match self {
            SessionHome::Own(process) => Ok(*process),
            SessionHome::Shared(_) => Err(NotStarted::Unsupported(
                "its sessions have their own processes".to_owned(),
            )),
        }
    }

    /// The server in which the session is to be opened.
    ///
    /// # Errors
    /// The session's place is in a process of its own.
    pub fn shared(self) -> Result<InServer<F>, NotStarted> {
        match self {
            SessionHome::Shared(place) => Ok(place),
            SessionHome::Own(_) => Err(NotStarted::Unsupported("its sessions share a process".to_owned())),
        }
    }
}

/// The parts that a server is started with.
pub struct ServerStart<'a, F: Form> {
    pub installed: &'a Installed,
    pub options: &'a Options,
    /// The setup of the session for which the server is started.
    pub setup: Option<&'a SetupOf<F>>,
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

/// The caller of a session.
#[derive(Debug)]
pub struct Caller<'a, F: Form> {
    /// The setup of the session, and the environment, which chooses the login.
    pub key: &'a SessionKey<SetupOf<F>>,
    pub provider: &'a str,
    /// The login that the provider has chosen.
    pub login: Option<&'a str>,
    /// The server of the session, if that shares one.
    pub server: Option<&'a F::Server>,
    /// The process that is to be started for a session of its own; `None` for one of which nothing is known but that it has answered,
    /// and for a reply.
    pub start: Option<ToStart<'a>>,
}

/// The facts of a process that is to be started.
#[derive(Debug, Clone, Copy)]
pub struct ToStart<'a> {
    pub installed: &'a Installed,
    /// The CLI's version, if its file tells it.
    pub version: Option<[u64; 3]>,
    /// The owner of the process.
    pub owner: u64,
    /// True if it is to have the CLI's own tools.
    pub own_tools: bool,
}

/// The way in which a thread is told to a session that knows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retold {
    /// In messages of the CLI's own, as if the session had been there.
    Natively,
    /// The thread is told as a text; with the reason if that is worth a warning.
    InWords(Option<String>),
}
