//! The lines of a checkpoint's file.
//!
//! In: what a line holds, or the bytes of a file. Out: bytes, or what they hold, each line held against its checksum: a disk that
//! returns another bit than was written gives a line that is JSON as often as not, and a run would go on with it.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The format of the file. What a newer one means is not known here.
pub(super) const VERSION: u64 = 1;
/// The greatest token that has one behind it: JavaScript's greatest safe integer, less one.
const LAST_LEASE: u64 = (1 << 53) - 2;

/// A line ends with `,"sum":"…"}`: half of a SHA-256 of what stands before it.
const SUM: &[u8] = b",\"sum\":\"";
const SUM_DIGITS: usize = 16;
const SUM_END: &[u8] = b"\"}";

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}

impl Line {
    /// Adds itself to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) -> serde_json::Result<()> {
        write_with_sum(serde_json::to_vec(self)?, bytes);
        Ok(())
    }
}

/// Adds a line to `bytes`: `object`, which is JSON of at least one field, with its checksum.
pub(crate) fn write_with_sum(mut object: Vec<u8>, bytes: &mut Vec<u8>) {
    // Its brace comes behind the checksum.
    object.pop();
    // Outside of strings a line break is white space, inside there is none.
    for byte in &mut object {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    let sum = sum(&object);
    for part in [object.as_slice(), SUM, sum.as_bytes(), SUM_END, b"\n"] {
        bytes.extend_from_slice(part);
    }
}

/// Whether the line `text`, without its break, has a checksum that fits it.
pub(crate) fn fits_sum(text: &[u8]) -> bool {
    split(text).is_some_and(|(content, written)| sum(content).as_bytes() == written)
}

/// What a file holds.
#[derive(Default)]
pub(super) struct Found {
    pub token: u64,
    pub entries: Vec<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
}

/// What `bytes` hold, and how many of them are whole lines. Lines of an earlier version of this package have no checksum: they are
/// read without. Behind one that has one, each has to have one.
pub(super) fn read(bytes: &[u8], run_id: &str) -> Result<(Found, usize), String> {
    let mut found = Found::default();
    let (mut whole, mut number, mut summed) = (0, 0, false);
    while let Some(length) = bytes[whole..].iter().position(|byte| *byte == b'\n') {
        let text = &bytes[whole..whole + length];
        let end = whole + length + 1;
        number += 1;
        let written = split(text);
        let line = match serde_json::from_slice::<Line>(text) {
            // The last one, which was written when the machine went down: the blocks of a file come in any order.
            // Those that never came are zeros; where checksums are, any other damage was done later.
            Err(_) if end == bytes.len() && number > 1 && (!summed || text.contains(&0)) => return Ok((found, whole)),
            Err(error) => return Err(format!("line {number}: {error}")),
            Ok(line) => line,
        };
        match written {
            Some((content, written)) if sum(content).as_bytes() == written => summed = true,
            None if !summed => {}
            Some(_) => return Err(damaged(number, "does not fit its checksum")),
            None => return Err(damaged(number, "has no checksum")),
        }
        match line.checkpoint {
            Some(version) if version > VERSION => {
                return Err(format!(
                    "it is of version {version}, and this package knows versions up to {VERSION}"
                ));
            }
            None if number == 1 => return Err("it is no checkpoint".to_owned()),
            _ => {}
        }
        if line.run_id.is_some_and(|id| id != run_id) {
            return Err("it is of another run, whose id differs in upper and lower case".to_owned());
        }
        match line.lease {
            Some(lease) if lease > LAST_LEASE => {
                return Err(format!(
                    "line {number}: the lease {lease} is none of this package's, which count from 1"
                ));
            }
            Some(lease) => found.token = found.token.max(lease),
            None => {}
        }
        found.entries.extend(line.entry);
        found.result = line.result.or(found.result);
        whole = end;
    }
    Ok((found, whole))
}

fn damaged(number: usize, how: &str) -> String {
    format!("line {number} {how}: the file was damaged or edited after it was written")
}

/// What of a line its checksum is of, and the checksum.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = text.strip_suffix(SUM_END)?;
    let (rest, written) = rest.split_at_checked(rest.len().checked_sub(SUM_DIGITS)?)?;
    Some((rest.strip_suffix(SUM)?, written))
}

fn sum(content: &[u8]) -> String {
    let hash = digest(&SHA256, content);
    let half = hash.as_ref().iter().take(SUM_DIGITS / 2);
    half.map(|byte| format!("{byte:02x}")).collect()
}
