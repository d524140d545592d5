//! Reads the usage from files of run logs, line by line.
//!
//! In: paths of files and folders. Out: the usage in them. A file is never held in memory as a whole, and links are not followed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use dfp_record::runlog::BEGINNING;
use dfp_record::runlog::spending::{Adder, Spending};

/// The longest line that is read, bytes. The longest recorded result is far shorter.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// The depth to which folders are searched.
const DEEPEST: usize = 4;

/// The most files in folders that are read.
const MOST_FILES: usize = 10_000;

/// The files that were looked at.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Files {
    pub read: usize,
    /// The number of files that were not read, because nothing was written to them since the given time.
    pub older: usize,
    /// The files that could not be read, each with the reason.
    pub unreadable: Vec<String>,
    /// There were more files than are read.
    pub truncated: bool,
}

/// A path that a person has named, and that doesn't exist.
#[derive(Debug)]
pub(super) struct Missing {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Adds up the usage in the logs at `paths` since `since`, ms since the epoch; `None` if `paths` is empty.
pub(super) fn add_up(paths: &[PathBuf], since: u64) -> Result<Option<(Spending, Files)>, Missing> {
    if paths.is_empty() {
        return Ok(None);
    }
    let mut files = Files::default();
    let mut adder = Adder::new(since);
    let begin = UNIX_EPOCH + Duration::from_millis(since);
    for path in paths {
        let missing = |source| Missing {
            path: path.clone(),
            source,
        };
        let found = fs::metadata(path).map_err(missing)?;
        let mut logs = Vec::new();
        match found.is_dir() {
            true => search(path, DEEPEST, &mut logs, &mut files),
            false => logs.push(path.clone()),
        }
        logs.sort();
        for log in logs {
            let modified = fs::metadata(&log).and_then(|found| found.modified());
            if modified.is_ok_and(|modified| modified < begin) {
                files.older += 1;
                continue;
            }
            match read(&log, &mut adder) {
                Ok(true) => files.read += 1,
                // A folder may have files of other kinds, which is no error.
                Ok(false) if found.is_dir() => {}
                Ok(false) => files.unreadable.push(format!("{}: it is not a run log", log.display())),
                Err(error) => files.unreadable.push(format!("{}: {error}", log.display())),
            }
        }
    }
    Ok(Some((adder.finish(), files)))
}

/// Finds the `.jsonl` files in `folder` and in the folders below it.
fn search(folder: &Path, depth: usize, logs: &mut Vec<PathBuf>, files: &mut Files) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return files.unreadable.push(format!("{}: {error}", folder.display())),
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            search(&path, depth - 1, logs, files);
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            if logs.len() == MOST_FILES {
                files.truncated = true;
                return;
            }
            logs.push(path);
        }
    }
}

/// Adds up one file. Returns `false` if it is no run log.
fn read(path: &Path, adder: &mut Adder) -> io::Result<bool> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let beginning = BEGINNING.split(|byte| *byte == b',').next().unwrap_or(BEGINNING);
    if !reader.fill_buf()?.starts_with(beginning) {
        return Ok(false);
    }
    let mut line = Vec::new();
    loop {
        match next_line(&mut reader, &mut line)? {
            Next::Line => adder.line(&line),
            Next::TooLong => adder.unreadable_line(),
            Next::End => break,
        }
    }
    adder.end_of_file();
    Ok(true)
}

/// The result of reading a line.
enum Next {
    Line,
    TooLong,
    End,
}

/// Reads the next line into `line`, which never holds more than [`LONGEST_LINE`].
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Next> {
    line.clear();
    let mut is_too_long = false;
    let mut is_empty = true;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(match (is_empty, is_too_long) {
                (true, _) => Next::End,
                (_, true) => Next::TooLong,
                _ => Next::Line,
            });
        }
        is_empty = false;
        let end = memchr::memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        is_too_long |= line.len() + part.len() > LONGEST_LINE;
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { Next::TooLong } else { Next::Line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"format":"deep-factor-run","version":1,"runId":"r","provider":"claude","startedAt":1}"#;

    fn done(at: u64) -> String {
        format!(
            r#"{{"at":{at},"t":1,"run":"r","event":{{"type":"done","reply":{{"usage":{{"inputTokens":1,"outputTokens":2,"totalTokens":3}}}}}}}}"#
        )
    }

    #[test]
    fn folders_are_looked_through_and_old_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir_all(place("a/b")).unwrap();
        fs::write(place("one.jsonl"), format!("{HEADER}\n{}\n", done(2_000))).unwrap();
        // This log lacks its last line feed, because it is being written.
        fs::write(place("a/b/two.jsonl"), format!("{HEADER}\n{}", done(2_000))).unwrap();
        fs::write(place("a/other.jsonl"), "{\"no\": \"log\"}\n").unwrap();
        fs::write(place("a/notes.txt"), HEADER).unwrap();
        let old = File::create(place("old.jsonl")).unwrap();
        old.set_modified(UNIX_EPOCH + Duration::from_millis(500)).unwrap();
        let (spending, files) = add_up(&[folder.path().to_path_buf()], 1_000).unwrap().unwrap();
        let calls: Vec<_> = spending
            .spent
            .iter()
            .map(|spent| (spent.calls, spent.usage.total_tokens))
            .collect();
        assert_eq!(calls, [(2, 6)]);
        let expected = Files {
            read: 2,
            older: 1,
            unreadable: Vec::new(),
            truncated: false,
        };
        assert_eq!(files, expected);
    }

    #[test]
    fn what_is_named_and_no_log_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        fs::write(&file, "hello\n").unwrap();
        let (_, files) = add_up(std::slice::from_ref(&file), 0).unwrap().unwrap();
        assert_eq!(files.unreadable, [format!("{}: it is not a run log", file.display())]);
        assert!(add_up(&[folder.path().join("missing")], 0).is_err());
        assert!(add_up(&[], 0).unwrap().is_none());
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let long = LONGEST_LINE + 10;
        let mut reader = BufReader::new(io::Read::chain(
            io::Read::take(io::repeat(b'x'), long as u64),
            &b"\nshort\n"[..],
        ));
        let mut line = Vec::new();
        assert!(matches!(next_line(&mut reader, &mut line).unwrap(), Next::TooLong));
        assert!(matches!(next_line(&mut reader, &mut line).unwrap(), Next::Line));
        assert_eq!(line, b"short");
        assert!(matches!(next_line(&mut reader, &mut line).unwrap(), Next::End));
    }
}
