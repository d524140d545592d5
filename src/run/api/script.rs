//! The request of a script: what a server would get in its API's form, in this package's own.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use dfp_model::message::{Message, ToolSpec};
use dfp_provider::choices::{CallChoices, ToolChoice};
use dfp_text::schema::Schema;

/// The JSON of a request: `{"messages", "tools", "options"}`. An option that was not chosen is no field.
pub(super) fn body(choices: &CallChoices, messages: &[Message], tools: &[ToolSpec], output: Option<&Schema>) -> Bytes {
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let request = json!({"messages": messages, "tools": tools, "options": options(choices, output)});
    Bytes::from(request.to_string())
}

fn tool(tool: &ToolSpec) -> Value {
    let schema: Value = serde_json::from_str(tool.schema.get()).unwrap_or_default();
    match &tool.description {
        Some(description) => json!({"name": tool.name, "description": description, "schema": schema}),
        None => json!({"name": tool.name, "schema": schema}),
    }
}

fn options(choices: &CallChoices, output: Option<&Schema>) -> Map<String, Value> {
    let its = &choices.choices;
    let tool_choice = choices.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Any => json!("any"),
        ToolChoice::Tool(name) => json!({"name": name}),
    });
    let fields = [
        ("model", its.model.clone().map(Value::from)),
        ("reasoning", its.effort.as_ref().map(|effort| json!({"effort": effort}))),
        ("maxOutputTokens", its.max_output_tokens.map(Value::from)),
        ("stop", its.stop.clone().map(Value::from)),
        ("temperature", its.temperature.clone().map(Value::Number)),
        ("toolChoice", tool_choice),
        ("outputSchema", output.map(|schema| schema.value().clone())),
    ];
    let chosen = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    chosen.collect()
}
