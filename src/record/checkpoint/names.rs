//! The ids of runs, and the names of their files.

/// The longest id of a run, bytes.
const LONGEST_ID: usize = 128;

/// `true` if `run_id` can be an id. Ids become parts of file names, keys and headers.
pub fn is_run_id(run_id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte);
    run_id.len() <= LONGEST_ID
        && run_id.bytes().all(allowed)
        && run_id.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// The name of `run_id`'s file, the same on every system. `:` and the first letter of a device's name are written as `%XX`, which
/// can't be part of an id.
pub(super) fn file_name(run_id: &str) -> String {
    let plain = run_id.replace(':', "%3A");
    match plain.chars().next() {
        Some(first) if is_device(run_id) => format!("%{:02X}{}.jsonl", u32::from(first), &plain[first.len_utf8()..]),
        _ => format!("{plain}.jsonl"),
    }
}

/// `true` if Windows takes `name` for a device, whatever comes behind its first dot or colon:
/// <https://learn.microsoft.com/windows/win32/fileio/naming-a-file>
fn is_device(name: &str) -> bool {
    let stem = name.split(['.', ':']).next().unwrap_or_default().to_ascii_uppercase();
    match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" => true,
        port => {
            let number = port.strip_prefix("COM").or_else(|| port.strip_prefix("LPT"));
            number.is_some_and(|number| number.len() == 1 && number.as_bytes()[0].is_ascii_digit())
        }
    }
}
