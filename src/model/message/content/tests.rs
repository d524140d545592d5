use serde_json::json;
use serde_json::value::RawValue;

use super::*;

/// Base64 unlike any other text of a thread.
const SECRET: &str = "QkFTRTY0UEFZTE9BRA==";

const EVERYTHING: Accepts = Accepts {
    users: Takes {
        kinds: &[Kind::Image, Kind::Document, Kind::Audio, Kind::Video],
        types: &[],
        dialect: None,
        urls: &[Kind::Image, Kind::Document, Kind::Audio, Kind::Video],
        texts: false,
    },
    results: Takes::TEXT,
    others: Takes::TEXT,
    limits: ContentLimits::NONE,
};

fn message(value: &Value) -> Message {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn human(content: &Value) -> Message {
    message(&json!({"type": "human", "content": content}))
}

fn read(content: &Value) -> Vec<Part> {
    parts(&RawValue::from_string(content.to_string()).unwrap(), &Role::Human)
}

/// A block as `kind mime source`.
fn shown(block: &Value) -> String {
    match read(&json!([block])).remove(0) {
        Part::Media(media) => {
            let source = match media.source {
                Source::Base64(data) if data == SECRET => "base64".to_owned(),
                Source::Base64(data) => format!("base64 {data}"),
                Source::Url(url) => url,
                Source::Text(text) => format!("text {text}"),
                Source::Own => "own".to_owned(),
                Source::Unreadable => "unreadable".to_owned(),
            };
            format!("{:?} {} {source}", media.kind, media.mime.unwrap_or_default())
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn every_way_of_writing_an_image() {
    let data = format!("data:image/png;base64,{SECRET}");
    for block in [
        json!({"type": "image_url", "image_url": data}),
        json!({"type": "image_url", "image_url": {"url": data, "detail": "low"}}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SECRET}}),
        json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": SECRET}),
        json!({"type": "image", "mimeType": "image/PNG", "data": SECRET}),
        json!({"type": "image", "data": {"$bytes": SECRET}, "mimeType": "image/png"}),
        json!({"type": "image", "image": SECRET, "mediaType": "image/png"}),
        json!({"type": "image", "image": {"$bytes": SECRET}, "mediaType": "image/png"}),
        json!({"type": "file", "data": data, "mediaType": "image/*"}),
        json!({"type": "file", "data": SECRET, "mediaType": "image/png"}),
        json!({"type": "media", "data": SECRET, "mimeType": "image/png"}),
        json!({"type": "input_image", "image_url": data}),
        json!({"type": "resource", "resource": {"uri": "x://y", "mimeType": "image/png", "blob": SECRET}}),
        json!({"inlineData": {"mimeType": "image/png", "data": SECRET}}),
    ] {
        assert_eq!(shown(&block), "Image image/png base64", "{block}");
    }
    for block in [
        json!({"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}),
        json!({"type": "image", "url": "https://x.y/z.png"}),
        json!({"type": "image", "source_type": "url", "url": "https://x.y/z.png"}),
        json!({"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}),
        json!({"type": "image", "image": "https://x.y/z.png"}),
        json!({"type": "input_image", "image_url": "https://x.y/z.png"}),
    ] {
        assert_eq!(shown(&block), "Image  https://x.y/z.png", "{block}");
    }
    for (begins, mime) in [
        ("iVBORw0KGgoAAAA", "image/png"),
        ("/9j/4AAQ", "image/jpeg"),
        ("R0lGODlh", "image/gif"),
        ("UklGRgAA", "image/webp"),
    ] {
        assert_eq!(
            shown(&json!({"type": "image", "image": begins})),
            format!("Image {mime} base64 {begins}")
        );
    }
}

#[test]
fn files_sound_and_films() {
    let data = format!("data:application/pdf;base64,{SECRET}");
    for (block, expected) in [
        (
            json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": SECRET}}),
            "Document application/pdf base64",
        ),
        (
            json!({"type": "file", "source_type": "base64", "mime_type": "application/pdf", "data": SECRET}),
            "Document application/pdf base64",
        ),
        (
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": data}}),
            "Document application/pdf base64",
        ),
        (json!({"type": "file", "file": {"file_id": "file-1"}}), "Document  own"),
        (
            json!({"type": "input_file", "file_data": data}),
            "Document application/pdf base64",
        ),
        (json!({"type": "input_file", "file_id": "file-1"}), "Document  own"),
        (
            json!({"type": "file", "source_type": "id", "id": "file-1"}),
            "Document  own",
        ),
        (
            json!({"type": "file", "data": {"$bytes": SECRET}, "mediaType": "application/pdf"}),
            "Document application/pdf base64",
        ),
        (
            json!({"type": "file", "data": {"$blob": 7}, "mediaType": "application/pdf"}),
            "Document application/pdf unreadable",
        ),
        (
            json!({"type": "file", "data": {"0": 137, "1": 80}, "mediaType": "application/pdf"}),
            "Document application/pdf unreadable",
        ),
        (
            json!({"type": "file", "data": {"type": "Buffer", "data": [1]}, "mediaType": "application/pdf"}),
            "Document application/pdf unreadable",
        ),
        (
            json!({"type": "file", "source_type": "text", "text": "hi"}),
            "Document text/plain text hi",
        ),
        (
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}),
            "Document text/plain text hi",
        ),
        (
            json!({"type": "document", "source": {"type": "content", "content": []}}),
            "Document  own",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": SECRET, "format": "wav"}}),
            "Audio audio/wav base64",
        ),
        (
            json!({"type": "audio", "mimeType": "audio/mp3", "data": SECRET}),
            "Audio audio/mp3 base64",
        ),
        (
            json!({"type": "video", "mimeType": "video/mp4", "data": SECRET}),
            "Video video/mp4 base64",
        ),
        (
            json!({"type": "video_url", "video_url": {"url": "https://x.y/z.mp4"}}),
            "Video  https://x.y/z.mp4",
        ),
        (json!({"type": "image"}), "Image  unreadable"),
        // LangChain 1's standard blocks.
        (json!({"type": "image", "fileId": "file-1"}), "Image  own"),
        (json!({"type": "text-plain", "fileId": "file-1"}), "Document  own"),
        (
            json!({"type": "text-plain", "mimeType": "text/plain", "data": {"$bytes": SECRET}, "title": "T"}),
            "Document text/plain base64",
        ),
        (
            json!({"type": "text-plain", "url": "https://x.y/z.txt", "mimeType": "text/plain"}),
            "Document text/plain https://x.y/z.txt",
        ),
        (json!({"type": "text-plain", "text": "hi"}), "Text(\"hi\")"),
        // LangChain 0.3's.
        (
            json!({"type": "text", "source_type": "text", "text": "hi"}),
            "Text(\"hi\")",
        ),
        (
            json!({"type": "file", "source_type": "url", "mime_type": "application/pdf", "url": "https://x.y/z.pdf"}),
            "Document application/pdf https://x.y/z.pdf",
        ),
        (
            json!({"type": "audio", "source_type": "base64", "mime_type": "audio/wav", "data": SECRET}),
            "Audio audio/wav base64",
        ),
        // The AI SDK's parts of messages and of tools' results.
        (
            json!({"type": "file", "url": data, "mediaType": "application/pdf", "filename": "a.pdf"}),
            "Document application/pdf base64",
        ),
        (
            json!({"type": "file-data", "data": SECRET, "mediaType": "application/pdf"}),
            "Document application/pdf base64",
        ),
        (json!({"type": "file-id", "fileId": "file-1"}), "Document  own"),
        (
            json!({"type": "image-file-id", "fileId": {"openai": "file-1"}}),
            "Image  own",
        ),
        // A path is not base64, and no file is read.
        (json!({"type": "image", "image": "./photo.png"}), "Image  unreadable"),
        (
            json!({"type": "image_url", "image_url": "C:\\photo.png"}),
            "Image  unreadable",
        ),
    ] {
        assert_eq!(shown(&block), expected, "{block}");
    }
}

#[test]
fn texts_are_joined_and_what_is_no_content_is_left_out() {
    let settled = |value: Value| {
        let mut messages = [message(&value)];
        settle(&mut messages).unwrap();
        let [message] = messages;
        let calls: Vec<String> = message
            .tool_calls
            .iter()
            .map(|call| format!("{} {} {}", call.id, call.name, call.args.get()))
            .collect();
        (message.content.as_text().to_owned(), calls)
    };
    let none: [&str; 0] = [];
    for (content, expected) in [
        (json!("as it is"), "as it is"),
        (
            json!([{"type": "text", "text": "a & "}, {"type": "input_text", "text": "b"}, "c", {"text": "d"}]),
            "a & bcd",
        ),
        (json!([]), ""),
        (json!([1, {"a": 2.0}]), r#"[1,{"a":2.0}]"#),
        (json!({"a": 1}), r#"{"a":1}"#),
        (json!({"type": "text", "text": "alone"}), "alone"),
        (
            json!([{"type": "resource", "resource": {"uri": "x://y", "text": "read"}}]),
            "read",
        ),
    ] {
        let (text, calls) = settled(json!({"type": "tool", "tool_call_id": "1", "content": content}));
        assert_eq!(text, expected);
        assert_eq!(calls, none);
    }
    // This is an answer of claude's API, as LangChain and a plain object keep it.
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "I add."},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}, {"type": "web_search_tool_result", "content": []}
    ]);
    let call = json!([{"id": "t1", "name": "add", "args": {"a": 1}}]);
    for message in [
        json!({"type": "ai", "content": content, "tool_calls": call}),
        json!({"type": "ai", "content": content}),
    ] {
        let (text, calls) = settled(message);
        assert_eq!((text.as_str(), calls), ("I add.", vec![r#"t1 add {"a":1}"#.to_owned()]));
    }
    // A JavaScript string may hold half a character.
    let lone: Message =
        serde_json::from_str(r#"{"type":"human","content":[{"type":"text","text":"a\ud83e"}]}"#).unwrap();
    let mut messages = [lone];
    settle(&mut messages).unwrap();
    assert_eq!(messages[0].content.as_text(), "a\u{FFFD}");
}

#[test]
fn what_is_refused_is_named_by_its_place() {
    let refused = |message: Message, accepts: &Accepts| {
        let mut messages = vec![human(&json!("hi")), message];
        let refused = settle(&mut messages)
            .and_then(|()| check(&messages, accepts))
            .unwrap_err();
        format!("{} is {}", refused.at, refused.what)
    };
    let image = json!({"type": "image_url", "image_url": format!("data:image/png;base64,{SECRET}")});
    let text = json!({"type": "text", "text": "see"});
    for (message, accepts, expected) in [
        (
            human(&json!([text, image])),
            &Accepts::TEXT,
            "messages[1].content[1] is an image (image/png)",
        ),
        (
            human(&json!([{"type": "file", "data": {"$blob": 7}, "mediaType": "application/pdf"}])),
            &EVERYTHING,
            "messages[1].content[0] is a document (application/pdf), whose data can't be read",
        ),
        (
            human(&json!([{"type": "image", "source_type": "id", "id": "file-1"}])),
            &EVERYTHING,
            "messages[1].content[0] is an image",
        ),
        (
            human(&json!([text, {"type": "unheard_of", "data": SECRET}])),
            &EVERYTHING,
            "messages[1].content[1] is a block of the unknown type \"unheard_of\"",
        ),
        (
            human(&json!([text, {"image": {"source": {"bytes": SECRET}}}])),
            &EVERYTHING,
            "messages[1].content[1] is a block without a type",
        ),
        (
            human(&json!({"$bytes": SECRET})),
            &EVERYTHING,
            "messages[1].content[0] is bytes without a block",
        ),
        (
            human(&json!([text, [1]])),
            &EVERYTHING,
            "messages[1].content[1] is an array, which is not a content block",
        ),
        (
            message(&json!({"type": "tool", "tool_call_id": "1", "content": [image]})),
            &EVERYTHING,
            "messages[1].content[0] is an image (image/png)",
        ),
        (
            message(&json!({"type": "system", "content": [image]})),
            &EVERYTHING,
            "messages[1].content[0] is an image (image/png)",
        ),
        (
            message(&json!({"type": "ai", "content": [text, image]})),
            &EVERYTHING,
            "messages[1].content[1] is an image (image/png)",
        ),
    ] {
        assert_eq!(refused(message, accepts), expected);
    }
    assert_eq!(check(&[human(&json!([text, image]))], &EVERYTHING), Ok(()));
}
