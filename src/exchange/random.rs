//! Random values: secrets that nobody can guess, and ids that are not given twice.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

/// 128 random bits.
///
/// # Errors
/// The system gives no random bytes.
pub fn bits() -> io::Result<u128> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no random bytes: {error}")))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// `BITS` random bits in hexadecimal; `BITS` is a multiple of 128.
///
/// # Errors
/// The system gives no random bytes.
pub fn hex<const BITS: usize>() -> io::Result<String> {
    (0..BITS / 128).map(|_| Ok(format!("{:032x}", bits()?))).collect()
}

/// 128 random bits for an id. Where the system gives none they come from the keys of a hasher, which it has seeded: an id is no secret.
pub fn id_bits() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    bits().unwrap_or_else(|_| half() << 64 | half())
}

/// A random UUID (version 4).
pub fn uuid() -> String {
    // The version, and the variant of RFC 9562.
    let bits = id_bits() & !(0xF << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_its_version_and_variant() {
        for _ in 0..100 {
            let id = uuid();
            let bytes = id.as_bytes();
            assert_eq!((id.len(), bytes[14]), (36, b'4'), "{id}");
            assert!(matches!(bytes[19], b'8' | b'9' | b'a' | b'b'), "{id}");
            assert!([8, 13, 18, 23].iter().all(|at| bytes[*at] == b'-'), "{id}");
        }
    }
}
