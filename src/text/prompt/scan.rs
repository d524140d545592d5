//! Finds the first significant byte of a text, and tells white space.
//!
//! In: bytes, and a test of which are significant. Out: the offset of the first of those. If none is near, whole blocks are
//! looked at, in a form that the compiler turns into vector instructions.

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
}
