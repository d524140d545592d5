//! The thread as a prompt, the way SPEC-01 writes it.
//!
//! In: the messages of a thread and the tools the model may call. Out: one string, as `<thread>` XML (`xml`) or as
//! labelled text (`labelled`), with the tool instruction (`tools`) in front of it, and the blocks that are no text with their places
//! in it (`placed`). Everything is appended to a single buffer; no text is copied on the way.

mod capacity;
mod document;
pub mod json;
mod labelled;
mod output;
mod placed;
pub mod scan;
mod text;
mod tools;
mod xml;

pub use output::output_instruction;
pub use placed::{Piece, Placed, Rendered};
pub use scan::is_js_space;
pub use text::messages_to_prompt;
pub use tools::{TOOL_CALL_FORMAT, tool_instruction};
pub use xml::{escape_xml, messages_to_xml};

pub use document::{events_of_document, is_thread_document, last_event_of_document};

use crate::message::{Content, Message, Role, ToolSpec};
use xml::Blocks;

/// How the messages are written (`inputEncoding`, SPEC-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// `<thread>` XML.
    #[default]
    Xml,
    /// `[User]`, `[Assistant]` … labels.
    Text,
}

/// Whether a thread ends with a tool's result, which only system messages may follow. `documents`: a lone message of the user's may be a
/// thread document.
pub fn ends_with_result(messages: &[Message], documents: bool) -> bool {
    let last = messages.iter().rev().find(|message| message.role != Role::System);
    last.is_some_and(|last| match &last.content {
        Content::Text(text) if documents && messages.len() == 1 && last.role == Role::Human => {
            last_event_of_document(text).as_deref() == Some("tool_output")
        }
        _ => last.role == Role::Tool,
    })
}

/// How a prompt is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style<'a> {
    /// How the messages are written.
    pub encoding: Encoding,
    /// What the ids of calls in the answer have to begin with.
    pub mark: Option<&'a str>,
    /// The JSON Schema that the answer has to fit.
    pub output: Option<&'a str>,
    /// A lone user message that is one whole thread document stays as it is, with [`Encoding::Xml`].
    pub documents: bool,
    /// No `@` stands in the prompt, for a reader that takes what is behind one for the name of a file: XML and JSON write it by its number. A
    /// thread that has one is written with [`Encoding::Xml`], since labelled text has no such way.
    pub without_at: bool,
}

/// The whole prompt: the tool instruction, if there are tools, that of the answer's schema, if it is asked for, then the messages, and
/// the blocks that are no text.
///
/// Unlike [`messages_to_xml`] and [`messages_to_prompt`], which are SPEC-01's to the letter, it lets no message be taken for
/// several: text that merely begins as a thread is escaped, and so are lines that look like labels.
pub fn render(messages: &[Message], tools: &[ToolSpec], style: Style) -> Rendered {
    #[cfg(test)]
    counted::RENDERED.set(counted::RENDERED.get() + 1);
    let capacity = tools::capacity(tools) + capacity::of(messages);
    let mut out = Rendered::of_text(String::with_capacity(capacity));
    tools::write(&mut out.text, tools, style.mark, style.output.is_some());
    if let Some(schema) = style.output {
        output::write(&mut out.text, schema);
    }
    if style.without_at {
        out.replace_from(0, '@', "\\u0040");
    }
    let thread_at = out.text.len();
    write_thread(&mut out, messages, style.encoding, style.documents);
    if style.without_at && out.text[thread_at..].contains('@') {
        if style.encoding == Encoding::Text {
            out.text.truncate(thread_at);
            out.media.clear();
            write_thread(&mut out, messages, Encoding::Xml, false);
        }
        out.replace_from(thread_at, '@', "&#64;");
    }
    out
}

/// Appends the messages.
fn write_thread(out: &mut Rendered, messages: &[Message], encoding: Encoding, documents: bool) {
    match encoding {
        Encoding::Xml => match messages {
            [message]
                if documents
                    && message.role == Role::Human
                    && let Content::Text(text) = &message.content
                    && is_thread_document(text) =>
            {
                out.text.push_str(text);
            }
            _ => xml::write_events(out, messages, Blocks::Placed),
        },
        Encoding::Text => labelled::write(out, messages),
    }
}

/// What tests of whole calls count.
#[cfg(test)]
pub mod counted {
    use std::cell::Cell;

    thread_local! {
        /// How many threads were written.
        pub static RENDERED: Cell<usize> = const { Cell::new(0) };
    }
}

#[cfg(test)]
mod tests;
