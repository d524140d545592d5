//! Decides which tools an agent may call, as far as that is possible without asking anybody.
//!
//! In: the lists of an agent's `permissions`, and a tool's name. Out: a [`PolicyDecision`]. `deny` wins over everything, and `allow` over
//! `ask`. If neither `allow` nor `ask` is set, every tool is allowed that is not denied.

use serde::{Deserialize, Serialize};

/// A set of tools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Names {
    /// Patterns in which `*` stands for any number of characters.
    #[serde(default)]
    pub globs: Vec<String>,
    /// Names without patterns: the tools that the caller's regular expressions match. Only JavaScript can match those.
    #[serde(default)]
    pub exact: Vec<String>,
}

impl Names {
    /// `true` if `name` is in the set.
    pub fn contains(&self, name: &str) -> bool {
        self.exact.iter().any(|exact| exact == name) || self.globs.iter().any(|glob| matches(glob, name))
    }
}

/// An agent's `permissions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Policy {
    /// Tools that are allowed without asking. `None` means that there is no list, which is not the same as an empty one.
    #[serde(default)]
    pub allow: Option<Names>,
    /// Tools that are never allowed.
    #[serde(default)]
    pub deny: Names,
    /// The caller has given a function that decides.
    #[serde(default)]
    pub ask: bool,
}

/// The authority that decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The list of allowed tools.
    Allow,
    /// The list of denied tools.
    Deny,
    Ask,
    /// The run itself: its built-in tools are always allowed.
    Builtin,
    /// The default, as no list has the tool and nobody is to be asked.
    Default,
}

/// The decision about a call by the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDecision {
    Allowed(By),
    Denied(By),
    /// The caller's function has to be asked.
    Ask,
}

impl Policy {
    /// The decision about the tool `name` by the lists.
    pub fn verdict(&self, name: &str) -> PolicyDecision {
        if self.deny.contains(name) {
            return PolicyDecision::Denied(By::Deny);
        }
        match &self.allow {
            Some(allow) if allow.contains(name) => PolicyDecision::Allowed(By::Allow),
            _ if self.ask => PolicyDecision::Ask,
            Some(_) => PolicyDecision::Denied(By::Default),
            None => PolicyDecision::Allowed(By::Default),
        }
    }
}

/// `true` if `name` matches `glob`. The time is at most the product of both lengths.
fn matches(glob: &str, name: &str) -> bool {
    // Comparing bytes is enough: `*` is ASCII, and everything else is compared for equality.
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut g, mut n) = (0, 0);
    // The position behind the last `*`, and the end of the text that it stands for.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if glob.get(g) == Some(&b'*') {
            star = Some((g, n));
            g += 1;
        } else if glob.get(g) == Some(&name[n]) {
            (g, n) = (g + 1, n + 1);
        } else if let Some((at, end)) = star {
            star = Some((at, end + 1));
            (g, n) = (at + 1, end + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Policy {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("*", "", true),
            ("*file", "read_file_file", true),
            ("*a*b*", "xaxxbx", true),
            ("*a*b", "xaxxbx", false),
            ("**", "ä", true),
            ("ä*", "äö", true),
            ("", "x", false),
            ("a?c", "abc", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn deny_wins_and_a_list_of_what_is_allowed_excludes_the_rest() {
        use PolicyDecision::{Allowed, Ask, Denied};
        let lists = r#""allow":{"globs":["read_*"],"exact":["x*"]},"deny":{"globs":["*_secret"]}"#;
        for (json, name, expected) in [
            ("{}".to_owned(), "any", Allowed(By::Default)),
            (r#"{"ask":true}"#.to_owned(), "any", Ask),
            (r#"{"allow":{}}"#.to_owned(), "any", Denied(By::Default)),
            (r#"{"deny":{"exact":["any"]}}"#.to_owned(), "any", Denied(By::Deny)),
            (
                r#"{"deny":{"exact":["any"]}}"#.to_owned(),
                "other",
                Allowed(By::Default),
            ),
            (format!("{{{lists}}}"), "read_file", Allowed(By::Allow)),
            (format!("{{{lists}}}"), "read_secret", Denied(By::Deny)),
            (format!("{{{lists}}}"), "write", Denied(By::Default)),
            (format!("{{{lists},\"ask\":true}}"), "write", Ask),
            (format!("{{{lists},\"ask\":true}}"), "read_file", Allowed(By::Allow)),
            // A tool that a regular expression matched is a name, not a pattern.
            (format!("{{{lists}}}"), "x*", Allowed(By::Allow)),
            (format!("{{{lists}}}"), "xy", Denied(By::Default)),
        ] {
            assert_eq!(policy(&json).verdict(name), expected, "{json} {name}");
        }
    }
}
