//! Removes terminal control sequences from text.
//!
//! In: text as a CLI or a model wrote it. Out: the same text without what a terminal would have obeyed instead of shown:
//! control sequences (CSI), commands that run to a terminator (OSC with its titles and hyperlinks, DCS, SOS, PM, APC),
//! character set selection and the two-character escapes, in their 7-bit (`ESC [`) and 8-bit (U+009B) forms
//! (ECMA-48). Everything else stays, byte for byte. This covers more than CLI-ADAPTER-PROTOCOL's pattern, which leaves the text
//! of an OSC title standing.
//!
//! JSON writes an escape as `\u001b`: strip the decoded strings, not the JSON.

use std::borrow::Cow;

use memchr::memchr2;

const ESC: u8 = 0x1B;

/// Returns `text` without control sequences; borrowed when there are none. A sequence that the text ends in the middle of is
/// dropped.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    Stripper::default().strip(text)
}

/// Does the same as [`strip_ansi`] for text that may be owned: it is returned unchanged when there is nothing to remove.
pub(super) fn strip_owned(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => strip_ansi(text),
        Cow::Owned(text) => match strip_ansi(&text) {
            Cow::Borrowed(plain) if plain.len() == text.len() => Cow::Owned(text),
            plain => Cow::Owned(plain.into_owned()),
        },
    }
}

/// A [`strip_ansi`] for text that comes in pieces: the stripped pieces, joined, equal the stripped whole.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    state: AnsiState,
}

/// The position within a control sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AnsiState {
    /// Ordinary text.
    #[default]
    Text,
    /// After ESC, or after the intermediate bytes (`ESC (`) that may follow it.
    Escape,
    /// Within a control sequence (CSI), before its final byte.
    Csi,
    /// Within a command that BEL may end as well (OSC).
    Osc,
    /// Within a command that only ST ends: DCS, SOS, PM, APC.
    Command,
}

impl AnsiState {
    /// The state that the character with the 8-bit control code `code` leads to, if it begins a sequence.
    fn introduced_by(code: u8) -> Option<AnsiState> {
        match code {
            0x9B => Some(AnsiState::Csi),
            0x9D => Some(AnsiState::Osc),
            0x90 | 0x98 | 0x9E | 0x9F => Some(AnsiState::Command),
            _ => None,
        }
    }
}

impl Stripper {
    /// Returns the next piece without control sequences.
    pub fn strip<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let (plain, mut rest) = match self.state {
            AnsiState::Text => text.split_at(plain_len(text)),
            _ => ("", text),
        };
        if rest.is_empty() {
            return Cow::Borrowed(plain);
        }
        let mut kept = String::with_capacity(text.len());
        kept.push_str(plain);
        while !rest.is_empty() {
            if self.state == AnsiState::Text {
                let (plain, tail) = rest.split_at(plain_len(rest));
                kept.push_str(plain);
                rest = tail;
            }
            let mut chars = rest.chars();
            if let Some(next) = chars.next() {
                if self.step(next) {
                    kept.push(next);
                }
                rest = chars.as_str();
            }
        }
        Cow::Owned(kept)
    }

    /// Does the same as [`strip`](Self::strip) for an owned piece: it is returned unchanged when there is nothing to remove.
    pub fn strip_piece(&mut self, text: String) -> String {
        let plain = match self.strip(&text) {
            Cow::Borrowed(plain) if plain.len() == text.len() => None,
            plain => Some(plain.into_owned()),
        };
        plain.unwrap_or(text)
    }

    /// Advances over one character; returns `true` if it is text to keep.
    fn step(&mut self, next: char) -> bool {
        let in_command = matches!(self.state, AnsiState::Osc | AnsiState::Command);
        let introduced = u8::try_from(next).ok().and_then(AnsiState::introduced_by);
        if let Some(state) = introduced.filter(|_| !in_command) {
            self.state = state;
            return false;
        }
        let (state, keep) = match (self.state, next) {
            (_, '\x1B') => (AnsiState::Escape, false),
            // CAN and SUB abandon a sequence; in plain text they are characters like any other.
            (state, '\x18' | '\x1A') => (AnsiState::Text, state == AnsiState::Text),
            (AnsiState::Osc, '\x07' | '\u{9C}') | (AnsiState::Command, '\u{9C}') => (AnsiState::Text, false),
            (state @ (AnsiState::Osc | AnsiState::Command), _) => (state, false),
            (AnsiState::Text, _) => (AnsiState::Text, true),
            // A terminal obeys the controls inside a sequence (a line feed feeds a line) and then goes on with it.
            (state, '\0'..='\x1F') => (state, true),
            (state, '\x7F') => (state, false),
            (AnsiState::Escape, '[') => (AnsiState::Csi, false),
            (AnsiState::Escape, ']') => (AnsiState::Osc, false),
            (AnsiState::Escape, 'P' | 'X' | '^' | '_') => (AnsiState::Command, false),
            (state @ (AnsiState::Escape | AnsiState::Csi), ' '..='/') => (state, false),
            (state @ AnsiState::Csi, '0'..='?') => (state, false),
            (_, ' '..='~') => (AnsiState::Text, false),
            // No sequence contains characters beyond ASCII: this was never one, and its text is kept.
            _ => (AnsiState::Text, true),
        };
        self.state = state;
        keep
    }
}

/// The number of bytes at the start of `text` before the first introducer of a sequence.
fn plain_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut from = 0;
    // U+0080 to U+009F are C2 80 to C2 9F in UTF-8.
    while let Some(at) = memchr2(ESC, 0xC2, &bytes[from..]).map(|at| from + at) {
        let code = bytes.get(at + 1).copied().unwrap_or_default();
        if bytes[at] == ESC || AnsiState::introduced_by(code).is_some() {
            return at;
        }
        from = at + 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_goes() {
        for (name, text, plain) in [
            ("colour", "\x1b[1;32mok\x1b[0m!", "ok!"),
            ("cursor and erase", "\x1b[2K\x1b[1Gdone", "done"),
            ("private modes", "\x1b[?25lx\x1b[?2004h", "x"),
            ("intermediate bytes", "\x1b[4 qx\x1b[!py", "xy"),
            ("8-bit CSI", "a\u{9b}31mb\u{9b}0mc", "abc"),
            ("title, BEL", "\x1b]0;a title\x07x", "x"),
            ("title, ST", "\x1b]0;a title\x1b\\x", "x"),
            ("title, 8-bit", "\u{9d}0;tïtle\u{9c}x", "x"),
            (
                "hyperlink",
                "see \x1b]8;id=1;https://a.b/c?d=e\x1b\\here\x1b]8;;\x1b\\.",
                "see here.",
            ),
            ("DCS keeps BEL inside", "\x1bPq\x07#0\x1b\\x", "x"),
            ("SOS, PM, APC", "\x1bXs\x1b\\a\x1b^p\x1b\\b\x1b_g\x1b\\c", "abc"),
            (
                "8-bit DCS, SOS, PM, APC",
                "\u{90}d\u{9c}\u{98}s\u{9c}\u{9e}p\u{9c}\u{9f}g\u{9c}x",
                "x",
            ),
            ("character set", "\x1b(Ba\x1b)0b\x1b%Gc", "abc"),
            ("two characters", "\x1b7a\x1b8b\x1bcc\x1b=d\x1bME", "abcdE"),
            ("ESC restarts", "\x1b[3\x1b[32mx\x1b]0;t\x1b[mx", "xx"),
            ("CAN and SUB abandon", "\x1b[31\x18m\x1b]0;t\x1ax", "mx"),
            ("controls inside a sequence are obeyed", "\x1b[3\n1mx", "\nx"),
            ("cut short", "x\x1b[38;5", "x"),
            ("cut short after ESC", "x\x1b", "x"),
            ("cut short in a title", "x\x1b]0;never ends", "x"),
            ("beyond ASCII ends it", "\x1b[31é\x1b中", "é中"),
        ] {
            assert_eq!(strip_ansi(text), plain, "{name}");
        }
    }

    #[test]
    fn ordinary_text_is_lent() {
        for text in [
            "",
            "a\tb\r\nc\x07\x08\x7f",
            "[31m ]0; (B",
            "naïve ©\u{a0}« 中文 🦀\u{85}\u{2028}\u{fffd}",
            "\x18\x1a\0",
        ] {
            assert!(
                matches!(strip_ansi(text), Cow::Borrowed(kept) if kept == text),
                "{text:?}"
            );
        }
    }

    fn tricky() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            Just("\x1b"),
            Just("["),
            Just("]"),
            Just("\\"),
            Just("\x07"),
            Just("\u{9b}"),
            Just("\u{9c}"),
            Just("\u{9d}"),
            Just("\u{90}"),
            Just("(B"),
            Just("31;1m"),
            Just("\n"),
            Just("é"),
            Just("\u{a0}"),
            Just("x"),
            Just("\x18"),
        ];
        prop::collection::vec(pieces, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn idempotent_and_clean(text in tricky()) {
            let once = strip_ansi(&text).into_owned();
            prop_assert!(!once.contains(['\x1b', '\u{9b}', '\u{9d}', '\u{90}', '\u{98}', '\u{9e}', '\u{9f}']), "{:?}", once);
            prop_assert_eq!(strip_ansi(&once), once.as_str());
        }

        #[test]
        fn pieces_give_what_the_whole_gives(text in tricky(), at in any::<prop::sample::Index>()) {
            let cuts: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
            let (a, b) = text.split_at(cuts[at.index(cuts.len())]);
            let mut stripper = Stripper::default();
            let joined = stripper.strip(a).into_owned() + &stripper.strip(b);
            prop_assert_eq!(joined, strip_ansi(&text));
        }

        #[test]
        fn text_without_introducers_is_untouched(text in "[^\u{1b}\u{90}\u{98}\u{9b}\u{9d}\u{9e}\u{9f}]*") {
            prop_assert!(matches!(strip_ansi(&text), Cow::Borrowed(kept) if kept == text));
        }
    }
}
