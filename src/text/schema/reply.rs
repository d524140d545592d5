//! Reads the JSON in a model's reply.

use serde_json::Value;

use dfp_model::error::clip;

/// Parses `text` as a JSON value: bare, or in one fenced block that is all of it.
///
/// # Errors
/// The reason why it is not one.
pub fn value_of(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the reply is empty".to_owned());
    }
    serde_json::from_str(fenced(text).unwrap_or(text))
        .map_err(|error| format!("the reply is not JSON: {}", clip(&error.to_string(), 120)))
}

/// The content of the fence that is all of `text`.
fn fenced(text: &str) -> Option<&str> {
    let (opening, rest) = text.split_once('\n')?;
    let mark = ["```", "~~~"].into_iter().find(|mark| opening.starts_with(mark))?;
    let length = opening
        .bytes()
        .take_while(|byte| mark.as_bytes().contains(byte))
        .count();
    let (fence, info) = opening.split_at(length);
    let (block, closing) = rest.rsplit_once('\n')?;
    let ends = closing.trim() == fence;
    // Another fence inside would be another block.
    let is_one = !block.lines().any(|line| line.trim_start().starts_with(fence));
    (ends && is_one && info.trim().bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(block)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bare_json_and_one_fenced_block_are_read() {
        for text in [
            r#"{"a":1}"#,
            " \n {\"a\":1}\r\n",
            "```json\n{\"a\":1}\n```",
            "```\n{\"a\":\n1}\n```\n",
            "````json\r\n{\"a\":1}\r\n````",
            "~~~JSON\n{\"a\":1}\n~~~",
        ] {
            assert_eq!(value_of(text), Ok(json!({"a": 1})), "{text:?}");
        }
        assert_eq!(value_of("\"```\""), Ok(json!("```")));
    }

    #[test]
    fn whatever_else_is_said_is_no_value() {
        for text in [
            "",
            " \n",
            "Here you are: {\"a\":1}",
            "{\"a\":1} Anything else?",
            "{\"a\":1}\n{\"a\":2}",
            "Sure.\n```json\n{\"a\":1}\n```",
            "```json\n{\"a\":1}\n```\nDone.",
            "```json\n{\"a\":1}\n```\n```json\n{\"a\":2}\n```",
            "```json\n{\"a\":1}",
            "```json\n{\"a\":1}\n~~~",
            "```not json\n{\"a\":1}\n```",
            "```{\"a\":1}```",
            "{\"a\":\"\\ud800\"}",
            "{'a':1}",
            "NaN",
        ] {
            assert!(value_of(text).is_err(), "{text:?}");
        }
    }
}
