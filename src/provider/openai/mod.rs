//! The capabilities of an OpenAI-compatible API. Its options and its protocol stand in `api`.

use super::capability::{Capabilities, EMULATED, NATIVE, UNSUPPORTED};

/// The capabilities of chat completions by their documents. A server may support less, and says so itself.
pub const CAPABILITIES: Capabilities = Capabilities {
    pure: true,
    structured_output: NATIVE.but("asked for in the prompt where the server refuses `response_format`"),
    images: NATIVE,
    documents: NATIVE.but("with their data, as `file` parts"),
    result_images: UNSUPPORTED,
    reasoning_out: NATIVE.but("back to servers that take it with `sendReasoning`"),
    reasoning_effort: NATIVE.but("as `reasoning_effort`"),
    model: NATIVE,
    tool_choice: NATIVE.but("and checked: a reply without the call is asked for once more"),
    max_output_tokens: NATIVE.but("as `max_tokens`, or what `maxTokensField` says"),
    stop: NATIVE,
    temperature: NATIVE,
    web_search: UNSUPPORTED,
    tool_search: UNSUPPORTED,
    quota_wait: EMULATED,
    login: UNSUPPORTED.but("a provider object per `apiKey` is the same"),
};
