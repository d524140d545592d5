//! A thread as qwen keeps it: the file that `--resume` reads (0.24.4; no promise of its vendor's).
//!
//! In: messages, and the names by which the CLI knows the tools. Out: JSON lines, and the place where the CLI looks for them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::declare::mcp::{Declarations, SERVER};
use crate::exchange::live::history::failed;
use crate::message::content::{self, Part};
use crate::message::{Content, Message, Role};

/// A thread for a process to begin with.
#[derive(Debug, Clone)]
pub struct Chat {
    /// The session's id, a UUID.
    pub id: String,
    messages: Vec<Message>,
    tools: Declarations,
}

impl Chat {
    /// That of `messages`, whose calls are of `tools`; `id` is 128 random bits.
    pub fn new(id: u128, messages: Vec<Message>, tools: Declarations) -> Chat {
        // Version 4, variant 1: the CLI takes no other names.
        let bits = id & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Chat {
            id: parts.join("-"),
            messages,
            tools,
        }
    }

    /// Where the CLI looks for it when it runs in `cwd`, a real path, below its folder for what it keeps.
    pub fn place(&self, cwd: &Path) -> PathBuf {
        let cwd = cwd.to_string_lossy();
        let cwd = if cfg!(windows) {
            cwd.to_lowercase()
        } else {
            cwd.into_owned()
        };
        let replaced = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
        // JavaScript counts a character beyond the first plane as two.
        let name: String = cwd
            .chars()
            .flat_map(|char| std::iter::repeat_n(replaced(char), char.len_utf16()))
            .collect();
        let file = format!("{}.jsonl", self.id);
        ["projects", &name, "chats", &file].iter().collect()
    }

    /// Its lines, for a CLI that runs in `cwd`.
    pub fn lines(&self, cwd: &Path) -> String {
        let mut lines = String::new();
        let mut before = Value::Null;
        for (at, message) in self.messages.iter().enumerate() {
            let (kind, role, parts) = match message.role {
                Role::Ai => ("assistant", "model", self.said(message)),
                Role::Tool => ("tool_result", "user", vec![self.result(message)]),
                _ => ("user", "user", vec![json!({"text": text_of(message)})]),
            };
            if parts.is_empty() {
                continue;
            }
            let id = format!("00000000-0000-4000-8000-{at:012x}");
            let line = json!({
                "uuid": id, "parentUuid": before, "sessionId": self.id, "timestamp": "2026-01-01T00:00:00.000Z",
                "cwd": cwd.to_string_lossy(), "version": "0.24.4", "type": kind, "message": {"role": role, "parts": parts},
            });
            lines.push_str(&line.to_string());
            lines.push('\n');
            before = Value::from(id);
        }
        lines
    }

    fn said(&self, message: &Message) -> Vec<Value> {
        let text = text_of(message);
        let text = (!text.is_empty()).then(|| json!({"text": text}));
        let calls = message.tool_calls.iter().map(|call| {
            let args: Value = serde_json::from_str(call.args.get()).unwrap_or_default();
            json!({"functionCall": {"id": call.id, "name": self.name(&call.name), "args": args}})
        });
        text.into_iter().chain(calls).collect()
    }

    fn result(&self, message: &Message) -> Value {
        let calls = self.messages.iter().flat_map(|message| &message.tool_calls);
        let call = calls.rev().find(|call| call.id == message.tool_call_id);
        let name = call.map_or_else(|| "unknown".to_owned(), |call| self.name(&call.name));
        // The model sees the text alone, whatever the key is.
        let response = match message.is_error {
            true => json!({"error": failed(text_of(message))}),
            false => json!({"output": text_of(message)}),
        };
        json!({"functionResponse": {"id": message.tool_call_id, "name": name, "response": response}})
    }

    /// What the CLI calls the caller's tool `name`.
    fn name(&self, name: &str) -> String {
        let declared = self.tools.tools().iter();
        let mut own = declared.filter(|tool| self.tools.known(&tool.name) == Some(name));
        own.next()
            .map_or_else(|| name.to_owned(), |tool| format!("mcp__{SERVER}__{}", tool.name))
    }
}

/// A message's text.
pub fn text_of(message: &Message) -> String {
    match &message.content {
        Content::Text(text) => text.clone(),
        Content::Blocks(raw) => {
            let parts = content::parts(raw, &message.role).into_iter();
            let texts = parts.filter_map(|part| match part {
                Part::Text(text) => Some(text.to_string()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_kept_as_the_cli_keeps_it() {
        let tools = serde_json::from_str::<Vec<_>>(r#"[{"name":"add.it","schema":{"type":"object"}}]"#).unwrap();
        let declarations = Declarations::new(&tools);
        let wire_name = format!("mcp__df__{}", declarations.tools()[0].name);
        let message = |role, text: &str| Message {
            role,
            content: Content::Text(text.to_owned()),
            tool_calls: Vec::new(),
            tool_call_id: String::new(),
            is_error: false,
            reasoning: None,
        };
        let call = crate::message::ToolCall {
            id: "c1".to_owned(),
            name: "add.it".to_owned(),
            args: serde_json::value::RawValue::from_string(r#"{"a":1}"#.to_owned()).unwrap(),
        };
        let messages = vec![
            message(Role::Human, "hi"),
            Message {
                tool_calls: vec![call],
                ..message(Role::Ai, "")
            },
            Message {
                tool_call_id: "c1".to_owned(),
                is_error: true,
                ..message(Role::Tool, "no")
            },
            message(Role::Ai, "sorry"),
        ];
        let chat = Chat::new(u128::MAX, messages, declarations);
        assert_eq!(chat.id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let folder = Path::new("/tmp/a.b/🦀");
        assert_eq!(
            chat.place(folder),
            Path::new("projects/-tmp-a-b---/chats/ffffffff-ffff-4fff-bfff-ffffffffffff.jsonl")
        );
        let lines: Vec<Value> = chat
            .lines(folder)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let said: Vec<(&Value, &Value)> = lines.iter().map(|line| (&line["type"], &line["message"])).collect();
        assert_eq!(
            json!(said),
            json!([
                ["user", {"role": "user", "parts": [{"text": "hi"}]}],
                ["assistant", {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": wire_name, "args": {"a": 1}}}]}],
                ["tool_result", {"role": "user", "parts": [
                    {"functionResponse": {"id": "c1", "name": wire_name, "response": {"error": "Error: no"}}}]}],
                ["assistant", {"role": "model", "parts": [{"text": "sorry"}]}],
            ])
        );
        assert_eq!(lines[0]["parentUuid"], Value::Null);
        assert_eq!(lines[3]["parentUuid"], lines[2]["uuid"]);
    }
}
