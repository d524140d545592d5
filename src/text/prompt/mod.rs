//! Renders a thread as a prompt, in the form of SPEC-01.
//!
//! In: the messages of a thread and the tools the model may call. Out: one [`Rendered`] string, as `<thread>` XML or as
//! labelled text (`encodings`), with the instructions in front of it, and the blocks that are not text with their positions in it.
//! Everything is appended to a single buffer; no text is copied on the way.
//!
//! The instructions tell a model which tools it may call (SPEC-01's `[Available Tools]`: their definitions as `JSON.stringify(defs, null,
//! 2)` writes them), how to write a call, and which schema its answer has to fit.
//!
//! At the end of the file is what goes through text without parsing it: it finds the first significant byte, tells white space, and lays
//! out JSON anew.

mod encodings;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use serde_json::Value;

use encodings::Blocks;
pub use encodings::{
    Escapes, escape_xml, events_of_document, is_thread_document, last_event_of_document, messages_to_prompt,
    messages_to_xml,
};

use dfp_model::message::content::{self, Media, Part};
use dfp_model::message::{Content, Message, Role, ToolSpec};

/// The encoding of the messages (`inputEncoding`, SPEC-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// `<thread>` XML.
    #[default]
    Xml,
    /// `[User]`, `[Assistant]` … labels.
    Text,
}

/// Returns whether a thread ends with a tool's result, which only system messages may follow. With `documents`, a lone user
/// message may be a thread document.
pub fn ends_with_result(messages: &[Message], documents: bool) -> bool {
    let last = messages.iter().rev().find(|message| message.role != Role::System);
    last.is_some_and(|last| match &last.content {
        Content::Text(text) if documents && messages.len() == 1 && last.role == Role::Human => {
            last_event_of_document(text).as_deref() == Some("tool_output")
        }
        _ => last.role == Role::Tool,
    })
}

/// The bytes that the messages probably need: their text, an eighth more for escapes, and the markup around each.
fn capacity(messages: &[Message]) -> usize {
    const MARKUP: usize = 96;
    messages
        .iter()
        .map(|message| {
            let calls = message.tool_calls.iter();
            let calls: usize = calls
                .map(|call| MARKUP + call.id.len() + call.name.len() + call.args.get().len() * 3 / 2)
                .sum();
            let text = message.content.as_text().len();
            MARKUP + text + text / 8 + calls
        })
        .sum::<usize>()
        + 32
}

/// The options of a prompt's form.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style<'a> {
    /// The encoding of the messages.
    pub encoding: Encoding,
    /// The prefix that ids of calls in the answer must have.
    pub mark: Option<&'a str>,
    /// The JSON Schema that the answer has to fit.
    pub output: Option<&'a str>,
    /// True if a lone user message that is one whole thread document stays unescaped, with [`Encoding::Xml`].
    pub documents: bool,
    /// The characters of the thread that are written as entities, with [`Encoding::Xml`].
    pub escapes: Escapes,
    /// True if the prompt must not contain `@`, for a reader that takes the text behind one for the name of a file: XML and
    /// JSON write it by its number. A thread with an `@` is then written with [`Encoding::Xml`], since labelled text can't
    /// escape it.
    pub without_at: bool,
}

/// Renders the whole prompt: the tool instruction, if there are tools, the instruction for the answer's schema, if there is
/// one, then the messages, and the blocks that are not text.
///
/// Unlike [`messages_to_xml`] and [`messages_to_prompt`], which follow SPEC-01 to the letter, it lets no message be taken for
/// several: text that merely begins like a thread is escaped, and so are lines that look like labels.
pub fn render(messages: &[Message], tools: &[ToolSpec], style: Style) -> Rendered {
    #[cfg(any(test, feature = "test-support"))]
    counted::RENDERED.set(counted::RENDERED.get() + 1);
    let capacity = tools_capacity(tools) + capacity(messages);
    let mut out = Rendered::of_text(String::with_capacity(capacity));
    write(&mut out.text, tools, style.mark, style.output.is_some());
    if let Some(schema) = style.output {
        write_output(&mut out.text, schema);
    }
    if style.without_at {
        out.replace_from(0, '@', "\\u0040");
    }
    let thread_at = out.text.len();
    let mut is_ours = write_thread(&mut out, messages, style);
    if style.without_at && out.text[thread_at..].contains('@') {
        if style.encoding == Encoding::Text {
            out.text.truncate(thread_at);
            out.media.clear();
            let as_xml = Style {
                encoding: Encoding::Xml,
                documents: false,
                ..style
            };
            is_ours = write_thread(&mut out, messages, as_xml);
        }
        out.replace_from(thread_at, '@', "&#64;");
    }
    if is_ours && style.escapes == Escapes::Needed {
        let thread = &out.text[thread_at..];
        let sentence = match (thread.contains("&#64;"), thread.contains('&')) {
            (true, _) => ESCAPED_WITH_AT,
            (false, true) => ESCAPED,
            (false, false) => "",
        };
        out.insert(thread_at, sentence);
    }
    out
}

/// The sentence before a thread with entities: a model that knows of them repeats a text to the letter, and writes no entities of its own.
const ESCAPED: &str = "In the thread below, &lt; &gt; &amp; &quot; stand for the characters < > & \". In your answer, write the characters \
                       themselves.\n\n";

/// The sentence before a thread with entities, for a prompt without `@`.
const ESCAPED_WITH_AT: &str = "In the thread below, &lt; &gt; &amp; &quot; stand for the characters < > & \", and &#64; for the at sign. In \
                               your answer, write the characters themselves.\n\n";

/// Appends the messages; returns whether they are XML that was written here.
fn write_thread(out: &mut Rendered, messages: &[Message], style: Style) -> bool {
    match style.encoding {
        Encoding::Xml => match messages {
            [message]
                if style.documents
                    && message.role == Role::Human
                    && let Content::Text(text) = &message.content
                    && is_thread_document(text) =>
            {
                out.text.push_str(text);
                false
            }
            _ => {
                encodings::write_events(out, messages, Blocks::Placed, style.escapes);
                true
            }
        },
        Encoding::Text => {
            encodings::write_labelled(out, messages);
            false
        }
    }
}

/// A counter for tests of whole calls.
#[cfg(any(test, feature = "test-support"))]
pub mod counted {
    use std::cell::Cell;

    thread_local! {
        /// The number of threads that were rendered.
        pub static RENDERED: Cell<usize> = const { Cell::new(0) };
    }
}

// The positions of a thread's blocks that are not text.
//
// The marker of a block is an element with the block's number (`<image index="1"></image>`), or a label on its own line
// (`[Image 1]`); the block belongs into the element, or behind the label. The index counts all blocks of the thread from 1, in
// order. Text that looks like a marker is escaped like all other markup, and no block stands there.

/// A block, and its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The offset in the text, bytes, behind which the block belongs.
    pub at: usize,
    pub media: Media,
}

/// A thread as a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// All text, with the markers of the blocks.
    pub text: String,
    /// The blocks, in order.
    pub media: Vec<Placed>,
}

/// A part of a [`Rendered`] thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Piece<'a> {
    /// Text, never blank.
    Text(&'a str),
    Media(&'a Media),
}

/// Divides `text` at the positions of its blocks.
pub fn pieces<'a>(text: &'a str, media: &'a [Placed]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(2 * media.len() + 1);
    let mut from = 0;
    let ends = media.iter().map(|placed| (placed.at, Some(&placed.media)));
    for (until, media) in ends.chain([(text.len(), None)]) {
        let text = text.get(from..until).unwrap_or_default();
        from = until;
        // The Messages API refuses text that is blank.
        let text = (!text.trim().is_empty()).then_some(Piece::Text(text));
        pieces.extend(text.into_iter().chain(media.map(Piece::Media)));
    }
    pieces
}

impl Rendered {
    /// Makes a rendered thread of text alone.
    pub fn of_text(text: String) -> Rendered {
        Rendered {
            text,
            media: Vec::new(),
        }
    }

    /// Divides the text at the positions of the blocks.
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        pieces(&self.text, &self.media)
    }

    /// Puts `text` before the byte `at`.
    fn insert(&mut self, at: usize, text: &str) {
        self.text.insert_str(at, text);
        let behind = self.media.iter_mut().filter(|placed| placed.at >= at);
        behind.for_each(|placed| placed.at += text.len());
    }

    /// Replaces each `character` from the byte `from` on by `with`, and moves the blocks accordingly.
    fn replace_from(&mut self, from: usize, character: char, with: &str) {
        let mut media = self.media.iter_mut().peekable();
        let (mut text, mut copied) = (self.text[..from].to_owned(), from);
        let mut move_up_to = |end: usize, copied: usize, written: usize| {
            while let Some(placed) = media.next_if(|placed| placed.at <= end) {
                placed.at = written + placed.at.saturating_sub(copied);
            }
        };
        for (at, found) in self.text.match_indices(character) {
            if at < from {
                continue;
            }
            move_up_to(at, copied, text.len());
            text.push_str(&self.text[copied..at]);
            text.push_str(with);
            copied = at + found.len();
        }
        move_up_to(self.text.len(), copied, text.len());
        text.push_str(&self.text[copied..]);
        self.text = text;
    }

    /// The number of the next block, as in `[Image 1]` and `<image index="1">`.
    fn next_index(&self) -> usize {
        self.media.len() + 1
    }

    /// Puts `media` at the end of the text so far.
    fn place(&mut self, media: Media) {
        self.media.push(Placed {
            at: self.text.len(),
            media,
        });
    }

    /// Writes the element of `media`, with the block in it.
    fn place_in_element(&mut self, media: Media) {
        let tag = media.kind.tag();
        // Writing to a String can't fail.
        let _ = write!(self.text, "<{tag} index=\"{}\">", self.next_index());
        self.place(media);
        let _ = write!(self.text, "</{tag}>");
    }
}

/// A part of a message that has blocks other than text.
enum Chunk {
    /// All text up to the next block in one piece: no label must come about where two texts meet.
    Text(String),
    Media(Box<Media>),
}

/// Divides `message` into its parts, in order; `None` if it holds nothing but text, or JSON that is not a block at all.
fn chunks(message: &Message) -> Option<Vec<Chunk>> {
    let Content::Blocks(raw) = &message.content else {
        return None;
    };
    let parts = content::parts(raw, &message.role);
    if !parts.iter().any(|part| matches!(part, Part::Media(_))) {
        return None;
    }
    let mut chunks: Vec<Chunk> = Vec::new();
    for part in parts {
        match (part, chunks.last_mut()) {
            (Part::Text(more), Some(Chunk::Text(text))) => text.push_str(&more),
            (Part::Text(text), _) => chunks.push(Chunk::Text(text)),
            (Part::Media(media), _) => chunks.push(Chunk::Media(media)),
            // Calls are stored in the message itself by now; the other parts are not content, or were refused
            // (`message::content`).
            (Part::Omitted | Part::Call(_) | Part::Unknown(_), _) => {}
        }
    }
    Some(chunks)
}

/// The instruction on the form of a call (SPEC-01, `TOOL_CALL_FORMAT`).
const TOOL_CALL_FORMAT: &str = r#"When you need to call a tool, respond with ONLY a JSON block in this exact format:

```json
{
  "tool_calls": [
    {
      "name": "tool_name",
      "args": { "param": "value" },
      "id": "call_1"
    }
  ]
}
```

If you do not need to call any tools, respond with plain text (no JSON block)."#;

/// The instruction for `tools`; empty if there are none. The schemas keep their key order and the spelling of numbers. With a
/// `mark`, the format's example has it in its id, and a sentence explains it.
pub fn tool_instruction(tools: &[ToolSpec], mark: Option<&str>) -> String {
    let mut out = String::with_capacity(tools_capacity(tools));
    write(&mut out, tools, mark, false);
    out
}

/// Appends the text that [`tool_instruction`] returns. With `by_schema`, an answer without calls is not plain text.
fn write(out: &mut String, tools: &[ToolSpec], mark: Option<&str>, by_schema: bool) {
    let begin = out.len();
    if tools.is_empty() {
        return;
    }
    out.push_str("[Available Tools]\n[");
    for (index, tool) in tools.iter().enumerate() {
        out.push_str(if index > 0 { ",\n  {\n    " } else { "\n  {\n    " });
        out.push_str("\"name\": ");
        push_string(out, &tool.name);
        if let Some(description) = &tool.description {
            out.push_str(",\n    \"description\": ");
            push_string(out, description);
        }
        out.push_str(",\n    \"parameters\": ");
        push_indented(out, tool.schema.get(), 2);
        out.push_str("\n  }");
    }
    out.push_str("\n]\n\n");
    match mark {
        None => out.push_str(TOOL_CALL_FORMAT),
        Some(mark) => push_marked_format(out, mark),
    }
    if by_schema && let Some(at) = out[begin..].rfind("If you do not need to call any tools") {
        out.truncate(begin + at);
        out.push_str(INSTEAD_OF_TEXT);
    }
    out.push_str("\n\n");
}

/// Appends [`TOOL_CALL_FORMAT`] with `mark` in it, and the sentence about the mark behind the example.
fn push_marked_format(out: &mut String, mark: &str) {
    let format = TOOL_CALL_FORMAT.replacen("call_1", &format!("{mark}_1"), 1);
    let (example, otherwise) = format.rsplit_once("\n\n").unwrap_or((&format, ""));
    out.push_str(example);
    out.push_str("\n\nEvery id must begin with \"");
    out.push_str(mark);
    out.push_str(
        "_\", also where earlier calls of the conversation have other ids, and the block must be the last thing in your \
         message: any other block is treated as plain text.\n\n",
    );
    out.push_str(otherwise);
}

/// The bytes that the instruction probably needs.
fn tools_capacity(tools: &[ToolSpec]) -> usize {
    let defs: usize = tools
        .iter()
        .map(|tool| {
            96 + tool.name.len()
                + tool.description.as_ref().map_or(0, String::len) * 9 / 8
                + tool.schema.get().len() * 3
        })
        .sum();
    if tools.is_empty() {
        0
    } else {
        defs + TOOL_CALL_FORMAT.len() + 256
    }
}

/// The tool instruction's sentence about an answer without calls, in place of the one that asks for plain text.
const INSTEAD_OF_TEXT: &str =
    "If you do not need to call any tools, respond with what [Output Schema] below asks for (no such block).";

/// The instruction for the JSON Schema `schema`.
pub fn output_instruction(schema: &str) -> String {
    let mut out = String::with_capacity(schema.len() * 2 + 256);
    write_output(&mut out, schema);
    out.truncate(out.trim_end().len());
    out
}

/// Appends the text that [`output_instruction`] returns, and a blank line.
fn write_output(out: &mut String, schema: &str) {
    out.push_str("[Output Schema]\n");
    push_indented(out, schema, 0);
    out.push_str(
        "\n\nYour answer must be ONLY one JSON value that fits this JSON Schema: no other text before or behind it, and no \
         explanation.\n\n",
    );
}

// Text, gone through without parsing it. If no significant byte is near, whole blocks are looked at, in a form that the compiler turns
// into vector instructions.

/// Returns whether `c` is white space to JavaScript's `trim` and `\s`: Unicode's, with the byte order mark and without U+0085.
pub fn is_js_space(c: char) -> bool {
    c == '\u{FEFF}' || (c.is_whitespace() && c != '\u{85}')
}

/// The number of bytes looked at together.
const BLOCK: usize = 32;

/// The offset of the first byte for which `stops` is true, or the length. Fast if `stops` has no short circuits (`|`, not
/// `||`).
pub(crate) fn first_stop(bytes: &[u8], stops: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    loop {
        // Significant bytes come in clusters, so the search goes byte by byte at first.
        let end = bytes.len().min(at + BLOCK / 2);
        match bytes[at..end].iter().position(|byte| stops(*byte)) {
            Some(found) => return at + found,
            None if end == bytes.len() => return end,
            None => at = end,
        }
        let quiet = |block: &&[u8]| !block.iter().fold(false, |any, byte| any | stops(*byte));
        at += BLOCK * bytes[at..].chunks_exact(BLOCK).take_while(quiet).count();
    }
}

/// Returns `text` from `at` on, or from the next character boundary.
pub(crate) fn from_char(text: &str, at: usize) -> &str {
    (at..text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

// Lays out JSON text anew without parsing it.
//
// In: JSON that is known to be valid (`RawValue`). Out: the same value indented as `JSON.stringify(value, null, 2)` does, or
// without any white space. Key order, number spelling and escapes (those of lone surrogates, too) stay unchanged, and no
// nesting is too deep, since nothing here recurses.

/// Appends `text` as a JSON string, escaped as `JSON.stringify` escapes it.
fn push_string(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

/// Appends `json` indented by two spaces per level, where its first line already stands `level` levels deep.
fn push_indented(out: &mut String, json: &str, level: usize) {
    let mut level = level;
    let mut tokens = JsonTokens(json).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                if let Some(close) = tokens.next_if(|next| matches!(*next, "}" | "]")) {
                    out.push_str(close);
                } else {
                    level += 1;
                    push_line(out, level);
                }
            }
            "}" | "]" => {
                level = level.saturating_sub(1);
                push_line(out, level);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                push_line(out, level);
            }
            ":" => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
}

/// Returns `json` without the white space between its tokens.
pub(crate) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    JsonTokens(json).for_each(|token| out.push_str(token));
    out
}

fn push_line(out: &mut String, level: usize) {
    out.push('\n');
    (0..level).for_each(|_| out.push_str("  "));
}

/// The tokens of a JSON text: brackets, commas, colons, strings, other scalars.
struct JsonTokens<'a>(&'a str);

impl<'a> Iterator for JsonTokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
        let length = match rest.bytes().next()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_length(rest),
            _ => rest
                .find([' ', '\t', '\r', '\n', '{', '}', '[', ']', ',', ':', '"'])
                .unwrap_or(rest.len()),
        };
        let (token, rest) = rest.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// The length of the string `json` starts with, both quotes included.
fn string_length(json: &str) -> usize {
    let bytes = json.as_bytes();
    let mut from = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(from..).unwrap_or_default()) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return from;
        }
        from += 1;
    }
    json.len()
}
