//! The two ends of a JSON text that is too long to keep, and the members that can still be read from them.
//!
//! In: the pieces of the text ([`Cut::push`]). Out: members of its outer objects ([`Cut::member`]). Text of a model can't be
//! taken for such a member: it stands in a string, or deeper. From the end that is as certain as from the beginning, since
//! every quotation mark inside a string is escaped.

/// Bytes kept of the beginning, and of the end.
const KEPT: usize = 4 << 10;

/// Both ends of a text, and its length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    bytes: u64,
    head: Vec<u8>,
    /// The end of the text: up to twice as many bytes as are kept, since older ones are dropped only now and then.
    tail: Vec<u8>,
}

impl Cut {
    /// Adds the next part of the text.
    pub fn push(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        let missing = KEPT.saturating_sub(self.head.len());
        self.head.extend_from_slice(&part[..part.len().min(missing)]);
        self.tail.extend_from_slice(&part[part.len().saturating_sub(KEPT)..]);
        if self.tail.len() > 2 * KEPT {
            self.tail.drain(..self.tail.len() - KEPT);
        }
    }

    /// The length of the whole text, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The member `name`, a string or a number, of the object at `path`, as JSON.
    pub fn member(&self, path: &[&str], name: &str) -> Option<&str> {
        let (found, is_cut_inside) = from_start(&self.head, path, name);
        let found = found.or_else(|| is_cut_inside.then(|| from_end(&self.tail, path, name)).flatten());
        std::str::from_utf8(found?).ok()
    }

    /// The member `name` of the object at `path`, if it is a string, decoded.
    pub fn text(&self, path: &[&str], name: &str) -> Option<String> {
        serde_json::from_str(self.member(path, name)?).ok()
    }
}

/// Finds the member in the beginning of a text; also returns whether the beginning ends inside the object at `path`.
fn from_start<'a>(head: &'a [u8], path: &[&str], name: &str) -> (Option<&'a [u8]>, bool) {
    // For each open object or array: the name whose value comes next.
    let mut open: Vec<Option<String>> = Vec::new();
    let is_at = |open: &[Option<String>]| {
        let names = open.iter().zip(path).all(|(open, name)| open.as_deref() == Some(*name));
        names && open.len() > path.len()
    };
    let mut rest = head;
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => string_length(rest),
            byte if is_mark(*byte) => Some(1),
            _ => rest.iter().position(|byte| is_mark(*byte)),
        };
        // The text is cut off here.
        let Some(length) = length else { break };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            b'{' | b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b',' => {
                if let Some(last) = open.last_mut() {
                    *last = None;
                }
            }
            byte if is_mark(*byte) => {}
            _ => match open.last() {
                Some(Some(last)) if last == name && open.len() == path.len() + 1 && is_at(&open) => {
                    return (Some(token), true);
                }
                Some(None) => {
                    open.pop();
                    open.push(text(token));
                }
                _ => {}
            },
        }
    }
    (None, is_at(&open))
}

/// Finds the member in the end of a text whose cut is inside the object at `path`.
fn from_end<'a>(tail: &'a [u8], path: &[&str], name: &str) -> Option<&'a [u8]> {
    let mut depth = 0_usize;
    let mut found = None;
    // A value whose name has not come yet, and the depth of an object whose name has not come yet.
    let (mut value, mut object) = (None, None);
    let mut is_name = false;
    let mut rest = tail;
    while let Some(last) = rest.last() {
        let start = match last {
            b'"' => string_start(rest),
            byte if is_mark(*byte) => Some(rest.len() - 1),
            _ => rest.iter().rposition(|byte| is_mark(*byte)).map(|at| at + 1),
        };
        // The text is cut off here.
        let Some(start) = start else { break };
        let (before, token) = rest.split_at(start);
        rest = before;
        match last {
            b'}' | b']' => {
                depth += 1;
                (value, object, is_name) = (None, None, false);
            }
            b'{' | b'[' => {
                (value, object, is_name) = (None, Some(depth), false);
                // The beginning of the kept text is reached.
                depth = depth.checked_sub(1)?;
            }
            b',' => (value, object, is_name) = (None, None, false),
            b':' => is_name = true,
            byte if is_mark(*byte) => {}
            _ if !is_name => value = Some(token),
            _ => {
                is_name = false;
                let own = text(token)?;
                match object.take() {
                    // The member found stands in another object.
                    Some(level) if level >= 2 && level - 2 < path.len() && own != path[level - 2] => found = None,
                    Some(_) => {}
                    None if depth == path.len() + 1 && own == name => found = found.or(value),
                    None => {}
                }
                value = None;
            }
        }
    }
    found
}

fn is_mark(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':') || byte.is_ascii_whitespace()
}

/// The length of the string that `rest` begins with, its quotation marks included.
fn string_length(rest: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    let end = rest.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(end + 2)
}

/// The start of the string that `rest` ends with: the quotation mark with an even number of backslashes before it; all others
/// have an odd number.
fn string_start(rest: &[u8]) -> Option<usize> {
    let mut end = rest.len() - 1;
    loop {
        let at = rest[..end].iter().rposition(|byte| *byte == b'"')?;
        let others = rest[..at].iter().rposition(|byte| *byte != b'\\');
        // If the backslashes are cut off, their number is unknown.
        let backslashes = match others {
            Some(other) => at - other - 1,
            None if at == 0 => 0,
            None => return None,
        };
        if backslashes % 2 == 0 {
            return Some(at);
        }
        end = at;
    }
}

fn text(token: &[u8]) -> Option<String> {
    serde_json::from_slice(token).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cut(head: &str, tail: &str) -> Cut {
        Cut {
            bytes: 1 << 30,
            head: head.into(),
            tail: tail.into(),
        }
    }

    /// Reads the number of an answer, and the method and the session of a message.
    fn read(cut: &Cut) -> (Option<&str>, Option<String>, Option<String>) {
        (
            cut.member(&[], "id"),
            cut.text(&[], "method"),
            cut.text(&["params"], "threadId"),
        )
    }

    fn of<'a>(id: &'a str, method: &str, session: &str) -> (Option<&'a str>, Option<String>, Option<String>) {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (Some(id).filter(|id| !id.is_empty()), text(method), text(session))
    }

    #[test]
    fn a_message_is_known_by_its_first_bytes() {
        for (line, expected) in [
            (
                r#"{"method":"rawResponseItem/completed","params":{"threadId":"t-1","turnId":"u","item":{"text":"aaa"#,
                of("", "rawResponseItem/completed", "t-1"),
            ),
            (r#"{"jsonrpc": "2.0", "id": 17, "result": {"a": ["#, of("17", "", "")),
            (
                r#"{"method":"item/tool/call","id":0,"params":{"threadId":"t","arguments":{"#,
                of("0", "item/tool/call", "t"),
            ),
            // Members that are cut off are unknown.
            (
                r#"{"method":"turn/completed","params":{"threadId":"t-"#,
                of("", "turn/completed", ""),
            ),
            (r#"{"id":1"#, of("", "", "")),
            ("", of("", "", "")),
        ] {
            assert_eq!(read(&cut(line, "")), expected, "{line}");
        }
    }

    /// codex 0.169.0 prints a tool's call, and an error, in this order: the long part comes first.
    #[test]
    fn what_stands_behind_it_is_known_by_the_last_bytes() {
        let head = r#"{"method":"item/started","params":{"item":{"type":"dynamicToolCall","arguments":{"a":"xx"#;
        for (tail, session) in [
            (
                r#"xx","b":"\\"},"status":"inProgress"},"threadId":"t","turnId":"u","startedAtMs":17},"emittedAtMs":17}"#,
                "t",
            ),
            (r#"\"x"}},"threadId":"t"}}"#, "t"),
            (r#"\\"}},"threadId" : "t\"\\" } } "#, "t\"\\"),
            (
                r#"x"}},"threadId":"t","more":{"threadId":"o"}},"of":{"threadId":"o"}}"#,
                "t",
            ),
            // These members belong to another object, or stand inside the long part.
            (r#"x"}},"turnId":"u"},"of":{"threadId":"o"}}"#, ""),
            (r#"x","threadId":"o"}},"turnId":"u"}}"#, ""),
            (r#"x,\"threadId\":\"o\""}},"turnId":"u"}}"#, ""),
            (r#"x"},"threadId":"o"},"turnId":"u"},"threadId":"o"}"#, ""),
            (r#"x"}},"threadId":["o"]}}"#, ""),
            // The text is cut off inside the name, inside the value, or before both.
            (r#"dId":"o"}}"#, ""),
            (r#""o"}}"#, ""),
            (r#"\"}}"#, ""),
            ("", ""),
        ] {
            assert_eq!(read(&cut(head, tail)), of("", "item/started", session), "{tail}");
        }
        // The owner of the last members is known if the beginning has not closed the object.
        let tail = r#"x"}},"threadId":"t"}}"#;
        for head in [
            r#"{"method":"x","other":{"a":"x"#,
            r#"{"method":"x","params":{},"other":{"#,
        ] {
            assert_eq!(read(&cut(head, tail)).2, None, "{head}");
        }
        let cut = cut(
            r#"{"payload":{"type":"x","properties":{"part":{"text":"x"#,
            r#"x"},"sessionID":"s"}}}"#,
        );
        assert_eq!(cut.text(&["payload", "properties"], "sessionID"), Some("s".to_owned()));
    }

    #[test]
    fn what_is_said_is_no_member() {
        for line in [
            r#"{"method":"x","params":{"delta":"\",\"threadId\":\"other\"","a":"#,
            r#"{"method":"x","params":{"item":{"threadId":"other"},"a":"#,
            r#"{"method":"x","params":["threadId","other",{"threadId":"other"}],"a":"#,
            r#"{"method":"x","other":{"threadId":"other"},"a":"#,
        ] {
            assert_eq!(read(&cut(line, "")), of("", "x", ""), "{line}");
        }
    }

    #[test]
    fn both_ends_are_kept() {
        let mut cut = Cut::default();
        for at in 0..100 {
            cut.push(&[at; 1000]);
        }
        assert_eq!((cut.bytes(), cut.head.len()), (100_000, KEPT));
        assert!((KEPT..=2 * KEPT).contains(&cut.tail.len()));
        assert_eq!((cut.head[0], cut.tail[cut.tail.len() - 1]), (0, 99));
    }

    proptest! {
        #[test]
        fn a_foreign_text_is_never_another_session(said in r#"[\\"a{}\[\],: ]{0,40}"#, at in 0_usize..60) {
            let item = json!({"text": said, "threadId": "other", "list": [said, {"threadId": "other"}]});
            let line = json!({"method": "x", "params": {"item": item, "threadId": "t", "turnId": "u"}, "at": 1}).to_string();
            let at = line.char_indices().map(|(at, _)| at).nth(at).unwrap_or(0);
            let found = cut(r#"{"method":"x","params":{"item":{"#, &line[at..]).text(&["params"], "threadId");
            prop_assert!(found.is_none() || found.as_deref() == Some("t"), "{found:?}");
        }
    }
}
