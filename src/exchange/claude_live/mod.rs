//! The live engine: one claude process for a whole conversation, over the CLI's control protocol.
//!
//! In: a [`SessionThread`] and a [`Setup`]. Out: the decoder's events of one turn after the other. An MCP server (`declare::mcp`),
//! spoken over the CLI's standard streams ([`wire`], [`super::stream_json`]), declares the caller's tools, so the model makes native
//! calls. A hook answers each call with `defer`, which ends the turn with the calls pending and nothing run (CLI-FACTS 1b §7). Their
//! results go back as native `tool_result` blocks. A [`ClaudeSession`] is one process, which takes one [turn](super::live::session)
//! after the other. The [`Pool`](super::live::pool::Pool) of a provider keeps sessions between the calls and finds the one that knows a
//! thread's beginning.
//!
//! A thread that no session knows is read as a [`dialogue`], written as a [`transcript`] with what is [remembered](memory) of it, and
//! resumed by a new process. Only what no transcript can hold is told in words ([`turns`]).
//!
//! The models of a login are told by a process when it is started: in the answer to `initialize`, whose `models` are those of
//! `list_models` (2.1.197, 2.1.332). Prices are words of the description, and told only where a key pays.

pub mod dialogue;
pub mod memory;
pub mod process;
pub mod session;
pub mod transcript;
pub mod turns;
pub mod wire;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value};

use self::dialogue::Dialogue;
use self::memory::{ApiMessage, Memory, Opening, Recalled, Scope, place};
use self::process::{Place, Resumed, ThreadFile, Ways};
use self::session::{ClaudeReply, ClaudeSession, SessionFacts, StartWith};
use self::transcript::TranscriptContext;
use self::turns::ClaudeInput;
use self::wire::Changes;
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
use dfp_model::iso;
use dfp_process::Vars;
use dfp_process::activity::now_ms;
use dfp_provider::choices::{Choices, FAST, STANDARD, ToolChoice};
use dfp_provider::claude::requests::{
    ANSWER_FORMAT, OLDEST, TELLS_SURROUNDINGS, TOOL_CHOICE, answer_format, facts_of, needs_thinking, stop_sequences,
    tool_choice,
};
use dfp_provider::command::{Arg, CommandLine, Cwd};
use dfp_provider::errors::RequestField;
use dfp_provider::models::ListedModel;

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
enum RunFolder {
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
            Ok(mut transcript) => {
                let line = std::mem::take(&mut transcript.line);
                ClaudeInput {
                    transcript: Some(transcript),
                    ..ClaudeInput::line(line)
                }
            }
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
fn value_of(line: &CommandLine, name: &str) -> Option<String> {
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
        addition.ok_or(WhyAnew::OtherThread)
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

/// The number of logins whose models are kept.
const MOST: usize = 16;

/// The models that processes have told, the latest last.
#[derive(Debug, Default)]
struct ReportedModels(Mutex<Vec<(Binary, Vec<ListedModel>)>>);

impl ReportedModels {
    fn lock(&self) -> MutexGuard<'_, Vec<(Binary, Vec<ListedModel>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the models that a process of `binary` has told.
    pub fn note(&self, binary: &Binary, models: Vec<ListedModel>) {
        let mut told = self.lock();
        told.retain(|(of, _)| of != binary);
        if told.len() >= MOST {
            told.remove(0);
        }
        told.push((binary.clone(), models));
    }

    /// The models that a process of `binary` has told last.
    pub fn of(&self, binary: &Binary) -> Option<Vec<ListedModel>> {
        let told = self.lock();
        let found = told.iter().find(|(of, _)| of == binary);
        found.map(|(_, models)| models.clone())
    }
}

#[derive(Deserialize)]
struct Initialised {
    models: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaudeModel {
    value: String,
    #[serde(default)]
    resolved_model: Option<String>,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    supports_effort: Option<bool>,
    #[serde(default)]
    supported_effort_levels: Option<Vec<String>>,
    /// 2.1.332 tells it; 2.1.197 does not.
    #[serde(default)]
    supports_thinking_off: Option<bool>,
    /// Told of models that have one (2.1.197, 2.1.332).
    #[serde(default)]
    supports_fast_mode: Option<bool>,
}

/// The models in the `answer` of a process to `initialize`; `None` if it names none.
fn read_models(answer: &str) -> Option<Vec<ListedModel>> {
    let Initialised { models } = serde_json::from_str(answer).ok()?;
    let models = models.iter().filter_map(|model| ClaudeModel::deserialize(model).ok());
    let models: Vec<ClaudeModel> = models.collect();
    // Of a model without a fast mode, the list says nothing of it.
    let tells_fast = models.iter().any(|one| one.supports_fast_mode == Some(true));
    let speeds = |is_fast: bool| match is_fast {
        true => vec![FAST.to_owned(), STANDARD.to_owned()],
        false => vec![STANDARD.to_owned()],
    };
    let models: Vec<ListedModel> = models
        .into_iter()
        .map(|model| {
            let efforts = model.supported_effort_levels.filter(|levels| !levels.is_empty());
            ListedModel {
                is_default: model.value == "default",
                resolves_to: model.resolved_model.filter(|full| *full != model.value),
                id: model.value,
                name: model.display_name,
                description: model.description,
                has_unnamed_efforts: model.supports_effort == Some(true) && efforts.is_none(),
                efforts,
                reasoning_off: model.supports_thinking_off,
                speeds: tells_fast.then(|| speeds(model.supports_fast_mode == Some(true))),
                ..ListedModel::default()
            }
        })
        .collect();
    (!models.is_empty()).then_some(models)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use dfp_model::event::Event;
    use dfp_provider::choices::{Choices, lacking};

    /// The warnings about what `wanted` asks of `model`, by the answers of 2.1.332 (`newest`) and 2.1.197, shortened.
    fn warnings(model: &str, newest: bool, wanted: &Choices) -> Vec<String> {
        let levels = ["low", "high"];
        let off = |is_off: bool| newest.then_some(is_off);
        let answer = json!({"models": [
            {"value": "default", "resolvedModel": "claude-opus-5-5", "supportsEffort": true, "supportedEffortLevels": levels,
             "supportsThinkingOff": off(false)},
            {"value": "claude-opus-4-8", "resolvedModel": "claude-opus-4-8", "supportsEffort": true, "supportedEffortLevels": levels,
             "supportsThinkingOff": off(true)},
            {"value": "haiku", "resolvedModel": "claude-haiku-4-5", "supportsThinkingOff": off(true)},
            {"value": "unnamed", "supportsEffort": true},
        ]});
        warnings_of(&answer, model, wanted)
    }

    fn warnings_of(answer: &Value, model: &str, wanted: &Choices) -> Vec<String> {
        let message = |event| match event {
            Event::Warning { message, .. } => message,
            other => format!("{other:?}"),
        };
        let events = lacking("claude", &read_models(&answer.to_string()).unwrap(), model, wanted);
        events.into_iter().map(message).collect()
    }

    #[test]
    fn an_effort_that_the_model_has_not_is_told() {
        let effort = |word: &str| Choices {
            effort: Some(word.to_owned()),
            ..Choices::default()
        };
        for newest in [true, false] {
            assert_eq!(warnings("claude-opus-4-8", newest, &effort("high")), [""; 0]);
            assert_eq!(
                warnings("claude-opus-4-8", newest, &effort("max")),
                [
                    "`reasoning.effort` has no effect: claude's model claude-opus-4-8 has no effort \"max\"; it has: low, high"
                ]
            );
            for name in ["haiku", "claude-haiku-4-5"] {
                let none = ["`reasoning.effort` has no effect: claude's model claude-haiku-4-5 has no efforts"];
                assert_eq!(warnings(name, newest, &effort("high")), none);
            }
            for name in ["somebody-elses", "unnamed"] {
                assert_eq!(warnings(name, newest, &effort("high")), [""; 0]);
            }
        }
    }

    #[test]
    fn a_model_without_a_fast_mode_is_told_and_listed() {
        let answer = json!({"models": [
            {"value": "opus", "resolvedModel": "claude-opus-5-5", "supportsFastMode": true, "supportsThinkingOff": false},
            {"value": "sonnet", "resolvedModel": "claude-sonnet-5-5"},
        ]});
        let fast = Choices {
            fast: Some(true),
            ..Choices::default()
        };
        assert_eq!(warnings_of(&answer, "opus", &fast), [""; 0]);
        assert_eq!(
            warnings_of(&answer, "claude-sonnet-5-5", &fast),
            ["`speed: \"fast\"` has no effect: claude's model claude-sonnet-5-5 has no fast mode"]
        );
        let listed = read_models(&answer.to_string()).unwrap();
        let facts: Vec<_> = listed
            .iter()
            .map(|one| (one.speeds.clone().unwrap(), one.reasoning_off))
            .collect();
        let (both, usual) = (
            vec!["fast".to_owned(), "standard".to_owned()],
            vec!["standard".to_owned()],
        );
        assert_eq!(facts, [(both, Some(false)), (usual, None)]);
        let untold = json!({"models": [{"value": "opus"}]});
        assert_eq!(read_models(&untold.to_string()).unwrap()[0].speeds, None);
        assert_eq!(warnings_of(&untold, "opus", &fast), [""; 0]);
    }

    #[test]
    fn a_model_that_always_thinks_is_told_where_the_cli_knows() {
        let off = Choices {
            reasoning_off: true,
            ..Choices::default()
        };
        let always = "`reasoning: \"off\"` has no effect: claude's model claude-opus-5-5 always thinks";
        for name in ["default", "claude-opus-5-5"] {
            assert_eq!(warnings(name, true, &off), [always]);
            assert_eq!(warnings(name, false, &off), [""; 0]);
        }
        assert_eq!(warnings("claude-opus-4-8", true, &off), [""; 0]);
    }
}
