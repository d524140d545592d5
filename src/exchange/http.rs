//! Calls of an API: its connections, and one request and its answer.
//!
//! In: a [`Client`], a request, bytes. Out: the status, and the body piece by piece, or the reason why there is none
//! ([`HttpEnd`]). Time limits and cancelling are the caller's: dropping a future or a [`Response`] closes its connection.
//!
//! The [`HttpExchange`] of a call makes events of the answer, as they come.

use std::error::Error as StdError;
use std::fmt::{self, Debug};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use http::uri::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Ended, Evidence, Exchange, StopReason, Unusable};
use dfp_model::event::Event;
use dfp_process::Vars;
use dfp_process::limit::Permit;
use dfp_provider::api::answer::{Answer, Body};
use dfp_provider::api::settings::{self, Settings};
use dfp_provider::judge::{ConnectError, HttpEnd, HttpEvidence};
use dfp_text::redact::{Channel, Redactor, Secret};

/// The time that the end of a complete body may take.
const DRAIN: Duration = Duration::from_secs(1);

/// A request, and all that sending it needs.
pub struct HttpRequest<'a> {
    pub client: &'a Client,
    pub settings: &'a Settings,
    /// The key, if one is sent.
    pub key: Option<&'a Secret>,
    pub body: Bytes,
    /// The redactor of the request's own secrets.
    pub redactor: &'a Redactor,
    /// The request's place among those that may run at once, held until it is over.
    pub permit: Permit,
    /// Tracks the reading of the rest of an answer that was over before its body's end.
    pub tracker: &'a TaskTracker,
    /// Cancelled when the provider is closed.
    pub closing: CancellationToken,
}

/// A request under way.
pub struct HttpExchange<'a> {
    request: HttpRequest<'a>,
    answer: Answer,
    response: Option<Response>,
    began: Option<Instant>,
    bytes: u64,
    status: Option<u16>,
    request_id: Option<String>,
    end: HttpEnd,
}

impl<'a> HttpExchange<'a> {
    /// Makes the exchange of `request`, whose answer is read by `answer`. It is sent with the first [`Exchange::next`].
    pub fn new(request: HttpRequest<'a>, answer: Answer) -> Self {
        HttpExchange {
            request,
            answer,
            response: None,
            began: None,
            bytes: 0,
            status: None,
            request_id: None,
            end: HttpEnd::Lost("the request was never sent".to_owned()),
        }
    }

    async fn send(&mut self) -> ControlFlow<()> {
        self.began.get_or_insert_with(Instant::now);
        let HttpRequest {
            client,
            settings,
            key,
            body,
            redactor,
            ..
        } = &self.request;
        match client.chat(settings, *key, body.clone()).await {
            Ok(response) => {
                self.status = Some(response.status());
                let id = response.request_id();
                self.request_id = id.map(|id| redactor.redact_values(id).into_owned());
                self.response = Some(response);
                ControlFlow::Continue(())
            }
            Err(end) => {
                if let HttpEnd::Refused { status, .. } = &end {
                    self.status = Some(*status);
                }
                self.end = end;
                ControlFlow::Break(())
            }
        }
    }
}

#[async_trait]
impl Exchange for HttpExchange<'_> {
    fn elapsed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn received_bytes(&self) -> u64 {
        self.bytes
    }

    /// Cancel safe once there is a connection; dropping it earlier closes the connection that is being made.
    async fn next(&mut self, events: &mut Vec<Event>) -> ControlFlow<()> {
        let Some(response) = &mut self.response else {
            return self.send().await;
        };
        if self.answer.is_over() {
            self.end = HttpEnd::Answered(self.answer.finish(true, events));
            return ControlFlow::Break(());
        }
        match response.next().await {
            Ok(Some(piece)) => {
                self.bytes += piece.len() as u64;
                self.answer.push(&piece, events);
                return ControlFlow::Continue(());
            }
            Ok(None) => self.end = HttpEnd::Answered(self.answer.finish(true, events)),
            // An answer that was complete before the connection broke is complete.
            Err(why) => {
                self.end = match self.answer.finish(false, events) {
                    Body::Complete => HttpEnd::Answered(Body::Complete),
                    _ => HttpEnd::Lost(why),
                };
            }
        }
        ControlFlow::Break(())
    }

    fn stop(&mut self, reason: StopReason) {
        self.response = None;
        self.end = HttpEnd::Stopped(reason);
    }

    async fn finish(self: Box<Self>) -> Result<Box<Ended>, Unusable> {
        let exit = self.elapsed();
        let request = self.request;
        if let Some(response) = self.response.filter(|_| self.answer.is_over()) {
            let closing = request.closing;
            request.tracker.spawn(async move {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = response.drain(DRAIN) => {}
                }
            });
        }
        drop(request.permit);
        let evidence = Evidence::Http(HttpEvidence {
            origin: settings::origin(&request.settings.chat),
            end: self.end,
            status: self.status,
            diagnostics: self.answer.diagnostics().to_vec(),
            redactor: request.redactor.clone(),
        });
        Ok(Box::new(Ended {
            exit: Some(exit),
            figures: json!({"httpStatus": self.status, "requestId": self.request_id, "bytes": self.bytes}),
            ..Ended::new(evidence)
        }))
    }
}

/// The time that a connection may take, with name resolution, proxy and TLS.
const CONNECT: Duration = Duration::from_secs(30);
/// The number of unused connections that are kept for the next request.
const IDLE_CONNECTIONS: usize = 8;
/// The length of an error's body that is read, bytes.
const ERROR_BODY: usize = 64 * 1024;

/// Node's variable that names a file of further certificates to trust.
const EXTRA_CERTIFICATES: &str = "NODE_EXTRA_CA_CERTS";

/// The route to the API: directly or by a proxy, and the certificates that are trusted on the way besides the system's.
#[derive(Clone)]
pub struct Route {
    proxy: Option<Intercept>,
    /// The file of certificates that `NODE_EXTRA_CA_CERTS` names.
    certificates: Option<PathBuf>,
}

impl Route {
    /// The route straight to the API.
    pub fn direct() -> Route {
        Route {
            proxy: None,
            certificates: None,
        }
    }

    /// Finds the route to `to`. Reads the environment (`env`, or this process's own) and the system's settings; must be called
    /// where nobody changes the process's environment. A loopback address never goes through a proxy, whatever they say.
    pub fn find(to: &Uri, env: Option<&Vars>) -> Route {
        let certificates = match env {
            None => std::env::var_os(EXTRA_CERTIFICATES),
            Some(vars) => vars
                .iter()
                .find(|(name, _)| name == EXTRA_CERTIFICATES)
                .map(|(_, value)| value.clone()),
        };
        Route {
            proxy: proxy(to, env),
            certificates: certificates.filter(|file| !file.is_empty()).map(PathBuf::from),
        }
    }
}

fn proxy(to: &Uri, env: Option<&Vars>) -> Option<Intercept> {
    if to.host().is_none_or(is_loopback) {
        return None;
    }
    let matcher = match env {
        None => Matcher::from_system(),
        Some(vars) => {
            let value = |names: [&str; 2]| {
                let found = names.iter().find_map(|name| {
                    vars.iter()
                        .find(|(known, value)| known == name && !value.is_empty())
                        .and_then(|(_, value)| value.to_str())
                });
                found.unwrap_or_default().to_owned()
            };
            Matcher::builder()
                .all(value(["ALL_PROXY", "all_proxy"]))
                .http(value(["HTTP_PROXY", "http_proxy"]))
                .https(value(["HTTPS_PROXY", "https_proxy"]))
                .no(value(["NO_PROXY", "no_proxy"]))
                .build()
        }
    };
    matcher.intercept(to)
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let named = bare.eq_ignore_ascii_case("localhost") || bare.to_ascii_lowercase().ends_with(".localhost");
    named
        || bare
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// The connections of one provider.
#[derive(Clone)]
pub struct Client {
    client: reqwest::Client,
    /// The reason why the certificates of `NODE_EXTRA_CA_CERTS` are not trusted, if there is such a file. Node goes on without
    /// them, too.
    untrusted: Option<Arc<str>>,
}

impl Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// Makes a client that goes to `to` by `route`. It connects to nothing yet, but may read the system's certificates.
    ///
    /// # Errors
    /// The reason why there can be no client.
    pub fn new(to: &Uri, route: Route) -> Result<Client, String> {
        let proxy_uri = route.proxy.as_ref().map(|proxy| proxy.uri().clone());
        let secure = [Some(to), proxy_uri.as_ref()]
            .into_iter()
            .flatten()
            .any(|uri| uri.scheme_str() == Some("https"));
        let (extra, untrusted) = match route.certificates.filter(|_| secure).map(|file| certificates(&file)) {
            None => (Vec::new(), None),
            Some(Ok(extra)) => (extra, None),
            Some(Err(why)) => (Vec::new(), Some(why.into())),
        };
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(secure, extra).map_err(|error| error.to_string())?)
            // A redirect to another host would take the thread and the caller's own headers along.
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .user_agent(concat!("deep-factor-providers/", env!("CARGO_PKG_VERSION")));
        let builder = match route.proxy {
            None => builder.no_proxy(),
            Some(through) => {
                let proxy = reqwest::Proxy::all(through.uri().to_string()).map_err(|error| innermost(&error))?;
                builder.proxy(match through.basic_auth() {
                    Some(login) => proxy.custom_http_auth(login.clone()),
                    None => proxy,
                })
            }
        };
        let client = builder.build().map_err(|error| innermost(&error))?;
        Ok(Client { client, untrusted })
    }

    /// Requests a chat completion.
    ///
    /// # Errors
    /// The reason why there is no answer, or the content of a status other than 2xx.
    pub async fn chat(&self, settings: &Settings, key: Option<&Secret>, body: Bytes) -> Result<Response, HttpEnd> {
        let accept = if settings.stream {
            "text/event-stream, application/json"
        } else {
            "application/json"
        };
        let mut headers = common(settings, key);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(accept));
        let request = self.client.post(settings.chat.to_string()).headers(headers).body(body);
        self.open(request).await
    }

    /// Requests the list of models.
    ///
    /// # Errors
    /// The errors of [`Client::chat`].
    pub async fn models(&self, settings: &Settings, key: Option<&Secret>) -> Result<Response, HttpEnd> {
        let request = self
            .client
            .get(settings.models.to_string())
            .headers(common(settings, key));
        self.open(request).await
    }
}

impl Client {
    /// Sends a request for `url`.
    ///
    /// # Errors
    /// The errors of [`Client::chat`].
    pub async fn send(
        &self,
        method: http::Method,
        url: String,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response, HttpEnd> {
        let request = self.client.request(method, url).headers(headers);
        self.open(match body {
            Some(body) => request.body(body),
            None => request,
        })
        .await
    }

    async fn open(&self, request: reqwest::RequestBuilder) -> Result<Response, HttpEnd> {
        Response::open(request)
            .await
            .map_err(|end| match (end, &self.untrusted) {
                (HttpEnd::Unreachable(ConnectError::Tls(why)), Some(untrusted)) => {
                    HttpEnd::Unreachable(ConnectError::Tls(format!("{why} ({untrusted})")))
                }
                (end, _) => end,
            })
    }
}

/// Reads the certificates in `file`, in PEM.
///
/// # Errors
/// The reason why there are none.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let trusted = |found: &Vec<CertificateDer>| {
        let mut roots = rustls::RootCertStore::empty();
        found.iter().all(|certificate| roots.add(certificate.clone()).is_ok())
    };
    match read {
        Ok(found) if !found.is_empty() && trusted(&found) => Ok(found),
        Ok(_) => Err(format!(
            "{EXTRA_CERTIFICATES} names {}, which holds no certificate that can be read",
            file.display()
        )),
        Err(error) => Err(format!(
            "{EXTRA_CERTIFICATES} names {}, which can't be read: {error}",
            file.display()
        )),
    }
}

/// The TLS configuration, with ring, whatever else is linked; no default is installed for the process. Without `secure`, no
/// certificate is ever looked at.
fn tls(secure: bool, extra: Vec<CertificateDer<'static>>) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(match secure {
        true => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new_with_extra_roots(extra, provider)?))
            .with_no_client_auth(),
        false => builder
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth(),
    })
}

/// The headers of all requests: the key, and the caller's headers, which win over it.
fn common(settings: &Settings, key: Option<&Secret>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let bearer = key.and_then(|key| HeaderValue::from_str(&format!("Bearer {}", key.reveal())).ok());
    if let Some(mut bearer) = bearer {
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    for (name, value) in &settings.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers
}

/// An answer whose body is being received.
#[derive(Debug)]
pub struct Response {
    response: reqwest::Response,
}

impl Response {
    async fn open(request: reqwest::RequestBuilder) -> Result<Response, HttpEnd> {
        let response = request.send().await.map_err(|error| ending(&error))?;
        let answer = Response { response };
        if answer.response.status().is_success() {
            Ok(answer)
        } else {
            Err(answer.refused().await)
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The server's id of the request, which its operators ask for.
    pub fn request_id(&self) -> Option<&str> {
        let id = self.response.headers().get("x-request-id")?;
        id.to_str().ok().filter(|id| id.len() <= 128)
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// The reason why the connection broke.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        self.response.chunk().await.map_err(|error| innermost(&error))
    }

    /// Reads the rest of the body, up to `limit` of time: a connection is used again only if its body was read to the end.
    pub async fn drain(mut self, limit: Duration) {
        let rest = async { while let Ok(Some(_)) = self.next().await {} };
        // Whatever the result, the connection is free or closed afterwards.
        let _ = tokio::time::timeout(limit, rest).await;
    }

    async fn refused(mut self) -> HttpEnd {
        let mut body = BytesMut::new();
        // If a body breaks off, the part that has come is used.
        while let Ok(Some(piece)) = self.next().await
            && body.len() < ERROR_BODY
        {
            body.extend_from_slice(&piece);
        }
        body.truncate(ERROR_BODY);
        let status = self.response.status();
        let text = |name: &http::HeaderName| self.response.headers().get(name)?.to_str().ok();
        let precise = http::HeaderName::from_static("retry-after-ms");
        HttpEnd::Refused {
            status: status.as_u16(),
            reason: status.canonical_reason().unwrap_or_default().to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
            retry_after: text(&precise)
                .map(|ms| format!("retry-after-ms: {ms}"))
                .or_else(|| text(&RETRY_AFTER).map(|value| format!("retry-after: {value}"))),
            location: text(&LOCATION).and_then(|to| to.split(['?', '#']).next().map(str::to_owned)),
        }
    }
}

/// The reason why nothing came back.
fn ending(error: &reqwest::Error) -> HttpEnd {
    if !error.is_connect() {
        return HttpEnd::Lost(innermost(error));
    }
    HttpEnd::Unreachable(trouble(error))
}

fn trouble(error: &reqwest::Error) -> ConnectError {
    if error.is_timeout() {
        return ConnectError::Slow(CONNECT);
    }
    for cause in causes(error) {
        let io = cause.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return ConnectError::Refused;
        }
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return ConnectError::Tls(tls.to_string());
        }
        let message = cause.to_string();
        if message.starts_with("dns error") {
            return ConnectError::NoSuchHost;
        }
        if message.contains("tunnel") || message.contains("proxy") {
            return ConnectError::Proxy(innermost(error));
        }
    }
    ConnectError::Other(innermost(error))
}

/// The error and its causes, outermost first. The source of an `io::Error` is that of the error it wraps: here, the wrapped one
/// comes first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn StdError + 'static)),
            None => (*error).source(),
        }
    })
}

/// The innermost cause: the outer errors only say where it happened, some with the URL.
fn innermost(error: &reqwest::Error) -> String {
    let last = causes(error).skip(1).last();
    last.map_or_else(
        || "the request can't be made".to_owned(),
        |cause| {
            Redactor::default()
                .redact(Channel::Error, &cause.to_string())
                .into_owned()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(to: &str, env: &[(&str, &str)]) -> Option<String> {
        let vars: Vars = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let route = Route::find(&to.parse().unwrap(), Some(&vars));
        route.proxy.map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn a_proxy_is_used_but_never_for_loopback() {
        let env = [
            ("HTTPS_PROXY", "http://proxy.test:3128"),
            ("http_proxy", "http://other.test:1"),
            ("NO_PROXY", "internal.test"),
        ];
        let secure = Some("http://proxy.test:3128/".to_owned());
        assert_eq!(through("https://api.test/v1", &env), secure);
        assert_eq!(
            through("http://api.test/v1", &env),
            Some("http://other.test:1/".to_owned())
        );
        assert_eq!(through("https://internal.test/v1", &env), None);
        for to in [
            "https://localhost/v1",
            "https://a.localhost:1/v1",
            "https://127.3.2.1/v1",
            "https://[::1]:8/v1",
        ] {
            assert_eq!(through(to, &env), None, "{to}");
        }
        assert_eq!(through("https://api.test/v1", &[]), None);
    }

    #[test]
    fn an_address_may_have_an_international_name() {
        let url = reqwest::Url::parse("https://BÜCHER.example/v1").unwrap();
        assert_eq!(url.as_str(), "https://xn--bcher-kva.example/v1");
    }
}
