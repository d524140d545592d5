//! Reduces text to what quoting does not change.
//!
//! In: a text, however often it was escaped on its way into a thread. Out: [`plain`] text, in which HTML entities and the
//! escapes of JSON strings are decoded at any depth, and white space, quotes, backslashes and characters without width are
//! removed. Escaping a text once more does not change its plain text, so nobody has to guess how often it was escaped.
//!
//! [`entities`] and [`one_level`] decode one layer and keep everything else, so that lines can be looked at between the layers.

use std::borrow::Cow;

use crate::prompt::scan;

/// Returns the plain text of `text`, in which no layer of escapes counts. Linear.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut input = Input::new(text);
    loop {
        out.push_str(input.ordinary(matters));
        match input.next() {
            None => return out,
            Some('\\') => input.escape(),
            Some(c) if is_dropped(c) => {}
            Some(c) => out.push(c),
        }
    }
}

/// Returns `text` with its entities decoded, however often they were escaped.
pub(super) fn entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut input = Input::new(text);
    while let Some(c) = input.next() {
        out.push(c);
        out.push_str(input.ordinary(|byte| byte == b'&'));
    }
    Cow::Owned(out)
}

/// Returns `text` with one layer of the escapes of JSON strings decoded; `None` if it has none.
pub(super) fn one_level(text: &str) -> Option<String> {
    let mut parts = text.split('\\');
    let mut out = String::with_capacity(text.len());
    out.push_str(parts.next().unwrap_or_default());
    let mut found = false;
    while let Some(part) = parts.next() {
        found = true;
        let (decoded, length) = match part.chars().next() {
            // Two backslashes: the part between them is empty.
            None => {
                out.push('\\');
                out.push_str(parts.next().unwrap_or_default());
                continue;
            }
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('t' | 'b' | 'f') => ('\t', 1),
            Some('u') => match hex(&part[1..], 4) {
                Some(unit) => (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
                None => ('\\', 0),
            },
            Some('"') => ('"', 1),
            Some('/') => ('/', 1),
            Some(_) => ('\\', 0),
        };
        out.push(decoded);
        out.push_str(&part[length..]);
    }
    found.then_some(out)
}

/// The unread rest of a text. Entities are decoded while reading; the character of an escape can be put back, and is read
/// again.
struct Input<'a> {
    /// The character that was put back.
    back: Option<char>,
    rest: &'a str,
}

impl<'a> Input<'a> {
    fn new(rest: &'a str) -> Input<'a> {
        Input { back: None, rest }
    }

    fn next(&mut self) -> Option<char> {
        let mut c = match self.back.take() {
            Some(c) => c,
            None => self.take()?,
        };
        while c == '&' {
            let Some((decoded, length)) = entity(self.rest) else {
                break;
            };
            self.rest = &self.rest[length..];
            c = decoded;
        }
        Some(c)
    }

    /// Reads ordinary text up to a byte that `matters`; empty if a character was put back.
    fn ordinary(&mut self, matters: impl Fn(u8) -> bool) -> &'a str {
        if self.back.is_some() {
            return "";
        }
        let (ordinary, rest) = self.rest.split_at(scan::first(self.rest.as_bytes(), matters));
        self.rest = rest;
        ordinary
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// Reads an escape, behind its backslash; of any number of backslashes only the last counts.
    fn escape(&mut self) {
        let next = loop {
            match self.next() {
                Some('\\') => {}
                other => break other,
            }
        };
        self.back = match next {
            Some('n' | 'r' | 't' | 'b' | 'f') => None,
            Some('u') => Some(self.unit().unwrap_or('u')),
            other => other,
        };
    }

    /// The character of `\u` and four digits, or of two such pairs.
    fn unit(&mut self) -> Option<char> {
        let high = hex(self.rest, 4)?;
        self.rest = &self.rest[4..];
        if let Some(c) = char::from_u32(high) {
            return Some(c);
        }
        let low = self.rest.trim_start_matches('\\');
        let pair = low
            .strip_prefix('u')
            .filter(|_| low.len() < self.rest.len())
            .and_then(|digits| hex(digits, 4))
            .and_then(|low| char::decode_utf16([high as u16, low as u16]).next()?.ok());
        if pair.is_some() {
            self.rest = &low[5..];
        }
        Some(pair.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

/// The number at the beginning of `text`, of so many hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u32> {
    let digits = text.get(..digits)?;
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// The character of the entity that `text`, behind its ampersand, begins with, and the entity's length. As in HTML, some need
/// no semicolon.
fn entity(text: &str) -> Option<(char, usize)> {
    if let Some(number) = text.strip_prefix('#') {
        let (c, length) = numbered(number)?;
        return Some((c, 1 + length));
    }
    let bytes = text.as_bytes();
    let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric();
    let end = bytes.iter().take(MAX_NAME + 1).take_while(is_of_name).count();
    let whole = (bytes.get(end) == Some(&b';')).then(|| named(&text[..end])).flatten();
    if let Some(c) = whole {
        return Some((c, end + 1));
    }
    (2..=end.min(MAX_OPEN_NAME)).rev().find_map(|end| {
        let c = named(&text[..end]).filter(|c| is_open(*c))?;
        Some((c, end))
    })
}

/// The length of the longest entity name, `CounterClockwiseContourIntegral`.
const MAX_NAME: usize = 31;
/// The length of the longest name that needs no semicolon, `Ccedil` and others.
const MAX_OPEN_NAME: usize = 6;

/// The character of the entity called `name`.
fn named(name: &str) -> Option<char> {
    quick_xml::escape::resolve_html5_entity(name)?.chars().next()
}

/// Returns whether the names of `c` need no semicolon: those of HTML 2, for the first 256 characters. A few more names are
/// included; since both sides of a comparison are read in the same way, that makes no difference.
fn is_open(c: char) -> bool {
    matches!(c, '&' | '"' | '<' | '>' | '\u{A0}'..='\u{FF}')
}

/// The character whose number `text`, behind `&#`, begins with, and the number's length; any number of leading zeros is
/// allowed.
fn numbered(text: &str) -> Option<(char, usize)> {
    let (digits, radix) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let prefix = text.len() - digits.len();
    let length = digits.chars().take_while(|c| c.is_digit(radix)).count();
    let significant = digits[..length].trim_start_matches('0');
    // The number has more digits than that of any character, or none at all.
    if length == 0 || significant.len() > MAX_DIGITS {
        return None;
    }
    let number = u32::from_str_radix(significant, radix).unwrap_or(0);
    let c = match number {
        0x80..=0x9f => WINDOWS[(number - 0x80) as usize],
        number => char::from_u32(number)?,
    };
    let semicolon = usize::from(digits[length..].starts_with(';'));
    Some((c, prefix + length + semicolon))
}

/// The number of digits in the number of the last character.
const MAX_DIGITS: usize = 7;

/// The characters for numbers from 128 to 159 in HTML, those of Windows-1252.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8D}', 'Ž', '\u{8F}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9D}', 'ž', 'Ÿ',
];

/// Returns whether [`plain`] may change or drop `byte`.
fn matters(byte: u8) -> bool {
    (byte <= b' ')
        | (byte == b'"')
        | (byte == b'\'')
        | (byte == b'\\')
        | (byte == b'&')
        | (byte == b';')
        | (byte >= 0x7f)
}

/// Returns whether a copy may have more or fewer of `c` and still be the same text. A semicolon may come from an entity that
/// needs none.
fn is_dropped(c: char) -> bool {
    match c {
        '"' | '\'' | ';' | '“' | '”' | '„' | '‘' | '’' | '«' | '»' => true,
        // The soft hyphen, and characters without width.
        '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' => true,
        c => c.is_whitespace() || c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layers_are_gone_whatever_they_are_and_however_many() {
        for text in [
            r#"{"a": "x"}"#,
            r#"{\"a\":\"x\"}"#,
            r#"{\\\"a\\\":\n  \\\"x\\\"}"#,
            "{&quot;a&quot;:\u{a0}&#34;x&#x22;}",
            "&lcub;&amp;amp;quot;a&amp;quot;&colon;&QUOT;x&NewLine;”\u{200b}}",
            "&lbrace;&#34a&quot:&#x0000000000000000022x&#0000000000000000000000034;&rcub;",
            r"{\u0022a\\u0022:\u0026quot;\u0078}",
            "{&#92;&#110;a:&bsol;u0078}",
            "{'a':\r\n'x'}\\",
        ] {
            assert_eq!(plain(text), "{a:x}", "{text}");
        }
        assert_eq!(
            plain(r"\ud83e\udd80 \\ud83e\\udd80 \ud83e \udd80"),
            "🦀🦀\u{fffd}\u{fffd}"
        );
        assert_eq!(
            plain(r"\u12 \uzz12 & &x; &#; &#xffffffff; a\b\q"),
            "u12uzz12&&x&#&#xffffffffaq"
        );
        assert_eq!(
            plain("&eacute;&rsquo;&mdash;&hellip;&CounterClockwiseContourIntegral;&notit;&#146;&#151;&eacute &nosuch;"),
            "é—…∳¬it—é&nosuch"
        );
        // By now it is unknown whether the semicolon belonged to the entity.
        assert_eq!(plain("&#38;amp&#59;"), plain("&amp;"));
    }

    #[test]
    fn one_layer_is_taken_off_and_no_more() {
        assert_eq!(
            one_level(r#"a\nb\\n\"\\\"\u00e9\/\q\u1"#).unwrap(),
            "a\nb\\n\"\\\"é/\\q\\u1"
        );
        assert_eq!(one_level("a\\").unwrap(), "a\\");
        assert_eq!(one_level("none"), None);
        assert_eq!(entities("a &amp;lt; b&quot;\\n"), "a < b\"\\n");
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "\\", "n", "u0022", "u", "\"", "&", "amp;", "quot;", "#92;", "lt", ";", "<", "\n", " ", "é", "🦀", "x",
            "{", "}", "'",
        ]);
        prop_oneof![
            prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat()),
            any::<String>(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The law that everything else here relies on.
        #[test]
        fn what_is_escaped_once_more_is_the_same(text in texts()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(plain(&json), plain(&text));
            let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            prop_assert_eq!(plain(&html), plain(&text));
        }

        #[test]
        fn a_layer_is_what_json_takes_off(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            let inner = &json[1..json.len() - 1];
            let spaces = |text: &str| text.replace(|c: char| c.is_control(), "\t");
            let decoded = one_level(inner).unwrap_or_else(|| inner.to_owned());
            // Control characters without a letter of their own are written `\u0001`; tabs stand in for `\b` and `\f`.
            prop_assert_eq!(spaces(&decoded), spaces(&text));
        }
    }
}
