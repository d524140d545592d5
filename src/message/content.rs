//! What a message holds, read by shape: text, and what is no text.
//!
//! In: a message's content as JSON, in any of the ways agents write blocks: LangChain's (both generations), Anthropic's, OpenAI's (chat
//! completions and responses), the AI SDK's, Google's, MCP's. Out: [`Part`]s, and messages whose content is text wherever it is nothing
//! else ([`settle`]). What a provider takes beside text is data ([`Takes`]); everything else is [`Refused`], by its place and its
//! name. Nothing that is not text ever becomes text: a photo as base64 is a prompt that is too long, and no photo.

mod read;

pub use read::parts;

use serde_json::Value;

use super::{Content, Message, Role, ToolCall};

/// What a block that is no text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A picture.
    Image,
    /// A PDF, or any other file that is none of the others.
    Document,
    /// Sound.
    Audio,
    /// A film.
    Video,
    /// Anthropic's `search_result`.
    SearchResult,
}

impl Kind {
    /// With its article: `an image`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Image => "an image",
            Kind::Document => "a document",
            Kind::Audio => "audio",
            Kind::Video => "a video",
            Kind::SearchResult => "a search result",
        }
    }

    /// More than one: `images`.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Image => "images",
            Kind::Document => "documents",
            Kind::Audio => "audio",
            Kind::Video => "videos",
            Kind::SearchResult => "search results",
        }
    }

    fn of_mime(mime: Option<&str>) -> Kind {
        match mime.and_then(|mime| mime.split('/').next()) {
            Some("image") => Kind::Image,
            Some("audio") => Kind::Audio,
            Some("video") => Kind::Video,
            _ => Kind::Document,
        }
    }
}

/// Whose way of writing a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The Messages API: `{type, source}`, `search_result`.
    Anthropic,
    /// Chat completions: `image_url`, `input_audio`, `file` with a `file` in it, and what servers have added (`video_url`, `audio_url`).
    OpenAi,
    /// Any other.
    Other,
}

/// Where the data of a block are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the block, as base64.
    Base64(String),
    /// Elsewhere.
    Url(String),
    /// In the block, as text.
    Text(String),
    /// Somewhere that only the block's own dialect can say: an id of an uploaded file, blocks within the block.
    Own,
    /// Nowhere that can be read: a `Blob`, bytes that went through `JSON.stringify`.
    Unreadable,
}

/// A block that is no text.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// What it is.
    pub kind: Kind,
    /// Its type in the sense of MIME, in lower case: as the block gives it, or as the data begin.
    pub mime: Option<String>,
    /// Its data.
    pub source: Source,
    /// Whose way of writing it is.
    pub dialect: Dialect,
    /// The block.
    pub block: Value,
}

impl Media {
    /// For messages: `an image (image/png)`.
    pub fn name(&self) -> String {
        match &self.mime {
            Some(mime) => format!("{} ({mime})", self.kind.name()),
            None => self.kind.name().to_owned(),
        }
    }
}

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Anything else that a model could take.
    Media(Box<Media>),
    /// No content: reasoning, marks for caches, records of what a server did.
    Omitted,
    /// A call in the model's own message, which may stand in its `tool_calls`, too.
    Call(Option<ToolCall>),
    /// A block of a type that is not known.
    Unknown(String),
}

/// What is taken beside text in one kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// These, however they are written, with their data or a URL.
    pub kinds: &'static [Kind],
    /// Of those, only of these types; none means any.
    pub types: &'static [&'static str],
    /// All blocks that are written so, as they are.
    pub dialect: Option<Dialect>,
    /// Also where only an address of the data is known.
    pub urls: bool,
}

impl Takes {
    /// Text only.
    pub const TEXT: Takes = Takes {
        kinds: &[],
        types: &[],
        dialect: None,
        urls: false,
    };

    fn takes(&self, media: &Media) -> bool {
        if self.dialect == Some(media.dialect) && media.source != Source::Unreadable {
            return true;
        }
        let typed = match &media.mime {
            Some(mime) => self.types.is_empty() || self.types.contains(&mime.as_str()),
            None => self.types.is_empty() || matches!(media.source, Source::Url(_)),
        };
        let fits = match media.source {
            Source::Base64(_) => typed,
            Source::Url(_) => typed && self.urls,
            Source::Text(_) => media.kind == Kind::Document,
            Source::Own | Source::Unreadable => false,
        };
        fits && self.kinds.contains(&media.kind)
    }
}

/// What a provider, or an engine of it, takes beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// In a user's message.
    pub users: Takes,
    /// In a tool's result.
    pub results: Takes,
    /// In a message of a role of the caller's own.
    pub others: Takes,
}

impl Accepts {
    /// Text only.
    pub const TEXT: Accepts = Accepts {
        users: Takes::TEXT,
        results: Takes::TEXT,
        others: Takes::TEXT,
    };

    fn of(&self, role: &Role) -> Takes {
        match role {
            Role::Human => self.users,
            Role::Tool => self.results,
            Role::Other(_) => self.others,
            Role::System | Role::Ai => Takes::TEXT,
        }
    }
}

/// A block that can't be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Where it is: `messages[0].content[1]`.
    pub at: String,
    /// What it is: `an image (image/png)`.
    pub what: String,
}

/// Makes text of all content that is nothing else: texts are joined as LangChain's `text` joins them, content that is no block is its
/// JSON, as SPEC-01 has it. What is no content is left out, and calls that stand only in the content become the message's. A message
/// with anything else keeps its blocks.
///
/// # Errors
/// The first block of a type that is not known.
pub fn settle(messages: &mut [Message]) -> Result<(), Refused> {
    for (index, message) in messages.iter_mut().enumerate() {
        let Content::Blocks(raw) = &message.content else {
            continue;
        };
        let mut text = String::new();
        let mut calls = Vec::new();
        let mut only_text = true;
        for (block, part) in parts(raw, &message.role).into_iter().enumerate() {
            match part {
                Part::Text(more) => text.push_str(&more),
                Part::Media(_) => only_text = false,
                Part::Omitted => {}
                Part::Call(call) => calls.extend(call),
                Part::Unknown(name) => {
                    return Err(Refused {
                        at: format!("messages[{index}].content[{block}]"),
                        what: name,
                    });
                }
            }
        }
        if message.tool_calls.is_empty() {
            message.tool_calls = calls;
        }
        if only_text {
            message.content = Content::Text(text);
        }
    }
    Ok(())
}

/// Whether all of it can be sent where this is taken.
///
/// # Errors
/// The first block that can't.
pub fn check(messages: &[Message], accepts: &Accepts) -> Result<(), Refused> {
    for (index, message) in messages.iter().enumerate() {
        let Content::Blocks(raw) = &message.content else {
            continue;
        };
        let takes = accepts.of(&message.role);
        for (block, part) in parts(raw, &message.role).into_iter().enumerate() {
            let what = match part {
                Part::Media(media) if !takes.takes(&media) => match media.source {
                    Source::Unreadable => format!("{}, whose data can't be read", media.name()),
                    _ => media.name(),
                },
                Part::Unknown(name) => name,
                _ => continue,
            };
            let at = format!("messages[{index}].content[{block}]");
            return Err(Refused { at, what });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
