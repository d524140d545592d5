//! Of which call a line is that is too long to be kept, by its first bytes.

/// What the beginning of a message says of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The request of ours that it answers.
    pub id: Option<u64>,
    /// What it tells or asks.
    pub method: Option<String>,
    /// Of which session.
    pub session: Option<String>,
}

/// Reads the beginning of a message whose parameters name their session by `member`. What a model says can't be taken for a member: it
/// stands in a string, or deeper.
pub fn read(line: &[u8], member: &str) -> Head {
    let mut head = Head::default();
    let mut depth = 0_usize;
    // The member that is being read: of the message, and of its parameters.
    let (mut outer, mut inner): (Option<String>, Option<String>) = (None, None);
    let mut rest = line;
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => string_length(rest),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => Some(1),
            byte if byte.is_ascii_whitespace() => Some(1),
            _ => word_length(rest),
        };
        // It is cut off.
        let Some(length) = length else { break };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => outer = None,
            b',' if depth == 2 => inner = None,
            b',' | b':' => {}
            byte if byte.is_ascii_whitespace() => {}
            _ => match (depth, outer.as_deref(), inner.as_deref()) {
                (1, None, _) => outer = text(token),
                (1, Some("id"), _) => head.id = std::str::from_utf8(token).ok().and_then(|id| id.parse().ok()),
                (1, Some("method"), _) => head.method = text(token),
                (2, Some("params"), None) => inner = text(token),
                (2, Some("params"), Some(name)) if name == member => head.session = text(token),
                _ => {}
            },
        }
    }
    head
}

/// How long the string is that `rest` begins with, its quotes included.
fn string_length(rest: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    let end = rest.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })?;
    Some(end + 2)
}

/// How long the number or the word is that `rest` begins with.
fn word_length(rest: &[u8]) -> Option<usize> {
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
    rest.iter().position(is_end)
}

fn text(token: &[u8]) -> Option<String> {
    serde_json::from_slice(token).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: Option<u64>, method: &str, session: &str) -> Head {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Head {
            id,
            method: text(method),
            session: text(session),
        }
    }

    #[test]
    fn a_message_is_known_by_its_first_bytes() {
        for (line, expected) in [
            (
                r#"{"method":"rawResponseItem/completed","params":{"threadId":"t-1","turnId":"u","item":{"text":"aaa"#,
                of(None, "rawResponseItem/completed", "t-1"),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"content":{"text":"a"#,
                of(None, "session/update", ""),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 17, "result": {"a": ["#,
                of(Some(17), "", ""),
            ),
            (
                r#"{"method":"item/tool/call","id":0,"params":{"threadId":"t","arguments":{"#,
                of(Some(0), "item/tool/call", "t"),
            ),
            // The item comes first: whose it is stands behind it.
            (
                r#"{"method":"item/completed","params":{"item":{"text":"aaa"#,
                of(None, "item/completed", ""),
            ),
            // What is cut off is not known.
            (
                r#"{"method":"turn/completed","params":{"threadId":"t-"#,
                of(None, "turn/completed", ""),
            ),
            (r#"{"id":1"#, of(None, "", "")),
            ("", of(None, "", "")),
        ] {
            assert_eq!(read(line.as_bytes(), "threadId"), expected, "{line}");
        }
    }

    #[test]
    fn what_is_said_is_no_member() {
        for line in [
            r#"{"method":"x","params":{"delta":"\",\"threadId\":\"other\"","a":"#,
            r#"{"method":"x","params":{"item":{"threadId":"other"},"a":"#,
            r#"{"method":"x","params":["threadId","other",{"threadId":"other"}],"a":"#,
            r#"{"method":"x","other":{"threadId":"other"},"a":"#,
        ] {
            assert_eq!(read(line.as_bytes(), "threadId"), of(None, "x", ""), "{line}");
        }
    }
}
