//! Prepares the folders and files of a run, before anything is started.
//!
//! In: a [`Context`]. Out: the text of the prompt and the artifacts' files, or the problems by field.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::context::{Context, MAX_PROMPT, Prompt, is_prompt, problem};
use dfp_model::error::Problem;

/// The name of the artifact with all of standard output.
pub const STDOUT: &str = "stdout.log";
/// The name of the artifact with all of standard error.
pub const STDERR: &str = "stderr.log";
/// The name of the artifact with the `ProviderEvent`s, one per line.
pub const EVENTS: &str = "events.jsonl";
/// The name of the normalised log (the document's name for it).
pub const LOG: &str = "youbencha-log.json";

/// The prepared prompt and artifacts.
#[derive(Debug)]
pub struct PreparedWorkspace {
    pub prompt: String,
    pub artifacts: Option<Artifacts>,
}

/// Files for copies of all output, readable only for the user.
#[derive(Debug)]
pub struct Artifacts {
    pub folder: PathBuf,
    /// The file [`STDOUT`].
    pub stdout: File,
    /// The file [`STDERR`].
    pub stderr: File,
    /// The file [`EVENTS`].
    pub events: File,
}

/// Checks the folders and reads the prompt. Problems are added to `problems`; the artifacts' files are made only if there are none.
pub fn prepare(context: &Context, problems: &mut Vec<Problem>) -> Option<PreparedWorkspace> {
    let before = problems.len();
    if let Err(why) = check_folder(&context.workspace) {
        problems.push(problem("workspaceDir", why));
    }
    if let Some(Err(why)) = context.repo.as_deref().map(check_folder) {
        problems.push(problem("repoDir", why));
    }
    let broken = problems.len() > before;
    let prompt = match &context.config.prompt {
        Prompt::Text(text) => Some(text.clone()),
        Prompt::File(_) if broken => None,
        Prompt::File(path) => match read_prompt(&context.workspace, path) {
            Ok(text) => Some(text),
            Err(why) => {
                problems.push(problem("prompt_file", why));
                None
            }
        },
    };
    if problems.len() > before {
        return None;
    }
    let artifacts = match context.artifacts.as_deref().map(Artifacts::create).transpose() {
        Ok(artifacts) => artifacts,
        Err(error) => {
            problems.push(problem("artifactsDir", format!("can't be written to: {error}")));
            return None;
        }
    };
    Some(PreparedWorkspace {
        prompt: prompt?,
        artifacts,
    })
}

/// Checks that `path` is a folder that can be read. The error is a reason for people.
fn check_folder(path: &Path) -> Result<(), String> {
    let meta = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("can't be looked at: {error}"),
    })?;
    if !meta.is_dir() {
        return Err("is not a folder".to_owned());
    }
    // `read_dir` needs the right to list the folder, `metadata` of `.` the right to enter it.
    let usable = fs::read_dir(path).and_then(|_| fs::metadata(path.join(".")));
    usable.map(|_| ()).map_err(|error| format!("can't be read: {error}"))
}

/// The text of a file in the workspace. The error is a reason for people.
fn read_prompt(workspace: &Path, path: &str) -> Result<String, String> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("must name a file of the workspace; there is no \"{path}\""),
        _ => format!("can't be read: {error}"),
    };
    let root = fs::canonicalize(workspace).map_err(unreadable)?;
    let file = fs::canonicalize(root.join(path)).map_err(unreadable)?;
    if !file.starts_with(&root) {
        return Err(format!(
            "must stay in the workspace; \"{path}\" is a link that leads out of it"
        ));
    }
    // Checked before the file is opened: opening a named pipe would wait for a writer.
    let meta = fs::metadata(&file).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(format!("must be a regular file; \"{path}\" is none"));
    }
    let too_long = || format!("must hold at most {MAX_PROMPT} characters; \"{path}\" holds more");
    // A character has at most four bytes.
    let limit = 4 * MAX_PROMPT as u64;
    let mut bytes = Vec::new();
    let opened = File::open(&file).map_err(unreadable)?;
    opened.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("must be UTF-8 text; \"{path}\" is not"))?;
    match is_prompt(&text) {
        true => Ok(text),
        false if text.trim().is_empty() => Err(format!("must hold a prompt; \"{path}\" is empty")),
        false => Err(too_long()),
    }
}

impl Artifacts {
    /// Makes the folder (mode 0700) and the files of the artifacts.
    fn create(folder: &Path) -> io::Result<Artifacts> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        Ok(Artifacts {
            stdout: private(&folder.join(STDOUT))?,
            stderr: private(&folder.join(STDERR))?,
            events: private(&folder.join(EVENTS))?,
            folder: folder.to_owned(),
        })
    }
}

/// Creates a file of mode 0600, in place of whatever has this name. A link of that name is replaced, not followed.
pub fn private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
