//! What a CLI takes beside text, and how it is handed that.
//!
//! In: nothing. Out: the types of a provider's `media`. Which block is taken is in `message::content`, how each form is made in
//! `run::print_prompt` and the live exchanges.

use crate::message::content::Accepts;

/// What a CLI takes beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaSupport {
    /// One process per call.
    pub print: Accepts,
    /// How such a process is handed it; nothing where it takes none.
    pub form: Option<MediaForm>,
    pub live: Accepts,
}

impl MediaSupport {
    /// Text only.
    pub const NONE: MediaSupport = MediaSupport {
        print: Accepts::TEXT,
        form: None,
        live: Accepts::TEXT,
    };
}

/// How one process per call is handed a prompt that holds what is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaForm {
    /// As claude's user line on standard input: the prompt's text and the blocks in one message, each block at its place.
    UserLine,
    /// As private files that arguments name ([`super::Word::MediaFiles`]), in the order of the blocks; the prompt is text.
    Files,
    /// As private files in the folder the CLI runs in, which is private as well; the prompt begins with `@` and the name of each. The CLI
    /// sends them in the order of their names.
    NamedFiles,
}
