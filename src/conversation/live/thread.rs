//! A thread as a session sees it: what it has heard, and what is new.
//!
//! In: the messages of a call. Out: a [`Thread`] (the system prompt, and a fingerprint per message), and the user line that
//! says the whole of it, or only what a session that [knows](Known) its beginning has not heard.
//!
//! Messages are compared by content, never by identity: a thread that went through JSON, another copy of LangChain or a
//! database is the same thread.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use serde_json::Value;

use super::line::{self, Block};
use crate::event::Reply;
use crate::message::{Content, Message, Role, ToolCall};
use crate::prompt::{self, Encoding};
use crate::provider::Guard;

/// A message's content as 128 bits of a keyed hash: threads of different users can't be made to look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u64, u64);

static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// What stands before a thread that is sent whole.
const WHOLE_XML: &str = "This is the conversation so far as <thread> XML, with one <event> per message, tool call and tool \
result, in order. Reply with the assistant's next message only; write no XML.\n\n";
const WHOLE_TEXT: &str = "This is the conversation so far as labelled text. Reply with the assistant's next message only; \
write no label.\n\n";

/// The messages of one call.
#[derive(Debug)]
pub struct Thread {
    /// Its system messages, joined by a blank line.
    system: Option<String>,
    /// All the others.
    messages: Vec<Message>,
    prints: Vec<Fingerprint>,
}

/// A call the model has made and nobody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The id the API gave it.
    pub api: String,
    /// The id the caller has seen: another one where the API's was taken.
    pub given: String,
}

/// What a session has heard and said.
#[derive(Debug, Clone, Default)]
pub struct Known {
    prints: Vec<Fingerprint>,
    pending: Vec<Pending>,
}

impl Thread {
    /// The thread of `messages`.
    pub fn new(messages: Vec<Message>) -> Thread {
        let (system, messages): (Vec<Message>, Vec<Message>) =
            messages.into_iter().partition(|message| message.role == Role::System);
        let texts: Vec<&str> = system
            .iter()
            .map(|message| message.content.as_text())
            .filter(|text| !text.trim().is_empty())
            .collect();
        Thread {
            system: (!texts.is_empty()).then(|| texts.join("\n\n")),
            prints: messages.iter().map(fingerprint).collect(),
            messages,
        }
    }

    /// The system messages' text.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The user line that tells all of it to a session that knows nothing.
    pub fn whole(&self, encoding: Encoding, guard: Option<Guard>) -> String {
        if let Some(blocks) = line::of_humans(self.messages.iter(), guard) {
            return line::user(&blocks);
        }
        let before = match encoding {
            Encoding::Xml => WHOLE_XML,
            Encoding::Text => WHOLE_TEXT,
        };
        let rendered = prompt::render(&self.messages, &[], encoding);
        line::user(&[Block::text(format!("{before}{rendered}"))])
    }

    /// The user line that tells what is new to a session that knows `known`; `None` if this is not that session's thread, or
    /// can't go on there: a call without its result, a message that is neither a result nor the user's.
    pub fn addition(&self, known: &Known, guard: Option<Guard>) -> Option<String> {
        if !self.prints.starts_with(&known.prints) || known.prints.is_empty() {
            return None;
        }
        let new = &self.messages[known.prints.len()..];
        let (results, rest) = new.split_at(new.iter().take_while(|message| message.role == Role::Tool).count());
        let mut blocks = line::results(results, &known.pending)?;
        if !rest.is_empty() {
            blocks.extend(line::of_humans(rest.iter(), guard)?);
        }
        (!blocks.is_empty()).then(|| line::user(&blocks))
    }

    /// Whether this is `known`'s thread, gone on.
    pub fn extends(&self, known: &Known) -> bool {
        self.prints.len() > known.prints.len() && !known.prints.is_empty() && self.prints.starts_with(&known.prints)
    }

    /// What a session knows that has heard all of this thread and given `reply`, whose calls are `pending`.
    pub fn known_with(&self, reply: &Reply, pending: Vec<Pending>) -> Known {
        let mut prints = self.prints.clone();
        prints.push(print_of(
            &Role::Ai,
            &Content::Text(reply.content.clone()),
            &reply.tool_calls,
            "",
            false,
        ));
        Known { prints, pending }
    }
}

impl Known {
    /// How many messages it has heard and said.
    pub fn len(&self) -> usize {
        self.prints.len()
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.prints.is_empty()
    }
}

fn fingerprint(message: &Message) -> Fingerprint {
    print_of(
        &message.role,
        &message.content,
        &message.tool_calls,
        &message.tool_call_id,
        message.is_error,
    )
}

fn print_of(role: &Role, content: &Content, calls: &[ToolCall], call_id: &str, is_error: bool) -> Fingerprint {
    let [a, b] = &*KEYS;
    let (mut a, mut b) = (a.build_hasher(), b.build_hasher());
    for state in [&mut a, &mut b] {
        role.as_str().hash(state);
        match (content, only_text(content)) {
            (Content::Text(text), _) => text.hash(state),
            (_, Some(text)) => text.hash(state),
            (Content::Blocks(raw), None) => {
                1_u8.hash(state);
                hash_json(raw.get(), state);
            }
        }
        calls.len().hash(state);
        for call in calls {
            (&call.id, &call.name).hash(state);
            hash_json(call.args.get(), state);
        }
        (call_id, is_error).hash(state);
    }
    Fingerprint(a.finish(), b.finish())
}

/// The text of content that is nothing else, however it is written down: some agents keep strings, some keep blocks.
fn only_text(content: &Content) -> Option<String> {
    let Content::Blocks(raw) = content else { return None };
    let Ok(Value::Array(items)) = serde_json::from_str(raw.get()) else {
        return None;
    };
    items
        .iter()
        .map(|item| match item.get("type").and_then(Value::as_str) {
            Some("text") => item.get("text").and_then(Value::as_str),
            _ => None,
        })
        .collect()
}

/// JSON by its meaning: neither key order nor the spelling of numbers survives JavaScript.
fn hash_json(json: &str, state: &mut impl Hasher) {
    match serde_json::from_str::<Value>(json) {
        Ok(value) => hash_value(&value, state),
        // Lone surrogates: JavaScript writes them the same way every time.
        Err(_) => json.hash(state),
    }
}

fn hash_value(value: &Value, state: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(state),
        Value::Bool(flag) => (1_u8, flag).hash(state),
        Value::Number(number) => {
            // What JavaScript makes of it; -0 is 0.
            let number = number.as_f64().unwrap_or_default() + 0.0;
            (2_u8, number.to_bits()).hash(state);
        }
        Value::String(text) => (3_u8, text).hash(state),
        Value::Array(items) => {
            (4_u8, items.len()).hash(state);
            items.iter().for_each(|item| hash_value(item, state));
        }
        Value::Object(map) => {
            (5_u8, map.len()).hash(state);
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                key.hash(state);
                hash_value(value, state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const GUARD: Option<Guard> = Some(Guard {
        first: '/',
        prefix: "\n",
    });

    fn thread(messages: &Value) -> Thread {
        Thread::new(serde_json::from_value(messages.clone()).unwrap_or_else(|_| {
            // Raw values can't be read from a Value.
            serde_json::from_str(&messages.to_string()).unwrap()
        }))
    }

    fn reply(content: &str, calls: &str) -> Reply {
        Reply {
            content: content.to_owned(),
            tool_calls: serde_json::from_str(calls).unwrap(),
            ..Reply::default()
        }
    }

    fn sent(line: &str) -> Value {
        serde_json::from_str::<Value>(line).unwrap()["message"]["content"].take()
    }

    const CALLS: &str = r#"[{"id":"t1","name":"add","args":{"b":2.0,"a":1}},{"id":"t2","name":"add","args":{}}]"#;

    /// The thread that led to the two calls, the model's turn as JavaScript gives it back, and `more`.
    fn gone_on(more: Value) -> Thread {
        let mut messages = vec![
            json!({"type": "system", "content": "S"}),
            json!({"type": "human", "content": "1 and 2?"}),
            json!({"type": "ai", "content": [{"type": "text", "text": "Let me see."}],
                   "tool_calls": [{"id": "t1", "name": "add", "args": {"a": 1, "b": 2}}, {"id": "t2", "name": "add", "args": {}}]}),
        ];
        messages.extend(more.as_array().unwrap().iter().cloned());
        thread(&Value::Array(messages))
    }

    fn known() -> Known {
        let pending = |api: &str, given: &str| Pending {
            api: api.to_owned(),
            given: given.to_owned(),
        };
        thread(&json!([{"type": "human", "content": "1 and 2?"}])).known_with(
            &reply("Let me see.", CALLS),
            vec![pending("toolu_1", "t1"), pending("t2", "t2")],
        )
    }

    #[test]
    fn results_go_on_with_the_apis_ids_in_any_order_and_as_they_are() {
        let thread = gone_on(json!([
            {"type": "tool", "tool_call_id": "t2", "content": [{"type": "text", "text": "x"}], "is_error": true},
            {"type": "tool", "tool_call_id": "t1", "content": "3"},
            {"type": "human", "content": "/help me"},
        ]));
        assert_eq!(thread.system(), Some("S"));
        assert_eq!(
            sent(&thread.addition(&known(), GUARD).unwrap()),
            json!([
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "x"}], "is_error": true},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"},
                {"type": "text", "text": "\n/help me"},
            ])
        );
    }

    #[test]
    fn what_is_no_continuation_is_none() {
        let result = |id: &str| json!({"type": "tool", "tool_call_id": id, "content": "r"});
        let human = json!({"type": "human", "content": "and?"});
        for more in [
            json!([]),
            json!([result("t1")]),
            json!([result("t1"), result("t1")]),
            json!([result("t1"), result("t2"), result("t3")]),
            json!([human]),
            json!([human, result("t1"), result("t2")]),
            json!([result("t1"), result("t2"), {"type": "ai", "content": "I said"}]),
            json!([result("t1"), result("t2"), {"type": "critic", "content": "hm"}]),
            json!([result("t1"), result("t2"), {"type": "human", "content": " "}]),
        ] {
            assert_eq!(gone_on(more.clone()).addition(&known(), GUARD), None, "{more}");
        }
        let edited = thread(&json!([{"type": "human", "content": "1 and 3?"}, {"type": "human", "content": "?"}]));
        assert_eq!(edited.addition(&known(), GUARD), None);
        assert_eq!(gone_on(json!([])).addition(&Known::default(), GUARD), None);
    }

    #[test]
    fn a_whole_thread_is_plain_where_it_can_be() {
        let plain = thread(&json!([{"type": "system", "content": "S"}, {"type": "human", "content": "/clear"}]));
        assert_eq!(sent(&plain.whole(Encoding::Xml, GUARD)), json!("\n/clear"));
        let told = sent(&gone_on(json!([])).whole(Encoding::Xml, GUARD));
        let told = told.as_str().unwrap();
        assert!(told.starts_with(WHOLE_XML) && told.ends_with("</thread>"), "{told}");
        assert!(told.contains("tool_input") && !told.contains(">S<"), "{told}");
        assert!(
            sent(&gone_on(json!([])).whole(Encoding::Text, GUARD))
                .as_str()
                .unwrap()
                .starts_with(WHOLE_TEXT)
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<f64>()
                .prop_filter("JSON has none", |f| f.is_finite())
                .prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The order of keys and of the calls' spelling changes nothing; another value does.
        #[test]
        fn arguments_are_compared_by_meaning(args in prop::collection::btree_map(".{0,4}", any_json(), 1..5)) {
            let ai = |args: Value| json!([{"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "t", "args": args}]}]);
            let forwards = Value::Object(args.clone().into_iter().collect());
            let backwards = Value::Object(args.clone().into_iter().rev().collect());
            prop_assert_eq!(thread(&ai(forwards.clone())).prints, thread(&ai(backwards)).prints);
            let mut more = args;
            more.insert("another key".to_owned(), Value::Null);
            prop_assert_ne!(thread(&ai(forwards)).prints, thread(&ai(more.into_iter().collect())).prints);
        }
    }
}
