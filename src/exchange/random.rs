//! Random values that nobody can guess.

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
