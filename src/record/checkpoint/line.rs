//! The lines of a checkpoint's file.
//!
//! In: the contents of a line, or the bytes of a file. Out: the line's bytes, or the file's contents, every line checked by its
//! checksum. If a disk returns a wrong bit, the line is often still valid JSON, and a run would go on with wrong data.

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the format. Lines of a newer version are refused, since their meaning is unknown.
pub(super) const VERSION: u64 = 1;
/// The last token that can have a successor: JavaScript's greatest safe integer, less one.
const LAST_LEASE: u64 = (1 << 53) - 2;

/// A line ends with `,"sum":"…"}`: half of the SHA-256 of everything before it.
const SUM: &[u8] = b",\"sum\":\"";
const SUM_DIGITS: usize = 16;
const SUM_END: &[u8] = b"\"}";

/// One line of the file. Which field it has tells its kind; only the first line has two, `checkpoint` and `run_id`.
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
    /// Appends the line to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) -> serde_json::Result<()> {
        write_with_sum(serde_json::to_vec(self)?, bytes);
        Ok(())
    }
}

/// Appends a line to `bytes`: `object`, JSON with at least one field, and its checksum.
pub fn write_with_sum(mut object: Vec<u8>, bytes: &mut Vec<u8>) {
    // The closing brace comes behind the checksum.
    object.pop();
    // JSON has line breaks only as white space between tokens, never inside strings.
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

/// `true` if the line `text`, without its line break, has a checksum that fits it.
pub fn fits_sum(text: &[u8]) -> bool {
    split(text).is_some_and(|(content, written)| sum(content).as_bytes() == written)
}

/// The contents of a file.
#[derive(Default)]
pub(super) struct Found {
    pub token: u64,
    pub entries: Vec<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
}

/// Reads the contents of `bytes`, and the number of bytes in complete lines. Lines of an earlier version of this package have no
/// checksum and are read without. Behind a line with a checksum every line must have one.
pub(super) fn read(bytes: &[u8], run_id: &str) -> Result<(Found, usize), String> {
    let mut found = Found::default();
    let (mut whole, mut number, mut summed) = (0, 0, false);
    while let Some(length) = bytes[whole..].iter().position(|byte| *byte == b'\n') {
        let text = &bytes[whole..whole + length];
        let end = whole + length + 1;
        number += 1;
        let written = split(text);
        let line = match serde_json::from_slice::<Line>(text) {
            // The last line was being written when the machine went down. A file's blocks reach the disk in any order, and those
            // that did not are zeros. In a file with checksums any other damage came later.
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

/// The part of a line that its checksum covers, and the checksum.
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
