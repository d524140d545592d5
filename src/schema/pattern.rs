//! Translates a pattern for the validator.
//!
//! In: a schema's pattern. Out: the pattern that is compiled in its place, if any, and its cost. A pattern is JavaScript's: if
//! it can't be compiled as one with the flag `u`, it is read as one without it (ECMA-262, annex B), as `new RegExp(pattern)`
//! does. A pattern that can't be compiled either way, or that is too large, is not checked.

use jsonschema::{FancyRegex, PatternOptions, Validator};
use serde_json::{Value, json};

/// The largest size of a compiled pattern, bytes. `\\p{L}{1,64}` has 1.5 MB.
const COMPILED: usize = 4 * 1024 * 1024;
/// The number of times that a backtracking pattern may go back on one text.
const BACKTRACKS: usize = 10_000;
/// The largest number of positions in a pattern, with its counted repetitions written out: a check may look at each of them for
/// each byte of a text.
const MAX_POSITIONS: u64 = 5_000;
/// The number of times that a backtracking pattern may look at a text.
const LOOKAROUND: u64 = 64;

/// Escapes that JavaScript, without the flag `u`, reads as the character itself, and other engines as something else.
const FOREIGN: &str = "<>aAeGhHKRXzZ";

/// The options with which patterns are compiled.
pub(super) fn options() -> PatternOptions<FancyRegex> {
    PatternOptions::fancy_regex()
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .backtrack_limit(BACKTRACKS)
}

/// Returns the pattern unchanged, unless it is too large to be checked.
pub(super) fn sized(pattern: &str) -> Option<String> {
    let scan = PatternScan::of(pattern);
    let text = match scan.is_foreign {
        true => scan.text,
        false => pattern.to_owned(),
    };
    (scan.positions <= MAX_POSITIONS).then_some(text)
}

/// Returns the pattern in a form that compiles, if there is one. Finding out takes a compilation or two.
pub(super) fn compilable(pattern: &str) -> Option<String> {
    let compiles = |pattern: &String| validator(&json!(pattern)).is_ok();
    let as_it_is = sized(pattern)?;
    Some(as_it_is)
        .filter(compiles)
        .or_else(|| Some(PatternScan::of(pattern).text).filter(compiles))
}

/// The number of numbered groups in a pattern.
fn groups(chars: &[char]) -> usize {
    let mut count = 0;
    let mut in_class = false;
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let behind = |offset: usize| chars.get(at + offset).copied();
                let named = behind(2) == Some('<') && !matches!(behind(3), Some('=' | '!'));
                count += usize::from(behind(1) != Some('?') || named);
            }
            _ => {}
        }
        at += 1;
    }
    count
}

/// Makes the validator for `pattern`, the value of that keyword.
///
/// # Errors
/// The problem with the pattern.
pub(super) fn validator(pattern: &Value) -> Result<Validator, String> {
    let schema = json!({ "pattern": pattern });
    let options = jsonschema::options().with_pattern_options(options());
    let built = options.with_format("regex", |_: &str| true).build(&schema);
    built.map_err(|error| error.to_string())
}

/// The number of times that a check looks at each byte of a text, at most.
pub(super) fn costs(pattern: &str) -> u64 {
    let scan = PatternScan::of(pattern);
    let times = if scan.goes_back { LOOKAROUND } else { 1 };
    scan.positions.saturating_mul(times)
}

/// The result of reading a pattern.
#[derive(Debug, Default)]
struct PatternScan {
    /// The pattern without constructs that only annex B allows.
    text: String,
    /// The number of its characters and classes, with its counted repetitions written out.
    positions: u64,
    /// True if it has lookarounds or references to groups, which backtrack.
    goes_back: bool,
    /// True if it has an escape that means something else to the compiler: `\<` is the beginning of a word there.
    is_foreign: bool,
}

/// A member of a class.
enum Member {
    One(u32),
    /// A class escape such as `\d`, which can't be the end of a range.
    Many(String),
}

/// A reader of a pattern, and its state.
struct Reader {
    chars: Vec<char>,
    at: usize,
    scan: PatternScan,
    /// The positions counted in each open group, the pattern as a whole first.
    open: Vec<u64>,
    /// The positions of the part that a quantifier would repeat.
    last: u64,
}

impl PatternScan {
    fn of(pattern: &str) -> PatternScan {
        let mut reader = Reader {
            chars: pattern.chars().collect(),
            at: 0,
            scan: PatternScan::default(),
            open: vec![0],
            last: 0,
        };
        while let Some(c) = reader.next() {
            reader.read(c);
        }
        reader.scan.positions = reader.open.iter().fold(0, |sum, group| group.saturating_add(sum));
        reader.scan
    }
}

impl Reader {
    fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        Some(c)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn atom(&mut self, text: &str, positions: u64) {
        self.scan.text.push_str(text);
        self.repeat(0, positions);
    }

    /// Counts the last part with `positions` instead of `before`.
    fn repeat(&mut self, before: u64, positions: u64) {
        if let Some(group) = self.open.last_mut() {
            *group = group.saturating_add(positions - before);
        }
        self.last = positions;
    }

    fn read(&mut self, c: char) {
        match c {
            '\\' => self.escape(),
            '[' => self.class(),
            '(' => self.group(),
            ')' if self.open.len() > 1 => {
                self.scan.text.push(')');
                let inner = self.open.pop().unwrap_or_default().max(1);
                self.repeat(0, inner);
            }
            '{' => match self.quantifier() {
                Some((text, times)) if self.last > 0 => {
                    self.scan.text.push_str(&text);
                    self.repeat(self.last, self.last.saturating_mul(times.max(1)));
                }
                Some((text, _)) => self.scan.text.push_str(&text),
                None => self.atom(r"\{", 1),
            },
            '}' => self.atom(r"\}", 1),
            ']' => self.atom(r"\]", 1),
            '*' | '+' | '?' | ')' => self.scan.text.push(c),
            '^' | '$' | '|' => {
                self.scan.text.push(c);
                self.last = 0;
            }
            '.' => self.atom(".", 1),
            other => self.atom(other.encode_utf8(&mut [0; 4]), 1),
        }
    }

    /// Reads a group, behind its `(`.
    fn group(&mut self) {
        let rest: String = self.chars[self.at..].iter().take(3).collect();
        let kind = ["?:", "?=", "?!", "?<=", "?<!"]
            .into_iter()
            .find(|kind| rest.starts_with(kind));
        let kind = kind.unwrap_or_default();
        self.at += kind.len();
        self.scan.goes_back |= kind.len() > 1 && kind != "?:";
        self.scan.text.push('(');
        self.scan.text.push_str(kind);
        self.open.push(0);
        self.last = 0;
        if kind.is_empty() && rest.starts_with("?<") {
            self.name('>');
        }
    }

    /// Copies up to `end`.
    fn name(&mut self, end: char) {
        while let Some(c) = self.next() {
            self.scan.text.push(c);
            if c == end {
                break;
            }
        }
    }

    /// Reads a quantifier, behind its `{`: its text, and the number of repetitions.
    fn quantifier(&mut self) -> Option<(String, u64)> {
        let length = self.chars[self.at..].iter().position(|c| *c == '}')?;
        let inner: String = self.chars[self.at..self.at + length].iter().collect();
        let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(least) || !(most.is_empty() || is_number(most)) {
            return None;
        }
        let number = |text: &str| {
            text.parse::<u64>()
                .unwrap_or(if text.is_empty() { 0 } else { u64::MAX })
        };
        self.at += length + 1;
        Some((format!("{{{inner}}}"), number(least).max(number(most))))
    }

    /// Reads an escape, behind its `\`, outside of a class.
    fn escape(&mut self) {
        match self.peek(0) {
            Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) => {
                self.at += 1;
                self.atom(&format!("\\{c}"), 1);
            }
            Some(c @ ('b' | 'B')) => {
                self.at += 1;
                self.scan.text.push('\\');
                self.scan.text.push(c);
                self.last = 0;
            }
            Some('1'..='9') if self.refers() => {
                self.scan.goes_back = true;
                self.scan.text.push('\\');
                while let Some(digit) = self.peek(0).filter(char::is_ascii_digit) {
                    self.at += 1;
                    self.scan.text.push(digit);
                }
                self.atom("", 1);
            }
            Some('k') if self.peek(1) == Some('<') => {
                self.scan.goes_back = true;
                self.scan.text.push('\\');
                self.name('>');
                self.atom("", 1);
            }
            c => {
                self.scan.is_foreign |= c.is_some_and(|c| FOREIGN.contains(c));
                let code = self.character();
                self.atom(&literal(code), 1);
            }
        }
    }

    /// Returns whether the number behind `\` is that of a group of the pattern. Any other number is a character's, in octal
    /// (annex B).
    fn refers(&self) -> bool {
        let digits: String = self.chars[self.at..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .collect();
        digits.parse().is_ok_and(|number: usize| number <= groups(&self.chars))
    }

    /// Reads an escape, behind its `\`, to the one character that it stands for.
    fn character(&mut self) -> u32 {
        let Some(c) = self.next() else { return u32::from('\\') };
        match c {
            'n' => 0x0A,
            'r' => 0x0D,
            't' => 0x09,
            'v' => 0x0B,
            'f' => 0x0C,
            '0'..='7' => {
                let mut code = u32::from(c) - 0x30;
                while let Some(digit) = self
                    .peek(0)
                    .and_then(|c| c.to_digit(8))
                    .filter(|digit| code * 8 + digit < 256)
                {
                    self.at += 1;
                    code = code * 8 + digit;
                }
                code
            }
            'c' => match self.peek(0).filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    u32::from(letter) % 32
                }
                None => {
                    self.at -= 1;
                    u32::from('\\')
                }
            },
            'x' => self.hexadecimal(2).unwrap_or(u32::from('x')),
            'u' => self.unicode().unwrap_or(u32::from('u')),
            other => u32::from(other),
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.chars.get(self.at..self.at + digits)?.iter().collect();
        let code = u32::from_str_radix(&text, 16).ok().filter(|_| !text.starts_with('+'))?;
        self.at += digits;
        Some(code)
    }

    /// Reads a `\u` escape, behind the `u`: a character, or one made of two halves.
    fn unicode(&mut self) -> Option<u32> {
        let first = self.hexadecimal(4)?;
        let is_half = (0xD800..0xDC00).contains(&first);
        if is_half && self.peek(0) == Some('\\') && self.peek(1) == Some('u') {
            let before = self.at;
            self.at += 2;
            match self.hexadecimal(4) {
                Some(second @ 0xDC00..0xE000) => return Some(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)),
                _ => self.at = before,
            }
        }
        Some(first)
    }

    /// Reads a class, behind its `[`.
    fn class(&mut self) {
        let negated = self.peek(0) == Some('^');
        self.at += usize::from(negated);
        let mut inner = String::new();
        while let Some(c) = self.next() {
            if c == ']' {
                break;
            }
            let first = self.member(c);
            let ends_range = self.peek(1).filter(|next| self.peek(0) == Some('-') && *next != ']');
            let Some(last) = ends_range else {
                inner.push_str(&first.written());
                continue;
            };
            self.at += 2;
            let last = self.member(last);
            inner.push_str(&first.written());
            inner.push_str(match (&first, &last) {
                (Member::One(_), Member::One(_)) => "-",
                _ => r"\x2d",
            });
            inner.push_str(&last.written());
        }
        let text = match (inner.as_str(), negated) {
            ("", false) => r"[^\s\S]".to_owned(),
            ("", true) => r"[\s\S]".to_owned(),
            (inner, false) => format!("[{inner}]"),
            (inner, true) => format!("[^{inner}]"),
        };
        self.atom(&text, 1);
    }

    fn member(&mut self, c: char) -> Member {
        match (c, self.peek(0)) {
            ('\\', Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S'))) => {
                self.at += 1;
                Member::Many(format!("\\{c}"))
            }
            ('\\', Some('b')) => {
                self.at += 1;
                Member::One(8)
            }
            ('\\', _) => Member::One(self.character()),
            (c, _) => Member::One(u32::from(c)),
        }
    }
}

impl Member {
    fn written(&self) -> String {
        match self {
            Member::One(code) => literal(*code),
            Member::Many(escape) => escape.clone(),
        }
    }
}

/// Writes a character that stands for itself.
fn literal(code: u32) -> String {
    match char::from_u32(code) {
        Some(c) if c.is_ascii_alphanumeric() || code > 0xFFFF => c.to_string(),
        _ if code < 0x100 => format!("\\x{code:02x}"),
        // Half of a character is left as it was written: no compiled pattern has one.
        _ => format!("\\u{code:04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expectations are the results of `new RegExp(pattern).test(text)` in Node 22, for patterns that are invalid with the
    /// flag `u`.
    #[test]
    fn patterns_are_read_as_javascript_reads_them_without_a_flag() {
        for (pattern, fits, fits_not) in [
            (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", "a.b-c@d-e.org", "a b@c.org"),
            (r"^[\w-.]+$", "a-.", "a b"),
            (r"^[a-\d]+$", "a-1", "b"),
            (r"^\_\-\#\@\e\a$", "_-#@ea", "x"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^{a}]$", "{a}]", "a"),
            (r"^x{1$", "x{1", "x"),
            (r"^[]$|^b$", "b", "a"),
            (r"^[^]\-$", "\n-", "-"),
            (r"^\<b\>$", "<b>", "b"),
            (r"^[\w-\/\-]+\:\/$", "a/-:/", "a"),
            (r"^\101\-$", "A-", "101-"),
            (r"^\uD83D\uDE00\-$", "😀-", "-"),
            (r"^[&&a\-b]+$", "&a-b", "c"),
            (r"^(?=.*\d)(?=.*[\w-\.])\-.{3}$", "-a1.", "-abc"),
        ] {
            let text = compilable(pattern).unwrap_or_else(|| panic!("{pattern}"));
            let schema = json!({ "pattern": text });
            let validator = jsonschema::options()
                .with_pattern_options(options())
                .build(&schema)
                .unwrap();
            assert!(validator.is_valid(&json!(fits)), "{pattern} as {text}: {fits}");
            assert!(!validator.is_valid(&json!(fits_not)), "{pattern} as {text}: {fits_not}");
        }
    }

    #[test]
    fn what_no_reading_can_compile_is_left_out() {
        for pattern in ["(", "[z-a]", "a**", r"[\uD800-\uDBFF]", r"^\k<nobody>$"] {
            assert_eq!(compilable(pattern), None, "{pattern}");
        }
        // A pattern that compiles is left unchanged.
        for pattern in [r"^\p{L}{1,64}$", r"^[a-z]+$", r"^(?!x)(a|b)\1$", "^(a|b)$"] {
            assert_eq!(compilable(pattern).as_deref(), Some(pattern));
        }
    }

    #[test]
    fn counted_repetitions_are_counted() {
        for (pattern, positions) in [
            ("", 0),
            ("abc", 3),
            (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", 8),
            ("a[ab]{3000}[^ab]", 3002),
            ("(a{10}b){3,7}", 77),
            ("((a{100}){100}){100}", 1_000_000),
            ("((a{4294967295}){4294967295}){4294967295}", u64::MAX),
            ("a{99999999999999999999}", u64::MAX),
            (r"\d{2,}x?", 3),
            ("a{0}", 1),
        ] {
            assert_eq!(PatternScan::of(pattern).positions, positions, "{pattern}");
        }
        assert_eq!((sized("[ab]{5001}"), sized("[ab]{5000}").is_some()), (None, true));
        assert_eq!((costs("(?=a)b"), costs("ab"), costs(r"(a)\1")), (128, 2, 128));
    }

    proptest::proptest! {
        #[test]
        fn any_pattern_is_survived(pattern in r"(\\[a-zA-Z0-9\-\{]|[\[\](){}|*+?^$.,a-f0-9:=!<>\-\\]|\PC){0,40}") {
            let _ = costs(&pattern);
            let _ = compilable(&pattern);
        }
    }
}
