//! claude's control protocol as a form.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Map;

use super::changes::Changes;
use super::dialogue::Dialogue;
use super::memory::{self, ApiMessage, Memory, Opening, Recalled, Scope, place};
use super::models::ReportedModels;
use super::process::{Place, Resumed, ThreadFile, Ways};
use super::session::{ClaudeReply, ClaudeSession, SessionFacts, StartWith};
use super::transcript::{self, TranscriptContext};
use super::turns::ClaudeInput;
use crate::form::{
    Caller, Form, OwnProcess, ProcessOptions, Processes, Retold, SentField, SentText, SessionCall, SessionHome,
    ToStart, WhyAnew,
};
use crate::host::Host;
use crate::installed::Binary;
use crate::live::kept::{KeptReplies, StoreRefused, blocking};
use crate::live::setup::{Changeable, NextCall, SessionOutput, Setup, SetupParts};
use crate::live::thread::{KnownThread, SessionThread, SystemMessages};
use crate::print::NotStarted;
use crate::scratch::Scratch;
use dfp_model::event::Reply;
use dfp_model::listed_model::ListedModel;
use dfp_model::time::iso;
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_provider::choices::{Choices, ToolChoice};
use dfp_provider::claude::fields::{ANSWER_FORMAT, TOOL_CHOICE, answer_format, stop_sequences, tool_choice};
use dfp_provider::claude::transcripts::{OLDEST, TELLS_SURROUNDINGS, facts_of, needs_thinking};
use dfp_provider::command::{Arg, CommandLine, Cwd};
use dfp_provider::errors::RequestField;

/// The flag without which a process that resumes a thread would keep it.
const KEEPS_NOTHING: &str = "--no-session-persistence";

/// The flag without which a process that is to have no tools of its own would have some.
const TOOLS: &str = "--tools";

/// One claude process for each conversation.
#[derive(Debug, Default)]
pub struct Claude {
    memory: Arc<Memory>,
    ways: Arc<Ways>,
    /// The models that its processes have told.
    models: Arc<ReportedModels>,
    /// The folder in which all processes run that need an empty one: the CLI tells its model where it runs, so a conversation must
    /// find the same folder in its next process.
    folder: Mutex<Option<Arc<RunFolder>>>,
}

/// The empty folder in which processes run.
#[derive(Debug)]
pub(super) enum RunFolder {
    /// A private one, which is removed with the last of them.
    Own(Scratch),
    /// The folder of the store, which stays: the next process on this machine tells its model the same folder.
    Stored(PathBuf),
}

impl RunFolder {
    fn path(&self) -> PathBuf {
        match self {
            RunFolder::Own(scratch) => scratch.folder(),
            RunFolder::Stored(path) => path.clone(),
        }
    }
}

impl Claude {
    /// The form of a provider that keeps `replies`.
    pub fn keeping(replies: KeptReplies) -> Claude {
        Claude {
            memory: Arc::new(Memory::of(replies)),
            ..Claude::default()
        }
    }

    fn scope<'a>(&self, caller: &Caller<'a, Claude>) -> Scope<'a> {
        Scope {
            key: caller.key,
            login: caller.login,
            owner: self.memory.replies.owner(),
        }
    }

    /// The empty folder that the processes share; `None` where each has its own.
    fn folder(&self, line: &CommandLine, owner: u64) -> io::Result<Option<Arc<RunFolder>>> {
        if line.cwd != Cwd::Private || !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever tidies the folder for temporary files may have removed it.
        if let Some(known) = folder.as_ref().filter(|known| known.path().is_dir()) {
            return Ok(Some(Arc::clone(known)));
        }
        let stored = self.memory.replies.store().and_then(|store| store.make("empty").ok());
        let made = Arc::new(match stored {
            Some(path) => RunFolder::Stored(path),
            None => RunFolder::Own(Scratch::empty(owner)?),
        });
        *folder = Some(Arc::clone(&made));
        Ok(Some(made))
    }

    /// The surroundings of a process of `line`, but for the date.
    fn opening(&self, line: &CommandLine, env: &Arc<Vars>, folder: Option<&RunFolder>) -> Opening {
        let cwd = match (&line.cwd, folder) {
            (_, Some(folder)) => Some(folder.path()),
            (Cwd::Path(path), None) => Some(PathBuf::from(path)),
            (Cwd::Inherit, None) => std::env::current_dir().ok(),
            (Cwd::Private, None) => None,
        };
        let asked = value_of(line, "--model").unwrap_or_default();
        let known = self.memory.model_of(&asked);
        Opening {
            environment: cwd.and_then(|cwd| memory::environment_told(line, env, &cwd)),
            date: None,
            model: known.or_else(|| facts_of(&asked).map(|facts| facts.id.to_owned())),
        }
    }

    /// The thread of `call` as a transcript; `None` for a thread that is told natively in any case, or never.
    fn resumable(
        &self,
        call: &SessionCall<Setup>,
        caller: &Caller<'_, Claude>,
        start: &ToStart<'_>,
    ) -> io::Result<Option<ClaudeInput>> {
        let line = &start.installed.line;
        let takes = start.version.is_some_and(|version| version >= OLDEST);
        let is_pure = line.flags.contains(&KEEPS_NOTHING) && (start.own_tools || line.flags.contains(&TOOLS));
        if line.is_out_of_reach() {
            return Ok(None);
        }
        if !call.may_continue() || !takes || !is_pure || self.ways.best().is_none() {
            return Ok(None);
        }
        let now = now_ms();
        let now_told = match start.version.is_some_and(|version| version >= TELLS_SURROUNDINGS) {
            true => {
                let folder = self.folder(line, start.owner)?;
                Some(Opening {
                    date: memory::date_told(now),
                    ..self.opening(line, &caller.key.env, folder.as_deref())
                })
            }
            false => None,
        };
        let asked = value_of(line, "--model").unwrap_or_default();
        let model = self.memory.model_of(&asked).unwrap_or(asked);
        let scope = self.scope(caller);
        let context = TranscriptContext {
            setup: &call.setup,
            guard: call.guard,
            note: call.note.as_deref(),
            opening: now_told.as_ref(),
            login: caller.login,
            needs_thinking: needs_thinking(&model, start.version),
            time: &iso(now),
        };
        let dialogue = Dialogue::of(call.thread.messages(), scope.begin(), &|place| self.memory.find(place));
        let transcript = dialogue.and_then(|dialogue| transcript::write(&dialogue, &context));
        Ok(Some(match transcript {
            Ok(mut transcript) => ClaudeInput {
                line: std::mem::take(&mut transcript.line),
                transcript: Some(transcript),
                not_native: None,
            },
            Err(not_native) => ClaudeInput {
                not_native: Some(not_native),
                ..ClaudeInput::line(in_words(call))
            },
        }))
    }
}

fn in_words(call: &SessionCall<Setup>) -> String {
    call.thread.whole(call.encoding, call.guard, call.note.as_deref())
}

/// The value of the flag `name` on a command line.
pub(super) fn value_of(line: &CommandLine, name: &str) -> Option<String> {
    let at = line
        .args
        .iter()
        .rposition(|arg| matches!(arg, Arg::Text(text) if text == name))?;
    match line.args.get(at + 1) {
        Some(Arg::Text(value)) => Some(value.clone()),
        _ => None,
    }
}

impl Form for Claude {
    const PROCESSES: Processes = Processes::Own {
        is_tried_first: true,
        starts_bare: true,
    };

    const SYSTEM_MESSAGES: SystemMessages = SystemMessages::AtTheirPlaces;

    const LISTS_MODELS: bool = true;

    type Session = ClaudeSession;
    type Server = Host;

    fn setup(parts: &SetupParts<'_>) -> Setup {
        let choices = &parts.options.choices;
        let mut fields = Map::new();
        if choices.stop.is_some() || parts.own.stop.is_some() {
            fields.extend([stop_sequences(choices)]);
        }
        // With tools of its own, the CLI makes further requests, which would have the fields as well. A tool that is not found yet is not
        // declared, so the API could not be told to call it.
        let has_tools = parts.options.built_in_tools || choices.searches_web() || choices.searches_tools();
        let may_have = |field: &RequestField| !has_tools && !parts.refused.contains(&field.name);
        let schema = parts.output.native().filter(|_| may_have(&ANSWER_FORMAT));
        let format = schema.and_then(answer_format);
        let output = match format {
            Some(_) => SessionOutput::Text,
            None => parts.output,
        };
        fields.extend(format);
        // The choice would be one about the CLI's own tool for answers as well.
        let choice = parts
            .tool_choice
            .filter(|_| output.native().is_none() && may_have(&TOOL_CHOICE));
        let tools = match choice {
            Some(ToolChoice::None) => parts.forbidden,
            _ => parts.tools,
        };
        let setup = Setup::of(&SetupParts {
            output,
            tools,
            ..*parts
        });
        fields.extend(choice.and_then(|choice| tool_choice(choice, setup.declarations())));
        setup.changing(
            parts.own,
            Changeable {
                effort: choices.effort.clone(),
                reasoning_off: choices.reasoning_off,
                fast: choices.fast,
                max_output_tokens: choices.max_output_tokens,
                fields,
            },
        )
    }

    fn sent_fields(setup: &Setup) -> Vec<SentField> {
        let fields = &setup.changeable().fields;
        let sent = |field: &'static RequestField| {
            let value = fields.get(field.name)?.to_string();
            Some(SentField { field, value })
        };
        [&ANSWER_FORMAT, &TOOL_CHOICE].into_iter().filter_map(sent).collect()
    }

    /// The system prompt and the tools are sent to the running process, so they are not among its options.
    fn options(setup: Option<&Setup>, _: Option<&Choices>) -> ProcessOptions {
        ProcessOptions {
            choices: setup.and_then(Setup::choices).cloned(),
            system_prompt: None,
        }
    }

    fn whole(&self, call: &SessionCall<Setup>, caller: &Caller<'_, Claude>) -> io::Result<ClaudeInput> {
        let resumable = match &caller.start {
            Some(start) => self.resumable(call, caller, start)?,
            None => None,
        };
        Ok(resumable.unwrap_or_else(|| ClaudeInput::line(in_words(call))))
    }

    fn addition(call: &SessionCall<Setup>, known: &KnownThread) -> Result<ClaudeInput, WhyAnew> {
        let addition = call.thread.addition(known, call.guard, call.note.as_deref());
        addition.map(ClaudeInput::line).ok_or(WhyAnew::OtherThread)
    }

    fn retold(input: &ClaudeInput) -> Retold {
        match (&input.transcript, &input.not_native) {
            (Some(_), _) => Retold::Natively,
            (None, not_native) => Retold::InWords(not_native.as_ref().map(ToString::to_string)),
        }
    }

    fn text(_: &SessionCall<Setup>, input: &ClaudeInput) -> SentText {
        let transcript = input.transcript.as_ref().map_or("", |transcript| &transcript.lines);
        let text = format!("{transcript}{}", input.line);
        Box::new(move || text)
    }

    fn session(&self, home: SessionHome<'_, Claude>) -> Result<ClaudeSession, NotStarted> {
        let OwnProcess {
            installed,
            surroundings,
            closing,
            input,
            ..
        } = home.own()?;
        let mut line = installed.line.clone();
        let folder = self.folder(&line, surroundings.owner);
        let folder = folder.map_err(|source| NotStarted::Scratch {
            folder: std::env::temp_dir(),
            source,
        })?;
        let facts = SessionFacts {
            model: value_of(&line, "--model").unwrap_or_default(),
            effort: None,
            opening: self.opening(&line, &surroundings.base_env, folder.as_deref()),
        };
        if let Some(path) = folder.as_deref().map(RunFolder::path) {
            line.cwd = Cwd::Path(path.to_string_lossy().into_owned());
        }
        let transcript = input.and_then(|input| input.transcript.as_ref());
        let resumed = transcript.zip(self.ways.best()).map(|(transcript, best)| {
            // On the other side of a launcher, this process may have another number.
            let place = match line.launch {
                Some(_) => Place::Disk,
                None => best,
            };
            let file = ThreadFile::attach(&mut line, &transcript.lines, place);
            Resumed::new(file, place, Arc::clone(&self.ways), transcript.deferred.clone())
        });
        let changes = Changes::of(&line, &surroundings.base_env);
        let with = StartWith {
            changes,
            facts,
            folder,
            resumed,
            reported_models: Some((installed.binary.clone(), Arc::clone(&self.models))),
        };
        ClaudeSession::start(line, surroundings, closing, with)
    }

    /// A transcript is an argument.
    fn needs_own_process(input: &ClaudeInput) -> bool {
        input.transcript.is_some()
    }

    fn reported_models(&self, binary: &Binary) -> Option<Vec<ListedModel>> {
        self.models.of(binary)
    }

    fn next_setup(last: Option<&Setup>, next: &NextCall<'_>) -> Option<Setup> {
        Setup::next(last, next)
    }

    fn remember(&self, known: ClaudeReply, reply: &Reply, thread: &SessionThread, caller: &Caller<'_, Claude>) {
        let ClaudeReply {
            messages: Some(messages),
            facts,
        } = known
        else {
            return;
        };
        let model = messages.last().map(|message| message.model.clone());
        let memory = &self.memory;
        if let Some(model) = &model {
            memory.note_model(&facts.model, model);
        }
        // An answer by a schema is a call of the CLI's own, which only that session knows.
        if caller.key.setup.output().is_some() {
            return;
        }
        let used = messages.iter().flat_map(ApiMessage::open_calls);
        let called = reply.tool_calls.iter().map(|call| call.id.as_str());
        if !used.eq(called) {
            return;
        }
        let scope = self.scope(caller);
        let Ok(dialogue) = Dialogue::of(thread.messages(), scope.begin(), &|place| memory.find(place)) else {
            return;
        };
        let opening = dialogue.rounds.is_empty().then_some(Opening { model, ..facts.opening });
        let recalled = Recalled {
            messages,
            calls: reply.tool_calls.clone(),
            effort: facts.effort,
            opening,
        };
        let place = place(dialogue.print, recalled.calls.first(), &reply.content);
        memory.keep(place, &recalled);
    }

    async fn recollect(&self, call: &SessionCall<Setup>, caller: &Caller<'_, Claude>) -> Result<(), StoreRefused> {
        if self.memory.replies.store().is_none() {
            return Ok(());
        }
        let (memory, scope, thread) = (
            Arc::clone(&self.memory),
            self.scope(caller).begin(),
            Arc::clone(&call.thread),
        );
        let continues = call.may_continue();
        blocking(move || {
            memory.replies.open()?;
            if continues {
                // What it finds is in memory then.
                let _ = Dialogue::of(thread.messages(), scope, &|place| memory.fetch(place));
            }
            Ok(())
        })
        .await
    }

    fn kept(&self) -> Option<&KeptReplies> {
        Some(&self.memory.replies)
    }

    fn forget(&self) {
        self.memory.close();
        *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
