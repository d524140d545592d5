//! Reads the content of messages by its shape: text, and blocks that are not text.
//!
//! In: a message's content as JSON, in any of the ways agents write blocks: LangChain's (both generations), Anthropic's,
//! OpenAI's (chat completions and responses), the AI SDK's, Google's, MCP's. Out: [`Part`]s, and messages whose content is text
//! wherever it is nothing else ([`settle`]). The blocks that a provider accepts beside text are data ([`Takes`]); everything
//! else is [`Refused`] with its place and name. A block that is not text never becomes text: a photo as base64 text would be a
//! prompt that is too long, and not a photo.

mod read;

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::Value;

use super::{Content, Message, MessageFields, Role, ToolCall};

pub use read::parts;

/// The kind of a block that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Image,
    /// A PDF, or any other file that is none of the other kinds.
    Document,
    Audio,
    Video,
    /// A `search_result` block of Anthropic's.
    SearchResult,
}

impl Kind {
    /// The kind's name with its article: `an image`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Image => "an image",
            Kind::Document => "a document",
            Kind::Audio => "audio",
            Kind::Video => "a video",
            Kind::SearchResult => "a search result",
        }
    }

    /// The kind's name in the plural: `images`.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Image => "images",
            Kind::Document => "documents",
            Kind::Audio => "audio",
            Kind::Video => "videos",
            Kind::SearchResult => "search results",
        }
    }

    /// The kind as a tag of markup: `image`.
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

/// The API whose notation a block uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The Messages API: `{type, source}`, `search_result`.
    Anthropic,
    /// Chat completions: `image_url`, `input_audio`, `file` with a `file` in it, and servers' additions (`video_url`,
    /// `audio_url`).
    OpenAi,
    Other,
}

/// The place of a block's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The data stand in the block, as base64.
    Base64(String),
    Url(String),
    /// The data stand in the block, as text.
    Text(String),
    /// The data are somewhere that only the block's own dialect knows: an id of an uploaded file, blocks within the block.
    Own,
    /// The data can't be read: a `Blob`, or bytes that went through `JSON.stringify`.
    Unreadable,
}

/// A block that is not text.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    pub kind: Kind,
    /// The MIME type in lower case, as the block gives it or as the beginning of the data shows.
    pub mime: Option<String>,
    pub source: Source,
    /// The API whose notation the block uses.
    pub dialect: Dialect,
    pub block: Value,
}

impl Media {
    /// The block's name in error messages: `an image (image/png)`.
    pub fn name(&self) -> String {
        match &self.mime {
            Some(mime) => format!("{} ({mime})", self.kind.name()),
            None => self.kind.name().to_owned(),
        }
    }

    /// The text of a document that is `text/*`, however its data are written; `None` for any other.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match &self.source {
            Source::Text(text) => Some(Cow::Borrowed(text)),
            Source::Base64(data) if self.mime.as_deref().is_some_and(|mime| mime.starts_with("text/")) => {
                String::from_utf8(decoded(data)?).ok().map(Cow::Owned)
            }
            _ => None,
        }
    }

    /// The type and the base64 of a block that holds its data. An image without a type, whose data show none, counts as PNG.
    pub fn inline(&self) -> Option<(&str, &str)> {
        match &self.source {
            Source::Base64(data) => Some((self.mime.as_deref().unwrap_or("image/png"), data)),
            _ => None,
        }
    }

    /// The block's data as one address (RFC 2397), if it holds them.
    pub fn data_url(&self) -> Option<String> {
        let (mime, data) = self.inline()?;
        Some(format!("data:{mime};base64,{data}"))
    }

    /// The bytes that the block adds to a request: for base64, the text's length.
    fn bytes(&self) -> usize {
        match &self.source {
            Source::Base64(text) | Source::Text(text) => text.len(),
            Source::Url(_) | Source::Own | Source::Unreadable => 0,
        }
    }
}

/// One block of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    /// Any other block that a model could take.
    Media(Box<Media>),
    /// A block that is not content: reasoning, marks for caches, records of a server's own work.
    Omitted,
    /// A call in the model's own message; it may also stand in the message's `tool_calls`.
    Call(Option<ToolCall>),
    /// A block of an unknown type.
    Unknown(String),
}

/// The blocks that are accepted beside text in one kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// These kinds are accepted, however they are written, if they hold their data.
    pub kinds: &'static [Kind],
    /// Only these MIME types of those kinds are accepted; an empty list accepts any.
    pub types: &'static [&'static str],
    /// All blocks in this notation are accepted unchanged; those that hold their data, only if they have one of the types
    /// above.
    pub dialect: Option<Dialect>,
    /// The kinds among those above that are accepted also if only an address of the data is known.
    pub urls: &'static [Kind],
    /// True if documents that are text are accepted.
    pub texts: bool,
}

impl Takes {
    /// Accepts text only.
    pub const TEXT: Takes = Takes {
        kinds: &[],
        types: &[],
        dialect: None,
        urls: &[],
        texts: false,
    };

    /// Accepts images that hold their data, of the types that all model APIs read.
    pub const IMAGES: Takes = Takes {
        kinds: &[Kind::Image],
        types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
        ..Takes::TEXT
    };

    /// The reason why `media` is not accepted; `None` if it is.
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

/// The largest accepted blocks, in bytes as sent: for base64, the text's length. `None` means that no limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentLimits {
    pub image: Option<usize>,
    pub document: Option<usize>,
    /// The limit for all blocks of a thread together.
    pub all: Option<usize>,
}

impl ContentLimits {
    /// No limit is known.
    pub const NONE: ContentLimits = ContentLimits {
        image: None,
        document: None,
        all: None,
    };

    /// The reason why a block of `kind` with `bytes` is too large, where all blocks up to it have `total`; `None` if it is not.
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

/// The blocks that a provider, or one of its engines, accepts beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// Accepted in a user's message.
    pub users: Takes,
    /// Accepted in a tool's result.
    pub results: Takes,
    /// Accepted in a message with a role of the caller's own.
    pub others: Takes,
    /// The limits of size.
    pub limits: ContentLimits,
}

impl Accepts {
    /// Accepts text only.
    pub const TEXT: Accepts = Accepts {
        users: Takes::TEXT,
        results: Takes::TEXT,
        others: Takes::TEXT,
        limits: ContentLimits::NONE,
    };

    /// Accepts images like [`Takes::IMAGES`] in every kind of message, with `all` bytes at most together.
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
    /// The place of the block: `messages[0].content[1]`.
    pub at: String,
    /// The block's name: `an image (image/png)`.
    pub what: String,
    /// The reason.
    pub why: Why,
}

/// The reason why a block can't be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Blocks of this kind or type are not accepted there, or the block can't be read at all.
    NotTaken,
    /// The block would be accepted with its data, but only their address is given.
    Address,
    /// The block has more bytes than one of its kind may have.
    TooLarge {
        bytes: usize,
        /// The largest number of bytes for one block.
        limit: usize,
    },
    /// With this block, the blocks of the thread have more bytes than allowed.
    TooLargeTogether {
        bytes: usize,
        /// The largest number of bytes for all blocks.
        limit: usize,
    },
}

/// Turns all content that is nothing else into text. Texts are joined as LangChain's `text` joins them; content that is not a
/// block becomes its JSON, as in SPEC-01. Blocks that are not content are dropped, and calls that stand only in the content are
/// moved to the message's calls. A message with anything else keeps its blocks.
///
/// # Errors
/// The first block of an unknown type.
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

/// Checks that all blocks of the messages may be sent to a provider that `accepts` these.
///
/// # Errors
/// The first block that may not be sent.
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

/// `bytes` in the standard alphabet, with padding, on one line.
pub fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes `data` in either alphabet, with padding or without, over any number of lines.
pub fn decoded(data: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let mut bytes = data.as_bytes().to_vec();
    bytes.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    let alphabet = match bytes.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        true => alphabet::URL_SAFE,
        false => alphabet::STANDARD,
    };
    GeneralPurpose::new(&alphabet, CONFIG).decode(bytes).ok()
}

#[cfg(test)]
mod tests;
