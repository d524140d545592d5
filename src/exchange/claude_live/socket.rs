//! The socket of a claude process, which it leaves behind when it is killed.
//!
//! 2.1.330 opens one in the temp folder, named after its process, and tells its path at the beginning of each turn (CLI-FACTS 1b
//! §1).

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The socket of the process `pid` that `line` of its output names, if the path is one that the CLI gives its sockets.
pub fn named_in(line: &str, pid: u32) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Init {
        messaging_socket_path: PathBuf,
    }
    // Most lines are pieces of an answer: they are spared the parsing.
    if !line.contains("\"messaging_socket_path\"") {
        return None;
    }
    let init: Init = serde_json::from_str(line).ok()?;
    Some(init.messaging_socket_path).filter(|path| is_socket_of(path, pid))
}

/// Returns whether `path` can only be the CLI's socket: it will be removed.
fn is_socket_of(path: &Path, pid: u32) -> bool {
    let named = path
        .file_name()
        .is_some_and(|name| name == format!("{pid}.sock").as_str());
    path.is_absolute() && named && path.parent().is_some_and(|folder| folder.ends_with("cc-socks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clis_own_socket_is_removed() {
        for (path, expected) in [
            ("/tmp/cc-socks/17.sock", cfg!(unix)),
            ("/tmp/cc-socks/18.sock", false),
            ("/tmp/17.sock", false),
            ("cc-socks/17.sock", false),
            ("/home/user/cc-socks/17.sock/..", false),
        ] {
            let line = format!("{{\"messaging_socket_path\":\"{path}\"}}");
            let named = named_in(&line, 17);
            assert_eq!(named, expected.then(|| PathBuf::from(path)), "{path}");
        }
    }
}
