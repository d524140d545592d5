//! Verdicts on real recordings, complete or cut anywhere.

use std::collections::HashSet;

use super::*;
use dfp_model::error::Code;
use dfp_model::event::Event;
use dfp_text::decode::Decoder;
use dfp_text::decode::Wire;
use dfp_text::decode::golden::{Recording, decode, recordings};
use dfp_text::fold::Fold;
use dfp_text::toolcall::TextCalls;

mod kept;

/// The approximate number of cuts in a long recording. A short one is cut after each byte.
const CUTS: usize = 200;

/// The verdict on a run that printed `stdout` and exited with 0, made as `run::attempt` makes it.
fn verdict(provider: &str, wire: Wire, flags: &[String], stdout: &[u8]) -> (Result<Reply, Box<ProviderError>>, usize) {
    let (events, decoder) = decode(wire, [stdout]);
    let outcomes = events.iter().filter(|event| matches!(event, Event::Outcome(_))).count();
    let run = Run {
        provider,
        wire,
        flags,
        exit_code: Some(0),
        stdout,
        stderr: "",
    };
    (judged(&run, events, &decoder), outcomes)
}

/// A run that has ended by itself.
struct Run<'a> {
    provider: &'a str,
    wire: Wire,
    flags: &'a [String],
    exit_code: Option<i32>,
    stdout: &'a [u8],
    stderr: &'a str,
}

fn judged(run: &Run, events: Vec<Event>, decoder: &Decoder) -> Result<Reply, Box<ProviderError>> {
    let Run {
        provider: id,
        wire,
        flags,
        exit_code,
        stdout,
        stderr,
    } = *run;
    let provider = crate::find(id).unwrap();
    let (mut fold, mut out) = (Fold::new(HashSet::new(), TextCalls::Lenient), Vec::new());
    for event in events {
        fold.push(event, &mut out);
    }
    let context = Context {
        provider: id,
        rules: CliRules {
            versions: &[],
            ..CliRules::from(provider)
        },
        now_ms: 1_795_294_800_000,
        local_offset_min: None,
    };
    let evidence = Evidence::Process(ProcessEvidence {
        wire,
        flags: flags.to_vec(),
        launched: None,
        end: ProcessEnd::Exited,
        exit_code,
        signal: None,
        stderr: stderr.to_owned(),
        plain: decoder.plain_text(),
        cut_short: decoder.cut_short(),
        dropped_line: decoder.dropped_line(),
        diagnostics: decoder.diagnostics().to_vec(),
        stdout_tail: String::from_utf8_lossy(stdout).into_owned(),
        unreached: false,
    });
    if let Some(text) = answer_in_plain_text(&context.rules, &evidence) {
        let content = text.to_owned();
        fold.push(Event::Message { id: None, content }, &mut out);
    }
    judge(&context, evidence, fold.finish(&mut out))
}

/// The positions at which `stdout` is cut: after every byte, or around each line's end and evenly in between.
fn cuts(stdout: &[u8]) -> Vec<usize> {
    let step = match std::env::var_os("EVERY_BYTE") {
        Some(_) => 1,
        None => stdout.len().div_ceil(CUTS).max(1),
    };
    let even = (0..stdout.len()).step_by(step);
    let ends = memchr::memchr_iter(b'\n', stdout).flat_map(|at| [at.saturating_sub(1), at, at + 1, at + 2]);
    let mut cuts: Vec<usize> = even.chain(ends).filter(|cut| *cut < stdout.len()).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Every prefix of a successful run is a failure, unless it has the complete final event.
fn check_prefixes(cli: &str) {
    let id = cli.split('-').next().unwrap();
    let mut checked = 0;
    for Recording {
        name,
        wire,
        argv,
        exit_code,
        stdout,
    } in recordings(cli)
    {
        let flags: Vec<String> = argv.into_iter().filter(|arg| arg.starts_with("--")).collect();
        // A session has a final event for each of its turns.
        let session = flags.iter().any(|flag| flag == "--input-format");
        if wire == Wire::Text || exit_code != Some(0) || session {
            continue;
        }
        let (whole, turns) = verdict(id, wire, &flags, &stdout);
        if whole.is_err() {
            continue;
        }
        checked += 1;
        for cut in cuts(&stdout) {
            let (verdict, so_far) = verdict(id, wire, &flags, &stdout[..cut]);
            if so_far < turns
                && let Ok(reply) = verdict
            {
                panic!("{cli}/{name}, {cut} of {} bytes: {:?}", stdout.len(), reply.content);
            }
        }
    }
    assert!(checked >= 3, "{cli}: {checked}");
}

macro_rules! prefixes {
    ($($name:ident $cli:literal;)*) => {$(
        #[test]
        fn $name() {
            check_prefixes($cli);
        }
    )*};
}

mod no_prefix_of_a_stream_is_an_answer {
    use super::check_prefixes;

    prefixes! {
        claude "claude";
        claude_2_1_330 "claude-2.1.330";
        codex "codex";
        gemini "gemini";
        qwen "qwen";
        qwen_0_24_4 "qwen-0.24.4";
        opencode "opencode";
    }
}

/// qwen 0.24.4 writes half an array of 512 KiB, exits with 0, and doesn't report it.
#[test]
fn half_a_document_is_no_answer() {
    let recording = recordings("qwen-0.24.4")
        .into_iter()
        .find(|run| run.name == "answer-512KiB-json");
    let Recording {
        wire,
        stdout,
        exit_code,
        ..
    } = recording.unwrap();
    let error = verdict("qwen", wire, &[], &stdout).0.unwrap_err();
    assert_eq!((exit_code, error.code), (Some(0), Code::MalformedResponse));
}

/// The event of the line is missing, although the run ended well.
#[test]
fn a_line_that_is_longer_than_is_taken_is_the_output_limit() {
    let long = "x".repeat(2_000);
    let (message, end) = (
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"{long}\"}}}}\n"
        ),
        "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}\n",
    );
    let stdout = format!("{message}{end}");
    let mut decoder = Decoder::with_line_limit(Wire::CodexJson, 1_000);
    let mut events = Vec::new();
    decoder.push(stdout.as_bytes(), &mut events);
    decoder.finish(&mut events);
    let run = Run {
        provider: "codex",
        wire: Wire::CodexJson,
        flags: &[],
        exit_code: Some(0),
        stdout: stdout.as_bytes(),
        stderr: "",
    };
    let error = judged(&run, events, &decoder).unwrap_err();
    let reason = format!(
        "a line of the CLI's output has {} bytes, and more than 64 MiB are not taken",
        message.len() - 1
    );
    assert_eq!((error.code, error.should_retry), (Code::OutputLimit, false));
    assert!(error.message.starts_with(&reason), "{}", error.message);
}

/// Models do end like this behind a tool's result. Elsewhere it is no answer, even with reasoning or white space.
#[test]
fn an_answer_without_a_word_is_one_behind_a_tools_result_alone() {
    let ask = |is_behind_result: bool, thinking: &str, stop_reason: Option<&str>| {
        let mut fold = Fold::new(HashSet::new(), TextCalls::Off).behind_result(is_behind_result);
        let mut out = Vec::new();
        if !thinking.is_empty() {
            let text = thinking.to_owned();
            fold.push(Event::ThinkingDelta { message_id: None, text }, &mut out);
        }
        fold.push(
            Event::Message {
                id: None,
                content: " \n".to_owned(),
            },
            &mut out,
        );
        let outcome = dfp_model::event::Outcome {
            stop_reason: stop_reason.map(str::to_owned),
            ..Default::default()
        };
        fold.push(Event::Outcome(Box::new(outcome)), &mut out);
        let context = Context {
            provider: "codex",
            rules: CliRules::default(),
            now_ms: 0,
            local_offset_min: None,
        };
        let evidence = Evidence::Turn(TurnEvidence {
            wire: Wire::CodexJson,
            flags: Vec::new(),
            stopped: None,
            diagnostics: Vec::new(),
            stdout_tail: String::new(),
        });
        let judged = judge(&context, evidence, fold.finish(&mut out));
        judged
            .map(|reply| reply.content)
            .map_err(|error| (error.code, error.message))
    };
    let silent = "the turn ended well, without a word and without a call";
    let thought = format!("{silent}: all that came is reasoning");
    let cut = "the answer reached the limit of output tokens before its first word";
    // The text behind the reason is the hint.
    let reason = |asked: Result<String, (Code, String)>| {
        asked.map_err(|(code, message)| (code, message.split(". ").next().unwrap().to_owned()))
    };
    assert_eq!(
        reason(ask(false, "", None)),
        Err((Code::EmptyResponse, silent.to_owned()))
    );
    assert_eq!(
        reason(ask(false, "Hm.", Some("stop"))),
        Err((Code::EmptyResponse, thought))
    );
    for after_result in [false, true] {
        assert_eq!(
            reason(ask(after_result, "Hm.", Some("length"))),
            Err((Code::MaxTokens, cut.to_owned()))
        );
    }
    assert_eq!(ask(true, "Hm.", Some("stop")), Ok(String::new()));
    assert_eq!(ask(true, "", None), Ok(String::new()));
}

/// The code and message of a failed run that exits with 0.
fn failure(id: &str, wire: Wire, flags: &[&str], stdout: &str) -> Option<(Code, String)> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let error = verdict(id, wire, &flags, stdout.as_bytes()).0.err()?;
    Some((error.code, error.message))
}

#[test]
fn json_that_is_no_answer_is_a_failure() {
    for (wire, stdout, code, reason) in [
        (
            Wire::ClaudeStream,
            r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            Code::InvalidApiKey,
            "invalid x-api-key",
        ),
        (
            Wire::ClaudeJson,
            "{\"a\":1}\n",
            Code::MalformedResponse,
            "the CLI ended with exit code 0 and printed JSON",
        ),
        (
            Wire::GeminiJson,
            "Loaded.\n{\n  \"session_id\": \"s\",\n",
            Code::MalformedResponse,
            "the CLI's output ends before its result",
        ),
        (
            Wire::GenericStream,
            r#"{"error":{"code":"insufficient_quota","message":"no more"}}"#,
            Code::QuotaExceeded,
            "no more",
        ),
    ] {
        let (is, message) = failure("claude", wire, &[], stdout).unwrap();
        assert_eq!(is, code, "{stdout}");
        assert!(message.starts_with(reason), "{stdout}: {message}");
    }
}

#[test]
fn a_text_in_place_of_json_is_still_an_answer() {
    for text in ["Hello.", "[1] says so", "In short:\n{\"a\": 1}"] {
        let (verdict, _) = verdict("claude", Wire::ClaudeStream, &[], text.as_bytes());
        assert_eq!(verdict.unwrap().content, text);
    }
}

#[test]
fn an_interrupted_run_in_text_form_is_no_answer() {
    for cli in ["claude", "claude-2.1.330"] {
        let all = recordings(cli);
        let recording = all
            .iter()
            .find(|recording| recording.name == "signal-SIGINT-text")
            .unwrap();
        assert_eq!(
            (recording.exit_code, recording.stdout.as_slice()),
            (Some(0), &b"Execution error"[..])
        );
        let error = verdict("claude", Wire::Text, &[], &recording.stdout).0.unwrap_err();
        assert_eq!(error.code, Code::Crashed);
        assert!(
            error.message.starts_with("interrupted in the middle of the answer"),
            "{}",
            error.message
        );
        assert_eq!(error.partial.unwrap().text, "");
    }
    let (answer, _) = verdict("claude", Wire::Text, &[], b"Execution error: none.\n");
    assert_eq!(answer.unwrap().content, "Execution error: none.");
}

#[test]
fn an_answer_without_the_structure_that_was_asked_for_is_a_failure() {
    for cli in ["claude", "claude-2.1.330", "qwen-0.24.4"] {
        let mut seen = Vec::new();
        for recording in recordings(cli) {
            if recording.exit_code != Some(0) || !recording.argv.iter().any(|arg| arg == "--json-schema") {
                continue;
            }
            let id = cli.split('-').next().unwrap();
            let (verdict, _) = verdict(id, recording.wire, &recording.argv, &recording.stdout);
            seen.push((recording.name, verdict.map_err(|error| (error.code, error.message))));
        }
        for (name, verdict) in seen {
            let good = name.contains("ok") || name.contains("text");
            assert_eq!(verdict.is_ok(), good, "{cli}/{name}");
            if let Err((code, message)) = verdict {
                assert_eq!(code, Code::OutputInvalid, "{cli}/{name}");
                assert!(
                    message.starts_with("the answer has no output that fits the schema of `--json-schema`: "),
                    "{message}"
                );
            }
        }
    }
    assert_eq!(
        failure("claude", Wire::Text, &["--json-schema"], "still text").map(|(code, _)| code),
        Some(Code::OutputInvalid)
    );
}

/// A model's text is never the reason of an error, because messages go to logs.
#[test]
fn a_result_of_a_run_that_failed_is_partial_and_no_reason() {
    let stdout =
        r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"HTTP 429 means: slow down."}"#;
    for wire in [Wire::ClaudeJson, Wire::ClaudeStream] {
        let (events, decoder) = decode(wire, [stdout.as_bytes()]);
        let run = Run {
            provider: "claude",
            wire,
            flags: &[],
            exit_code: Some(1),
            stdout: stdout.as_bytes(),
            stderr: "",
        };
        let error = judged(&run, events, &decoder).unwrap_err();
        assert_eq!(error.code, Code::Unknown);
        let reason = "exited with code 1 after it printed an answer, and gave no reason";
        assert!(error.message.starts_with(reason), "{}", error.message);
    }
}

/// Exit code 1, half an answer on standard output and the reason on standard error.
#[test]
fn the_reason_of_a_run_in_text_form_is_what_standard_error_says() {
    let half = "To sort it, HTTP 429 rate limit ENOENT and then";
    for provider in crate::every() {
        let id: &str = &provider.id;
        let (events, decoder) = decode(Wire::Text, [half.as_bytes()]);
        let run = Run {
            provider: id,
            wire: Wire::Text,
            flags: &[],
            exit_code: Some(1),
            stdout: half.as_bytes(),
            stderr: "Error: unexpected status 503 Service Unavailable: boom\n",
        };
        let error = judged(&run, events, &decoder).unwrap_err();
        assert_eq!(error.code, Code::ServerError, "{id}: {}", error.message);
        assert!(
            error.message.contains("boom") && !error.message.contains("To sort it"),
            "{id}: {}",
            error.message
        );
        assert_eq!(error.partial.map(|partial| partial.text).as_deref(), Some(half), "{id}");
    }
}

/// ax-glm, by its source: the error is a message of the assistant, and the exit code is 1.
#[test]
fn an_error_told_as_a_message_is_the_reason() {
    let stdout = r#"{"role":"user","content":"hi"}
{"role":"assistant","content":"Error: 401 Incorrect API key provided"}
"#;
    let id = "glm";
    let run = |exit_code| {
        let (events, decoder) = decode(Wire::GenericStream, [stdout.as_bytes()]);
        let run = Run {
            provider: id,
            wire: Wire::GenericStream,
            flags: &[],
            exit_code,
            stdout: stdout.as_bytes(),
            stderr: "",
        };
        judged(&run, events, &decoder)
    };
    let error = run(Some(1)).unwrap_err();
    assert_eq!(error.code, Code::InvalidApiKey, "{id}");
    assert!(
        error.message.starts_with("401 Incorrect API key provided"),
        "{}",
        error.message
    );
    // A model may write about errors.
    assert_eq!(run(Some(0)).unwrap().content, "Error: 401 Incorrect API key provided");
}

/// What launchers print and exit with if there is no such program on the other side.
#[test]
fn a_cli_that_its_launcher_does_not_find_is_missing_there() {
    let docker = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"claude\": executable file not found in \
                  $PATH: unknown\r\n";
    let podman = "Error: crun: executable file `claude` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a \
                  command that was not found\n";
    let bubblewrap = "bwrap: execvp claude: No such file or directory\n";
    let code = |exit_code: i32, stdout: &str, stderr: &str| {
        let context = Context {
            provider: "claude",
            rules: CliRules::from(crate::find("claude").unwrap()),
            now_ms: 0,
            local_offset_min: None,
        };
        let evidence = Evidence::Process(ProcessEvidence {
            wire: Wire::ClaudeStream,
            flags: Vec::new(),
            launched: Some(("box".to_owned(), "claude".to_owned())),
            end: ProcessEnd::Exited,
            exit_code: Some(exit_code),
            signal: None,
            stderr: stderr.to_owned(),
            plain: None,
            cut_short: false,
            dropped_line: None,
            diagnostics: Vec::new(),
            stdout_tail: stdout.to_owned(),
            unreached: false,
        });
        let mut out = Vec::new();
        let folded = Fold::new(HashSet::new(), TextCalls::Lenient).finish(&mut out);
        judge(&context, evidence, folded).unwrap_err().code
    };
    for (exit_code, stdout, stderr) in [
        (126, docker, ""),
        (127, docker, ""),
        (127, "", podman),
        (1, "", bubblewrap),
        (127, "", ""),
    ] {
        assert_eq!(
            code(exit_code, stdout, stderr),
            Code::CliNotFound,
            "{exit_code} {stdout}{stderr}"
        );
    }
    // What a CLI prints is no word of the launcher's.
    let said = format!("An answer.\n{docker}");
    for (exit_code, stdout) in [(1, docker), (126, said.as_str())] {
        assert_ne!(code(exit_code, stdout, ""), Code::CliNotFound, "{exit_code} {stdout}");
    }
}
