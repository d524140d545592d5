//! Decodes the base64 of blocks.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Decodes `data` in either alphabet, with padding or without, over any number of lines.
pub fn decoded(data: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let mut bytes = data.as_bytes().to_vec();
    bytes.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    let alphabet = match bytes.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        true => alphabet::URL_SAFE,
        false => alphabet::STANDARD,
    };
    GeneralPurpose::new(&alphabet, CONFIG).decode(bytes).ok()
}
