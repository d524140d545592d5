//! Decodes the end of a turn: claude's `result` line to `Usage`, `Failure` and `Outcome`.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{Denial, Explained, ModelFigures, ResultLine};
use super::{Claude, Turn};
use crate::decode::ansi::strip_owned;
use crate::decode::facts::{API_ERROR, failure_of, read_usage};
use crate::decode::format::Out;
use crate::decode::json::{Fields, Members, Text, is_object, is_true};
use dfp_model::event::{Event, Failure, Outcome, PermissionDenial};

/// How the API served an answer, in its usage.
#[derive(Debug, Default, Deserialize)]
struct ServedAs {
    #[serde(default)]
    service_tier: Option<String>,
    #[serde(default)]
    speed: Option<String>,
}

/// The word for the usual tier and the usual speed.
const USUAL: &str = "standard";

/// Bytes; in a successful turn a longer text that repeats the messages is not read, since it would be one more copy.
const LONG: usize = 64 * 1024;

impl Claude {
    /// Decodes the `result` line, which ends the turn: usage, the failure if there is one, and the outcome.
    pub(super) fn result(&mut self, json: &str, fields: &mut Fields, out: &mut Out) {
        let Some(line) = fields.read_line::<ResultLine>(json) else {
            return;
        };
        self.generic.close(out);
        // qwen 0.24.4 prints the reason of a failed run as a message of its model, and once more here.
        if let Some(reason) = line.error.filter(|_| is_true(line.is_error))
            && let Some(reason) = explained(reason, fields)
            && self.assembler.is_open_with(&reason)
        {
            self.assembler.discard(out);
        }
        let spoke = self.assembler.end_turn(out) | self.generic.take_spoke();
        let turn = std::mem::take(&mut self.turn);
        let usage = read_usage(fields, line.usage);
        let served: ServedAs = fields.read("usage", line.usage).unwrap_or_default();
        let fast_mode = fields.string("fast_mode_state", line.fast_mode_state);
        let is_fast = fast_mode.as_deref() == Some("on");
        let subtype = fields.string("subtype", line.subtype);
        let is_error = fields.read::<bool>("is_error", line.is_error).unwrap_or_default();
        let failed = is_error || subtype.as_deref().is_some_and(|subtype| subtype != "success");
        let repeats = spoke && !failed && !turn.disguised && turn.synthetic.is_none();
        let text = line.result.filter(|text| !(repeats && text.get().len() > LONG));
        let text = fields
            .read::<Text>("result", text)
            .map(|Text(text)| strip_owned(text).into_owned());
        let outcome = Outcome {
            subtype,
            is_error,
            stop_reason: fields.string("stop_reason", line.stop_reason),
            num_turns: fields.small("num_turns", line.num_turns),
            usage: usage.clone(),
            cost_usd: fields.read::<f64>("total_cost_usd", line.total_cost_usd),
            duration_ms: fields.count("duration_ms", line.duration_ms),
            session_id: fields.string("session_id", line.session_id),
            model: turn.model.clone().or_else(|| busiest_model(fields, line.model_usage)),
            text,
            permission_denials: denials(fields, line.permission_denials),
            structured: fields.read::<Value>("structured_output", line.structured_output.or(line.structured_result)),
            cache_miss: None,
            // It names the usual ones in each answer.
            service_tier: served.service_tier.filter(|tier| tier != USUAL),
            speed: served.speed.filter(|speed| is_fast || speed != USUAL),
            fast_mode: match fields.string("fast_mode_disabled_reason", line.fast_mode_disabled_reason) {
                Some(reason) => fast_mode.map(|state| format!("{state} ({reason})")),
                None => fast_mode,
            },
        };
        let failure = (failed || turn.disguised).then(|| failure(&turn, &outcome, &line, fields));
        if failure.is_none() {
            if let Some(overcome) = &turn.failure {
                out.warning(
                    overcome.kind.as_deref().unwrap_or_default().to_uppercase(),
                    &overcome.message,
                );
            }
            // In `json` the result is all there is; in a stream it repeats the messages, except those that the CLI writes
            // itself.
            let answer = outcome.text.as_deref().unwrap_or_default();
            if !answer.is_empty() && (!spoke || turn.synthetic.as_deref() == Some(answer)) {
                self.assembler.message(None, answer, out);
                self.assembler.end_turn(out);
            }
        }
        if let Some(usage) = usage {
            out.event(Event::Usage {
                usage,
                raw_stop_reason: outcome.stop_reason.clone(),
            });
        }
        if let Some(failure) = failure {
            out.event(Event::Failure(failure));
        }
        out.event(Event::Outcome(Box::new(outcome)));
    }
}

/// The one failure of a turn: the failure of the `assistant` line, completed by `result`.
fn failure(turn: &Turn, outcome: &Outcome, line: &ResultLine, fields: &mut Fields) -> Failure {
    let earlier = turn.failure.clone().unwrap_or_default();
    let listed: Vec<Text> = fields.read("errors", line.errors).unwrap_or_default();
    let listed: Vec<&str> = listed.iter().map(|Text(error)| error.as_ref()).collect();
    let message = [
        turn.disguised.then(|| earlier.message.clone()),
        outcome.text.clone(),
        Some(listed.join("\n")),
        line.error.and_then(|error| explained(error, fields)),
        Some(earlier.message.clone()),
        fields.string("terminal_reason", line.terminal_reason),
        outcome.subtype.clone(),
    ];
    let error_subtype = outcome.subtype.clone().filter(|subtype| subtype != "success");
    let message = message.into_iter().flatten().find(|text| !text.trim().is_empty());
    let message = message.unwrap_or_default();
    // The message is still in qwen's bracket if it came with the tokens of the answers before it.
    let bracketed = if message.starts_with(API_ERROR) {
        failure_of(&message)
    } else {
        Failure::default()
    };
    Failure {
        kind: fields
            .string("api_error", line.api_error)
            .or(earlier.kind)
            .or_else(|| fields.string("api_error_type", line.api_error_type))
            .or(bracketed.kind)
            .or(error_subtype),
        more_kinds: [earlier.more_kinds, bracketed.more_kinds].concat(),
        message: match bracketed.message.is_empty() {
            true => message,
            false => bracketed.message,
        },
        http_status: fields
            .small("api_error_status", line.api_error_status)
            .or(earlier.http_status)
            .or(bracketed.http_status),
        terminal_reason: fields.string("terminal_reason", line.terminal_reason),
        resets_at: turn.resets_at,
        retry_after_ms: None,
        limit_type: turn.limit_type.clone(),
        no_plan: turn.no_plan,
    }
}

/// The text of a `result` line's `error`.
fn explained(error: &RawValue, fields: &mut Fields) -> Option<String> {
    match is_object(error) {
        true => fields
            .read::<Explained>("error", Some(error))
            .and_then(|error| fields.string("error.message", error.message)),
        false => fields.string("error", Some(error)),
    }
}

/// The calls that were not permitted; entries that can't be read as calls are left out.
fn denials(fields: &mut Fields, raw: Option<&RawValue>) -> Vec<PermissionDenial> {
    let listed: Vec<&RawValue> = fields.read("permission_denials", raw).unwrap_or_default();
    let read = |raw| fields.read::<Denial>("permission_denials", Some(raw));
    let denials = listed.into_iter().filter_map(read);
    denials
        .map(|denial| PermissionDenial {
            tool_name: denial.tool_name.into_string(),
            tool_use_id: denial.tool_use_id.into_string(),
            tool_input: denial.tool_input.map(RawValue::to_owned).unwrap_or_default(),
        })
        .collect()
}

/// The model in `modelUsage` that wrote most; the others did side jobs. 2.1.197 adds the context's size to the name
/// (`claude-opus-4-8[1m]`), which the API's name does not have.
fn busiest_model(fields: &mut Fields, raw: Option<&RawValue>) -> Option<String> {
    let Members(models) = fields.read("modelUsage", raw)?;
    let mut busiest = None;
    for (name, figures) in models {
        let figures: Option<ModelFigures> = fields.read("modelUsage", Some(figures));
        let written = figures
            .and_then(|figures| fields.count("outputTokens", figures.output_tokens))
            .unwrap_or_default();
        if busiest.as_ref().is_none_or(|(most, _)| written > *most) {
            busiest = Some((written, name));
        }
    }
    busiest.map(|(_, name)| name.split_once('[').map_or(name.as_ref(), |(name, _)| name).to_owned())
}
