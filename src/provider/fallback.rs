//! The options of `createFallbackProvider`, which stand beside its list of providers.
//!
//! In: the options' JSON. Out: the settings of the members' breakers, or an error that names the option.

use serde_json::Value;

use super::options::{self, Kind, MAX_MS, OptionSpec};
use dfp_model::breaker::Settings;
use dfp_model::error::ProviderError;

/// The id of the fallback provider itself.
pub const ID: &str = "fallback";

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "fallbackOnRateLimit",
        kind: Kind::Flag,
    },
    OptionSpec {
        name: "breaker",
        kind: Kind::FalseOr(&[
            OptionSpec {
                name: "failureThreshold",
                kind: Kind::Whole(1, 1_000),
            },
            OptionSpec {
                name: "windowMs",
                kind: Kind::Ms(1, MAX_MS),
            },
            OptionSpec {
                name: "resetMs",
                kind: Kind::Ms(1, MAX_MS),
            },
        ]),
    },
];

/// The settings of the breakers; `None` for no breakers.
///
/// # Errors
/// `INVALID_OPTION`, naming the option, what it holds and what is allowed.
pub fn breaker_settings(options_json: &str) -> Result<Option<Settings>, Box<ProviderError>> {
    let fields = options::checked(ID, OPTIONS, options_json)?;
    let default = Settings::default();
    Ok(match fields.get("breaker") {
        None => Some(default),
        Some(Value::Object(breaker)) => {
            let number = |name: &str, default: u64| options::number(breaker, name).unwrap_or(default);
            Some(Settings {
                failure_threshold: u32::try_from(number("failureThreshold", u64::from(default.failure_threshold)))
                    .unwrap_or(u32::MAX),
                window_ms: number("windowMs", default.window_ms),
                reset_ms: number("resetMs", default.reset_ms),
            })
        }
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_given_and_refuses_the_rest_by_name() {
        assert_eq!(breaker_settings("{}").unwrap(), Some(Settings::default()));
        assert_eq!(breaker_settings(r#"{"breaker":false}"#).unwrap(), None);
        let settings = breaker_settings(r#"{"breaker":{"failureThreshold":2,"resetMs":7}}"#).unwrap();
        let expected = Settings {
            failure_threshold: 2,
            reset_ms: 7,
            ..Settings::default()
        };
        assert_eq!(settings, Some(expected));
        for (json, expected) in [
            (
                r#"{"breaker":true}"#,
                "option \"breaker\" must be false, or an object of failureThreshold, windowMs, resetMs; given: true",
            ),
            (
                r#"{"breaker":{"failureThreshold":0}}"#,
                "option \"breaker.failureThreshold\" must be a whole number from 1 to 1000; given: 0",
            ),
            (
                r#"{"fallbackOnRateLimit":"yes"}"#,
                "option \"fallbackOnRateLimit\" must be true or false; given: \"yes\"",
            ),
            (
                r#"{"breakers":{}}"#,
                "unknown option \"breakers\": did you mean \"breaker\"?",
            ),
        ] {
            assert_eq!(breaker_settings(json).unwrap_err().message, expected);
        }
    }
}
