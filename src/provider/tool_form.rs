//! The forms in which a session may offer the caller's tools to its model, by the names of the option `toolForm`.

/// Each tool is a function.
pub const FUNCTIONS: &str = "functions";
/// All tools are the members of one namespace, which no CLI hides behind a code mode of its own.
pub const NAMESPACE: &str = "namespace";
/// The name of that namespace.
pub const OUR_NAMESPACE: &str = "df";
