//! Calls in print form, with one process for each.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;

use super::admission::millis;
use super::attempt::{AttemptOutcome, AttemptStart, failed, run_attempt};
use super::base::{Base, not_found, not_started};
use super::callbacks::BridgedPrint;
use super::capabilities;
use super::cli_attempt::{CliAttempt, CliCall};
use super::cli_request::emulated;
use dfp_exchange::installed::Installed;
use dfp_exchange::print::{NotStarted, Print, Surroundings};
use dfp_exchange::{random, user_line};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::{EngineUsed, Event, RunInfo};
use dfp_model::message::content::{Media, Source, decoded};
use dfp_process::{ProcessLimits, StartError, Vars};
use dfp_provider::command;
use dfp_provider::command::{MediaFile, MediaPrompt, Mode, RUN_FOLDER};
use dfp_provider::media::MediaForm;
use dfp_provider::options::Options;
use dfp_text::fold::Fold;
use dfp_text::prompt::Rendered;

impl CliAttempt<'_> {
    /// Makes the attempt with one process for this call alone.
    pub async fn print(&self, info: &mut RunInfo) -> Result<AttemptOutcome, Box<ProviderError>> {
        let CliCall {
            engine,
            request,
            base_env,
            cancel,
            sink,
            ..
        } = *self.call;
        info.engine = Some(EngineUsed::Print);
        let printed = request.printed(engine);
        if let Some(refused) = &printed.unprintable {
            return Err(refused.clone());
        }
        let bridge = match &request.tool_server {
            None => None,
            Some(server) => Some(
                server
                    .open()
                    .map_err(|error| not_started(engine, &NotStarted::Tools(error)))?,
            ),
        };
        let options = request.provider_options(engine);
        let bridged_options = bridge.as_ref().map(|bridge| bridge.with_bridge(options));
        let options = bridged_options.as_ref().unwrap_or(options);
        let with_schema = request.native_schema().map(|schema| Options {
            output_schema: Some(schema.text().to_owned()),
            ..options.clone()
        });
        let line_of = |prompt: &Rendered, options| {
            let media = match prompt.media.as_slice() {
                [] => None,
                _ => Some(media_prompt(engine, prompt)?),
            };
            let mode = media.as_ref().map_or(Mode::Print(&prompt.text), Mode::PrintMedia);
            printing(engine, mode, options, request.wants_pieces(), base_env)
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
                let emulated = emulated_because.and_then(|why| emulated(engine, &why));
                let choices = match self.call.has_dropped_schema() {
                    false => request.notes(self.number, engine, EngineUsed::Print, base_env),
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
            owner: engine.owner,
            permit: Some(permit),
            tracker: engine.lifecycle.runs.clone(),
            tees: request.tees.clone(),
        };
        let mut print = match Print::start(line, &engine.provider, surroundings, cancel) {
            Ok(print) => print,
            Err(NotStarted::Process(StartError::Cancelled)) => return Ok(AttemptOutcome::Cancelled),
            Err(error) => return Err(not_started(engine, &error)),
        };
        if let Some(observer) = &request.observer {
            print.set_observer(Arc::clone(observer));
        }
        let fold = match request.watching {
            true => Fold::watching(),
            false => Fold::new(request.call_ids.clone(), printed.text_calls.clone())
                .with_own_tools(request.own_tools(engine))
                .with_listener(sink.has_listener()),
        };
        let attempt = self.print_attempt(&limits, || prompt.text.clone(), fold, opening);
        let outcome = match bridge {
            None => run_attempt(attempt, print, info).await,
            Some(bridge) => run_attempt(attempt, BridgedPrint { print, bridge }, info).await,
        };
        let outcome = outcome.map_err(|error| failed(error, engine.id()))?;
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
    engine: &Base,
    mode: Mode,
    options: &Options,
    partial: bool,
    env: &Arc<Vars>,
) -> Result<Installed, Box<ProviderError>> {
    match engine.look(env) {
        Ok(program) => program.printing(&engine.provider, options, mode, partial),
        // An unfit prompt is reported first.
        Err(error) => {
            let nothing_known = command::Installed::default();
            let line = command::build(&engine.provider, options, mode, partial, &nothing_known);
            Err(line.err().unwrap_or_else(|| not_found(engine, error)))
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
pub(super) fn media_prompt(engine: &Base, rendered: &Rendered) -> Result<MediaPrompt, Box<ProviderError>> {
    match engine.provider.media.form {
        Some(MediaForm::UserLine) => Ok(MediaPrompt {
            text: user_line::user(&user_line::of_rendered("", rendered)),
            files: Vec::new(),
        }),
        Some(MediaForm::Files) => Ok(MediaPrompt {
            text: format!("{ATTACHED}{}", rendered.text),
            files: files(engine, rendered, |index, media| {
                format!("{}-{index}.{}", media.kind.tag(), extension(media))
            })?,
        }),
        Some(MediaForm::NamedFiles) => {
            let random = random::bits().map(|bits| bits as u64).map_err(|error| {
                let reason = format!("the files of a prompt can't be named: {error}");
                engine.refuse(Code::Internal, reason)
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
                files: files(engine, rendered, |index, media| {
                    format!("{RUN_FOLDER}/{}", name(index, media))
                })?,
            })
        }
        None => {
            let reason = format!("{} takes text only", engine.id());
            Err(engine.refuse(Code::UnsupportedContent, reason))
        }
    }
}

/// The blocks of `rendered` as files; `name` gets the index of each, from 1.
fn files(
    engine: &Base,
    rendered: &Rendered,
    name: impl Fn(usize, &Media) -> String,
) -> Result<Vec<MediaFile>, Box<ProviderError>> {
    let blocks = (1..).zip(&rendered.media);
    let files = blocks.map(|(index, placed)| {
        let media = &placed.media;
        let bytes = match &media.source {
            Source::Base64(data) => decoded(data),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| {
            let reason = format!("block {index} of the thread, {}, is no base64", media.name());
            engine.refuse(Code::UnsupportedContent, reason)
        })?;
        Ok(MediaFile {
            name: name(index, media),
            bytes,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
