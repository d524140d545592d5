//! Writes a thread as a request for chat completions.
//!
//! In: [`Settings`], messages and tools. Out: the body's JSON text, and the tools whose names the answer's decoder needs. Schemas
//! and arguments are copied as the raw text they came as. Content that the API takes ([`ACCEPTS`]) becomes text for the roles that take
//! only text, and [`Parts`] for the user's: `text`, `image_url`, `file`, and OpenAI's own parts, unchanged.

use std::collections::VecDeque;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::settings::{Settings, ToolChoiceField};
use crate::choices::{self, CallChoices};
use crate::declare::{MAX_NAME, Tools};
use dfp_model::error::clip;
use dfp_model::message::content::{self, Accepts, ContentLimits, Dialect, Kind, Media, Part, Source, Takes};
use dfp_model::message::reasoning::{Origin, ReasoningDetail, Returned};
use dfp_model::message::{Content, InvalidToolCall, Message, Role, ToolCall, ToolSpec};
use dfp_text::prompt::output_instruction;
use dfp_text::schema::{Schema, enforced};

/// A request's body, and the tools with which its answer is read.
#[derive(Debug)]
pub struct Request {
    /// The body as JSON.
    pub body: String,
    /// The tools as they were declared.
    pub tools: Tools,
}

/// The format of the answer.
#[derive(Debug, Clone, Copy)]
pub enum Format<'a> {
    Text,
    /// JSON of a schema that the server gets (`response_format`).
    Native(&'a Schema),
    /// A JSON value that the thread asks for, by this schema.
    Asked(&'a Schema),
}

/// The name of a schema for the server, which requires one.
const FORMAT_NAME: &str = "output";

/// The fields of a body in their order. A field that comes twice replaces the first.
#[derive(Debug, Default)]
struct RequestBody(Vec<(String, Box<RawValue>)>);

impl RequestBody {
    fn set(&mut self, name: &str, value: &impl Serialize) {
        // Plain data has no way to fail.
        if let Ok(raw) = to_raw_value(value) {
            self.remove(name);
            self.0.push((name.to_owned(), raw));
        }
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }
}

impl Serialize for RequestBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Request {
    /// Makes the request that sends this thread with the call's choices.
    pub fn new(
        settings: &Settings,
        call: &CallChoices,
        messages: &[Message],
        tools: &[ToolSpec],
        format: Format,
    ) -> Request {
        let tools = Tools::new(tools, MAX_NAME);
        let mut body = RequestBody::default();
        body.set("model", &settings.model);
        let asked = match format {
            Format::Asked(schema) => Some(asking(messages, &output_instruction(schema.text()))),
            Format::Text | Format::Native(_) => None,
        };
        body.set(
            "messages",
            &thread(settings, asked.as_deref().unwrap_or(messages), &tools),
        );
        if !tools.declared().is_empty() {
            body.set("tools", &declared(&tools));
            let own = call.tool_choice.as_ref().map(of_call);
            if let Some(choice) = own.as_ref().or(settings.tool_choice.as_ref()) {
                body.set(
                    "tool_choice",
                    &match choice {
                        ToolChoiceField::Word(word) => json!(word),
                        ToolChoiceField::Tool(name) => {
                            json!({"type": "function", "function": {"name": tools.wire_name(name, MAX_NAME)}})
                        }
                    },
                );
            }
            if let Some(parallel) = settings.parallel_tool_calls {
                body.set("parallel_tool_calls", &parallel);
            }
        }
        body.set("stream", &settings.stream);
        if settings.stream {
            body.set("stream_options", &json!({"include_usage": true}));
        }
        let (chosen, replaced) = settings.fields_of(&call.choices);
        let kept = settings
            .fields
            .iter()
            .filter(|(name, _)| !replaced.contains(&name.as_str()));
        for (name, value) in kept.chain(&chosen).chain(&call.extra) {
            match value {
                Value::Null => body.remove(name),
                value => body.set(name, value),
            }
        }
        if let Format::Native(schema) = format {
            let strict = enforced::is_strict(schema.value());
            body.set(
                "response_format",
                &json!({"type": "json_schema",
                        "json_schema": {"name": FORMAT_NAME, "schema": schema.value(), "strict": strict}}),
            );
        }
        let body = serde_json::to_string(&body).unwrap_or_default();
        Request { body, tools }
    }
}

/// A call's choice in the API's words.
fn of_call(choice: &choices::ToolChoice) -> ToolChoiceField {
    match choice {
        choices::ToolChoice::Auto => ToolChoiceField::Word("auto".to_owned()),
        choices::ToolChoice::None => ToolChoiceField::Word("none".to_owned()),
        choices::ToolChoice::Any => ToolChoiceField::Word("required".to_owned()),
        choices::ToolChoice::Tool(name) => ToolChoiceField::Tool(name.clone()),
    }
}

/// Returns `messages` with `instruction` in the first system message: some models' templates accept only one.
fn asking(messages: &[Message], instruction: &str) -> Vec<Message> {
    let mut messages = messages.to_vec();
    match messages.first_mut() {
        Some(first) if first.role == Role::System && matches!(first.content, Content::Text(_)) => {
            *first = Message::new(Role::System, format!("{}\n\n{instruction}", first.content.as_text()));
        }
        _ => messages.insert(0, Message::new(Role::System, instruction)),
    }
    messages
}

/// The declarations of the tools, as the API takes them.
fn declared(tools: &Tools) -> Vec<RequestBody> {
    let tools = tools.declared().iter().map(|tool| {
        let mut function = RequestBody::default();
        function.set("name", &tool.name);
        if let Some(description) = &tool.description {
            function.set("description", description);
        }
        if let Ok(schema) = RawValue::from_string(tool.schema.clone()) {
            function.set("parameters", &schema);
        }
        let mut tool = RequestBody::default();
        tool.set("type", &"function");
        tool.set("function", &function);
        tool
    });
    tools.collect()
}

/// The messages in the API's format. Calls without an id get one, and results without one answer them in order.
fn thread(settings: &Settings, messages: &[Message], tools: &Tools) -> Vec<RequestBody> {
    let mut nameless: VecDeque<String> = VecDeque::new();
    let mut count = 0;
    let mut new_id = || {
        count += 1;
        format!("call_df_{count}")
    };
    let (mut bodies, mut unread, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for message in messages {
        let mut body = RequestBody::default();
        if message.role == Role::Tool {
            let is_its = |call: &&InvalidToolCall| call.id.as_ref() == Some(&message.tool_call_id);
            if let Some(at) = unread.iter().position(is_its) {
                notes.push(unreadable(unread.remove(at), &result(message)));
                continue;
            }
        } else {
            unread = message.invalid_tool_calls.iter().collect();
            bodies.extend(notes_message(&mut notes));
        }
        match message.role {
            Role::System => {
                body.set("role", &"system");
                body.set("content", &text(&message.content, &message.role));
            }
            Role::Ai => {
                body.set("role", &"assistant");
                let text = text(&message.content, &message.role);
                let details = returned(settings, message);
                let calls: Vec<RequestBody> = message
                    .tool_calls
                    .iter()
                    .enumerate()
                    .map(|(number, call)| {
                        let beside = ReasoningDetail::beside(&details, &call.id, number);
                        let id = match call.id.as_str() {
                            "" => {
                                let id = new_id();
                                nameless.push_back(id.clone());
                                id
                            }
                            id => id.to_owned(),
                        };
                        tool_call(&id, call, tools, &beside)
                    })
                    .collect();
                // The API takes null only beside calls.
                let content = (!text.is_empty() || calls.is_empty()).then_some(text);
                body.set("content", &content);
                add_reasoning(&mut body, settings, &details);
                if !calls.is_empty() {
                    body.set("tool_calls", &calls);
                }
            }
            Role::Tool => {
                let id = match message.tool_call_id.as_str() {
                    "" => nameless.pop_front().unwrap_or_else(&mut new_id),
                    id => id.to_owned(),
                };
                body.set("role", &"tool");
                body.set("tool_call_id", &id);
                body.set("content", &result(message));
            }
            // A name of the caller's own (`critic`) is none of the API's roles: whoever it is, it speaks to the model.
            Role::Human | Role::Other(_) => {
                body.set("role", &"user");
                match parts(&message.content, &message.role) {
                    Parts::Text(text) => body.set("content", &text),
                    Parts::Blocks(blocks) => body.set("content", &blocks),
                }
            }
        }
        bodies.push(body);
    }
    bodies.extend(notes_message(&mut notes));
    bodies
}

/// The `notes` as a message of the user's; it empties `notes`. It stands behind the results of a message's calls, since only
/// results may stand between those.
fn notes_message(notes: &mut Vec<String>) -> Option<RequestBody> {
    if notes.is_empty() {
        return None;
    }
    let mut body = RequestBody::default();
    body.set("role", &"user");
    body.set("content", &std::mem::take(notes).join("\n\n"));
    Some(body)
}

/// A call that could not be read and its result, in words: servers refuse arguments that are no JSON, and a result without its
/// call.
fn unreadable(call: &InvalidToolCall, result: &str) -> String {
    let of = call
        .name
        .as_ref()
        .map_or(String::new(), |name| format!(" of \"{name}\""));
    let why = match call.error.as_str() {
        "" => String::new(),
        error => format!(": {error}"),
    };
    format!(
        "Your tool call{of} could not be read{why}. You wrote:\n\n{}\n\nThe answer to it:\n\n{result}",
        call.args
    )
}

/// The reasoning in `message` that this server itself has sent, and that goes back to it.
fn returned(settings: &Settings, message: &Message) -> Vec<ReasoningDetail> {
    // The server decides whether a block is of use to another model.
    let origin = Origin {
        provider: settings.id.clone(),
        ..Origin::default()
    };
    Returned::to(&origin, message).unwrap_or_default()
}

/// Adds the model's reasoning in the field in which the server takes it back: only its own. DeepSeek and Kimi want
/// `reasoning_content` in every message of the model, and not empty.
fn add_reasoning(body: &mut RequestBody, settings: &Settings, details: &[ReasoningDetail]) {
    let Some(field) = &settings.send_reasoning else { return };
    let thoughts = details.iter().filter(|detail| !detail.is_beside_call());
    if field == "reasoning_details" {
        let thoughts: Vec<_> = thoughts.collect();
        if !thoughts.is_empty() {
            body.set(field, &thoughts);
        }
        return;
    }
    let text: String = thoughts.map(ReasoningDetail::shown).collect();
    match text.is_empty() {
        false => body.set(field, &text),
        true if field == "reasoning_content" => body.set(field, &" "),
        true => {}
    }
}

fn tool_call(id: &str, call: &ToolCall, tools: &Tools, beside: &Map<String, Value>) -> RequestBody {
    let mut function = RequestBody::default();
    function.set("name", &tools.wire_name(&call.name, MAX_NAME));
    function.set("arguments", &call.args.get());
    let mut body = RequestBody::default();
    body.set("id", &id);
    body.set("type", &"function");
    body.set("function", &function);
    for (name, value) in beside {
        body.set(name, value);
    }
    body
}

/// The result of a tool. The API has no field for a failure, so the text says it.
fn result(message: &Message) -> String {
    let text = text(&message.content, &message.role);
    let says_so = || clip(text.trim_start(), 6).to_lowercase().starts_with("error");
    if message.is_error && !says_so() {
        format!("Error: {text}")
    } else {
        text
    }
}

/// Images and files in any notation, and all blocks in the API's own: whether the model sees, hears or reads it is the server's to
/// say. A `file` part has data, never an address.
const PARTS: Takes = Takes {
    kinds: &[Kind::Image, Kind::Document],
    types: &[],
    dialect: Some(Dialect::OpenAi),
    urls: &[Kind::Image],
    texts: false,
};

/// The content that an API takes beside text. Results of tools are text there. Each server has its own limits of size.
pub const ACCEPTS: Accepts = Accepts {
    users: PARTS,
    results: Takes::TEXT,
    others: PARTS,
    limits: ContentLimits::NONE,
};

/// A user's content.
#[derive(Debug)]
pub enum Parts {
    Text(String),
    /// An array of parts.
    Blocks(Vec<Box<RawValue>>),
}

/// The content as text.
pub fn text(content: &Content, role: &Role) -> String {
    let Content::Blocks(raw) = content else {
        return content.as_text().to_owned();
    };
    let parts = content::parts(raw, role).into_iter();
    let texts = parts.filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// The content as a user's: text if it holds nothing else.
pub fn parts(content: &Content, role: &Role) -> Parts {
    let Content::Blocks(raw) = content else {
        return Parts::Text(content.as_text().to_owned());
    };
    let read = content::parts(raw, role);
    // Servers that do not support parts support text.
    if !read.iter().any(|part| matches!(part, Part::Media(_))) {
        return Parts::Text(text(content, role));
    }
    let parts = read.into_iter().filter_map(|part| match part {
        Part::Text(text) => to_raw_value(&json!({"type": "text", "text": text})).ok(),
        Part::Media(media) => of_media(&media),
        Part::Omitted | Part::Call(_) | Part::Unknown(_) => None,
    });
    Parts::Blocks(parts.collect())
}

fn of_media(media: &Media) -> Option<Box<RawValue>> {
    let url = match (&media.source, media.dialect) {
        // LangChain also writes the URL itself where the API wants an object.
        (_, Dialect::OpenAi) if !media.block.get("image_url").is_some_and(serde_json::Value::is_string) => {
            return to_raw_value(&media.block).ok();
        }
        (Source::Base64(data), _) if media.kind == Kind::Document => {
            let mime = media.mime.as_deref().unwrap_or("application/octet-stream");
            let file = json!({"filename": file_name(media), "file_data": format!("data:{mime};base64,{data}")});
            return to_raw_value(&json!({"type": "file", "file": file})).ok();
        }
        (Source::Url(url), _) => url.clone(),
        _ => media.data_url()?,
    };
    to_raw_value(&json!({"type": "image_url", "image_url": {"url": url}})).ok()
}

/// The file name that the API requires beside data: the block's own, as LangChain, the AI SDK, OpenAI's Responses and Anthropic
/// write it.
fn file_name(media: &Media) -> &str {
    const NAMES: [&str; 4] = ["filename", "file_name", "name", "title"];
    let holders = [Some(&media.block), media.block.get("metadata")];
    let mut names = holders
        .into_iter()
        .flatten()
        .flat_map(|holder| NAMES.iter().filter_map(|name| holder.get(*name)?.as_str()));
    names.next().unwrap_or(match media.mime.as_deref() {
        Some("application/pdf") => "document.pdf",
        _ => "document",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(json: &str) -> Content {
        Content::Blocks(RawValue::from_string(json.to_owned()).unwrap())
    }

    fn shown(json: &str) -> String {
        match parts(&blocks(json), &Role::Human) {
            Parts::Text(text) => format!("text {text}"),
            Parts::Blocks(parts) => parts.iter().map(|part| part.get()).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn a_users_parts() {
        for (json, expected) in [
            (r#"[{"type":"text","text":"hi"}]"#, "text hi"),
            ("[]", "text "),
            (r#"{"a":1.0}"#, r#"text {"a":1.0}"#),
            (r#"[{"type":"text","text":"a"},"b"]"#, "text ab"),
            (
                r#"[{"type":"image_url","image_url":{"url":"http://x/y.png","detail":"low"}}]"#,
                r#"{"type":"image_url","image_url":{"url":"http://x/y.png","detail":"low"}}"#,
            ),
            (
                r#"[{"type":"image_url","image_url":"http://x/y.png"}]"#,
                r#"{"type":"image_url","image_url":{"url":"http://x/y.png"}}"#,
            ),
            (
                r#"[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"QQ=="}}]"#,
                r#"{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,QQ=="}}"#,
            ),
            (
                r#"[{"type":"image","source_type":"base64","mime_type":"image/gif","data":"QQ=="}]"#,
                r#"{"type":"image_url","image_url":{"url":"data:image/gif;base64,QQ=="}}"#,
            ),
            (
                r#"[{"type":"image","url":"http://x/z.png"},{"type":"input_audio","input_audio":{"n":1.0}}]"#,
                r#"{"type":"image_url","image_url":{"url":"http://x/z.png"}} {"type":"input_audio","input_audio":{"n":1.0}}"#,
            ),
        ] {
            assert_eq!(shown(json), expected, "{json}");
        }
    }

    #[test]
    fn text_where_only_text_is_taken() {
        let json = r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"t"},{"type":"text","text":"b"}]"#;
        assert_eq!(text(&blocks(json), &Role::Ai), "ab");
        assert_eq!(text(&blocks("7"), &Role::Tool), "7");
        assert_eq!(text(&Content::Text("t".to_owned()), &Role::Ai), "t");
    }
}
