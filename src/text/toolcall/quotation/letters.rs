//! Reduces text to its letters and digits, which quoting does not change.
//!
//! In: a text, however often it was escaped on its way into a thread. Out: its [`Letters`]. Escapes of JSON strings and HTML
//! entities are decoded at any depth, and everything but letters and digits is a gap. A text that is escaped once more has the
//! same letters, so nobody has to guess how often it was escaped.

use std::borrow::Cow;

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Every letter counts.
    Text,
    /// The text is a page: tags and named entities are gaps. With `ascii`, letters beyond ASCII are gaps as well, since those
    /// are what the names stand for.
    Page { ascii: bool },
}

/// The letters and digits of a text, without the gaps between its words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Letters {
    pub(super) text: String,
    /// Tells for each byte of `text` whether a gap stood before it.
    gaps: Vec<bool>,
    /// True if the text has `<`, so that there may be tags in it.
    pub(super) has_tags: bool,
    /// True if the text has entities whose characters are not known here.
    pub(super) has_names: bool,
}

impl Letters {
    /// Reads `text` in one pass; the time is linear in its length.
    pub(super) fn of(text: &str, view: View) -> Letters {
        let mut input = Input {
            back: None,
            rest: text,
            is_page: view != View::Text,
            has_names: false,
        };
        let text = input.decoded();
        let mut letters = Letters {
            text: String::with_capacity(text.len()),
            gaps: Vec::with_capacity(text.len()),
            has_tags: text.contains('<'),
            has_names: input.has_names,
        };
        let (mut rest, mut is_gap) = (text.as_str(), true);
        while let Some(c) = rest.chars().next() {
            let length = c.len_utf8();
            if is_gap && let Some((word, length)) = respelled(rest) {
                letters.push(&word, true);
                (rest, is_gap) = (&rest[length..], false);
                continue;
            }
            if c.is_ascii_alphanumeric() || (view != View::Page { ascii: true } && c.is_alphanumeric()) {
                letters.push(&rest[..length], is_gap);
                is_gap = false;
            } else {
                is_gap = true;
            }
            let tag = if c == '<' && view != View::Text {
                tag(rest)
            } else {
                None
            };
            rest = &rest[tag.unwrap_or(length)..];
        }
        letters
    }

    fn push(&mut self, word: &str, is_gap: bool) {
        self.text.push_str(word);
        self.gaps.push(is_gap);
        self.gaps.resize(self.text.len(), false);
    }

    /// Returns whether a word may begin or end at the offset `at`.
    pub(super) fn is_edge(&self, at: usize) -> bool {
        self.gaps.get(at).is_none_or(|is_gap| *is_gap)
    }
}

/// The length of the longest tag, bytes.
const MAX_TAG: usize = 2_048;

/// The length of the tag that `text` begins with.
fn tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let begins = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'!');
    bytes.get(1).filter(|byte| begins(byte))?;
    let inner = &bytes[1..bytes.len().min(MAX_TAG)];
    let end = 1 + inner.iter().position(|byte| matches!(byte, b'<' | b'>'))?;
    (bytes[end] == b'>').then_some(end + 1)
}

/// Python's spelling of a constant, or a number with a fraction or an exponent, at the beginning of `text`: as JSON would spell
/// it, and its length in `text`.
fn respelled(text: &str) -> Option<(Cow<'static, str>, usize)> {
    let bytes = text.as_bytes();
    let ends = |at: usize| !text[at..].starts_with(char::is_alphanumeric);
    let constants = [("True", "true"), ("False", "false"), ("None", "null")];
    if let Some((python, json)) = constants.iter().find(|(python, _)| text.starts_with(python)) {
        return ends(python.len()).then_some((Cow::Borrowed(*json), python.len()));
    }
    let digits = |from: usize| {
        let digits = bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit());
        from + digits.count()
    };
    let whole = digits(0);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        end = if digits(exponent) > exponent {
            digits(exponent)
        } else {
            end
        };
    }
    if whole == 0 || end == whole || !ends(end) {
        return None;
    }
    let number: f64 = text[..end].parse().ok()?;
    // Others are spelled with an exponent everywhere.
    let is_short = number == 0.0 || (1e-6..1e21).contains(&number);
    let json = number.to_string().replace('.', "");
    is_short.then_some((Cow::Owned(json), end))
}

/// The unread rest of a text. Entities are decoded while reading; the character of an escape can be put back, and is read
/// again.
struct Input<'a> {
    back: Option<char>,
    rest: &'a str,
    is_page: bool,
    has_names: bool,
}

impl Input<'_> {
    fn decoded(&mut self) -> String {
        let mut out = String::with_capacity(self.rest.len());
        while let Some(c) = self.next() {
            match c {
                '\\' => self.escape(),
                c => out.push(c),
            }
        }
        out
    }

    fn next(&mut self) -> Option<char> {
        let mut c = self.back.take().or_else(|| self.take())?;
        while c == '&' {
            let Some((decoded, length)) = entity(self.rest) else {
                break;
            };
            self.has_names |= decoded.is_none();
            if decoded.is_none() && !self.is_page {
                break;
            }
            self.rest = &self.rest[length..];
            c = decoded.unwrap_or(' ');
        }
        Some(c)
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
            Some('n' | 'r' | 't' | 'b' | 'f') => Some(' '),
            Some('u') => Some(self.unit().unwrap_or('u')),
            other => other,
        };
    }

    /// The character of `\u` and four digits, or of two such pairs.
    fn unit(&mut self) -> Option<char> {
        let high = hex(self.rest)?;
        self.rest = &self.rest[4..];
        if let Some(c) = char::from_u32(high.into()) {
            return Some(c);
        }
        let low = self.rest.trim_start_matches('\\');
        let digits = low.strip_prefix('u').filter(|_| low.len() < self.rest.len());
        let pair = digits
            .and_then(hex)
            .and_then(|low| char::decode_utf16([high, low]).next()?.ok());
        if pair.is_some() {
            self.rest = &low[5..];
        }
        Some(pair.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

/// The number of four hexadecimal digits at the beginning of `text`.
fn hex(text: &str) -> Option<u16> {
    let digits = text.get(..4)?;
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// The entities whose characters are part of a text's syntax, or blank.
const BASIC: [(&str, char); 7] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("bsol", '\\'),
    ("nbsp", ' '),
];
/// The ends of other names that are also written without a semicolon, behind up to two letters: `eacute`, `szlig`, `times`.
const OPEN: [&str; 12] = [
    "acute", "grave", "circ", "tilde", "uml", "ring", "cedil", "slash", "lig", "times", "copy", "deg",
];
/// The length of the longest entity name, `CounterClockwiseContourIntegral`.
const MAX_NAME: usize = 31;

/// The entity that `text`, behind its ampersand, begins with: its character, `None` if that is not known here, and its length.
fn entity(text: &str) -> Option<(Option<char>, usize)> {
    if let Some(number) = text.strip_prefix('#') {
        let (c, length) = numbered(number)?;
        return Some((c, 1 + length));
    }
    let bytes = text.as_bytes();
    let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric();
    let end = bytes.iter().take(MAX_NAME + 1).take_while(is_of_name).count();
    let is_closed = bytes.get(end) == Some(&b';');
    for (name, c) in BASIC {
        let begins = bytes.len() >= name.len() && bytes[..name.len()].eq_ignore_ascii_case(name.as_bytes());
        if begins && (end == name.len() || !is_closed || c == '&') {
            let semicolon = usize::from(bytes.get(name.len()) == Some(&b';'));
            return Some((Some(c), name.len() + semicolon));
        }
    }
    if is_closed && end > 1 && bytes[0].is_ascii_alphabetic() {
        return Some((None, end + 1));
    }
    let open = |before: usize| {
        let rest = text.get(before..end)?;
        let name = OPEN.iter().find(|name| rest.starts_with(**name))?;
        Some((None, before + name.len()))
    };
    (0..=2).find_map(open)
}

/// The character whose number `text`, behind `&#`, begins with, and the number's length; any number of leading zeros is
/// allowed. Numbers from 128 to 159 are those of Windows-1252, and count as names.
fn numbered(text: &str) -> Option<(Option<char>, usize)> {
    let (digits, radix) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let length = digits.chars().take_while(|c| c.is_digit(radix)).count();
    let number = u32::from_str_radix(digits.get(..length)?, radix).ok()?;
    let semicolon = usize::from(digits[length..].starts_with(';'));
    let c = char::from_u32(number)?;
    let known = (!('\u{80}'..='\u{9f}').contains(&c)).then_some(c);
    Some((known, text.len() - digits.len() + length + semicolon))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: View = View::Page { ascii: true };

    fn letters(text: &str) -> String {
        Letters::of(text, View::Text).text
    }

    #[test]
    fn layers_are_gone_whatever_they_are_and_however_many() {
        for text in [
            r#"{"a": "x"}"#,
            r#"{\\\"a\\\":\n  \\\"x\\\"}"#,
            "{&quot;a&quot;:\u{a0}&#34;x&#x22;}",
            "&amp;amp;quot;a&amp;quot;:&QUOT;x”\u{200b}}",
            "{&#34a&quot:&#x0000000000000000022x&#0000000000000000000000034;",
            r"{\u0022a\\u0022:\u0026quot;\u0078}",
            "{&#92;&#110;a:&bsol;u0078}",
        ] {
            assert_eq!(letters(text), "ax", "{text}");
        }
        assert_eq!(
            letters(r"caf\u00e9 caf\\u00e9 caf&#233; caf&amp;#xE9;"),
            "café".repeat(4)
        );
        assert_eq!(letters(r"\ud835\udc9c \\ud835\\udc9c \ud835 \udc9c"), "𝒜𝒜");
        assert_eq!(
            letters(r"\u12 \uzz12 & &x; &#; &#xffffffff; a\b\q"),
            "u12uzz12xxffffffffaq"
        );
    }

    #[test]
    fn a_page_has_gaps_for_tags_and_names() {
        let page = |text| Letters::of(text, PAGE).text;
        assert_eq!(
            page("<td class=\"n\"></td><b>b</b> a < b <!-- x -->&lt;i>c 1<2 </d"),
            "babc12d"
        );
        assert_eq!(page("caf&eacute; d&eacutej&agrave vu &hellip;&#138;x é"), "cafdjvux");
        let of = |text| Letters::of(text, View::Text);
        assert!(of("&eacute;").has_names && of("&#146;").has_names && !of("&lt;&nbsp;&amp &#233; &").has_names);
        assert!(of("&amp;lt;b").has_tags && !of("a > b").has_tags);
    }

    #[test]
    fn a_number_has_one_spelling() {
        for text in ["1000", "1000.0", "1000.00", "1e3", "1.0E+3", "1&#46;0e3", "-1e3"] {
            assert_eq!(letters(text), "1000", "{text}");
        }
        assert_eq!(
            letters("99.950 0.50 v1.50 1.5.2 1e400 1e5x 3. 5e"),
            "9995 05 v150 152 1e400 1e5x 3 5e".replace(' ', "")
        );
        assert_eq!(letters("True [False, None] Nones"), "truefalsenullNones");
    }

    #[test]
    fn words_begin_and_end_at_gaps() {
        let letters = Letters::of("ab-c\\nd", View::Text);
        let edges: Vec<usize> = (0..=4).filter(|at| letters.is_edge(*at)).collect();
        assert_eq!((letters.text.as_str(), edges), ("abcd", vec![0, 2, 3, 4]));
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "\\", "n", "u0022", "u", "\"", "&", "amp;", "quot;", "#92;", "lt", ";", "<", "\n", " ", "é", "🦀", "x",
            "{", "}", "'", "1", ".5", "e3", "eacute", "b>", "True",
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
            let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            for view in [View::Text, View::Page { ascii: false }, PAGE] {
                let letters = |text: &str| Letters::of(text, view).text;
                prop_assert_eq!(letters(&json), letters(&text));
                prop_assert_eq!(letters(&html), letters(&text));
            }
        }
    }
}
