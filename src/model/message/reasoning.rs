//! A model's reasoning, block by block: the readable part, and the part that only its own API understands.
//!
//! In: blocks of a wire format, and the reasoning that a message of a thread returns. Out: the [`ReasoningDetail`]s of a reply,
//! and those of a message that may go back to the API they came from ([`Returned`]). A detail is an object of OpenRouter's
//! `reasoning_details`, the one vocabulary that covers all APIs' reasoning: `reasoning.text` (with Anthropic's `signature`),
//! `reasoning.summary`, `reasoning.encrypted`.
//!
//! A model or an API wrote the details: none of them is content, a call, or part of a prompt.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::message::{Message, json_value};

/// The `format` of details that are Anthropic's thinking blocks.
pub const ANTHROPIC: &str = "anthropic-claude-v1";
/// The `format` of details that are parts of reasoning items of OpenAI's Responses API.
pub const RESPONSES: &str = "openai-responses-v1";

/// The `format` of details with the fields that an OpenAI-compatible API puts beside the `function` of a call.
const BESIDE_CALL: &str = "openai-tool-call-v1";

/// One object of `reasoning_details`, passed on unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReasoningDetail(Map<String, Value>);

impl ReasoningDetail {
    /// Makes a detail of text, with the signature by which its API recognises it. `None` if there is neither.
    pub fn text(text: &str, signature: Option<&str>) -> Option<ReasoningDetail> {
        let signature = signature.filter(|signature| !signature.is_empty());
        let mut detail = ReasoningDetail::of(&json!({"type": "reasoning.text", "text": text}));
        if let Some(signature) = signature {
            detail.set("signature", signature);
            detail.set("format", ANTHROPIC);
        }
        (signature.is_some() || !text.is_empty()).then_some(detail)
    }

    /// Makes a detail of reasoning that Anthropic's API hides from everybody (`redacted_thinking`).
    pub fn redacted(data: &str) -> ReasoningDetail {
        ReasoningDetail::of(&json!({"type": "reasoning.encrypted", "data": data, "format": ANTHROPIC}))
    }

    /// Makes details of a reasoning item of the Responses API: the parts of its summary, and its encrypted content, all with
    /// its id.
    pub fn of_item(item: &Value) -> Vec<ReasoningDetail> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = text(item, "id");
        let parts = |name: &str| item.get(name).and_then(Value::as_array).into_iter().flatten();
        let summary = parts("summary").filter_map(|part| text(part, "text"));
        let summary = summary.map(|text| json!({"type": "reasoning.summary", "summary": text}));
        let content = parts("content").filter_map(|part| text(part, "text"));
        let content = content.map(|text| json!({"type": "reasoning.text", "text": text}));
        let encrypted =
            text(item, "encrypted_content").map(|data| json!({"type": "reasoning.encrypted", "data": data}));
        let details = summary.chain(content).chain(encrypted).map(|detail| {
            let mut detail = ReasoningDetail::of(&detail);
            detail.set("format", RESPONSES);
            if let Some(id) = &id {
                detail.set("id", id);
            }
            detail
        });
        details.collect()
    }

    /// Makes a detail of the fields beside the `function` of the call `id`, the call number `index` of its reply. An
    /// OpenAI-compatible API wants them back in the same place: Gemini's `extra_content` holds a signature of its reasoning.
    pub fn beside_call(id: &str, index: usize, beside: &Value) -> ReasoningDetail {
        ReasoningDetail::of(&json!({
            "type": "reasoning.encrypted", "data": beside.to_string(), "format": BESIDE_CALL, "id": id, "index": index,
        }))
    }

    /// Returns whether the detail belongs to a call, and is not reasoning.
    pub fn is_beside_call(&self) -> bool {
        self.word("format") == BESIDE_CALL
    }

    /// The fields to put beside the call `id`, the call number `index` of its message. If the call's id has changed since, its
    /// position decides.
    pub fn beside(details: &[ReasoningDetail], id: &str, index: usize) -> Map<String, Value> {
        let mut ours = details.iter().filter(|detail| detail.is_beside_call());
        let at = |detail: &&ReasoningDetail| detail.0.get("index").and_then(Value::as_u64) == u64::try_from(index).ok();
        let by_id = ours.clone().find(|detail| detail.word("id") == id);
        let found = by_id.or_else(|| ours.find(at));
        let beside = found.map(|detail| json_value(detail.word("data")));
        beside
            .and_then(|beside| beside.as_object().cloned())
            .unwrap_or_default()
    }

    /// Makes a detail of any object.
    pub fn of(object: &Value) -> ReasoningDetail {
        ReasoningDetail(object.as_object().cloned().unwrap_or_default())
    }

    /// The part that a person can read.
    pub fn shown(&self) -> &str {
        match self.word("type") {
            "reasoning.text" => self.word("text"),
            "reasoning.summary" => self.word("summary"),
            _ => "",
        }
    }

    /// Joins the next piece of a streamed detail to this one; returns `false` if it belongs to another.
    pub fn join(&mut self, next: &ReasoningDetail) -> bool {
        let same = |name: &str| self.0.get(name) == next.0.get(name);
        if !(same("type") && same("index") && (same("id") || self.0.get("id").is_none_or(Value::is_null))) {
            return false;
        }
        // Encrypted content without an index is whole.
        if !self.0.contains_key("index") && self.word("type") == "reasoning.encrypted" {
            return false;
        }
        for (name, value) in &next.0 {
            match (name.as_str(), self.0.get_mut(name), value) {
                ("text" | "summary" | "data", Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                (.., Value::Null) => {}
                _ => drop(self.0.insert(name.clone(), value.clone())),
            }
        }
        true
    }

    fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), Value::from(value));
    }

    fn word(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The origin of a reply: sealed reasoning has a meaning only there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub provider: String,
    /// The folder of the login, if it is not the default one.
    pub login: Option<String>,
    /// The model; empty if it is unknown.
    pub model: String,
}

/// The reasoning that a message of a thread returns, as the façade writes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Returned {
    provider: Option<String>,
    login: Option<String>,
    model: Option<String>,
    details: Vec<Value>,
}

impl Returned {
    /// Makes the reasoning of a message from a reply that `provider` gave; `None` if the reply has none.
    pub fn of(
        provider: &str,
        login: Option<&str>,
        model: Option<&str>,
        details: &[ReasoningDetail],
    ) -> Option<Box<RawValue>> {
        let returned = Returned {
            provider: Some(provider.to_owned()),
            login: login.map(str::to_owned),
            model: model.map(str::to_owned),
            details: details.iter().map(|detail| Value::Object(detail.0.clone())).collect(),
        };
        (!details.is_empty()).then(|| to_raw_value(&returned).ok()).flatten()
    }

    /// The model that gave the reasoning of `message`, if it says so.
    pub fn model(message: &Message) -> Option<String> {
        let raw = message.reasoning.as_ref()?;
        let returned: Returned = serde_json::from_value(json_value(raw.get())).ok()?;
        returned.model.filter(|model| !model.is_empty())
    }

    /// The reasoning of `message`, if `origin` gave it. If the model is known on both sides, it must be the same.
    pub fn to(origin: &Origin, message: &Message) -> Option<Vec<ReasoningDetail>> {
        let raw = message.reasoning.as_ref()?;
        // Lone surrogates become U+FFFD; an object of another shape belongs to no origin.
        let returned: Returned = serde_json::from_value(json_value(raw.get())).ok()?;
        let known = |model: &String| !model.is_empty() && !origin.model.is_empty();
        let same_model =
            (returned.model.as_ref().filter(|model| known(model))).is_none_or(|model| *model == origin.model);
        let same = returned.provider.as_deref() == Some(origin.provider.as_str()) && returned.login == origin.login;
        let details: Vec<_> = returned
            .details
            .iter()
            .filter(|detail| detail.is_object())
            .map(ReasoningDetail::of)
            .collect();
        (same && same_model && !details.is_empty()).then_some(details)
    }
}

/// The thinking blocks of Anthropic's Messages API in `details`. Only signed and sealed ones count, since it refuses others.
pub fn thinking_blocks(details: &[ReasoningDetail]) -> Vec<Value> {
    let ours = details.iter().filter(|detail| detail.word("format") == ANTHROPIC);
    let block = |detail: &ReasoningDetail| match (detail.word("type"), detail.word("signature")) {
        ("reasoning.text", signature) if !signature.is_empty() => {
            Some(json!({"type": "thinking", "thinking": detail.shown(), "signature": signature}))
        }
        ("reasoning.encrypted", _) => Some(json!({"type": "redacted_thinking", "data": detail.word("data")})),
        _ => None,
    };
    ours.filter_map(block).collect()
}

/// The reasoning items of the Responses API in `details`. Only sealed ones count, since others mean nothing to that API.
pub fn items(details: &[ReasoningDetail]) -> Vec<Value> {
    let ours = |detail: &&ReasoningDetail| detail.word("format") == RESPONSES && !detail.word("id").is_empty();
    let sealed = details
        .iter()
        .filter(ours)
        .filter(|detail| detail.word("type") == "reasoning.encrypted");
    let item = |sealed: &ReasoningDetail| {
        let id = sealed.word("id");
        let of_item = |kind: &'static str| {
            let details = details.iter().filter(ours);
            details.filter(move |detail| detail.word("id") == id && detail.word("type") == kind)
        };
        let summary =
            of_item("reasoning.summary").map(|detail| json!({"type": "summary_text", "text": detail.shown()}));
        json!({"type": "reasoning", "id": id, "summary": summary.collect::<Vec<_>>(), "encrypted_content": sealed.word("data")})
    };
    sealed.map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    fn message(reasoning: &Value) -> Message {
        serde_json::from_value(json!({"type": "ai", "content": "a", "reasoning": reasoning})).unwrap()
    }

    fn origin() -> Origin {
        Origin {
            provider: "codex".to_owned(),
            login: None,
            model: "m".to_owned(),
        }
    }

    #[test]
    fn an_item_goes_and_comes_back_as_it_was() {
        let item = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "ENC",
            "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]});
        let details = ReasoningDetail::of_item(&item);
        assert_eq!(
            serde_json::to_value(&details).unwrap(),
            json!([
                {"type": "reasoning.summary", "summary": "one", "format": "openai-responses-v1", "id": "rs_1"},
                {"type": "reasoning.summary", "summary": "two", "format": "openai-responses-v1", "id": "rs_1"},
                {"type": "reasoning.encrypted", "data": "ENC", "format": "openai-responses-v1", "id": "rs_1"},
            ])
        );
        assert_eq!(items(&details), [item]);
        // A detail that is not sealed, or is another API's, is not an item.
        assert_eq!(items(&details[..2]), [Value::Null; 0]);
        assert_eq!(items(&[ReasoningDetail::redacted("x")]), [Value::Null; 0]);
    }

    #[test]
    fn reasoning_goes_back_only_to_where_it_came_from() {
        let details = json!([{"type": "reasoning.encrypted", "data": "\u{fffd}"}, "no detail"]);
        let of = |fields: Value| {
            let mut returned = json!({"provider": "codex", "model": "m", "details": details});
            returned
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            Returned::to(&origin(), &message(&returned)).map(|details| details.len())
        };
        assert_eq!(of(json!({})), Some(1));
        assert_eq!(of(json!({"model": null})), Some(1));
        for other in [
            json!({"provider": "claude"}),
            json!({"provider": null}),
            json!({"login": "/another"}),
            json!({"model": "another"}),
            json!({"details": "a string"}),
            json!({"details": []}),
            json!({"provider": ["codex"]}),
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
        assert!(Returned::to(&origin(), &Message::new(Role::Ai, "a")).is_none());
    }

    #[test]
    fn pieces_of_one_detail_become_it() {
        let detail = |value: Value| ReasoningDetail::of(&value);
        let mut first = detail(json!({"type": "reasoning.text", "text": "a", "index": 0, "format": null}));
        assert!(first.join(&detail(
            json!({"type": "reasoning.text", "text": "b", "index": 0, "signature": null})
        )));
        assert!(first.join(&detail(
            json!({"type": "reasoning.text", "text": null, "index": 0, "signature": "s", "format": "f"})
        )));
        assert!(!first.join(&detail(json!({"type": "reasoning.text", "text": "c", "index": 1}))));
        assert!(!first.join(&detail(
            json!({"type": "reasoning.summary", "summary": "c", "index": 0})
        )));
        assert_eq!(
            first,
            detail(json!({"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s", "format": "f"}))
        );
        let mut sealed = detail(json!({"type": "reasoning.encrypted", "data": "a"}));
        assert!(!sealed.join(&detail(json!({"type": "reasoning.encrypted", "data": "b"}))));
    }
}
