//! The model's output, as the API gave it, with its reasoning: so that a thread that starts anew goes on as if it had not.
//!
//! In: the thread that led to a reply, the reply, and its items. Out: the items again, for a message of the model that stands behind the
//! same beginning. A beginning that was edited is another one: its messages are then built of text and calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::exchange::live::history::{Chain, Fingerprint};
use crate::message::{Message, Role};

/// How much is kept, bytes of JSON.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// The items of one reply.
#[derive(Debug, Clone)]
pub struct Recalled {
    items: Arc<Vec<Value>>,
    /// The ids of calls that were the caller's to answer.
    callers: Arc<Vec<String>>,
}

impl Recalled {
    /// `items` of a reply, whose calls `callers` are the caller's to answer.
    pub fn new(items: Vec<Value>, callers: Vec<String>) -> Recalled {
        Recalled {
            items: Arc::new(items),
            callers: Arc::new(callers),
        }
    }

    /// In the order in which they came.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Whether the call `id` was the caller's to answer.
    pub fn is_callers(&self, id: &str) -> bool {
        self.callers.iter().any(|known| known == id)
    }

    fn calls(&self) -> usize {
        self.callers.len()
    }
}

/// The replies of a provider, the latest ones.
#[derive(Debug, Default)]
pub struct Recall {
    replies: HashMap<Fingerprint, (Recalled, usize)>,
    order: VecDeque<Fingerprint>,
    bytes: usize,
}

impl Recall {
    /// Keeps `recalled`, the reply of `model` to `thread`, which is its last message.
    pub fn keep(&mut self, model: &str, thread: &[&Message], recalled: Recalled) {
        let mut chain = Chain::new(model);
        let mut print = None;
        for message in thread {
            print = Some(chain.push(message));
        }
        let Some(print) = print else { return };
        let bytes = recalled.items().iter().map(|item| item.to_string().len()).sum();
        if bytes > MOST_BYTES || self.replies.contains_key(&print) {
            return;
        }
        self.bytes += bytes;
        self.replies.insert(print, (recalled, bytes));
        self.order.push_back(print);
        while self.bytes > MOST_BYTES {
            let oldest = self.order.pop_front().and_then(|print| self.replies.remove(&print));
            let Some((_, bytes)) = oldest else { return };
            self.bytes -= bytes;
        }
    }

    /// What is known of the model's messages in `thread`, by their place.
    pub fn look_up(&self, model: &str, thread: &[Message]) -> HashMap<usize, Recalled> {
        let mut chain = Chain::new(model);
        let mut found = HashMap::new();
        for (at, message) in thread.iter().enumerate() {
            let print = chain.push(message);
            if message.role == Role::Ai
                && let Some((recalled, _)) = self.replies.get(&print)
                && recalled.calls() == message.tool_calls.len()
            {
                found.insert(at, recalled.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(messages: &Value) -> Vec<Message> {
        serde_json::from_str(&messages.to_string()).unwrap()
    }

    fn thread(question: &str) -> Vec<Message> {
        messages(&json!([
            {"type": "human", "content": question},
            {"type": "ai", "content": "Wait.", "tool_calls": [{"id": "a", "name": "add", "args": {"x": 1, "y": 2}}]},
            {"type": "tool", "tool_call_id": "a", "content": "3"},
        ]))
    }

    fn recall() -> Recall {
        let mut recall = Recall::default();
        let thread = thread("go");
        let whole: Vec<&Message> = thread[..2].iter().collect();
        let item = json!({"type": "function_call", "call_id": "a"});
        recall.keep("m", &whole, Recalled::new(vec![item], vec!["a".to_owned()]));
        recall
    }

    #[test]
    fn a_reply_is_recalled_behind_the_same_beginning_alone() {
        let recall = recall();
        let places =
            |model: &str, thread: &[Message]| -> Vec<usize> { recall.look_up(model, thread).into_keys().collect() };
        assert_eq!(places("m", &thread("go")), [1]);
        assert_eq!(places("another", &thread("go")), [0_usize; 0]);
        assert_eq!(places("m", &thread("go, please")), [0_usize; 0]);
        // As agents write it down anew: without its prose, the arguments' keys in another order.
        let mut rewritten = thread("go");
        rewritten[1] = messages(&json!([
            {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {"y": 2.0, "x": 1}}]}
        ]))
        .remove(0);
        assert_eq!(places("m", &rewritten), [1]);
        let mut edited = thread("go");
        edited[1] = messages(&json!([
            {"type": "ai", "content": "", "tool_calls": [{"id": "a", "name": "add", "args": {"x": 2, "y": 2}}]}
        ]))
        .remove(0);
        assert_eq!(places("m", &edited), [0_usize; 0]);
    }

    #[test]
    fn the_oldest_goes_where_there_is_too_much() {
        let mut recall = Recall::default();
        let large = "x".repeat(MOST_BYTES / 2 - 1000);
        for n in 0..3 {
            let thread =
                messages(&json!([{"type": "human", "content": n.to_string()}, {"type": "ai", "content": "a"}]));
            let whole: Vec<&Message> = thread.iter().collect();
            recall.keep("m", &whole, Recalled::new(vec![json!(large)], Vec::new()));
        }
        assert_eq!(recall.replies.len(), 2);
        assert!(recall.bytes <= MOST_BYTES);
        assert_eq!(recall.order.len(), 2);
    }
}
