//! Content that is no text never gets into a prompt.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::prompt::{Style, render};
use dfp_model::message::Message;
use dfp_model::message::content::{Accepts, check, settle};

/// Base64 unlike any other text of a thread.
const SECRET: &str = "QkFTRTY0UEFZTE9BRA==";

fn message(value: &Value) -> Message {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn any_block() -> impl Strategy<Value = Value> {
    let data = prop_oneof![
        Just(json!(SECRET)),
        Just(json!({"$bytes": SECRET})),
        Just(json!(format!("data:image/png;base64,{SECRET}"))),
        Just(json!({"url": format!("data:image/png;base64,{SECRET}")})),
        Just(json!({"type": "base64", "media_type": "image/png", "data": SECRET})),
        Just(json!({"data": SECRET, "mimeType": "image/png"})),
    ];
    let kind = prop_oneof![
        "image|image_url|input_image|document|file|input_file|audio|input_audio|video|media|resource|image-data|unheard_of",
        "[a-z_]{1,12}",
    ];
    let name = "data|image|image_url|source|file|file_data|input_audio|blob|resource|inlineData|url|bytes";
    (kind, name, data, any::<bool>()).prop_map(|(kind, name, data, mime)| {
        let mut block = json!({"type": kind, name: data});
        if mime {
            block["mimeType"] = json!("image/png");
        }
        block
    })
}

proptest! {
    /// Whatever type a block has and wherever it holds its data: it is refused, or left out, and never becomes text.
    #[test]
    fn no_payload_is_ever_text(
        blocks in prop::collection::vec(any_block(), 1..4),
        role in "human|ai|tool|system|critic",
        before in prop::collection::vec(Just(json!({"type": "text", "text": "see"})), 0..2),
    ) {
        let content: Vec<Value> = before.into_iter().chain(blocks).collect();
        let mut messages = [message(&json!({"type": role, "content": content}))];
        if settle(&mut messages).and_then(|()| check(&messages, &Accepts::TEXT)).is_ok() {
            let prompt = render(&messages, &[], Style { documents: true, ..Style::default() }).text;
            prop_assert!(!prompt.contains(SECRET), "{}", prompt);
        }
    }
}
