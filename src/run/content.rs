//! What is in a thread that the one who is asked can't take, refused before anything starts.
//!
//! In: messages, and what is taken. Out: the messages with text where they hold nothing else, or `UNSUPPORTED_CONTENT`, which names the
//! block, who can't take it, and who can.

use super::engine::Engine;
use crate::error::{Code, ProviderError};
use crate::message::content::{self, Accepts, Refused, Takes};
use crate::message::{Message, Role};
use crate::provider::LiveForm;
use crate::provider::options::EngineKind;

/// `messages` as text wherever they are nothing else.
///
/// # Errors
/// A block of a type that is not known, or one that `accepts` does not have, which is what `who` takes.
pub(super) fn settle(messages: &mut [Message], accepts: &Accepts, who: &str) -> Result<(), String> {
    content::settle(messages)
        .and_then(|()| content::check(messages, accepts))
        .map_err(|refused| reason(&refused, who, accepts))
}

fn reason(Refused { at, what }: &Refused, who: &str, accepts: &Accepts) -> String {
    let takes = match (accepts.users, accepts.results) {
        (Takes::TEXT, Takes::TEXT) => "it takes text only".to_owned(),
        (users, results) => {
            let kinds = |takes: Takes| match takes.kinds {
                [] => "text only".to_owned(),
                kinds => {
                    let names: Vec<&str> = kinds.iter().map(|kind| kind.plural()).collect();
                    format!("text and {}", names.join(" and "))
                }
            };
            let types = match users.types {
                [] => String::new(),
                types => format!(" ({})", types.join(", ")),
            };
            format!(
                "it takes {}{types} of the user and {} of tools",
                kinds(users),
                kinds(results)
            )
        }
    };
    format!("{at} is {what}, which {who} can't take: {takes}")
}

impl Engine {
    /// What this provider takes beside text where nothing but a live session is to be asked, or a live session first.
    pub(super) fn accepts(&self) -> &Accepts {
        match self.options.engine {
            EngineKind::Print => &Accepts::TEXT,
            EngineKind::Live | EngineKind::Auto => &self.provider.live_content,
        }
    }

    /// Why `messages` can't be a prompt: a prompt is text.
    pub(super) fn unprintable(&self, messages: &[Message]) -> Option<Box<ProviderError>> {
        let refused = content::check(messages, &Accepts::TEXT).err()?;
        let who = format!("{}'s print engine", self.id());
        Some(self.refuse(Code::UnsupportedContent, reason(&refused, &who, &Accepts::TEXT)))
    }

    /// Why `messages` can't be sent to a session that has none of them: of a thread that is more than what users say, the whole is
    /// rendered as text.
    pub(super) fn unrenderable(&self, messages: &[Message]) -> Option<Box<ProviderError>> {
        if self.provider.live.is_some_and(LiveForm::tells_media) {
            return None;
        }
        let users_only = messages
            .iter()
            .all(|message| matches!(message.role, Role::Human | Role::System));
        let Refused { at, what } = content::check(messages, &Accepts::TEXT).err().filter(|_| !users_only)?;
        let reason = format!(
            "{at} is {what}, and {} takes that only from a session that knows the messages before: no session knows this thread, \
             and a history is sent as text",
            self.id()
        );
        // The general advice is to ask this very engine.
        let hint = "send it to an API that takes it, or leave it out of the history";
        let error = ProviderError::new(self.id(), Code::UnsupportedContent, reason);
        Some(Box::new(error.with_hint(hint)))
    }
}
