//! The requests to `opencode serve`: paths and bodies, and how they are sent to a server on the loopback interface ([`Http`]).
//!
//! Ids come from the server, and calls' ids from the API behind it: only a plain word may become part of a path ([`Id`]).

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::form::Model;
use crate::host::Unanswered;
use crate::http::{Client, Response, Route};
use dfp_provider::judge::HttpEnd;

/// The name of our agent (`provider::opencode` configures it).
pub const AGENT: &str = "pipe";

/// The longest text that counts as an id, bytes: opencode's ids have 30.
const MOST_ID: usize = 64;

/// An id of opencode's, fit to be a segment of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Id(String);

impl Id {
    /// `text`, if it has the form of an id.
    pub fn new(text: &str) -> Option<Id> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        ((1..=MOST_ID).contains(&text.len()) && text.bytes().all(fits)).then(|| Id(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Id::new(&text).ok_or_else(|| serde::de::Error::custom("no id"))
    }
}

/// `path` with `directory` as its instance.
pub fn of_directory(path: &str, directory: &str) -> String {
    let mut query = String::with_capacity(path.len() + directory.len() + 16);
    query.push_str(path);
    query.push_str("?directory=");
    for byte in directory.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => query.push(char::from(byte)),
            _ => {
                query.push('%');
                query.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
            }
        }
    }
    query
}

/// The path of the session `id`.
pub fn session(id: &Id) -> String {
    format!("/session/{}", id.as_str())
}

/// The path of the messages of the session `id`.
pub fn messages(id: &Id) -> String {
    format!("/session/{}/message", id.as_str())
}

/// The path of a part of a message.
pub fn part(session: &Id, message: &Id, part: &Id) -> String {
    let (session, message, part) = (session.as_str(), message.as_str(), part.as_str());
    format!("/session/{session}/message/{message}/part/{part}")
}

/// The path that aborts the turn of a session.
pub fn abort(id: &Id) -> String {
    format!("/session/{}/abort", id.as_str())
}

/// The path of the answer to a request for permission.
pub fn permission(id: &Id) -> String {
    format!("/permission/{}/reply", id.as_str())
}

/// The answer to [`new_session`].
#[derive(Debug, Deserialize)]
pub struct SessionOpened {
    pub id: Id,
}

/// The body of a new session, with a title: without one, the model is asked for it.
pub fn new_session() -> Value {
    json!({"title": "x"})
}

/// The body that rejects a request for permission.
pub fn reject() -> Value {
    json!({"reply": "reject"})
}

/// The time that opencode may wait for an answer of the MCP server of the caller's tools, ms: by default it gives up after 5 s
/// (1.18.34). It is less than the server may take for the request that declares them.
const TOOLS_WITHIN: u64 = 15_000;

/// The body that adds the MCP server of the caller's tools.
pub fn mcp(name: &str, url: &str, token: &str) -> Value {
    json!({
        "name": name,
        "config": {
            "type": "remote",
            "url": url,
            "oauth": false,
            "timeout": TOOLS_WITHIN,
            "headers": {"authorization": format!("Bearer {token}")},
        },
    })
}

/// A message of the user, and the settings that are sent with it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt<'a> {
    pub agent: &'static str,
    /// The model that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a Model>,
    /// The variant of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<&'a str>,
    /// The form of the answer, if it is not a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<AnswerFormat<'a>>,
    /// The system prompt.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub system: &'a str,
    /// True if the message is only added, and not answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_reply: bool,
    pub parts: &'a [InputPart],
}

/// An answer by a schema, which the model gives with a tool of opencode's own (1.18.34).
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerFormat<'a> {
    JsonSchema { schema: &'a RawValue },
}

/// A part of a message of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum InputPart {
    Text {
        text: String,
    },
    File {
        mime: String,
        /// The file's data, as a `data:` URL.
        url: String,
    },
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpencodeCallResult {
    pub text: String,
    pub is_error: bool,
    /// The content that is not text.
    pub files: Vec<InputPart>,
}

impl OpencodeCallResult {
    /// The state of a call of `input` with this result. `attached` makes a file a part of the call's message.
    pub fn state(&self, input: &RawValue, attached: impl Fn(&InputPart) -> Value) -> Value {
        let time = json!({"start": 1, "end": 1});
        // Arguments that are not JSON become an empty object.
        let input: Value = serde_json::from_str(input.get()).unwrap_or_else(|_| json!({}));
        if self.is_error {
            return json!({"status": "error", "input": input, "error": self.text, "time": time});
        }
        let mut state = json!({
            "status": "completed", "input": input, "output": self.text, "title": "", "metadata": {}, "time": time,
        });
        if !self.files.is_empty() {
            state["attachments"] = self.files.iter().map(attached).collect();
        }
        state
    }
}

/// The longest answer, bytes: the longest that was measured had 4 MiB.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// The length of a refusal's body that is reported, characters.
const MOST_OF_BODY: usize = 200;

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpFailure {
    /// The server answered with this status and this body.
    Refused(u16, String),
    /// The connection broke, or the server is gone.
    Lost(String),
    /// The server's answer is not what was asked for.
    Unfit(String),
    /// The answer has more bytes than this.
    TooLong(usize),
    /// The server did not answer in time.
    Unanswered(Unanswered),
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpFailure::Refused(status, body) => {
                let start: String = body.trim().chars().take(MOST_OF_BODY).collect();
                let (colon, start) = if start.is_empty() {
                    ("", "")
                } else {
                    (": ", start.as_str())
                };
                write!(f, "status {status}{colon}{start}")
            }
            HttpFailure::Lost(reason) | HttpFailure::Unfit(reason) => f.write_str(reason),
            HttpFailure::Unanswered(unanswered) => unanswered.fmt(f),
            HttpFailure::TooLong(most) => write!(f, "an answer of more than {most} bytes"),
        }
    }
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    base: String,
    headers: HeaderMap,
}

impl Http {
    /// Makes the client of the server at `base` (`http://127.0.0.1:4096`), whose password is `password`.
    ///
    /// # Errors
    /// The reason why there can be none.
    pub fn new(base: &str, password: &str) -> Result<Http, String> {
        use base64::Engine as _;
        let uri: Uri = base.parse().map_err(|_| "its address is none".to_owned())?;
        let login = base64::engine::general_purpose::STANDARD.encode(format!("opencode:{password}"));
        let mut login = HeaderValue::from_str(&format!("Basic {login}")).map_err(|error| error.to_string())?;
        login.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, login);
        Ok(Http {
            client: Client::new(&uri, Route::direct())?,
            base: base.to_owned(),
            headers,
        })
    }

    /// Sends a request for `path`, whose answer comes piece by piece.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn open(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Response, HttpFailure> {
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.client.send(method, format!("{}{path}", self.base), headers, body);
        answer.await.map_err(|end| match end {
            HttpEnd::Refused { status, body, .. } => HttpFailure::Refused(status, body),
            HttpEnd::Lost(reason) => HttpFailure::Lost(reason),
            other => HttpFailure::Lost(format!("no connection: {other:?}")),
        })
    }

    /// Sends a request for `path`, and reads the answer.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, HttpFailure> {
        self.ask_up_to(MOST_BYTES, method, path, body).await
    }

    /// Sends a request like [`Http::ask`], for an answer of at most `most` bytes.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn ask_up_to(
        &self,
        most: usize,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, HttpFailure> {
        let mut answer = self.open(method, path, body).await?;
        let mut whole = BytesMut::new();
        while let Some(piece) = answer.next().await.map_err(HttpFailure::Lost)? {
            if whole.len() + piece.len() > most {
                return Err(HttpFailure::TooLong(most));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Sends `body` as JSON.
    ///
    /// # Errors
    /// [`HttpFailure`].
    pub async fn send(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Bytes, HttpFailure> {
        let body = serde_json::to_vec(body).map_err(|error| HttpFailure::Lost(error.to_string()))?;
        self.ask(method, path, Some(body.into())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_are_ids() {
        assert!(Id::new("ses_dfc6e53f3ffe21sU8pbZJSMOA1").is_some());
        for text in ["", "../x", "a/b", "a?b", "a%2e", "ä", &"x".repeat(65)] {
            assert_eq!(Id::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn directories_are_escaped() {
        assert_eq!(
            of_directory("/mcp", "/tmp/a b&c=é"),
            "/mcp?directory=%2Ftmp%2Fa%20b%26c%3D%C3%A9"
        );
    }
}
