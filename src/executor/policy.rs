//! Who may call what, as far as that is known without asking anybody.
//!
//! In: the lists of an agent's `permissions` and a tool's name. Out: a [`Verdict`]. `deny` wins over everything, `allow` over
//! `ask`; who gives neither list nor `ask` allows what it passed.

use serde::{Deserialize, Serialize};

/// Tools, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Names {
    /// Names in which `*` stands for any characters, none included.
    #[serde(default)]
    pub globs: Vec<String>,
    /// Names as they are: what the caller's regular expressions match, which JavaScript alone can say.
    #[serde(default)]
    pub exact: Vec<String>,
}

impl Names {
    /// Whether `name` is one of them.
    pub fn contains(&self, name: &str) -> bool {
        self.exact.iter().any(|exact| exact == name) || self.globs.iter().any(|glob| matches(glob, name))
    }
}

/// An agent's `permissions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Policy {
    /// Allowed without asking; `None` is no list, which is something else than an empty one.
    #[serde(default)]
    pub allow: Option<Names>,
    /// Never allowed.
    #[serde(default)]
    pub deny: Names,
    /// Whether there is somebody to ask.
    #[serde(default)]
    pub ask: bool,
}

/// What decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The list of what is allowed.
    Allow,
    /// The list of what is not.
    Deny,
    Ask,
    /// The run's own tools are always allowed.
    Builtin,
    /// No list names it and nobody is to be asked.
    Default,
}

/// What the lists say of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed(By),
    Denied(By),
    /// Somebody has to be asked.
    Ask,
}

impl Policy {
    /// What the lists say of the tool `name`.
    pub fn verdict(&self, name: &str) -> Verdict {
        if self.deny.contains(name) {
            return Verdict::Denied(By::Deny);
        }
        match &self.allow {
            Some(allow) if allow.contains(name) => Verdict::Allowed(By::Allow),
            _ if self.ask => Verdict::Ask,
            Some(_) => Verdict::Denied(By::Default),
            None => Verdict::Allowed(By::Default),
        }
    }
}

/// Whether `name` is what `glob` describes. Linear in both but for the product of a `*`'s retries.
fn matches(glob: &str, name: &str) -> bool {
    // Bytes are as good as characters: `*` is ASCII and everything else is compared for equality.
    let (glob, name) = (glob.as_bytes(), name.as_bytes());
    let (mut g, mut n) = (0, 0);
    // Where the last `*` is, and where what it stands for ends.
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
        use Verdict::{Allowed, Ask, Denied};
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
            // What a regular expression matched is a name, not a pattern.
            (format!("{{{lists}}}"), "x*", Allowed(By::Allow)),
            (format!("{{{lists}}}"), "xy", Denied(By::Default)),
        ] {
            assert_eq!(policy(&json).verdict(name), expected, "{json} {name}");
        }
    }
}
