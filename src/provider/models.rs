//! Whose models a provider's are, and how much they take.
//!
//! In: nothing. Out: the types of a provider's `models`. JavaScript gets them with the registry, for what frameworks and telemetry ask of a
//! model that is not in its answers.

use serde::Serialize;

/// The models behind a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Models {
    /// LangChain's and LangSmith's name for who makes them; `None` where that depends on the model.
    pub vendor: Option<&'static str>,
    /// The same in OpenTelemetry's semantic conventions (`gen_ai.provider.name`).
    pub company: Option<&'static str>,
    /// What they are called, as a regular expression that JavaScript and Rust understand alike.
    pub names: Option<&'static str>,
    /// How many tokens fit, by a model's full name: what the CLI itself counts with. It cuts or refuses a thread by its own number,
    /// whatever the model's API would take. Names that a CLI resolves itself (`sonnet`) mean another model in each version of it, and
    /// stand in no table.
    pub sizes: &'static [Size],
    /// Images go to the model as the addresses they have.
    pub takes_image_urls: bool,
}

impl Models {
    /// Of a CLI whose models are anybody's.
    pub const ANY: Models = Models {
        vendor: None,
        company: None,
        names: None,
        sizes: &[],
        takes_image_urls: false,
    };
}

/// How many tokens one model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Its full name, without the day of a version.
    pub model: &'static str,
    /// Of a request and its answer together.
    pub max_input_tokens: u32,
    /// Of an answer, where the CLI has such a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// A row of a table of sizes.
pub(in crate::provider) const fn size(
    model: &'static str,
    max_input_tokens: u32,
    max_output_tokens: Option<u32>,
) -> Size {
    Size {
        model,
        max_input_tokens,
        max_output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::super::every;

    #[test]
    fn names_are_regular_expressions_and_no_model_stands_twice() {
        for provider in every() {
            if let Some(names) = provider.models.names {
                let names = regex::Regex::new(names).unwrap();
                for size in provider.models.sizes {
                    assert!(names.is_match(size.model), "{}: {}", provider.id, size.model);
                }
            }
            let mut models: Vec<_> = provider.models.sizes.iter().map(|size| size.model).collect();
            models.sort_unstable();
            models.dedup();
            assert_eq!(models.len(), provider.models.sizes.len(), "{}", provider.id);
        }
    }
}
