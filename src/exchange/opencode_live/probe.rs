//! Checks whether a server keeps what is written into its sessions. The vendor does not promise that, so a version that was not
//! measured is tested with a session of its own; no model sees it.
//!
//! In: a server of any version. Out: nothing, or the missing feature, with the request that shows it.

use http::Method;
use serde_json::{Value, json};

use super::history::{self, Ids, ReplayTarget};
use super::http::Http;
use super::server::Lack;
use super::setup::Model;
use super::tools::ToolSet;
use super::wire::{self, Id};
use dfp_model::message::{Message, MessageFields, Role, ToolCall, ToolSpec};
use dfp_provider::declare::mcp::Declarations;

/// The tool that is called in the history.
const TOOL: &str = "probe";

/// The tools with which a server is probed.
pub(super) fn tools() -> Declarations {
    let schema = serde_json::value::to_raw_value(&json!({"type": "object"}));
    let tool = schema.ok().map(|schema| ToolSpec {
        name: TOOL.to_owned(),
        description: None,
        schema,
    });
    Declarations::new(tool.as_slice())
}

/// Writes a history with a call of one of `set`'s [`tools`] into a session, and a result over that call, and reads both back.
///
/// # Errors
/// The feature that the server lacks.
pub(super) async fn run(http: &Http, set: &ToolSet, version: &str, ids: &Ids) -> Result<(), Lack> {
    let model = Model {
        provider: "probe".to_owned(),
        id: "probe".to_owned(),
    };
    let place = ReplayTarget {
        directory: &set.directory,
        version,
        model: &model,
        tools: &set.tools,
        ids,
    };
    let mut answer = MessageFields::new(Role::Ai, "one");
    answer.tool_calls.push(ToolCall {
        id: "call_probe".to_owned(),
        name: TOOL.to_owned(),
        args: serde_json::value::to_raw_value(&json!({"a": 1})).map_err(|error| Lack::of(error.to_string()))?,
    });
    let (body, session) = history::replay(&[Message::new(Role::Human, "zero"), answer.into()], &place);
    let at = |path: &str| wire::of_directory(path, &set.directory);
    let replayed = http.send(Method::POST, &at("/sync/replay"), &body).await;
    replayed.map_err(|failure| Lack::answered("it takes no history: POST /sync/replay", &failure))?;
    let session = Id::new(&session).ok_or_else(|| Lack::of("no id"))?;
    let read = async || {
        let kept = http.ask(Method::GET, &at(&wire::messages(&session)), None).await;
        let kept =
            kept.map_err(|failure| Lack::answered("it does not tell a history: GET /session/…/message", &failure))?;
        let kept = serde_json::from_slice::<Value>(&kept);
        kept.map_err(|_| Lack::of("it does not tell a history: the answer to GET /session/…/message is no JSON"))
    };
    let kept = read().await?;
    let part = &kept[1]["parts"][1];
    let told = (
        &kept[0]["parts"][0]["text"],
        &kept[1]["parts"][0]["text"],
        &part["callID"],
    );
    if told != (&json!("zero"), &json!("one"), &json!("call_probe")) {
        return Err(Lack::of(
            "it does not keep a history: after POST /sync/replay it tells another one",
        ));
    }
    let id = |name: &str| part[name].as_str().and_then(Id::new);
    let (Some(message), Some(own)) = (id("messageID"), id("id")) else {
        return Err(Lack::of(
            "it does not name the parts of a history: GET /session/…/message has no ids",
        ));
    };
    let mut result = part.clone();
    result["state"] = json!({
        "status": "completed", "input": {"a": 1}, "output": "two", "title": "", "metadata": {}, "time": {"start": 1, "end": 1},
    });
    let path = at(&wire::part(&session, &message, &own));
    let written = http.send(Method::PATCH, &path, &result).await;
    written.map_err(|failure| Lack::answered("it takes no result of a call: PATCH /session/…/part", &failure))?;
    let kept = read().await?;
    // A failure here costs only memory.
    let _ = http.ask(Method::DELETE, &at(&wire::session(&session)), None).await;
    match kept[1]["parts"][1]["state"]["output"] == json!("two") {
        true => Ok(()),
        false => Err(Lack::of(
            "it does not keep a result of a call: after PATCH /session/…/part it tells another one",
        )),
    }
}
