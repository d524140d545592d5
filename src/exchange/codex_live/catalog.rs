//! The model catalog that codex gets: the vendor's, changed for models behind an agent.
//!
//! In: the vendor's catalog (`codex debug models --bundled`) and the models that may be asked. Out: the JSON of
//! `model_catalog_json`. Without it most models get our tools only through a JavaScript tool of codex's, results are cut to 12 or
//! 48 KB, and a long history is replaced by a summary, all without notice (CODEX-LIVE pitfalls 1 and 2).

use serde_json::{Map, Value, json};

/// A limit for results that none ever reaches, in bytes.
const NO_TRUNCATION: u64 = 1_000_000_000;
/// A limit for threads that none ever reaches, in tokens: the API itself refuses a thread that is too long.
const NO_COMPACTION: u64 = 100_000_000;

/// The fields of entries that make codex offer tools of its own, hide ours, or send instructions of its own.
const DROPPED: [&str; 9] = [
    "tool_mode",
    "apply_patch_tool_type",
    "multi_agent_version",
    "multi_agent_reasoning_effort",
    "auto_compact_token_limit",
    "availability_nux",
    "upgrade",
    "description",
    "model_messages",
];

/// The names of the models in `catalog`.
pub fn slugs(catalog: &Value) -> Vec<&str> {
    let models = catalog.get("models").and_then(Value::as_array);
    let slugs = models
        .into_iter()
        .flatten()
        .filter_map(|model| model.get("slug")?.as_str());
    slugs.collect()
}

/// The level of reasoning that `model` has by itself, by `catalog`.
pub fn default_effort<'c>(catalog: &'c Value, model: &str) -> Option<&'c str> {
    let models = catalog.get("models").and_then(Value::as_array)?;
    let entry = models.iter().find(|entry| entry["slug"] == model)?;
    entry["default_reasoning_level"].as_str()
}

/// The parts of the vendor's entries that stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// True if codex's own instructions stay.
    pub instructions: bool,
    /// True if the way stays in which models are offered tools: then ours are a namespace, which is never hidden.
    pub tool_mode: bool,
}

/// Makes the catalog for `models`, beside all models that `vendor` has.
pub fn catalog(vendor: &Value, models: &[&str], keep: Keep) -> Value {
    let known: Vec<&Value> = vendor
        .get("models")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let slug = |model: &Value| model.get("slug").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut entries: Vec<Value> = known.iter().map(|model| adapted(model, keep)).collect();
    for name in models {
        if entries.iter().any(|entry| slug(entry) == *name) {
            continue;
        }
        // The same rule as codex's: `gpt-5.5-2026-04-01` is a `gpt-5.5`.
        let similar = known
            .iter()
            .filter(|model| name.starts_with(&slug(model)) && !slug(model).is_empty());
        let mut entry = match similar.max_by_key(|model| slug(model).len()) {
            Some(similar) => adapted(similar, keep),
            None => unknown(),
        };
        entry["slug"] = json!(name);
        entry["display_name"] = json!(name);
        entries.push(entry);
    }
    json!({"models": entries})
}

/// The vendor's entry with our changes.
fn adapted(model: &Value, keep: Keep) -> Value {
    let fields = model.as_object().cloned().unwrap_or_default();
    let keeps = |name: &str| match name {
        "model_messages" => keep.instructions,
        "tool_mode" => keep.tool_mode,
        name => !DROPPED.contains(&name),
    };
    let mut entry: Map<String, Value> = fields.into_iter().filter(|(name, _)| keeps(name)).collect();
    let changes = json!({
        "shell_type": "disabled",
        "experimental_supported_tools": [],
        "supports_search_tool": false,
        "include_skills_usage_instructions": false,
        "include_plugin_usage_instructions": false,
        "include_apps_usage_instructions": false,
        "truncation_policy": {"mode": "bytes", "limit": NO_TRUNCATION},
        "context_window": NO_COMPACTION,
        "max_context_window": NO_COMPACTION,
    });
    let changes = changes.as_object().cloned().unwrap_or_default();
    entry.extend(changes);
    if !keep.instructions {
        entry.insert("base_instructions".to_owned(), json!(""));
    }
    Value::Object(entry)
}

/// The entry of a model that the vendor does not know: with codex's defaults, but without the cuts.
fn unknown() -> Value {
    adapted(
        &json!({
            "supported_reasoning_levels": [],
            "visibility": "list",
            "supported_in_api": true,
            "priority": 99,
            "support_verbosity": false,
            "supports_reasoning_summaries": false,
            "input_modalities": ["text", "image"],
            "base_instructions": "",
        }),
        Keep::default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of 0.169.0 (`codex debug models --bundled`), shortened.
    fn vendor() -> Value {
        json!({"models": [{
            "slug": "gpt-6-luna", "display_name": "GPT-6-Luna", "description": "d", "default_reasoning_level": "medium",
            "supported_reasoning_levels": [{"effort": "low", "description": "l"}], "shell_type": "unified_exec",
            "visibility": "list", "supported_in_api": true, "priority": 1, "model_messages": {"persistent_instructions": "p"},
            "include_skills_usage_instructions": true, "support_verbosity": true, "apply_patch_tool_type": "freeform",
            "truncation_policy": {"mode": "tokens", "limit": 10000}, "context_window": 372000, "max_context_window": 372000,
            "experimental_supported_tools": ["clock"], "use_responses_lite": true, "tool_mode": "code_mode_only",
            "multi_agent_version": "v2", "base_instructions": "You are Codex", "some_new_word": 1,
        }]})
    }

    #[test]
    fn the_vendors_entry_offers_our_tools_only_and_cuts_nothing() {
        assert_eq!(
            catalog(&vendor(), &["gpt-6-luna"], Keep::default()),
            json!({"models": [{
                "slug": "gpt-6-luna", "display_name": "GPT-6-Luna", "default_reasoning_level": "medium",
                "supported_reasoning_levels": [{"effort": "low", "description": "l"}], "shell_type": "disabled",
                "visibility": "list", "supported_in_api": true, "priority": 1,
                "include_skills_usage_instructions": false, "support_verbosity": true,
                "truncation_policy": {"mode": "bytes", "limit": 1_000_000_000}, "context_window": 100_000_000,
                "max_context_window": 100_000_000, "experimental_supported_tools": [], "use_responses_lite": true,
                "base_instructions": "", "some_new_word": 1, "supports_search_tool": false,
                "include_plugin_usage_instructions": false, "include_apps_usage_instructions": false,
            }]})
        );
    }

    #[test]
    fn models_that_are_not_in_it_get_an_entry() {
        let made = catalog(&vendor(), &["gpt-6-luna-2026", "mine"], Keep::default());
        assert_eq!(slugs(&made), ["gpt-6-luna", "gpt-6-luna-2026", "mine"]);
        assert_eq!(made["models"][1]["use_responses_lite"], json!(true));
        assert_eq!(made["models"][2].get("use_responses_lite"), None);
        assert_eq!(slugs(&catalog(&Value::Null, &["mine"], Keep::default())), ["mine"]);
    }

    #[test]
    fn codexs_own_instructions_stay_where_they_are_wanted() {
        let keep = Keep {
            instructions: true,
            tool_mode: true,
        };
        let made = catalog(&vendor(), &[], keep);
        assert_eq!(made["models"][0]["tool_mode"], json!("code_mode_only"));
        assert_eq!(made["models"][0]["base_instructions"], json!("You are Codex"));
        assert_eq!(
            made["models"][0]["model_messages"],
            json!({"persistent_instructions": "p"})
        );
    }
}
