//! Tells whether a call is for a tool that is run here for the caller, or for one of the agent's own.
//!
//! In: the agent's updates on its calls, and its requests for permission. Out: whether the call is one of the caller's. Only the
//! agent itself is believed: the id of a call comes from whoever answers as its API, and a title may be the model's words.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use dfp_provider::ToolNaming;

/// The kinds that an agent never gives a tool of the caller's: such tools are run here, and it knows nothing of what they do.
const OWN_KINDS: [&str; 5] = ["execute", "edit", "delete", "move", "fetch"];

/// The places for the tool's name in agents that have no `name` for it: qwen (0.15.10), grok (1.0.41).
const NAMES_IN_META: [&str; 2] = ["/toolName", "/x.ai~1tool/name"];

/// The number of open calls that are remembered of a session.
const MOST_CALLS: usize = 1_000;

/// The longest name of a tool that is compared, in bytes: none of ours is longer.
const LONGEST_NAME: usize = 256;

/// A call, as an update or a request for permission describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AcpCall {
    pub tool_call_id: String,
    /// The tool's name (version 1 of the protocol, since schema 1.22).
    pub name: Option<String>,
    pub title: Option<String>,
    pub kind: Option<String>,
    pub status: Option<String>,
    #[serde(rename = "_meta")]
    pub meta: Value,
}

impl AcpCall {
    /// The tool's name, if the agent tells it.
    fn named(&self) -> Option<&str> {
        let in_meta = || {
            let names = NAMES_IN_META.iter();
            names.filter_map(|place| self.meta.pointer(place)?.as_str()).next()
        };
        self.name.as_deref().or_else(in_meta)
    }
}

/// The facts that the agent has told of a call so far.
#[derive(Debug, Default)]
struct KnownCall {
    name: Option<String>,
    /// The first title of the call.
    title: Option<String>,
    /// The last kind of the call.
    kind: Option<String>,
    /// True if it was of a kind that no tool of the caller's has.
    is_own: bool,
    /// True if it was counted as one of the caller's tools.
    is_counted: bool,
}

impl KnownCall {
    fn learn(&mut self, call: &AcpCall) {
        let short = |text: &str| (text.len() <= LONGEST_NAME).then(|| text.to_owned());
        if let Some(name) = call.named() {
            // A call with two names belongs to nobody.
            self.is_own |= self.name.as_deref().is_some_and(|known| known != name);
            self.name = Some(short(name).unwrap_or_default());
        }
        if self.title.is_none() {
            self.title = call.title.as_deref().map(|title| short(title).unwrap_or_default());
        }
        if let Some(kind) = &call.kind {
            self.is_own |= OWN_KINDS.contains(&&**kind);
            self.kind = short(kind);
        }
    }

    /// Returns whether it is a call of one of `tools`.
    fn is_of(&self, id: &str, tools: &[String], naming: ToolNaming) -> bool {
        if self.is_own {
            return false;
        }
        match (&self.name, naming) {
            (Some(name), _) => tools.contains(name),
            (None, ToolNaming::Name) => false,
            (None, ToolNaming::Id) => tools.iter().any(|name| {
                let rest = id.strip_prefix(name.as_str());
                rest.is_some_and(|rest| rest.starts_with("__") || rest.starts_with('-'))
            }),
            (None, ToolNaming::FirstTitle) => {
                let is_other = self.kind.as_deref() == Some("other");
                is_other && self.title.as_ref().is_some_and(|title| tools.contains(title))
            }
        }
    }
}

/// The calls of a session, and the tools that it may call.
#[derive(Debug)]
pub(super) struct SessionCalls {
    /// The names under which the agent knows the tools that are run here.
    tools: Vec<String>,
    known: HashMap<String, KnownCall>,
    /// The number of calls that the agent has told of, as far as they may be of the caller's tools.
    announced: usize,
}

impl SessionCalls {
    pub(super) fn new(tools: Vec<String>) -> SessionCalls {
        SessionCalls {
            tools,
            known: HashMap::new(),
            announced: 0,
        }
    }

    /// Keeps the facts that an update tells of `call`, and returns whether the call is one of the caller's.
    pub(super) fn note(&mut self, call: &AcpCall, naming: ToolNaming) -> bool {
        let id = &call.tool_call_id;
        let is_kept = self.known.contains_key(id) || self.known.len() < MOST_CALLS;
        let mut unkept = KnownCall::default();
        let known = match is_kept {
            true => self.known.entry(id.clone()).or_default(),
            false => &mut unkept,
        };
        known.learn(call);
        let is_ours = known.is_of(id, &self.tools, naming);
        // Of an agent that tells no names, nobody knows which calls are the caller's.
        let may_be_ours = is_ours || (naming == ToolNaming::Name && known.name.is_none());
        if may_be_ours && !std::mem::replace(&mut known.is_counted, true) {
            self.announced += 1;
        }
        if matches!(call.status.as_deref(), Some("completed" | "failed")) {
            self.known.remove(id);
        }
        is_ours
    }

    /// The number of calls that the agent has told of, as far as they may be of the caller's tools.
    pub(super) fn announced(&self) -> usize {
        self.announced
    }

    /// Returns whether the agent may make `call`: by all known facts, it must be one of the caller's.
    pub(super) fn may(&mut self, call: &AcpCall, naming: ToolNaming) -> bool {
        let status = None;
        self.note(&AcpCall { status, ..call.clone() }, naming)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn may(naming: ToolNaming, told: &[Value], asked: Value) -> bool {
        let read = |call: &Value| serde_json::from_value::<AcpCall>(call.clone()).unwrap();
        let mut calls = SessionCalls::new(vec!["mcp__df__add".to_owned(), "mcp_df_add".to_owned()]);
        for call in told {
            calls.note(&read(call), naming);
        }
        calls.may(&read(&asked), naming)
    }

    #[test]
    fn a_call_is_the_callers_by_a_name_of_the_agents_alone() {
        let name = |name: &str| json!({"toolCallId": "c1", "name": name});
        let meta = |name: &str| json!({"toolCallId": "c1", "_meta": {"toolName": name}});
        let title = |title: &str| json!({"toolCallId": "c1", "title": title, "kind": "other"});
        let kind = |kind: &str| json!({"toolCallId": "c1", "name": "mcp__df__add", "kind": kind});
        let (named, by_id, by_title) = (ToolNaming::Name, ToolNaming::Id, ToolNaming::FirstTitle);
        let gemini = json!({"toolCallId": "mcp_df_add__c1", "title": "add", "kind": "other"});
        for (naming, told, asked, expected) in [
            (named, vec![], name("mcp__df__add"), true),
            (named, vec![], meta("mcp__df__add"), true),
            (
                named,
                vec![],
                json!({"toolCallId": "c1", "_meta": {"x.ai/tool": {"name": "mcp__df__add"}}}),
                true,
            ),
            (named, vec![name("mcp__df__add")], json!({"toolCallId": "c1"}), true),
            (named, vec![], name("bash"), false),
            // The name decides, whatever else the call is called.
            (
                by_id,
                vec![],
                json!({"toolCallId": "mcp_df_add__c1", "name": "bash"}),
                false,
            ),
            (by_title, vec![meta("bash")], title("mcp__df__add"), false),
            (named, vec![meta("bash")], name("mcp__df__add"), false),
            (named, vec![], kind("other"), true),
            (named, vec![kind("other")], kind("read"), true),
            // An id comes from whoever answers as the API, except for the agent that makes its own ids.
            (named, vec![], gemini.clone(), false),
            (by_title, vec![], gemini.clone(), false),
            (by_id, vec![], gemini, true),
            (by_id, vec![], json!({"toolCallId": "mcp_df_addendum"}), false),
            (
                by_id,
                vec![],
                json!({"toolCallId": "mcp_df_add__c1", "kind": "execute"}),
                false,
            ),
            // A title may be the model's words, except for the agent whose first title is the tool's name.
            (named, vec![title("mcp__df__add")], title("mcp__df__add"), false),
            (by_title, vec![title("mcp__df__add")], json!({"toolCallId": "c1"}), true),
            (by_title, vec![title("bash")], title("mcp__df__add"), false),
            (
                by_title,
                vec![],
                json!({"toolCallId": "c1", "title": "mcp__df__add"}),
                false,
            ),
        ] {
            assert_eq!(
                may(naming, &told, asked.clone()),
                expected,
                "{naming:?} {told:?} {asked}"
            );
        }
        for own in OWN_KINDS {
            assert!(!may(named, &[], kind(own)), "{own}");
            assert!(!may(named, &[kind(own)], kind("other")), "{own}");
        }
    }

    #[test]
    fn no_more_calls_are_remembered_than_a_session_may_have_open() {
        let mut calls = SessionCalls::new(vec!["add".to_owned()]);
        let call = |number: usize, status: &str| AcpCall {
            tool_call_id: number.to_string(),
            name: Some("add".to_owned()),
            status: Some(status.to_owned()),
            ..AcpCall::default()
        };
        for number in 0..2 * MOST_CALLS {
            assert!(calls.note(&call(number, "pending"), ToolNaming::Name));
        }
        assert_eq!(calls.known.len(), MOST_CALLS);
        for number in 0..MOST_CALLS {
            calls.note(&call(number, "completed"), ToolNaming::Name);
        }
        assert!(calls.known.is_empty());
    }
}
