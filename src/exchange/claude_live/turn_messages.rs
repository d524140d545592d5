//! The model's messages of a turn, as the CLI reports them.
//!
//! In: the lines of a turn. Out: the API's own messages, with the results of the CLI's own tools, if they are all that was said in it:
//! a turn in which the CLI has asked for the rest of an answer is more than one reply.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::memory::ApiMessage;

/// The model name of messages that the CLI writes itself.
const SYNTHETIC: &str = "<synthetic>";

/// The messages of a turn so far.
#[derive(Debug, Default)]
pub struct TurnMessages {
    messages: Vec<ApiMessage>,
    /// True if something else was said as well.
    is_mixed: bool,
}

#[derive(Deserialize)]
struct ReportedLine<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ReportedUser {
    content: Value,
}

impl TurnMessages {
    /// Reads a line of the turn. `answered`: the id of a call of an earlier reply whose result the CLI reports.
    pub fn read(&mut self, line: &str, answered: Option<&str>) {
        // Most lines are pieces of an answer: they are spared the parsing.
        if line.starts_with("{\"type\":\"stream_event\"")
            || !(line.contains("\"assistant\"") || line.contains("\"user\""))
        {
            return;
        }
        let Ok(line) = serde_json::from_str::<ReportedLine>(line) else {
            return;
        };
        match (line.r#type.as_ref(), line.message) {
            ("assistant", Some(message)) if line.parent_tool_use_id.is_none() && line.error.is_none() => {
                match serde_json::from_str::<ApiMessage>(message.get()) {
                    Ok(message) if message.model == SYNTHETIC => {}
                    Ok(message) => self.add(message),
                    Err(_) => self.is_mixed = true,
                }
            }
            ("assistant", _) => self.is_mixed = true,
            ("user", Some(message)) => {
                let message: Option<ReportedUser> = serde_json::from_str(message.get()).ok();
                let blocks = message.map(|message| message.content).unwrap_or_default();
                let is_known = match blocks {
                    Value::Array(blocks) => blocks.into_iter().all(|block| {
                        let is_answer = answered.is_some() && block["tool_use_id"].as_str() == answered;
                        is_answer || self.add_result(block)
                    }),
                    _ => false,
                };
                self.is_mixed |= !is_known;
            }
            _ => {}
        }
    }

    /// Each block of a message comes in a line of its own.
    fn add(&mut self, message: ApiMessage) {
        match self.messages.iter_mut().find(|known| known.id == message.id) {
            Some(known) => known.content.extend(message.content),
            None => self.messages.push(message),
        }
    }

    /// Adds the result of a call in the last message. Returns whether it is one.
    fn add_result(&mut self, block: Value) -> bool {
        let Some(last) = self.messages.last_mut() else {
            return false;
        };
        let id = block["tool_use_id"].as_str();
        let is_result = block["type"] == "tool_result" && last.open_calls().any(|call| Some(call) == id);
        if is_result {
            last.results.push(block);
        }
        is_result
    }

    /// The number of messages so far, each the answer to one request.
    pub fn requests(&self) -> usize {
        self.messages.len()
    }

    /// The messages, if nothing else was said.
    pub fn whole(self) -> Option<Vec<ApiMessage>> {
        (!self.is_mixed && !self.messages.is_empty()).then_some(self.messages)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(lines: &[Value], answered: Option<&str>) -> Option<Vec<ApiMessage>> {
        let mut said = TurnMessages::default();
        lines.iter().for_each(|line| said.read(&line.to_string(), answered));
        said.whole()
    }

    fn assistant(id: &str, block: &Value) -> Value {
        json!({"type": "assistant", "message": {"id": id, "model": "m", "role": "assistant", "content": [block], "usage": {}},
               "parent_tool_use_id": null})
    }

    #[test]
    fn the_blocks_of_a_message_are_one_message() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "SIG"});
        let call = json!({"type": "tool_use", "id": "t1", "name": "mcp__df__add", "input": {}});
        let lines = [
            json!({"type": "system", "subtype": "init"}),
            assistant("m1", &thinking),
            json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t0"}]}}),
            assistant("m1", &call),
        ];
        let message = ApiMessage {
            id: "m1".to_owned(),
            model: "m".to_owned(),
            content: vec![thinking, call],
            results: Vec::new(),
        };
        assert_eq!(said(&lines, Some("t0")), Some(vec![message]));
        assert_eq!(said(&lines, None), None);
        assert_eq!(said(&lines[..1], None), None);
    }

    #[test]
    fn the_result_of_a_tool_of_the_clis_own_belongs_to_its_call() {
        let (search, text) = (
            json!({"type": "tool_use", "id": "s1", "name": "WebSearch", "input": {}}),
            json!({"type": "text", "text": "Found."}),
        );
        let result = json!({"type": "tool_result", "tool_use_id": "s1", "content": "A page"});
        let told = |result: &Value| json!({"type": "user", "message": {"role": "user", "content": [result]}});
        let lines = [assistant("m1", &search), told(&result), assistant("m2", &text)];
        let said_then = said(&lines, None).unwrap();
        let parts: Vec<_> = said_then
            .iter()
            .map(|message| (&message.content, &message.results))
            .collect();
        assert_eq!(
            parts,
            [(&vec![search], &vec![result.clone()]), (&vec![text], &Vec::new())]
        );
        assert_eq!(said_then.iter().flat_map(ApiMessage::open_calls).count(), 0);
        // A second result of the same call is nothing that is known.
        let twice = [lines[0].clone(), told(&result), told(&result)];
        assert_eq!(said(&twice, None), None);
    }
}
