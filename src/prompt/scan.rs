//! The first byte that matters, and what is white space.
//!
//! In: bytes, and which of them matter. Out: where the first of those is. Whole blocks are looked at where none is near, in
//! a form the compiler makes vector instructions of.

/// White space as JavaScript's `trim` and `\s` know it: Unicode's, with the byte order mark and without U+0085.
pub fn is_js_space(c: char) -> bool {
    c == '\u{FEFF}' || (c.is_whitespace() && c != '\u{85}')
}

/// Bytes looked at together.
const BLOCK: usize = 32;

/// Where the first byte is that `stops` says yes to, or the length. Fast if `stops` has no short circuits (`|`, not `||`).
pub fn first(bytes: &[u8], stops: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    loop {
        // What matters comes in clusters: byte by byte at first.
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

/// `text` from `at` on, or from the next character.
pub fn from_char(text: &str, at: usize) -> &str {
    (at..text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
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
                // The last of them is none that was looked for.
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
}
