//! A model that a login has, as its CLI or its API lists it.
//!
//! In: nothing. Out: [`ListedModel`], which JavaScript gets as it is. What the source does not tell is left out: nothing here is a
//! guess of ours.

use serde::Serialize;

/// A model of a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedModel {
    /// The name that the option `model` takes.
    pub id: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The source's own words about the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The model's full name, if `id` is another name of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolves_to: Option<String>,
    /// True for the model that answers where none is chosen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// The levels that `reasoning.effort` takes; `None` if the source does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efforts: Option<Vec<String>>,
    /// True if the source says that the model has efforts, but not which.
    #[serde(skip)]
    pub has_unnamed_efforts: bool,
    /// The level that counts where none is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_effort: Option<String>,
    /// True if the model takes `reasoning: "off"`, where that is no effort; `None` if the source does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_off: Option<bool>,
    /// The words that `serviceTier` takes beside the usual tier; `None` if the source does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tiers: Option<Vec<String>>,
    /// The values that `speed` takes; `None` if the source does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speeds: Option<Vec<String>>,
    /// The kinds of content that the model takes (`text`, `image`, …).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_modalities: Option<Vec<String>>,
    /// The limit of a request and its answer together, tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The limit of an answer, tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
}

/// The price of a model, US dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl ModelPrice {
    /// The price, if any of it is told.
    pub fn non_empty(self) -> Option<ModelPrice> {
        (self != ModelPrice::default()).then_some(self)
    }
}
