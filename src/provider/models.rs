//! The models of a provider: their vendor, names and sizes; and a model that a login has, as its CLI or its API lists it.
//!
//! In: nothing. Out: the types of a provider's `models`. JavaScript gets them with the registry, for facts of a model that
//! frameworks and telemetry need and that its answers do not contain. And [`ListedModel`], which JavaScript gets as it is: what the
//! source of the list does not tell is left out, and nothing in it is a guess of ours.

use serde::Serialize;

/// The models behind a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Models {
    /// The vendor's name in LangChain and LangSmith; `None` if that depends on the model.
    pub vendor: Option<&'static str>,
    /// The vendor's name in OpenTelemetry's semantic conventions (`gen_ai.provider.name`).
    pub company: Option<&'static str>,
    /// The pattern of the models' names, a regular expression that JavaScript and Rust understand alike.
    pub names: Option<&'static str>,
    /// The CLI's own names for families of models; each version of the CLI decides which model that is.
    pub aliases: &'static [&'static str],
    /// The sizes of models by their full names, in the tokens that the CLI itself counts with. It cuts or refuses a thread by its
    /// own number, whatever the model's API would take. Names that a CLI resolves itself (`sonnet`) mean another model in each
    /// version of it, and stand in no table.
    pub sizes: &'static [Size],
    /// True if an image that is an address goes to the model as that address, not as data.
    pub takes_image_urls: bool,
}

impl Models {
    /// The models of a CLI that takes those of any vendor.
    pub const ANY: Models = Models {
        vendor: None,
        company: None,
        names: None,
        aliases: &[],
        sizes: &[],
        takes_image_urls: false,
    };
}

/// The number of tokens that one model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// The model's full name, without the day of a version.
    pub model: &'static str,
    /// The limit of a request and its answer together.
    pub max_input_tokens: u32,
    /// The limit of an answer, if the CLI has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// Makes a row of a table of sizes.
pub(crate) const fn size(model: &'static str, max_input_tokens: u32, max_output_tokens: Option<u32>) -> Size {
    Size {
        model,
        max_input_tokens,
        max_output_tokens,
    }
}

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

/// The names under which claude offers the newest model of a family.
const FAMILIES: [&str; 4] = ["opus", "sonnet", "haiku", "fable"];

/// The first words of models' names that show their makers.
const MAKERS: [&str; 13] = [
    "claude", "gpt", "gemini", "deepseek", "grok", "qwen", "glm", "kimi", "llama", "mistral", "o1", "o3", "o4",
];

/// Returns whether `answered` is certainly another model than `asked`. Names that leave the model to the server (`sonnet`,
/// `gpt-latest`, a deployment's), dates, versions of a snapshot and the order of a name's parts make no difference.
pub fn is_another(asked: &str, answered: &str) -> bool {
    let (asked, answered) = (asked.to_ascii_lowercase(), answered.to_ascii_lowercase());
    if FAMILIES.contains(&asked.as_str()) {
        let named = |family: &&&str| answered.contains(**family);
        return !answered.contains(&asked) && FAMILIES.iter().any(|family| named(&family));
    }
    let (asked, answered) = (parts(&asked), parts(&answered));
    let maker = |parts: &[String]| parts.iter().find(|part| MAKERS.contains(&part.as_str())).cloned();
    let names_one = |parts: &[String]| parts.iter().any(|part| part.contains(|c: char| c.is_ascii_digit()));
    match (maker(&asked), maker(&answered)) {
        (Some(of_asked), Some(of_answered)) if of_asked != of_answered => true,
        (Some(_), Some(_)) => names_one(&asked) && names_one(&answered) && sorted(asked) != sorted(answered),
        _ => false,
    }
}

/// The parts that distinguish a model's name from others.
fn parts(name: &str) -> Vec<String> {
    // `arn:aws:bedrock:…:inference-profile/us.anthropic.claude-…`, `models/gemini-…`, `anthropic/claude-…`; `claude-…[1m]`.
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.split('[').next().unwrap_or(name);
    let mut words = name
        .split(['-', '_', '.', ':', '@', ' '])
        .filter(|word| !word.is_empty())
        .peekable();
    let mut parts = Vec::new();
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    while let Some(word) = words.next() {
        let dated = (is_number(word) && word.len() >= 3) || word == "preview";
        if dated {
            // `2025-04-14`, `preview-05-06`.
            while words.next_if(|next| is_number(next) && next.len() == 2).is_some() {}
            continue;
        }
        let told_otherwise = matches!(
            word,
            "latest" | "exp" | "experimental" | "free" | "us" | "eu" | "apac" | "global" | "anthropic"
        );
        let is_snapshot = words.peek().is_none() && word == "0" || matches!(word, "v1" | "v2");
        if !told_otherwise && !is_snapshot {
            parts.push(word.to_owned());
        }
    }
    parts
}

fn sorted(mut parts: Vec<String>) -> Vec<String> {
    parts.sort_unstable();
    parts
}

#[cfg(test)]
mod tests {
    use super::super::every;
    use super::is_another;

    #[test]
    fn another_model_is_known_by_its_name_and_aliases_and_dates_are_none() {
        let same = [
            ("sonnet", "claude-sonnet-5-5"),
            ("opusplan", "claude-sonnet-5-5"),
            ("default", "claude-opus-5-5"),
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
            ("claude-opus-4-8[1m]", "claude-opus-4-8"),
            ("claude-opus-4-0", "claude-opus-4-20250514"),
            ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
            ("anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929"),
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "claude-sonnet-4-5-20250929",
            ),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            (
                "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123",
                "claude-sonnet-4-5",
            ),
            ("gpt-4o", "gpt-4o-2024-08-06"),
            ("gpt-4", "gpt-4-0613"),
            ("gpt-4-turbo", "gpt-4-turbo-2024-04-09"),
            ("my-deployment", "gpt-4o-2024-08-06"),
            ("gpt-latest", "gpt-5.5"),
            ("models/gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
            ("gemini-2.0-flash", "gemini-2.0-flash-001"),
            ("deepseek-chat", "deepseek-v3.2"),
            ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
            ("grok-4", "grok-4-0709"),
            ("openrouter/auto", "anthropic/claude-sonnet-5-5"),
            ("sonnet", "my-own-deployment"),
            ("M", "scripted"),
        ];
        for (asked, answered) in same {
            assert!(!is_another(asked, answered), "{asked} {answered}");
        }
        let others = [
            ("sonnet", "claude-haiku-5-5"),
            ("claude-opus-5-5", "claude-opus-4-8"),
            ("claude-sonnet-4", "claude-sonnet-4-5-20250929"),
            ("claude-opus-5", "claude-opus-5-5"),
            ("gpt-4o", "gpt-4o-mini-2024-07-18"),
            ("gpt-5.5", "gpt-5.5-mini"),
            ("gemini-2.5-pro", "gemini-2.5-flash"),
            ("gpt-5.5", "claude-sonnet-5-5"),
        ];
        for (asked, answered) in others {
            assert!(is_another(asked, answered), "{asked} {answered}");
        }
    }

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
