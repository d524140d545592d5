//! Goes through text without parsing it: finds the first significant byte, tells white space, and lays out JSON anew.
//!
//! If no significant byte is near, whole blocks are looked at, in a form that the compiler turns into vector instructions.

use serde_json::Value;

/// Returns whether `c` is white space to JavaScript's `trim` and `\s`: Unicode's, with the byte order mark and without U+0085.
pub fn is_js_space(c: char) -> bool {
    c == '\u{FEFF}' || (c.is_whitespace() && c != '\u{85}')
}

/// The number of bytes looked at together.
const BLOCK: usize = 32;

/// The offset of the first byte for which `stops` is true, or the length. Fast if `stops` has no short circuits (`|`, not
/// `||`).
pub fn first(bytes: &[u8], stops: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    loop {
        // Significant bytes come in clusters, so the search goes byte by byte at first.
        let end = bytes.len().min(at + BLOCK / 2);
        match bytes[at..end].iter().position(|byte| stops(*byte)) {
            Some(found) => return at + found,
            None if end == bytes.len() => return end,
            None => at = end,
        }
        let quiet = |block: &&[u8]| !block.iter().fold(false, |any, byte| any | stops(*byte));
        at += BLOCK * bytes[at..].chunks_exact(BLOCK).take_while(quiet).count();
    }
}

/// Returns `text` from `at` on, or from the next character boundary.
pub fn from_char(text: &str, at: usize) -> &str {
    (at..text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

// Lays out JSON text anew without parsing it.
//
// In: JSON that is known to be valid (`RawValue`). Out: the same value indented as `JSON.stringify(value, null, 2)` does, or
// without any white space. Key order, number spelling and escapes (those of lone surrogates, too) stay unchanged, and no
// nesting is too deep, since nothing here recurses.

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

    #[test]
    fn finds_what_a_plain_search_finds() {
        let stops = |byte: u8| (byte == b'x') | (byte < 0x20);
        for length in [0, 1, 15, 16, 17, 47, 48, 49, 80, 200] {
            for found in 0..=length {
                let mut bytes = vec![b'a'; length];
                // None of the last bytes is searched for.
                bytes.extend_from_slice(b"xx");
                if found < length {
                    bytes[found] = b'\n';
                }
                assert_eq!(first(&bytes, stops), found, "{length}");
                let plain = bytes[..length].iter().position(|byte| stops(*byte)).unwrap_or(length);
                assert_eq!(first(&bytes[..length], stops), plain, "{length}");
            }
        }
    }

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
