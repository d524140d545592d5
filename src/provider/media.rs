//! The content beside text that a CLI takes, and the ways in which it gets it.
//!
//! In: nothing. Out: the types of a provider's `media`. `message::content` decides which block is taken; `run::print_prompt` and
//! the live exchanges write each form.

use dfp_model::message::content::Accepts;

/// The content beside text that a CLI takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaSupport {
    /// The content that one process per call takes.
    pub print: Accepts,
    /// The way in which such a process gets it; `None` if it takes none.
    pub form: Option<MediaForm>,
    pub live: Accepts,
}

impl MediaSupport {
    /// The support of text alone.
    pub const NONE: MediaSupport = MediaSupport {
        print: Accepts::TEXT,
        form: None,
        live: Accepts::TEXT,
    };
}

/// The way in which one process per call gets a prompt with content beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaForm {
    /// The prompt is claude's user line on standard input: the text and the blocks in one message, each block at its place.
    UserLine,
    /// The blocks are private files that arguments name ([`super::Word::MediaFiles`]), in their order; the prompt is text.
    Files,
    /// The blocks stand at their places in the message of the session that holds the thread ([`super::SessionParts`]). The CLI puts
    /// words in the place of an image with fewer pixels.
    Session {
        /// The least number of pixels of each side.
        side: usize,
        /// The least number of pixels in all.
        pixels: usize,
    },
    /// The blocks are private files in the folder that the CLI runs in, which is private as well; the prompt begins with `@` and
    /// the name of each. The CLI sends them in the order of their names.
    NamedFiles,
}
