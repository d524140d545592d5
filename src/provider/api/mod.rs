//! OpenAI-compatible APIs: their capabilities, their errors, and their calls by chat completions.
//!
//! In: options ([`settings`]), a thread and tools. Out: the request's body ([`request`]), and the events of the response
//! ([`answer`], over [`sse`]), which `judge` judges. `exchange::http` makes the connection. No code here knows a vendor: servers
//! are distinguished by their answers, or by an option. Identifiers of errors that other APIs use as well (`insufficient_quota`,
//! `context_length_exceeded`, …) are among the common rules.

pub mod answer;
mod calls;
pub mod other_answers;
pub mod request;
pub mod settings;
pub mod sse;

#[cfg(test)]
mod tests;

use crate::capability::{Capabilities, EMULATED, NATIVE, SOME_ASKED, UNSUPPORTED};
use crate::errors::Condition::*;
use crate::errors::{Errors, Rule};
use dfp_model::error::Code;

/// The provider's id if the options give none, and the name of its rules and hints.
pub const PROVIDER: &str = "openai";

/// The capabilities of chat completions by their documents. A server may support less, and says so itself.
pub const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but(SOME_ASKED),
    images: NATIVE,
    documents: NATIVE.but("with their data, as `file` parts"),
    result_images: UNSUPPORTED,
    reasoning_out: NATIVE,
    reasoning_effort: NATIVE.but("as `reasoning_effort`"),
    reasoning_off: NATIVE.but("as `reasoning_effort: \"none\"`, which not every model has"),
    model: NATIVE,
    tool_choice: NATIVE,
    max_output_tokens: NATIVE.but("as `max_tokens`, or what `maxTokensField` says"),
    stop: NATIVE,
    temperature: NATIVE,
    service_tier: NATIVE.but("as `service_tier`"),
    speed: UNSUPPORTED,
    web_search: UNSUPPORTED,
    tool_search: UNSUPPORTED,
    quota_wait: EMULATED,
    login: UNSUPPORTED.but("a provider for each `apiKey` is the same"),
};

/// The rules and hints for these APIs.
pub(super) const ERRORS: Errors = Errors {
    rules: RULES,
    hints: HINTS,
    ..Errors::NONE
};

/// Advice that differs from the general one.
const HINTS: &[(Code, &str)] = &[
    (
        Code::NotLoggedIn,
        "set `apiKey`, or the environment variable that `apiKeyEnv` names",
    ),
    (Code::AuthenticationFailed, "correct `apiKey`"),
    (Code::InvalidApiKey, "correct `apiKey`"),
    (Code::TokenExpired, "renew the key and set `apiKey`"),
    (
        Code::NotFound,
        "correct `baseURL`: it is what /chat/completions is added to, and often ends with /v1",
    ),
    (
        Code::ModelNotFound,
        "name a model that the server has and the key may use",
    ),
    (Code::MaxTokens, "raise `maxTokens`, or ask for less at once"),
    (
        Code::MalformedResponse,
        "check `baseURL`, and proxies and gateways on the way",
    ),
    (Code::RequestTimeout, "try again, or raise the server's limit"),
    (Code::Unknown, "look at `stdoutTail`, and at the server's log"),
];

#[rustfmt::skip] // One rule, one row.
const RULES: &[Rule] = &[
    // Values of `finish_reason` and `refusal` in a response.
    Rule::new(&[Kind("length")], Code::MaxTokens, "the answer hit the limit of output tokens and is cut short"),
    Rule::new(&[Kind("refusal")], Code::Refusal, "I'm sorry, I can't help with that."),
    // Values of `code` or `type` in an error.
    Rule::new(&[Kind("billing_not_active")], Code::CreditExhausted, "Your account is not active, please check your billing details on our website."),
    Rule::new(&[Kind("insufficient_balance")], Code::CreditExhausted, "Insufficient Balance"),
    Rule::new(&[Kind("account_deactivated")], Code::PermissionDenied, "The account associated with this API key has been deactivated"),
    Rule::new(&[Kind("incorrect_api_key_provided")], Code::InvalidApiKey, "Incorrect API key provided"),
    Rule::new(&[Kind("string_above_max_length")], Code::ContextLength, "Invalid 'messages[0].content': string too long."),
    Rule::new(&[Kind("deployment_not_found")], Code::ModelNotFound, "The API deployment for this resource does not exist."),
    Rule::new(&[Kind("engine_overloaded_error")], Code::Overloaded, "The engine is currently overloaded, please try again later"),
    // A status without a known identifier, and a sentence that says more.
    Rule::new(&[Status(404), Text("<model .{0,80}not found")], Code::ModelNotFound, "model 'm1' not found, try pulling it first"),
    Rule::new(&[Status(503), Text("<loading model|<model is (?:currently )?loading")], Code::Overloaded, "Loading model"),
];
