//! Facts of the transcripts that claude resumes: which versions take one, and what each says of its surroundings by itself.
//!
//! Measured offline with 2.1.197, 2.1.330 and 2.1.332 (CLAUDE-SESSIONS 1).

/// A version of the CLI.
pub type Version = [u64; 3];

/// The oldest version that takes `--resume FILE.jsonl` beside `--no-session-persistence`, of those that serve live sessions.
pub const OLDEST: Version = [2, 1, 197];

/// The oldest known version that tells its folder, its model and the date in a message of their own, of which the transcript has
/// lines. 2.1.197 puts the date before the first text, and takes it from its own clock.
pub const TELLS_SURROUNDINGS: Version = [2, 1, 330];

/// The most characters of a result that claude takes from its tools' server as it is.
pub const MOST_RESULT_CHARS: usize = 500_000;

/// A model, as the CLI introduces it to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    pub id: &'static str,
    /// Its name in words.
    pub name: &'static str,
    /// The end of its knowledge.
    pub cutoff: &'static str,
    /// The effort of a turn for which none was chosen, if the CLI reports each turn's effort to the API (2.1.332).
    pub effort: Option<&'static str>,
}

const fn model(id: &'static str, name: &'static str, cutoff: &'static str) -> ModelFacts {
    ModelFacts {
        id,
        name,
        cutoff,
        effort: None,
    }
}

const fn by_turn(id: &'static str, name: &'static str, cutoff: &'static str) -> ModelFacts {
    ModelFacts {
        effort: Some("medium"),
        ..model(id, name, cutoff)
    }
}

/// The models that 2.1.332 knows by name.
pub const MODELS: &[ModelFacts] = &[
    by_turn("claude-opus-5-5", "Opus 5.5", "June 2026"),
    by_turn("claude-haiku-5-5", "Haiku 5.5", "June 2026"),
    by_turn("claude-sonnet-5-5", "Sonnet 5.5", "June 2026"),
    by_turn("claude-fable-5-2", "Fable 5.2", "June 2026"),
    model("claude-opus-5", "Opus 5", "May 2026"),
    model("claude-sonnet-5", "Sonnet 5", "January 2026"),
    model("claude-opus-4-8", "Opus 4.8", "January 2026"),
    model("claude-fable-5", "Fable 5", "January 2026"),
    model("claude-sonnet-4-6", "Sonnet 4.6", "August 2025"),
    model("claude-opus-4-5", "Opus 4.5", "May 2025"),
    model("claude-haiku-4-5", "Haiku 4.5", "February 2025"),
    model("claude-sonnet-4-5", "Sonnet 4.5", "January 2025"),
];

/// The models of which the CLI asks a fixed budget of thinking (2.1.197, 2.1.332), by the beginnings of their ids. With a budget, the
/// Messages API refuses results of a call that does not begin with thinking.
const THINK_BY_BUDGET: [&str; 7] = [
    "claude-haiku-4",
    "claude-sonnet-4-5",
    "claude-sonnet-4-2",
    "claude-opus-4-5",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-3",
];

/// Returns whether the API wants thinking before calls of the model that is asked for as `name`. `haiku` is Haiku 4.5 to 2.1.197.
pub fn needs_thinking(name: &str, version: Option<Version>) -> bool {
    let is_old_haiku = name == "haiku" && version.is_none_or(|version| version < TELLS_SURROUNDINGS);
    is_old_haiku || THINK_BY_BUDGET.iter().any(|id| name.starts_with(id))
}

/// The facts of the model `id`.
pub fn facts_of(id: &str) -> Option<&'static ModelFacts> {
    MODELS.iter().find(|facts| facts.id == id)
}
