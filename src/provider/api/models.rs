//! An API's list of models.
//!
//! In: the answer to `GET /models`. Out: [`ListedModel`]s. OpenAI's own has ids alone; the other fields are those of OpenRouter,
//! vLLM and their like.

use serde::Deserialize;
use serde_json::Value;

use dfp_model::listed_model::{ListedModel, ModelPrice};

/// Reads the list in `answer`; `None` if it is none.
pub fn read(answer: &[u8]) -> Option<Vec<ListedModel>> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let models = answer.get("data").unwrap_or(&answer).as_array()?;
    Some(models.iter().filter_map(one).collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Architecture {
    input_modalities: Option<Vec<String>>,
}

fn one(model: &Value) -> Option<ListedModel> {
    let text = |name: &str| {
        model
            .get(name)?
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let number = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| model.get(*name)?.as_u64());
        found.find(|number| *number > 0)
    };
    // Prices are texts, in dollars for one token.
    let price = |name: &str| {
        let told = model.get("pricing")?.get(name)?;
        let one: f64 = match told.as_str() {
            Some(text) => text.parse().ok()?,
            None => told.as_f64()?,
        };
        (one >= 0.0).then(|| (one * 1e12).round() / 1e6)
    };
    let price = ModelPrice {
        input: price("prompt"),
        output: price("completion"),
        cache_read: price("input_cache_read"),
        cache_write: price("input_cache_write"),
    };
    let of_top = model
        .get("top_provider")
        .and_then(|top| top.get("max_completion_tokens")?.as_u64());
    let kinds = model.get("architecture").map(Architecture::deserialize);
    Some(ListedModel {
        id: text("id")?,
        name: text("name").or_else(|| text("display_name")),
        description: text("description"),
        input_modalities: kinds.and_then(Result::ok).unwrap_or_default().input_modalities,
        context_window: number(&["context_length", "context_window", "max_model_len", "max_input_tokens"]),
        max_output_tokens: number(&["max_output_tokens", "max_tokens"]).or(of_top),
        price: price.non_empty(),
        ..ListedModel::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_with_what_they_tell() {
        let router = br#"{"data":[{"id":"a/b","name":"B","context_length":200000,"description":"",
            "architecture":{"input_modalities":["text","image"]},"top_provider":{"max_completion_tokens":64000},
            "pricing":{"prompt":"0.000003","completion":"0.000015","input_cache_read":"0.0000003"}},{"id":""},7]}"#;
        let model = ListedModel {
            id: "a/b".to_owned(),
            name: Some("B".to_owned()),
            input_modalities: Some(vec!["text".to_owned(), "image".to_owned()]),
            context_window: Some(200_000),
            max_output_tokens: Some(64_000),
            price: Some(ModelPrice {
                input: Some(3.0),
                output: Some(15.0),
                cache_read: Some(0.3),
                cache_write: None,
            }),
            ..ListedModel::default()
        };
        assert_eq!(read(router), Some(vec![model]));
        let bare = read(br#"[{"id":"m","object":"model","owned_by":"me","architecture":7}]"#);
        assert_eq!(bare.map(|models| models[0].id.clone()), Some("m".to_owned()));
        assert_eq!((read(br#"{"models":{}}"#), read(b"<html>")), (None, None));
    }
}
