//! Lays out JSON text anew without parsing it.
//!
//! In: JSON that is known to be valid (`RawValue`). Out: the same value indented as `JSON.stringify(value, null, 2)` does, or
//! without any white space. Key order, number spelling and escapes (those of lone surrogates, too) stay unchanged, and no
//! nesting is too deep, since nothing here recurses.

use serde_json::Value;

/// Appends `text` as a JSON string, escaped as `JSON.stringify` escapes it.
pub fn push_string(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

/// Appends `json` indented by two spaces per level, where its first line already stands `level` levels deep.
pub fn push_indented(out: &mut String, json: &str, level: usize) {
    let mut level = level;
    let mut tokens = JsonTokens(json).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                if let Some(close) = tokens.next_if(|next| matches!(*next, "}" | "]")) {
                    out.push_str(close);
                } else {
                    level += 1;
                    push_line(out, level);
                }
            }
            "}" | "]" => {
                level = level.saturating_sub(1);
                push_line(out, level);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                push_line(out, level);
            }
            ":" => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
}

/// Returns `json` without the white space between its tokens.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    JsonTokens(json).for_each(|token| out.push_str(token));
    out
}

fn push_line(out: &mut String, level: usize) {
    out.push('\n');
    (0..level).for_each(|_| out.push_str("  "));
}

/// The tokens of a JSON text: brackets, commas, colons, strings, other scalars.
struct JsonTokens<'a>(&'a str);

impl<'a> Iterator for JsonTokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
        let length = match rest.bytes().next()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_length(rest),
            _ => rest
                .find([' ', '\t', '\r', '\n', '{', '}', '[', ']', ',', ':', '"'])
                .unwrap_or(rest.len()),
        };
        let (token, rest) = rest.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// The length of the string `json` starts with, both quotes included.
fn string_length(json: &str) -> usize {
    let bytes = json.as_bytes();
    let mut from = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(from..).unwrap_or_default()) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return from;
        }
        from += 1;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indented(json: &str) -> String {
        let mut out = String::new();
        push_indented(&mut out, json, 0);
        out
    }

    /// The expected texts are those that Node prints for `JSON.stringify(JSON.parse(json), null, 2)`, with the numbers as they
    /// were written.
    #[test]
    fn indents_as_json_stringify_does() {
        let cases = [
            ("{}", "{}"),
            (" [ ] ", "[]"),
            ("1e21", "1e21"),
            (r#""a\"b""#, r#""a\"b""#),
            (r#"{"a":[]}"#, "{\n  \"a\": []\n}"),
            (
                "{ \"z\" : 1.0 ,\r\n\t\"a\":[ {\"k\":\"x, {y}: [z]\"} , null,-0,{ } ] }",
                "{\n  \"z\": 1.0,\n  \"a\": [\n    {\n      \"k\": \"x, {y}: [z]\"\n    },\n    null,\n    -0,\n    {}\n  ]\n}",
            ),
            (r#"["\ud83e\\","é"]"#, "[\n  \"\\ud83e\\\\\",\n  \"é\"\n]"),
        ];
        for (json, expected) in cases {
            assert_eq!(indented(json), expected, "{json}");
            assert_eq!(compact(&indented(json)), compact(json), "{json}");
        }
    }

    #[test]
    fn a_thousand_levels_are_no_problem() {
        let json = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
        assert_eq!(compact(&indented(&json)), json);
    }
}
