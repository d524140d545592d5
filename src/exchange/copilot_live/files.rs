//! The file system of the sessions: a tree in memory for each, which the server reads and writes over its own pipe
//! (`sessionFs.*`).
//!
//! In: the server's requests, with the session and a path. Out: the answer. There is no other tree: a path that is not in it does
//! not exist, whoever has named it, and nothing here accesses the disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

/// The folder of a session's state, for the server.
pub const STATE: &str = "/state";
/// The history of a session, in its state.
pub const HISTORY: &str = "/state/events.jsonl";

/// The bytes that a session may write: mostly appended history.
const MOST: usize = 256 << 20;
/// The number of files and folders that a session may make.
const MOST_ENTRIES: usize = 1_000;
/// The longest path, in bytes, as on Linux. A longer one belongs to no file, and each of its folders would be an entry.
const LONGEST_PATH: usize = 4096;
/// The time stamp of all files.
const TIME: &str = "2026-01-01T00:00:00.000Z";

/// The trees, by the ids of their sessions.
#[derive(Debug, Default)]
pub struct Files(Mutex<HashMap<String, Tree>>);

/// The files and folders of a session, by their paths.
#[derive(Debug)]
struct Tree {
    entries: BTreeMap<String, CopilotEntry>,
    bytes: usize,
}

#[derive(Debug, Clone)]
enum CopilotEntry {
    Folder,
    File(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CopilotParams {
    session_id: String,
    path: String,
    content: String,
    recursive: bool,
    force: bool,
    src: String,
    dest: String,
}

impl Files {
    fn trees(&self) -> MutexGuard<'_, HashMap<String, Tree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the tree of `session`, with this history.
    pub fn open(&self, session: &str, history: String) {
        let bytes = history.len();
        let folder = |path: &str| (path.to_owned(), CopilotEntry::Folder);
        let entries = [folder(STATE), (HISTORY.to_owned(), CopilotEntry::File(history))];
        let tree = Tree {
            entries: entries.into(),
            bytes,
        };
        self.trees().insert(session.to_owned(), tree);
    }

    /// Removes the tree of `session`.
    pub fn close(&self, session: &str) {
        self.trees().remove(session);
    }

    /// The answer to the request `method`, given without its prefix. `None` for one that nobody here understands.
    pub fn answer(&self, method: &str, params: &str) -> Option<Value> {
        let params: CopilotParams = serde_json::from_str(params).unwrap_or_default();
        let mut trees = self.trees();
        let tree = trees.get_mut(&params.session_id);
        Some(match method {
            "exists" => json!({"exists": tree.is_some_and(|tree| tree.find(&params.path).is_some())}),
            "readFile" => match tree.and_then(|tree| tree.file(&params.path)) {
                Some(content) => json!({"content": content}),
                None => json!({"content": "", "error": missing()}),
            },
            "stat" => match tree.and_then(|tree| tree.find(&params.path)) {
                Some(entry) => entry.stat(),
                None => {
                    json!({"isFile": false, "isDirectory": false, "size": 0, "mtime": TIME, "birthtime": TIME, "error": missing()})
                }
            },
            "readdir" => match tree.and_then(|tree| tree.inside(&params.path)) {
                Some(inside) => json!({"entries": inside.iter().map(|(name, _)| name).collect::<Vec<_>>()}),
                None => json!({"entries": [], "error": missing()}),
            },
            "readdirWithTypes" => match tree.and_then(|tree| tree.inside(&params.path)) {
                Some(inside) => {
                    let of = |(name, is_file): &(String, bool)| json!({"name": name, "type": if *is_file { "file" } else { "directory" }});
                    json!({"entries": inside.iter().map(of).collect::<Vec<_>>()})
                }
                None => json!({"entries": [], "error": missing()}),
            },
            "mkdir" => done(tree.and_then(|tree| tree.put(&params.path, CopilotEntry::Folder))),
            "writeFile" => done(tree.and_then(|tree| tree.put(&params.path, CopilotEntry::File(params.content)))),
            "appendFile" => done(tree.and_then(|tree| tree.append(&params.path, &params.content))),
            "rm" => match tree.map(|tree| tree.remove(&params.path, params.recursive)) {
                Some(true) => Value::Null,
                _ if params.force => Value::Null,
                _ => missing(),
            },
            "rename" => done(tree.and_then(|tree| tree.rename(&params.src, &params.dest))),
            _ => return None,
        })
    }
}

/// The error for a path that does not exist, or can't.
fn missing() -> Value {
    json!({"code": "ENOENT", "message": "no such file or directory"})
}

/// The answer to an operation without a result: null, or the error.
fn done(done: Option<()>) -> Value {
    match done {
        Some(()) => Value::Null,
        None => missing(),
    }
}

impl CopilotEntry {
    fn stat(&self) -> Value {
        let (is_file, size) = match self {
            CopilotEntry::Folder => (false, 0),
            CopilotEntry::File(content) => (true, content.len()),
        };
        json!({"isFile": is_file, "isDirectory": !is_file, "size": size, "mtime": TIME, "birthtime": TIME})
    }

    fn size(&self) -> usize {
        match self {
            CopilotEntry::Folder => 0,
            CopilotEntry::File(content) => content.len(),
        }
    }
}

/// `path`, if it is a plain path in the state's folder.
fn inner(path: &str) -> Option<&str> {
    let path = path.trim_end_matches('/');
    if path.len() > LONGEST_PATH {
        return None;
    }
    let below = path.strip_prefix(STATE)?;
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    let mut parts = below.split('/').skip(1);
    (below.is_empty() || (below.starts_with('/') && parts.all(is_plain))).then_some(path)
}

impl Tree {
    fn find(&self, path: &str) -> Option<&CopilotEntry> {
        self.entries.get(inner(path)?)
    }

    fn file(&self, path: &str) -> Option<&str> {
        match self.find(path)? {
            CopilotEntry::File(content) => Some(content),
            CopilotEntry::Folder => None,
        }
    }

    /// The names in a folder, and whether each is a file.
    fn inside(&self, path: &str) -> Option<Vec<(String, bool)>> {
        let folder = inner(path)?;
        if !matches!(self.entries.get(folder)?, CopilotEntry::Folder) {
            return None;
        }
        let below = self.entries.iter().filter_map(|(path, entry)| {
            let name = path.strip_prefix(folder)?.strip_prefix('/')?;
            (!name.contains('/')).then(|| (name.to_owned(), matches!(entry, CopilotEntry::File(_))))
        });
        Some(below.collect())
    }

    /// Makes the folders above `path`.
    fn make_way(&mut self, path: &str) {
        for (at, _) in path.match_indices('/').skip(1) {
            self.entries
                .entry(path[..at].to_owned())
                .or_insert(CopilotEntry::Folder);
        }
    }

    fn put(&mut self, path: &str, entry: CopilotEntry) -> Option<()> {
        let path = inner(path)?.to_owned();
        let (old, new) = (self.entries.get(&path).map_or(0, CopilotEntry::size), entry.size());
        let is_there = matches!(
            (self.entries.get(&path), &entry),
            (Some(CopilotEntry::Folder), CopilotEntry::Folder)
        );
        if is_there {
            return Some(());
        }
        // Each folder above it may be a new one.
        let above = path.matches('/').count() - 1;
        if self.bytes - old + new > MOST || self.entries.len() + above > MOST_ENTRIES {
            return None;
        }
        self.make_way(&path);
        self.bytes = self.bytes - old + new;
        self.entries.insert(path, entry);
        Some(())
    }

    fn append(&mut self, path: &str, more: &str) -> Option<()> {
        let known = inner(path)?;
        if self.bytes + more.len() > MOST {
            return None;
        }
        match self.entries.get_mut(known) {
            Some(CopilotEntry::File(content)) => {
                content.push_str(more);
                self.bytes += more.len();
                Some(())
            }
            Some(CopilotEntry::Folder) => None,
            None => self.put(path, CopilotEntry::File(more.to_owned())),
        }
    }

    /// Removes an entry, and returns whether it existed.
    fn remove(&mut self, path: &str, recursive: bool) -> bool {
        let Some(path) = inner(path).map(str::to_owned) else {
            return false;
        };
        let Some(entry) = self.entries.remove(&path) else {
            return false;
        };
        self.bytes -= entry.size();
        if recursive {
            let below = format!("{path}/");
            let bytes = &mut self.bytes;
            self.entries.retain(|path, entry| {
                let stays = !path.starts_with(&below);
                if !stays {
                    *bytes -= entry.size();
                }
                stays
            });
        }
        true
    }

    fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let (from, to) = (inner(from)?.to_owned(), inner(to)?.to_owned());
        let entry = self.entries.remove(&from)?;
        self.make_way(&to);
        if let Some(old) = self.entries.insert(to, entry) {
            self.bytes -= old.size();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(files: &Files, method: &str, mut params: Value) -> Value {
        params["sessionId"] = json!("s");
        files.answer(method, &params.to_string()).unwrap()
    }

    fn files() -> Files {
        let files = Files::default();
        files.open("s", "one\n".to_owned());
        files
    }

    #[test]
    fn a_history_is_read_and_grows() {
        let files = files();
        assert_eq!(
            ask(&files, "readFile", json!({"path": HISTORY})),
            json!({"content": "one\n"})
        );
        assert_eq!(
            ask(&files, "appendFile", json!({"path": HISTORY, "content": "two\n"})),
            Value::Null
        );
        let stat = ask(&files, "stat", json!({"path": HISTORY}));
        assert_eq!((&stat["isFile"], &stat["size"]), (&json!(true), &json!(8)));
        assert_eq!(
            ask(&files, "mkdir", json!({"path": "/state/temp/a", "recursive": true})),
            Value::Null
        );
        assert_eq!(
            ask(&files, "writeFile", json!({"path": "/state/temp/b", "content": "x"})),
            Value::Null
        );
        assert_eq!(
            ask(&files, "readdirWithTypes", json!({"path": "/state/temp"})),
            json!({"entries": [{"name": "a", "type": "directory"}, {"name": "b", "type": "file"}]})
        );
        assert_eq!(
            ask(&files, "rename", json!({"src": "/state/temp/b", "dest": "/state/c/d"})),
            Value::Null
        );
        assert_eq!(
            ask(&files, "exists", json!({"path": "/state/c/d"})),
            json!({"exists": true})
        );
        assert_eq!(
            ask(&files, "rm", json!({"path": "/state/c", "recursive": true})),
            Value::Null
        );
        assert_eq!(
            ask(&files, "exists", json!({"path": "/state/c/d"})),
            json!({"exists": false})
        );
        files.close("s");
        assert_eq!(
            ask(&files, "exists", json!({"path": HISTORY})),
            json!({"exists": false})
        );
    }

    #[test]
    fn nothing_outside_of_the_tree_is_there_or_can_be_made() {
        let files = files();
        for path in [
            "/etc/passwd",
            "/state/../etc/passwd",
            "/state/./events.jsonl",
            "/state//events.jsonl",
            "/statement",
            "/state\\..\\x",
            "state/events.jsonl",
            "",
            "/",
        ] {
            let missing = missing();
            assert_eq!(
                ask(&files, "readFile", json!({"path": path}))["error"],
                missing,
                "{path}"
            );
            assert_eq!(
                ask(&files, "exists", json!({"path": path})),
                json!({"exists": false}),
                "{path}"
            );
            assert_eq!(
                ask(&files, "writeFile", json!({"path": path, "content": "x"})),
                missing,
                "{path}"
            );
            assert_eq!(
                ask(&files, "appendFile", json!({"path": path, "content": "x"})),
                missing,
                "{path}"
            );
            assert_eq!(ask(&files, "mkdir", json!({"path": path})), missing, "{path}");
            assert_eq!(ask(&files, "rm", json!({"path": path})), missing, "{path}");
            assert_eq!(
                ask(&files, "rename", json!({"src": HISTORY, "dest": path})),
                missing,
                "{path}"
            );
            assert_eq!(
                ask(&files, "readdir", json!({"path": path}))["error"],
                missing,
                "{path}"
            );
        }
        assert_eq!(
            ask(&files, "readFile", json!({"path": HISTORY})),
            json!({"content": "one\n"})
        );
        // Nobody has the tree of another session.
        let other = json!({"path": HISTORY, "sessionId": "t"}).to_string();
        assert_eq!(files.answer("exists", &other).unwrap(), json!({"exists": false}));
        assert_eq!(files.answer("sqliteQuery", &other), None);
    }

    #[test]
    fn a_session_can_not_make_entries_without_end() {
        let files = files();
        for n in 0..MOST_ENTRIES {
            ask(
                &files,
                "writeFile",
                json!({"path": format!("/state/{n}"), "content": ""}),
            );
        }
        let more = ask(&files, "writeFile", json!({"path": "/state/more", "content": ""}));
        assert_eq!(more["code"], json!("ENOENT"));
    }
}
