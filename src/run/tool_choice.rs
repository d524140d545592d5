//! `toolChoice`: a call that the model has to make.
//!
//! In: a [`ToolChoice`]. Out: the sentence that asks for the call if there is no native way ([`request`]), and the check that the
//! call was made ([`checks`]): a reply without it is asked for once more, and then is `TOOL_CHOICE_UNMET`.

use std::sync::Arc;

use serde_json::Value;

use super::reply_check::{self, Checks, Finding, ReplyCheck};
use dfp_model::error::{Code, ProviderError};
use dfp_model::event::Reply;
use dfp_model::message::{Message, MessageFields, Role};
use dfp_provider::choices::ToolChoice;
use dfp_provider::classify;

/// The result of a call that is not the one asked for, when the model is asked again: the call is not run.
const NOT_RUN: &str = "Error: this call was not run";

/// The sentence behind a thread that asks for the call; `None` if no call is asked for.
pub(super) fn request(choice: Option<&ToolChoice>) -> Option<String> {
    let what = wanted(choice?)?;
    Some(format!("This reply must be {what}, not an answer in words."))
}

/// The checks that the reply of a call with this choice has to pass.
pub(super) fn checks(provider: &str, choice: Option<&ToolChoice>) -> Checks {
    let mut checks = Checks::default();
    if let Some(choice @ (ToolChoice::Any | ToolChoice::Tool(_))) = choice {
        checks.push(Arc::new(CallIsMade {
            choice: choice.clone(),
            provider: provider.to_owned(),
        }));
    }
    checks
}

/// The wanted call in words.
fn wanted(choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Any => Some("a call of at least one of the tools".to_owned()),
        ToolChoice::Tool(name) => Some(format!("a call of the tool {}", Value::from(name.as_str()))),
    }
}

/// The check that the reply has a certain call, or any.
#[derive(Debug)]
struct CallIsMade {
    choice: ToolChoice,
    provider: String,
}

impl ReplyCheck for CallIsMade {
    fn check(&self, reply: &mut Reply) -> Finding {
        let mut calls = reply.tool_calls.iter();
        let is_made = match &self.choice {
            ToolChoice::Auto | ToolChoice::None => true,
            ToolChoice::Any => calls.next().is_some(),
            ToolChoice::Tool(name) => calls.any(|call| call.name == *name),
        };
        match (is_made, wanted(&self.choice)) {
            (true, _) | (_, None) => Finding::Fits,
            (false, Some(wanted)) => {
                let reason = format!("the reply is not {wanted}, which the call's option \"toolChoice\" asks for");
                let hint = classify::hint(&self.provider, Code::ToolChoiceUnmet);
                let error = ProviderError::new(&self.provider, Code::ToolChoiceUnmet, reason).with_hint(hint);
                Finding::AskAgain {
                    messages: correction(reply, &wanted),
                    error: Box::new(error),
                }
            }
        }
    }
}

/// The reply, an answer to each of its calls (an API requires one for each), and a message that says what is wrong.
fn correction(reply: &Reply, wanted: &str) -> Vec<Message> {
    let not_run = reply.tool_calls.iter().map(|call| {
        Message::from(MessageFields {
            tool_call_id: call.id.clone(),
            is_error: true,
            ..MessageFields::new(Role::Tool, NOT_RUN)
        })
    });
    let reason = format!("That was not {wanted}. Reply again, with that call.");
    let mut messages = reply_check::correction(reply, reason);
    messages.splice(1..1, not_run);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calling(names: &[&str]) -> Reply {
        let call = |name: &&str| serde_json::json!({"id": format!("id_{name}"), "name": name, "args": {}});
        let calls: Vec<_> = names.iter().map(call).collect();
        Reply {
            content: "Well.".to_owned(),
            tool_calls: serde_json::from_str(&serde_json::json!(calls).to_string()).unwrap(),
            ..Reply::default()
        }
    }

    /// A message as its author, its text, and the id of the call that it answers.
    type Told = (Role, String, String);

    fn found(choice: ToolChoice, names: &[&str]) -> Option<(String, Vec<Told>)> {
        let check = CallIsMade {
            choice,
            provider: "claude".to_owned(),
        };
        match check.check(&mut calling(names)) {
            Finding::Fits => None,
            Finding::AskAgain { messages, error } => {
                assert_eq!((error.code, error.provider.as_str()), (Code::ToolChoiceUnmet, "claude"));
                let told = |message: &Message| {
                    (
                        message.role.clone(),
                        message.content.as_text().to_owned(),
                        message.tool_call_id.clone(),
                    )
                };
                Some((error.message, messages.iter().map(told).collect()))
            }
        }
    }

    #[test]
    fn a_reply_with_the_call_fits() {
        let add = || ToolChoice::Tool("add".to_owned());
        assert_eq!(found(ToolChoice::Any, &["sub"]), None);
        assert_eq!(found(add(), &["sub", "add"]), None);
        assert_eq!(found(ToolChoice::Auto, &[]), None);
        for choice in [None, Some(ToolChoice::Auto), Some(ToolChoice::None)] {
            assert!(checks("claude", choice.as_ref()).is_empty());
            assert_eq!(request(choice.as_ref()), None);
        }
        assert!(!checks("claude", Some(&add())).is_empty());
    }

    #[test]
    fn one_without_it_is_asked_for_again_with_the_reason() {
        let (error, messages) = found(ToolChoice::Any, &[]).unwrap();
        let hint = classify::hint("claude", Code::ToolChoiceUnmet);
        assert!(
            error.starts_with(
                "the reply is not a call of at least one of the tools, which the call's option \"toolChoice\" asks for"
            ),
            "{error}"
        );
        assert!(error.to_lowercase().contains(hint), "{error}");
        let none = String::new;
        let reason = "That was not a call of at least one of the tools. Reply again, with that call.";
        assert_eq!(
            messages,
            [
                (Role::Ai, "Well.".to_owned(), none()),
                (Role::Human, reason.to_owned(), none())
            ]
        );
    }

    /// The name of a tool is the caller's text, so it is quoted, whatever it contains.
    #[test]
    fn a_call_of_another_tool_is_answered_first() {
        let choice = ToolChoice::Tool("add \"it\"".to_owned());
        assert_eq!(
            request(Some(&choice)).as_deref(),
            Some("This reply must be a call of the tool \"add \\\"it\\\"\", not an answer in words.")
        );
        let (_, messages) = found(choice, &["sub"]).unwrap();
        let roles: Vec<_> = messages
            .iter()
            .map(|(role, _, id)| (role.clone(), id.as_str()))
            .collect();
        assert_eq!(roles, [(Role::Ai, ""), (Role::Tool, "id_sub"), (Role::Human, "")]);
    }
}
