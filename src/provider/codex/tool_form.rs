//! The forms in which a live thread of codex offers the caller's tools to its model, by the names of the option `toolForm`.

/// Each tool is a function.
pub const FUNCTIONS: &str = "functions";
/// All tools are the members of one namespace, which codex never hides behind its code mode.
pub const NAMESPACE: &str = "namespace";
/// The name of that namespace.
pub const OUR_NAMESPACE: &str = "df";
