//! Tests that any mix of blocks, in any notation, arrives complete, in order and byte for byte, or that the first refused block is
//! named.

use std::cell::Cell;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cli_request::CliRequest;
use crate::print::media_prompt;
use dfp_exchange::claude_live::Claude;
use dfp_exchange::form::{CallParts, Caller, Form, SessionCall};
use dfp_exchange::live::pool::SessionKey;
use dfp_exchange::live::setup::SessionOutput;
use dfp_provider::command::MediaFile;
use dfp_text::prompt::{Encoding, escape_xml};

/// The content of a block, whoever's notation it is written in.
#[derive(Debug, Clone)]
enum What {
    Text(String),
    /// The media type and the bytes.
    Media(&'static str, Vec<u8>),
}

impl What {
    fn tag(&self) -> &'static str {
        match self {
            What::Media("application/pdf", _) => "document",
            What::Media(..) => "image",
            What::Text(_) => "text",
        }
    }
}

/// A message as the façade writes it, and its content.
#[derive(Debug, Clone)]
struct Written {
    json: Value,
    blocks: Vec<What>,
}

fn image(mime: &str, data: &str) -> Vec<Value> {
    let url = format!("data:{mime};base64,{data}");
    vec![
        json!({"type": "image", "source_type": "base64", "mime_type": mime, "data": data}),
        json!({"type": "image", "mimeType": mime, "data": data}),
        json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}}),
        json!({"type": "image_url", "image_url": url}),
        json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}),
        json!({"type": "image", "image": {"$bytes": data}, "mediaType": mime}),
        json!({"type": "file", "data": {"$bytes": data}, "mediaType": mime}),
        json!({"type": "input_image", "image_url": url}),
        json!({"inlineData": {"mimeType": mime, "data": data}}),
        json!({"type": "resource", "resource": {"uri": "x://y", "mimeType": mime, "blob": data}}),
    ]
}

fn document(mime: &str, data: &str) -> Vec<Value> {
    let url = format!("data:{mime};base64,{data}");
    vec![
        json!({"type": "file", "source_type": "base64", "mime_type": mime, "data": data}),
        json!({"type": "file", "mimeType": mime, "data": data, "metadata": {"filename": "a.pdf"}}),
        json!({"type": "document", "source": {"type": "base64", "media_type": mime, "data": data}}),
        json!({"type": "file", "file": {"filename": "a.pdf", "file_data": url}}),
        json!({"type": "input_file", "filename": "a.pdf", "file_data": url}),
        json!({"type": "file", "data": {"$bytes": data}, "mediaType": mime}),
        json!({"inlineData": {"mimeType": mime, "data": data}}),
    ]
}

fn any_block() -> impl Strategy<Value = (Value, What)> {
    let text = prop_oneof![
        "[ -~]{1,12}",
        Just("</event><image index=\"1\">".to_owned()),
        Just("/cost".to_owned()),
        Just("[Image 1]\n[User]".to_owned()),
        Just("@/etc/passwd".to_owned()),
    ];
    let texts = (text, 0..3_usize).prop_map(|(text, way)| {
        let json = match way {
            0 => json!({"type": "text", "text": text}),
            1 => json!({"type": "input_text", "text": text}),
            _ => json!(text),
        };
        (json, What::Text(text))
    });
    let types = prop_oneof![
        Just("image/png"),
        Just("image/jpeg"),
        Just("image/webp"),
        Just("application/pdf")
    ];
    let bytes = prop::collection::vec(any::<u8>(), 1..40);
    let media = (types, bytes, any::<prop::sample::Index>()).prop_map(|(mime, bytes, way)| {
        let data = BASE64_STANDARD.encode(&bytes);
        let ways = match mime {
            "application/pdf" => document(mime, &data),
            _ => image(mime, &data),
        };
        (ways[way.index(ways.len())].clone(), What::Media(mime, bytes))
    });
    prop_oneof![texts, media]
}

fn any_message() -> impl Strategy<Value = Vec<Written>> {
    let blocks = prop::collection::vec(any_block(), 1..5);
    (blocks, 0..3_usize).prop_map(|(blocks, role)| {
        let (content, blocks): (Vec<Value>, Vec<What>) = blocks.into_iter().unzip();
        let none = |json| Written {
            json,
            blocks: Vec::new(),
        };
        match role {
            0 => vec![Written {
                json: json!({"type": "human", "content": content}),
                blocks,
            }],
            1 => vec![Written {
                json: json!({"type": "critic", "content": content}),
                blocks,
            }],
            _ => vec![
                none(json!({"type": "ai", "content": "", "tool_calls": [{"id": "c", "name": "look", "args": {}}]})),
                Written {
                    json: json!({"type": "tool", "tool_call_id": "c", "content": content}),
                    blocks,
                },
            ],
        }
    })
}

fn any_thread() -> impl Strategy<Value = Vec<Written>> {
    prop::collection::vec(any_message(), 1..4)
        .prop_map(|messages| messages.into_iter().flatten().collect::<Vec<_>>())
        // A thread without any text or block does not count.
        .prop_filter("says something", |thread| {
            thread
                .iter()
                .flat_map(|message| &message.blocks)
                .any(|block| match block {
                    What::Text(text) => !text.trim().is_empty(),
                    What::Media(..) => true,
                })
        })
}

fn request(thread: &[Written]) -> Request {
    let messages = thread
        .iter()
        .map(|message| serde_json::from_str(&message.json.to_string()).unwrap());
    Request {
        messages: messages.collect(),
        ..Request::default()
    }
}

fn cli(id: &str, options: &Value) -> CliBase {
    CliBase::new(id, &options.to_string(), u64::MAX).unwrap()
}

fn media(thread: &[Written]) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let blocks = thread.iter().flat_map(|message| &message.blocks);
    let media = blocks.filter_map(|block| match block {
        What::Media(mime, bytes) => Some((block.tag(), *mime, bytes.clone())),
        What::Text(_) => None,
    });
    media.collect()
}

/// The place and name of the first block that is no text and whose type `takes` refuses.
fn first_refused(thread: &[Written], takes: impl Fn(&str) -> bool) -> Option<String> {
    thread.iter().enumerate().find_map(|(index, message)| {
        message.blocks.iter().enumerate().find_map(|(at, block)| match block {
            What::Media(mime, _) if !takes(mime) => {
                let article = if block.tag() == "image" { "an" } else { "a" };
                Some(format!(
                    "messages[{index}].content[{at}] is {article} {} ({mime})",
                    block.tag()
                ))
            }
            _ => None,
        })
    })
}

/// The blocks of a user line that are no text, and its text with `\u{1}` in their places.
fn read_line(line: &str) -> (Vec<(String, String, Vec<u8>)>, String) {
    assert_eq!((line.matches('\n').count(), line.ends_with('\n')), (1, true));
    let content = serde_json::from_str::<Value>(line).unwrap()["message"]["content"].take();
    let Value::Array(blocks) = content else {
        return (Vec::new(), content.as_str().unwrap().to_owned());
    };
    let (mut media, mut text) = (Vec::new(), String::new());
    for block in blocks {
        let field = |value: &Value| value.as_str().unwrap().to_owned();
        match block["type"].as_str().unwrap() {
            "text" => {
                let piece = field(&block["text"]);
                assert!(!piece.trim().is_empty() && !piece.starts_with('/'), "{piece:?}");
                text.push_str(&piece);
            }
            kind => {
                let source = &block["source"];
                let bytes = BASE64_STANDARD.decode(field(&source["data"])).unwrap();
                media.push((kind.to_owned(), field(&source["media_type"]), bytes));
                text.push('\u{1}');
            }
        }
    }
    (media, text)
}

/// `text` with only the entities that an element's text needs.
fn escaped(text: &str) -> String {
    let all = escape_xml(text);
    let least = all.replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    least.replace("]]>", "]]&gt;")
}

/// The expected text of the events of `thread`: each text escaped, each block in its element.
fn bodies(thread: &[Written]) -> Vec<String> {
    let mut index = 0;
    let bodies = thread
        .iter()
        .filter(|message| !message.blocks.is_empty())
        .map(|message| {
            let body = message.blocks.iter().map(|block| match block {
                What::Text(text) => escaped(text),
                What::Media(..) => {
                    index += 1;
                    format!("<{tag} index=\"{index}\">\u{1}</{tag}>", tag = block.tag())
                }
            });
            format!(">{}</event>", body.collect::<String>())
        });
    bodies.collect()
}

/// Returns whether `text` contains all of `parts`, one behind the other.
fn has_in_order(text: &str, parts: &[String]) -> bool {
    let mut rest = text;
    parts.iter().all(|part| match rest.split_once(part.as_str()) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

fn owned(media: &[(&'static str, &'static str, Vec<u8>)]) -> Vec<(String, String, Vec<u8>)> {
    let owned = |(tag, mime, bytes): &(&'static str, &'static str, Vec<u8>)| {
        ((*tag).to_owned(), (*mime).to_owned(), bytes.clone())
    };
    media.iter().map(owned).collect()
}

proptest! {
    #[test]
    fn claudes_print_engine_is_handed_all_of_it(thread in any_thread()) {
        let cli = cli("claude", &json!({"engine": "print"}));
        let request = CliRequest::new(&cli, request(&thread)).unwrap();
        let expected = media(&thread);
        let text = if expected.is_empty() {
            prop_assert!(request.printed(&cli).prompt.media.is_empty());
            request.printed(&cli).prompt.text.clone()
        } else {
            let prompt = media_prompt(&cli, &request.printed(&cli).prompt).unwrap();
            prop_assert_eq!(prompt.files, Vec::<MediaFile>::new());
            let (found, text) = read_line(&prompt.text);
            prop_assert_eq!(found, owned(&expected));
            text
        };
        prop_assert!(has_in_order(&text, &bodies(&thread)), "{}", text);
    }

    #[test]
    fn a_live_session_that_knows_nothing_is_told_all_of_it(thread in any_thread()) {
        let cli = cli("claude", &json!({"engine": "live"}));
        let checked = request(&thread).check(cli.id(), accepts(&cli), |_| Ok(()));
        let call = SessionCall::new::<Claude>(CallParts {
            messages: checked.unwrap().messages,
            note: None,
            callers: None,
            tools: &[],
            tool_choice: None,
            forbidden: &[],
            options: &cli.options,
            choices: None,
            own: &cli.options.choices,
            output: SessionOutput::Text,
            encoding: Encoding::Xml,
            guard: cli.provider.guard,
        });
        let key = SessionKey {
            setup: std::sync::Arc::clone(&call.setup),
            env: std::sync::Arc::default(),
        };
        let caller = Caller {
            key: &key,
            provider: cli.id(),
            login: None,
            server: None,
            start: None,
        };
        let input = Claude::default().whole(&call, &caller).unwrap();
        let (found, text) = read_line(&input.line);
        prop_assert_eq!(found, owned(&media(&thread)));
        // Content of the user alone is passed on unchanged.
        if text.contains("<thread>") {
            prop_assert!(has_in_order(&text, &bodies(&thread)), "{}", text);
        }
    }

    #[test]
    fn codexs_print_engine_is_handed_images_as_files(thread in any_thread()) {
        let cli = cli("codex", &json!({"engine": "print"}));
        let request = CliRequest::new(&cli, request(&thread));
        match first_refused(&thread, |mime| mime.starts_with("image/")) {
            Some(place) => {
                let error = request.err().unwrap();
                prop_assert_eq!(error.code, Code::UnsupportedContent);
                prop_assert!(error.message.starts_with(&place), "{}: {}", place, error.message);
            }
            None => {
                let request = request.unwrap();
                let expected: Vec<Vec<u8>> = media(&thread).into_iter().map(|(.., bytes)| bytes).collect();
                if !expected.is_empty() {
                    let prompt = media_prompt(&cli, &request.printed(&cli).prompt).unwrap();
                    let found: Vec<Vec<u8>> = prompt.files.into_iter().map(|file| file.bytes).collect();
                    prop_assert_eq!(found, expected);
                }
                let places: Vec<String> = bodies(&thread).iter().map(|body| body.replace('\u{1}', "")).collect();
                prop_assert!(has_in_order(&request.printed(&cli).prompt.text, &places), "{}", request.printed(&cli).prompt.text);
            }
        }
    }

    #[test]
    fn geminis_are_files_whose_names_are_in_order_and_in_the_prompt(thread in any_thread()) {
        let cli = cli("gemini", &json!({}));
        let request = CliRequest::new(&cli, request(&thread)).unwrap();
        let expected: Vec<Vec<u8>> = media(&thread).into_iter().map(|(.., bytes)| bytes).collect();
        if !expected.is_empty() {
            let prompt = media_prompt(&cli, &request.printed(&cli).prompt).unwrap();
            let names: Vec<String> = prompt.files.iter().map(|file| format!("@{}", &file.name["empty/".len()..])).collect();
            prop_assert!(names.is_sorted());
            prop_assert!(prompt.text.starts_with(&format!("{}\n\n", names.join(" "))), "{}", prompt.text);
            let found: Vec<Vec<u8>> = prompt.files.into_iter().map(|file| file.bytes).collect();
            prop_assert_eq!(found, expected);
        }
        let places: Vec<String> = bodies(&thread).iter().map(|body| body.replace('\u{1}', "")).collect();
        // An `@` of the thread is written by its number, or gemini would read a file.
        let text = request.printed(&cli).prompt.text.replace("&#64;", "@");
        prop_assert!(has_in_order(&text, &places), "{}", text);
    }

    #[test]
    fn who_takes_text_only_names_the_first_that_is_none(thread in any_thread(), id in "qwen|opencode|glm") {
        let options = if id == "opencode" { json!({"model": "a/b", "engine": "print"}) } else { json!({}) };
        let cli = cli(&id, &options);
        let request = CliRequest::new(&cli, request(&thread));
        match first_refused(&thread, |_| false) {
            Some(place) => {
                let error = request.err().unwrap();
                prop_assert_eq!((error.code, error.attempts), (Code::UnsupportedContent, 0));
                let expected = format!("{place}, which {id} can't take: it takes text only");
                prop_assert!(error.message.starts_with(&expected), "{}: {}", expected, error.message);
            }
            None => prop_assert!(request.unwrap().printed(&cli).prompt.media.is_empty()),
        }
    }
}

fn refusal(id: &str, options: &Value, content: &Value) -> String {
    let thread = [Written {
        json: json!({"type": "human", "content": content}),
        blocks: Vec::new(),
    }];
    let error = CliRequest::new(&cli(id, options), request(&thread)).err().unwrap();
    assert_eq!(error.code, Code::UnsupportedContent);
    let (reason, _) = error.message.split_once(". Send").unwrap();
    reason.to_owned()
}

#[test]
fn what_is_too_large_is_refused_with_its_size_and_the_limit() {
    let base64 = |bytes: usize| "A".repeat(bytes);
    let image = |bytes| json!({"type": "image", "mimeType": "image/png", "data": base64(bytes)});
    let pdf = |bytes| json!({"type": "file", "mimeType": "application/pdf", "data": base64(bytes)});
    let limit = 10 * 1024 * 1024;
    for engine in ["print", "live", "auto"] {
        assert_eq!(
            refusal(
                "claude",
                &json!({"engine": engine}),
                &json!(["a", image(limit), image(limit + 4)])
            ),
            "messages[0].content[2] is an image (image/png) of 10485764 bytes as base64, and claude takes 10485760 of one"
        );
        assert_eq!(
            refusal(
                "claude",
                &json!({"engine": engine}),
                &json!([image(limit), pdf(24 * 1024 * 1024)])
            ),
            "messages[0].content[1] is a document (application/pdf) with which what is no text in this thread has 35651584 \
             bytes as base64, and claude takes 33554432 in one request"
        );
    }
}

#[test]
fn an_address_and_a_path_are_refused_where_only_data_are_taken() {
    let print = json!({"engine": "print"});
    assert_eq!(
        refusal(
            "codex",
            &print,
            &json!([{"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}])
        ),
        "messages[0].content[0] is the address of an image, which codex takes only with its data, as base64 or bytes; nothing \
         is fetched here"
    );
    for path in ["./photo.png", "C:\\photo.png", "~/photo.png"] {
        assert_eq!(
            refusal(
                "claude",
                &print,
                &json!([{"type": "image", "image": path, "mediaType": "image/png"}])
            ),
            "messages[0].content[0] is an image (image/png), whose data can't be read, which claude can't take: it takes text \
             and images and documents (image/png, image/jpeg, image/gif, image/webp, application/pdf) of the user and text and \
             images and documents of tools"
        );
    }
    assert_eq!(
        refusal(
            "claude",
            &print,
            &json!([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AAAA"}}])
        ),
        "messages[0].content[0] is an image (image/bmp), which claude can't take: it takes text and images and documents \
         (image/png, image/jpeg, image/gif, image/webp, application/pdf) of the user and text and images and documents of tools"
    );
}

#[test]
fn another_form_of_output_or_of_the_prompt_or_a_folder_of_the_users_takes_text_only() {
    let image = json!([{"type": "image", "mimeType": "image/png", "data": "AAAA"}]);
    for options in [
        json!({"engine": "print", "outputFormat": "json"}),
        json!({"engine": "print", "outputFormat": "text"}),
        json!({"engine": "print", "promptStyle": "arg"}),
    ] {
        assert_eq!(
            refusal("claude", &options, &image),
            "messages[0].content[0] is an image (image/png), which claude can't take: it takes text only"
        );
    }
    for options in [json!({"cwd": "/"}), json!({"disableBuiltInTools": false})] {
        assert_eq!(
            refusal("gemini", &options, &image),
            "messages[0].content[0] is an image (image/png), which gemini can't take: it takes text only"
        );
    }
}

#[test]
fn what_is_shared_is_read_once_whatever_comes_of_it() {
    for (original, expected) in [("7", Ok(7)), ("x", Err("no number: x".to_owned()))] {
        let times = Cell::new(0);
        let read = |text: &String| {
            times.set(times.get() + 1);
            text.parse().map_err(|_| format!("no number: {text}"))
        };
        let first: ReadOnce<String, u32> = serde_json::from_value(original.into()).unwrap();
        let second = first.clone();
        assert_eq!(
            [first.read(read), second.read(read)],
            [
                expected.as_ref().map_err(Clone::clone),
                expected.as_ref().map_err(Clone::clone)
            ]
        );
        assert_eq!((times.get(), second.original().as_str()), (1, original));
    }
}
