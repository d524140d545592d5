//! A CLI that plays a scenario: the stand-in for claude and the others in tests and benches. Never shipped (feature `fake-cli`;
//! `cargo test` switches it on, elsewhere `cargo build --features fake-cli --bin fake-cli`).
//!
//! The scenario is JSON in the variable `FAKE_CLI`, or in a file if the value begins with `@`. Without the variable it is the first
//! argument. It is a list of steps, or one of
//!
//! ```text
//! {"when": {"--version": [steps], "auth status": [steps]}, "else": [steps]}    the first key all of whose parts are in argv
//! {"counter": "/file", "runs": [[steps], [steps]]}      the n-th run does the n-th list, later ones the last; `{{n}}` counts from 0
//! ```
//!
//! Steps are done in order, and the end of the list is `exit 0`. In texts, and in the path of `writeFile` and `record`, `{{pid}}`,
//! `{{line}}` and `{{n}}` are replaced.
//!
//! ```text
//! {"out": "text"} {"err": "text"}         print, flushed at once      {"outHex": "f09f92"}   print bytes
//! {"cat": "/file"}                        print a file, such as a recording
//! {"chunks": {"text": "…", "size": 3, "delayMs": 5}}                 print in pieces (size in bytes; or "hex")
//! {"fill": {"to": "stderr", "bytes": 10485760}}                      print that many bytes, lines of 64
//! {"claude": {"text": "Hi"}}              claude's answer in the --output-format of argv; also "result": {…} to merge
//! "echo"                                  {"argv", "cwd", "env", "stdin", "pid"} as one JSON line, and "child", the pid of the last
//!                                         `spawn`; reads stdin to its end. A scenario file is not in "env"
//! {"record": "/file"}                     the same into a file that appears whole; stdin as far as it was read before
//! "readLine" "readAll" "countStdin"       one line, everything, or everything and print how many bytes it was
//! {"eachLine": [steps]}                   the steps for every line of stdin, to its end
//! {"sleep": 100} "forever"                ms; two minutes, so that a failed test leaves nothing for long
//! {"waitFile": "/file"}                   until the file is there
//! {"writeFile": {"path": "/file", "text": "{{pid}}"}}                the file appears with its whole content
//! {"onSignal": {"TERM": [steps]}}         from now on, instead of dying; [] ignores (TERM, INT, HUP)
//! {"spawn": {"steps": [steps], "stdio": "inherit" | "null", "wait": false, "clearEnv": false}}
//!                                         a child that runs the steps
//! "setsid"                                leaves the session and the process group
//! "closeStdout" "closeStderr" "closeStdin"
//! {"kill": "KILL"} {"exit": 3}
//! ```
//!
//! A broken scenario exits with 70. Windows has no signals and no sessions: there `onSignal` with `[]` and `setsid` do nothing, and
//! other handlers and `kill` fail.

use std::io::{BufRead, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

const VARIABLE: &str = "FAKE_CLI";
const FOREVER: Duration = Duration::from_secs(120);

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Step {
    Out(String),
    Err(String),
    OutHex(String),
    Cat(PathBuf),
    Chunks {
        #[serde(default)]
        text: String,
        #[serde(default)]
        hex: String,
        size: usize,
        #[serde(default)]
        delay_ms: u64,
    },
    Fill {
        #[serde(default)]
        to: To,
        bytes: usize,
    },
    Claude {
        text: String,
        #[serde(default)]
        result: serde_json::Map<String, Value>,
    },
    Echo,
    Record(String),
    ReadLine,
    ReadAll,
    CountStdin,
    EachLine(Vec<Step>),
    Sleep(u64),
    Forever,
    WaitFile(PathBuf),
    WriteFile {
        path: String,
        text: String,
    },
    OnSignal(std::collections::BTreeMap<String, Vec<Step>>),
    Spawn {
        /// The child's steps, unchanged.
        steps: Value,
        #[serde(default)]
        stdio: ChildStdio,
        #[serde(default)]
        wait: bool,
        #[serde(default)]
        clear_env: bool,
    },
    Setsid,
    CloseStdout,
    CloseStderr,
    CloseStdin,
    Kill(String),
    Exit(i32),
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum To {
    #[default]
    Stdout,
    Stderr,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ChildStdio {
    #[default]
    Inherit,
    Null,
}

fn main() -> ExitCode {
    let done = scenario().and_then(|(steps, line)| run(&steps, &line));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fake-cli: {error}");
            ExitCode::from(70)
        }
    }
}

fn scenario() -> Outcome<(Vec<Step>, Line)> {
    let mut line = Line::default();
    let text = std::env::var(VARIABLE)
        .ok()
        .or_else(|| std::env::args().nth(1))
        .ok_or("no scenario")?;
    let text = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)?,
        None => text,
    };
    let mut scenario: Value = serde_json::from_str(&text)?;
    if let Some(runs) = scenario.get("runs").and_then(Value::as_array) {
        let counter = scenario["counter"].as_str().ok_or("runs without counter")?;
        let mut counted = std::fs::OpenOptions::new().create(true).append(true).open(counter)?;
        counted.write_all(b".")?;
        // The position behind the append is this run's number: runs that begin at once get different ones.
        line.number = usize::try_from(counted.stream_position()?)? - 1;
        scenario = runs.get(line.number).or(runs.last()).cloned().ok_or("no runs")?;
    } else if let Some(cases) = scenario.get("when").and_then(Value::as_object) {
        let argv: Vec<String> = std::env::args().skip(1).collect();
        let matching = cases
            .iter()
            .find(|(key, _)| key.split(' ').all(|part| argv.iter().any(|arg| arg == part)));
        scenario = match matching {
            Some((_, steps)) => steps.clone(),
            None => scenario.get("else").cloned().unwrap_or(json!([])),
        };
    }
    Ok((serde_json::from_value(scenario)?, line))
}

/// The text that was read of stdin, and the id of the last child.
static READ: Mutex<Option<String>> = Mutex::new(None);
static CHILD: Mutex<Option<u32>> = Mutex::new(None);

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The arguments, folder, environment, input and id of this process.
fn call() -> Outcome<Value> {
    let is_own = |(name, value): &(String, String)| name == VARIABLE && value.starts_with('@');
    let env: std::collections::BTreeMap<String, String> = std::env::vars().filter(|each| !is_own(each)).collect();
    let argv: Vec<String> = std::env::args().skip(1).collect();
    let stdin = locked(&READ).clone().unwrap_or_default();
    let mut call = json!({
        "argv": argv, "cwd": std::env::current_dir()?, "env": env, "stdin": stdin, "pid": std::process::id(),
    });
    if let Some(child) = *locked(&CHILD) {
        call["child"] = json!(child);
    }
    Ok(call)
}

/// The values of `{{line}}` and `{{n}}`.
#[derive(Debug, Default)]
struct Line {
    text: String,
    number: usize,
}

impl Line {
    fn fill_in(&self, text: &str) -> String {
        let pid = std::process::id().to_string();
        text.replace("{{pid}}", &pid)
            .replace("{{n}}", &self.number.to_string())
            .replace("{{line}}", &self.text)
    }
}

fn run(steps: &[Step], line: &Line) -> Outcome {
    steps.iter().try_for_each(|step| run_one(step, line))
}

fn run_one(step: &Step, line: &Line) -> Outcome {
    match step {
        Step::Out(text) => print(To::Stdout, line.fill_in(text).as_bytes())?,
        Step::Err(text) => print(To::Stderr, line.fill_in(text).as_bytes())?,
        Step::OutHex(hex) => print(To::Stdout, &unhex(hex)?)?,
        Step::Cat(file) => print(To::Stdout, &std::fs::read(file)?)?,
        Step::Chunks {
            text,
            hex,
            size,
            delay_ms,
        } => {
            let bytes = [text.as_bytes(), &unhex(hex)?].concat();
            for chunk in bytes.chunks((*size).max(1)) {
                print(To::Stdout, chunk)?;
                std::thread::sleep(Duration::from_millis(*delay_ms));
            }
        }
        Step::Fill { to, bytes } => fill(*to, *bytes)?,
        Step::Claude { text, result } => print(To::Stdout, claude(text, result).as_bytes())?,
        Step::Echo => {
            read_all()?;
            print(To::Stdout, format!("{}\n", call()?).as_bytes())?;
        }
        Step::Record(path) => write_file(Path::new(&line.fill_in(path)), &call()?.to_string())?,
        Step::ReadLine => drop(std::io::stdin().lock().read_line(&mut String::new())?),
        Step::ReadAll => read_all()?,
        Step::CountStdin => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes)?;
            print(To::Stdout, bytes.len().to_string().as_bytes())?;
        }
        Step::EachLine(steps) => {
            for (number, text) in std::io::stdin().lines().enumerate() {
                run(steps, &Line { text: text?, number })?;
            }
        }
        Step::Sleep(ms) => std::thread::sleep(Duration::from_millis(*ms)),
        Step::Forever => std::thread::sleep(FOREVER),
        Step::WaitFile(file) => {
            while !file.exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Step::WriteFile { path, text } => write_file(Path::new(&line.fill_in(path)), &line.fill_in(text))?,
        Step::Spawn {
            steps,
            stdio,
            wait,
            clear_env,
        } => spawn(steps, *stdio, *wait, *clear_env)?,
        Step::Exit(code) => std::process::exit(*code),
        Step::OnSignal(handlers) => handlers
            .iter()
            .try_for_each(|(name, steps)| system::on_signal(name, steps.clone()))?,
        Step::Setsid => system::setsid()?,
        Step::CloseStdout => system::close(1)?,
        Step::CloseStderr => system::close(2)?,
        Step::CloseStdin => system::close(0)?,
        Step::Kill(name) => system::kill_self(name)?,
    }
    Ok(())
}

fn print(to: To, bytes: &[u8]) -> Outcome {
    print_while_read(to, bytes).map(drop)
}

/// Prints bytes; returns `false` if nobody reads them. A reader that has gone doesn't end the process, as with claude.
fn print_while_read(to: To, bytes: &[u8]) -> Outcome<bool> {
    let written = match to {
        To::Stdout => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        To::Stderr => std::io::stderr().lock().write_all(bytes),
    };
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn fill(to: To, bytes: usize) -> Outcome {
    let line = [b"x".repeat(63), b"\n".to_vec()].concat();
    let block = line.repeat(1024);
    let mut left = bytes;
    while left > 0 {
        let piece = &block[..left.min(block.len())];
        if !print_while_read(to, piece)? {
            break;
        }
        left -= piece.len();
    }
    Ok(())
}

fn read_all() -> Outcome {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    let read = String::from_utf8_lossy(&bytes);
    locked(&READ).get_or_insert_default().push_str(&read);
    Ok(())
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    pairs.collect()
}

fn write_file(path: &Path, text: &str) -> Outcome {
    let partial = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&partial, text)?;
    std::fs::rename(partial, path)?;
    Ok(())
}

fn spawn(steps: &Value, stdio: ChildStdio, wait: bool, clear_env: bool) -> Outcome {
    let mut command = Command::new(std::env::current_exe()?);
    if clear_env {
        command.env_clear();
    }
    command.env(VARIABLE, steps.to_string()).stdin(Stdio::null());
    if let ChildStdio::Null = stdio {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut child = command.spawn()?;
    *locked(&CHILD) = Some(child.id());
    if wait {
        child.wait()?;
    }
    Ok(())
}

/// The output of claude 2.1.197 (recordings `success-*`), with the fields that a reader may look at.
fn claude(text: &str, merge: &serde_json::Map<String, Value>) -> String {
    let argv: Vec<String> = std::env::args().collect();
    let format = argv
        .windows(2)
        .find(|pair| pair[0] == "--output-format")
        .map_or("text", |pair| pair[1].as_str());
    let usage =
        json!({"input_tokens": 11, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 7});
    let session = "00000000-0000-4000-8000-000000000000";
    let mut result = json!({
        "type": "result", "subtype": "success", "is_error": false, "api_error_status": null, "duration_ms": 2,
        "duration_api_ms": 1, "num_turns": 1, "result": text, "stop_reason": "end_turn", "session_id": session,
        "total_cost_usd": 0.00025125, "usage": usage, "modelUsage": {}, "permission_denials": [],
        "terminal_reason": "completed", "uuid": session,
    });
    if let Value::Object(fields) = &mut result {
        fields.extend(merge.clone());
    }
    let init = json!({
        "type": "system", "subtype": "init", "cwd": std::env::current_dir().unwrap_or_default(), "session_id": session,
        "tools": [], "mcp_servers": [], "model": "claude-fake", "permissionMode": "default", "slash_commands": [],
        "claude_code_version": "2.1.197", "uuid": session,
    });
    let assistant = json!({
        "type": "assistant", "parent_tool_use_id": null, "session_id": session, "uuid": session,
        "message": {
            "id": "msg_fake", "type": "message", "role": "assistant", "model": "claude-fake", "stop_reason": null,
            "content": [{"type": "text", "text": text}], "usage": usage,
        },
    });
    match format {
        "stream-json" => format!("{init}\n{assistant}\n{result}\n"),
        "json" => format!("{result}\n"),
        _ => format!("{text}\n"),
    }
}

#[cfg(unix)]
mod system {
    use rustix::process::{Signal, getpid, kill_process};
    use tokio::signal::unix::{SignalKind, signal};

    use super::{Line, Outcome, Step, run};

    fn number(name: &str) -> Outcome<Signal> {
        Ok(match name {
            "HUP" => Signal::HUP,
            "INT" => Signal::INT,
            "KILL" => Signal::KILL,
            "SEGV" => Signal::SEGV,
            "STOP" => Signal::STOP,
            "TERM" => Signal::TERM,
            "USR1" => Signal::USR1,
            _ => return Err(format!("no signal {name}").into()),
        })
    }

    /// Returns once the signal is listened for.
    pub fn on_signal(name: &str, steps: Vec<Step>) -> Outcome {
        let kind = SignalKind::from_raw(number(name)?.as_raw());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let mut signals = {
            let _inside = runtime.enter();
            signal(kind)?
        };
        std::thread::spawn(move || {
            runtime.block_on(async {
                while signals.recv().await.is_some() {
                    if let Err(error) = run(&steps, &Line::default()) {
                        eprintln!("fake-cli: {error}");
                    }
                }
            });
        });
        Ok(())
    }

    pub fn setsid() -> Outcome {
        rustix::process::setsid()?;
        Ok(())
    }

    /// The file descriptor stays in use, as after the start of a daemon, but the pipe is closed.
    pub fn close(number: u8) -> Outcome {
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        match number {
            0 => rustix::stdio::dup2_stdin(null)?,
            1 => rustix::stdio::dup2_stdout(null)?,
            _ => rustix::stdio::dup2_stderr(null)?,
        }
        Ok(())
    }

    /// Only a STOP lets this return, when the process goes on.
    pub fn kill_self(name: &str) -> Outcome {
        let signal = number(name)?;
        kill_process(getpid(), signal)?;
        if signal == Signal::STOP {
            return Ok(());
        }
        loop {
            // The standard library's handler of SIGSEGV removes itself at the first signal, so it takes two.
            std::thread::sleep(std::time::Duration::from_millis(1));
            kill_process(getpid(), signal)?;
        }
    }
}

#[cfg(windows)]
mod system {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use super::{Outcome, Step};

    const NO: &str = "this step needs signals";

    pub fn on_signal(_: &str, steps: Vec<Step>) -> Outcome {
        if steps.is_empty() { Ok(()) } else { Err(NO.into()) }
    }

    pub fn setsid() -> Outcome {
        Ok(())
    }

    /// The standard library treats a closed handle as a missing one.
    pub fn close(number: u8) -> Outcome {
        let handle = match number {
            0 => std::io::stdin().as_raw_handle(),
            1 => std::io::stdout().as_raw_handle(),
            _ => std::io::stderr().as_raw_handle(),
        };
        #[expect(unsafe_code, reason = "the standard library closes none of these")]
        // SAFETY: nobody else closes the handle, and later uses ask for it anew.
        drop(unsafe { OwnedHandle::from_raw_handle(handle) });
        Ok(())
    }

    pub fn kill_self(_: &str) -> Outcome {
        Err(NO.into())
    }
}
