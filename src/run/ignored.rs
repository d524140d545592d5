//! The choices of a call that its model, or the CLI, has silently ignored, as the reply shows.
//!
//! In: what was chosen, the warnings that were told on the way, and the reply. Out: a warning for each ignored choice that none was
//! told about.

use dfp_model::error::{Code, clip};
use dfp_model::event::{Event, Reply};
use dfp_provider::choices::Choices;

/// The characters of an API's or a CLI's own words that a warning shows.
const LONGEST: usize = 100;

/// The choices whose effect a reply shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShownChoices {
    /// `reasoning: "off"`.
    reasoning_off: bool,
    /// `serviceTier`, if it asks for a certain one.
    service_tier: Option<String>,
    /// `speed: "fast"`.
    fast: bool,
    /// The messages of warnings about options that have no effect.
    told: Vec<String>,
}

impl ShownChoices {
    /// Those of `choices` of a provider with the effort `off_effort` for no reasoning.
    pub fn of(choices: &Choices, off_effort: Option<&str>) -> ShownChoices {
        ShownChoices {
            reasoning_off: choices.is_reasoning_off(off_effort),
            service_tier: choices.service_tier.clone().filter(|tier| tier != "auto"),
            fast: choices.is_fast(),
            told: Vec::new(),
        }
    }

    /// Notes a warning that was told.
    pub fn note(&mut self, event: &Event) {
        if let Event::Warning { code, message } = event
            && code == Code::UnsupportedOption.as_str()
        {
            self.told.push(message.clone());
        }
    }

    /// The warnings about the choices that `reply` does not show.
    pub fn ignored(&self, reply: &Reply) -> Vec<Event> {
        let reasoned = !reply.thinking.is_empty() || reply.usage.reasoning_tokens.is_some_and(|tokens| tokens > 0);
        let off = (self.reasoning_off && reasoned)
            .then(|| ("`reasoning: \"off\"`", "the model has reasoned all the same".to_owned()));
        let tier = self.service_tier.as_ref().zip(reply.service_tier.as_ref());
        let tier = tier.filter(|(asked, served)| asked != served).map(|(asked, served)| {
            let served = clip(served, LONGEST);
            let reason = format!("\"{asked}\" was asked for, and the answer is of the tier \"{served}\"");
            ("`serviceTier`", reason)
        });
        let fast = match (self.fast, reply.speed.as_deref(), reply.fast_mode.as_deref()) {
            (false, ..) | (_, Some("fast"), _) => None,
            (true, Some(speed), _) => Some(format!("the answer is of the speed \"{}\"", clip(speed, LONGEST))),
            (true, None, Some(state)) => Some(format!(
                "the CLI says that the fast mode is {}: not every model and login has one",
                clip(state, LONGEST)
            )),
            (true, None, None) => None,
        };
        let fast = fast.map(|reason| ("`speed: \"fast\"`", reason));
        // An effort that means no reasoning is told by its own name.
        let name = |option: &str| {
            option
                .split([':', '.'])
                .next()
                .unwrap_or(option)
                .trim_end_matches('`')
                .to_owned()
        };
        let untold = |(option, _): &(&str, String)| !self.told.iter().any(|told| told.starts_with(&name(option)));
        let warning = |(option, reason)| Event::Warning {
            code: Code::UnsupportedOption.as_str().to_owned(),
            message: format!("{option} has no effect: {reason}"),
        };
        let all = off.into_iter().chain(tier).chain(fast);
        all.filter(untold).map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfp_model::message::Usage;

    fn messages(shown: &ShownChoices, reply: &Reply) -> Vec<String> {
        let message = |event| match event {
            Event::Warning { code, message } => format!("{code} {message}"),
            other => format!("{other:?}"),
        };
        shown.ignored(reply).into_iter().map(message).collect()
    }

    fn reasoned() -> Reply {
        Reply {
            usage: Usage {
                reasoning_tokens: Some(7),
                ..Usage::default()
            },
            ..Reply::default()
        }
    }

    #[test]
    fn reasoning_that_was_not_wanted_is_told_once() {
        let off = Choices {
            reasoning_off: true,
            ..Choices::default()
        };
        let mut shown = ShownChoices::of(&off, None);
        let told = "`reasoning: \"off\"` has no effect: the model has reasoned all the same";
        assert_eq!(messages(&shown, &reasoned()), [format!("UNSUPPORTED_OPTION {told}")]);
        assert_eq!(messages(&shown, &Reply::default()), [""; 0]);
        shown.note(&Event::Warning {
            code: "UNSUPPORTED_OPTION".to_owned(),
            message: "`reasoning: \"off\"` has no effect: the model always reasons".to_owned(),
        });
        assert_eq!(messages(&shown, &reasoned()), [""; 0]);
    }

    #[test]
    fn a_tier_and_a_speed_that_were_not_served_are_told() {
        let asked = Choices {
            service_tier: Some("flex".to_owned()),
            fast: Some(true),
            ..Choices::default()
        };
        let served = |tier: &str, speed: Option<&str>, fast_mode: &str| Reply {
            service_tier: Some(tier.to_owned()),
            speed: speed.map(str::to_owned),
            fast_mode: Some(fast_mode.to_owned()),
            ..Reply::default()
        };
        let shown = ShownChoices::of(&asked, None);
        assert_eq!(messages(&shown, &served("flex", Some("fast"), "on")), [""; 0]);
        assert_eq!(messages(&shown, &Reply::default()), [""; 0]);
        assert_eq!(
            messages(&shown, &served("default", None, "off (why)")),
            [
                "UNSUPPORTED_OPTION `serviceTier` has no effect: \"flex\" was asked for, and the answer is of the tier \"default\"",
                "UNSUPPORTED_OPTION `speed: \"fast\"` has no effect: the CLI says that the fast mode is off (why): not every model and \
                 login has one",
            ]
        );
        assert_eq!(
            messages(&shown, &served("flex", Some("standard"), "on")),
            ["UNSUPPORTED_OPTION `speed: \"fast\"` has no effect: the answer is of the speed \"standard\""]
        );
        assert_eq!(
            messages(&ShownChoices::default(), &served("default", None, "off")),
            [""; 0]
        );
    }

    #[test]
    fn an_effort_that_means_it_is_no_reasoning_as_well() {
        let none = Choices {
            effort: Some("none".to_owned()),
            ..Choices::default()
        };
        assert_eq!(messages(&ShownChoices::of(&none, Some("none")), &reasoned()).len(), 1);
        assert_eq!(messages(&ShownChoices::of(&none, None), &reasoned()), [""; 0]);
    }
}
