//! Requests to a server on the loopback interface, and their answers.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde::Serialize;

use crate::host::Unanswered;
use crate::http::client::{Client, Response, Route};
use dfp_provider::judge::HttpEnd;

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
