//! What a message holds, read by shape: text, and what is no text.
//!
//! In: a message's content as JSON, in any of the ways agents write blocks: LangChain's (both generations), Anthropic's, OpenAI's (chat
//! completions and responses), the AI SDK's, Google's, MCP's. Out: [`Part`]s, and messages whose content is text wherever it is nothing
//! else ([`settle`]). What a provider takes beside text is data ([`Takes`]); everything else is [`Refused`], by its place and its
//! name. Nothing that is not text ever becomes text: a photo as base64 is a prompt that is too long, and no photo.

pub mod base64;
mod read;

pub use read::parts;

use std::borrow::Cow;

use serde_json::Value;

use super::{Content, Message, MessageFields, Role, ToolCall};

/// What a block that is no text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Image,
    /// A PDF, or any other file that is none of the others.
    Document,
    Audio,
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

    /// As a word of markup: `image`.
    pub fn tag(self) -> &'static str {
        match self {
            Kind::Image => "image",
            Kind::Document => "document",
            Kind::Audio => "audio",
            Kind::Video => "video",
            Kind::SearchResult => "search_result",
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
    Other,
}

/// Where the data of a block are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the block, as base64.
    Base64(String),
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
    pub kind: Kind,
    /// Its type in the sense of MIME, in lower case: as the block gives it, or as the data begin.
    pub mime: Option<String>,
    pub source: Source,
    /// Whose way of writing it is.
    pub dialect: Dialect,
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

    /// The text of a document that is one, `text/*`, however its data are written; `None` for any other.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match &self.source {
            Source::Text(text) => Some(Cow::Borrowed(text)),
            Source::Base64(data) if self.mime.as_deref().is_some_and(|mime| mime.starts_with("text/")) => {
                String::from_utf8(base64::decoded(data)?).ok().map(Cow::Owned)
            }
            _ => None,
        }
    }

    /// The type and the base64 of what has its data in it; of an image that says no type, and whose data say none, PNG's.
    pub fn inline(&self) -> Option<(&str, &str)> {
        match &self.source {
            Source::Base64(data) => Some((self.mime.as_deref().unwrap_or("image/png"), data)),
            _ => None,
        }
    }

    /// The same as one address (RFC 2397).
    pub fn data_url(&self) -> Option<String> {
        let (mime, data) = self.inline()?;
        Some(format!("data:{mime};base64,{data}"))
    }

    /// What it adds to a request, bytes: of base64, the text's length.
    fn bytes(&self) -> usize {
        match &self.source {
            Source::Base64(text) | Source::Text(text) => text.len(),
            Source::Url(_) | Source::Own | Source::Unreadable => 0,
        }
    }
}

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
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
    /// These, however they are written, with their data.
    pub kinds: &'static [Kind],
    /// Of those, only of these types; none means any.
    pub types: &'static [&'static str],
    /// All blocks that are written so, as they are; with their data in them, only of the types above.
    pub dialect: Option<Dialect>,
    /// Of the kinds above, these also where only an address of the data is known.
    pub urls: &'static [Kind],
    /// Documents that are text.
    pub texts: bool,
}

impl Takes {
    /// Text only.
    pub const TEXT: Takes = Takes {
        kinds: &[],
        types: &[],
        dialect: None,
        urls: &[],
        texts: false,
    };

    /// Images with their data, of the types that all model APIs read.
    pub const IMAGES: Takes = Takes {
        kinds: &[Kind::Image],
        types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
        ..Takes::TEXT
    };

    /// Why `media` is not taken; `None` if it is.
    fn objection(&self, media: &Media) -> Option<Why> {
        let typed = match &media.mime {
            Some(mime) => self.types.is_empty() || self.types.contains(&mime.as_str()),
            None => self.types.is_empty() || matches!(media.source, Source::Url(_)),
        };
        let native = self.dialect == Some(media.dialect);
        let kind = native || self.kinds.contains(&media.kind);
        let taken = match media.source {
            Source::Base64(_) if kind && typed => true,
            Source::Base64(_) => self.texts && media.kind == Kind::Document && media.text().is_some(),
            Source::Text(_) => native || (self.texts && media.kind == Kind::Document),
            Source::Own => native,
            Source::Unreadable => false,
            Source::Url(_) if native || (kind && typed && self.urls.contains(&media.kind)) => true,
            Source::Url(_) if kind && typed => return Some(Why::Address),
            Source::Url(_) => false,
        };
        (!taken).then_some(Why::NotTaken)
    }
}

/// The most that is taken, in bytes of what goes over the wire: of base64, the text's length. `None` where no limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentLimits {
    pub image: Option<usize>,
    pub document: Option<usize>,
    /// All blocks of a thread together.
    pub all: Option<usize>,
}

impl ContentLimits {
    /// None that is known.
    pub const NONE: ContentLimits = ContentLimits {
        image: None,
        document: None,
        all: None,
    };

    /// Why a block of `kind` with `bytes` is too much, where all blocks up to it have `total`; `None` if it is not.
    fn objection(&self, kind: Kind, bytes: usize, total: usize) -> Option<Why> {
        let own = match kind {
            Kind::Image => self.image,
            Kind::Document => self.document,
            Kind::Audio | Kind::Video | Kind::SearchResult => None,
        };
        match (own, self.all) {
            (Some(limit), _) if bytes > limit => Some(Why::TooLarge { bytes, limit }),
            (_, Some(limit)) if total > limit => Some(Why::TooLargeTogether { bytes: total, limit }),
            _ => None,
        }
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
    /// How much of it.
    pub limits: ContentLimits,
}

impl Accepts {
    /// Text only.
    pub const TEXT: Accepts = Accepts {
        users: Takes::TEXT,
        results: Takes::TEXT,
        others: Takes::TEXT,
        limits: ContentLimits::NONE,
    };

    /// Images as [`Takes::IMAGES`] has them, whoever shows them, of so many bytes in all.
    pub const fn images(all: usize) -> Accepts {
        Accepts {
            users: Takes::IMAGES,
            results: Takes::IMAGES,
            others: Takes::IMAGES,
            limits: ContentLimits {
                all: Some(all),
                ..ContentLimits::NONE
            },
        }
    }

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
    /// What is the matter with it.
    pub why: Why,
}

/// Why a block can't be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing of the kind, or of its type, is taken there, or it can't be read at all.
    NotTaken,
    /// It would be taken with its data; only their address is given.
    Address,
    /// It has more bytes than one of its kind may have.
    TooLarge {
        bytes: usize,
        /// What it may have.
        limit: usize,
    },
    /// With it, the blocks of the thread have more bytes than they may have.
    TooLargeTogether {
        bytes: usize,
        /// What they may have.
        limit: usize,
    },
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
                        why: Why::NotTaken,
                    });
                }
            }
        }
        let mut settled = MessageFields::clone(message);
        if settled.tool_calls.is_empty() {
            settled.tool_calls = calls;
        }
        if only_text {
            settled.content = Content::Text(text);
        }
        *message = settled.into();
    }
    Ok(())
}

/// Whether all of it can be sent where this is taken.
///
/// # Errors
/// The first block that can't.
pub fn check(messages: &[Message], accepts: &Accepts) -> Result<(), Refused> {
    let mut total = 0_usize;
    for (index, message) in messages.iter().enumerate() {
        let Content::Blocks(raw) = &message.content else {
            continue;
        };
        let takes = accepts.of(&message.role);
        for (block, part) in parts(raw, &message.role).into_iter().enumerate() {
            let (what, why) = match part {
                Part::Media(media) => {
                    let bytes = media.bytes();
                    total = total.saturating_add(bytes);
                    let too_large = || accepts.limits.objection(media.kind, bytes, total);
                    let Some(why) = takes.objection(&media).or_else(too_large) else {
                        continue;
                    };
                    let what = match media.source {
                        Source::Unreadable => format!("{}, whose data can't be read", media.name()),
                        _ => media.name(),
                    };
                    (what, why)
                }
                Part::Unknown(name) => (name, Why::NotTaken),
                _ => continue,
            };
            let at = format!("messages[{index}].content[{block}]");
            return Err(Refused { at, what, why });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
