//! Refuses content of a thread that the provider can't take, before anything starts.
//!
//! In: messages, and the accepted content. Out: the messages with text wherever they hold nothing else, or `UNSUPPORTED_CONTENT`,
//! which names the block, the provider that can't take it, and those that can.

use super::base::Base;
use dfp_model::error::{Code, ProviderError};
use dfp_model::message::Message;
use dfp_model::message::content::{self, Accepts, Refused, Takes, Why};
use dfp_provider::media::MediaForm;
use dfp_provider::options::{EngineKind, OutputFormat, PromptStyle};

/// Turns the content of `messages` into text wherever it holds nothing else.
///
/// # Errors
/// A block of a type that is not known, or one that `accepts` does not have, which is what `who` takes.
pub(super) fn settle(messages: &mut [Message], accepts: &Accepts, who: &str) -> Result<(), String> {
    content::settle(messages)
        .and_then(|()| content::check(messages, accepts))
        .map_err(|refused| reason(&refused, who, accepts))
}

fn reason(Refused { at, what, why }: &Refused, who: &str, accepts: &Accepts) -> String {
    match why {
        Why::NotTaken => format!("{at} is {what}, which {who} can't take: it takes {}", taken(accepts)),
        Why::Address => {
            format!(
                "{at} is the address of {what}, which {who} takes only with its data, as base64 or bytes; nothing is fetched here"
            )
        }
        Why::TooLarge { bytes, limit } => {
            format!("{at} is {what} of {bytes} bytes as base64, and {who} takes {limit} of one")
        }
        Why::TooLargeTogether { bytes, limit } => format!(
            "{at} is {what} with which what is no text in this thread has {bytes} bytes as base64, and {who} takes {limit} in one request"
        ),
    }
}

/// The accepted kinds of content in words.
fn taken(accepts: &Accepts) -> String {
    let (users, results) = match (accepts.users, accepts.results) {
        (Takes::TEXT, Takes::TEXT) => return "text only".to_owned(),
        both => both,
    };
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
    format!("{}{types} of the user and {} of tools", kinds(users), kinds(results))
}

/// The content beside text that this provider takes with the engine of its options.
pub(super) fn accepts(engine: &Base) -> &Accepts {
    match engine.options.engine {
        EngineKind::Live => &engine.provider.media.live,
        EngineKind::Auto if engine.provider.live.is_some() => &engine.provider.media.live,
        EngineKind::Print | EngineKind::Warm | EngineKind::Auto => print_accepts(engine),
    }
}

/// The content beside text that one process per call takes.
pub(super) fn print_accepts(engine: &Base) -> &Accepts {
    let options = &engine.options;
    match engine.provider.media.form {
        // The CLI reads lines only if it also writes them, and only from standard input.
        Some(MediaForm::UserLine)
            if options.output_format != OutputFormat::StreamJson || options.prompt_style != PromptStyle::Stdin =>
        {
            &Accepts::TEXT
        }
        // The files have to lie in the folder it runs in, and no other file may lie there that a text could name.
        Some(MediaForm::NamedFiles) if options.built_in_tools || options.cwd.is_some() => &Accepts::TEXT,
        _ => &engine.provider.media.print,
    }
}

/// The hint for content that the live engine takes and print does not.
const LIVE_TAKES_IT: &str = "set `engine: \"live\"`, whose engine takes it, with a version of the CLI that has one";

/// The reason for which `messages` can't be the prompt of one process per call.
pub(super) fn unprintable(engine: &Base, messages: &[Message]) -> Option<Box<ProviderError>> {
    let accepts = print_accepts(engine);
    let refused = content::check(messages, accepts).err()?;
    let who = format!("{}'s print engine", engine.id());
    let refusal = refuse_content(engine, &refused, &who, accepts);
    // The call comes from a live engine that the installed CLI does not have, or other CLIs are not known to have it.
    let is_for_live = engine.provider.live.is_some() && content::check(messages, &engine.provider.media.live).is_ok();
    Some(match is_for_live {
        true => Box::new(refusal.with_hint(LIVE_TAKES_IT)),
        false => refusal,
    })
}

/// The error of a block that `who`, which takes what `accepts` says, can't take.
pub(super) fn refuse_content(engine: &Base, refused: &Refused, who: &str, accepts: &Accepts) -> Box<ProviderError> {
    engine.refuse(Code::UnsupportedContent, reason(refused, who, accepts))
}

#[cfg(test)]
mod tests;
