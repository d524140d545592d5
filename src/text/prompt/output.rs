//! The instruction that tells a model in words which schema its answer has to fit.

use super::json;

/// The tool instruction's sentence about an answer without calls, in place of the one that asks for plain text.
pub(super) const INSTEAD_OF_TEXT: &str =
    "If you do not need to call any tools, respond with what [Output Schema] below asks for (no such block).";

/// The instruction for the JSON Schema `schema`.
pub fn output_instruction(schema: &str) -> String {
    let mut out = String::with_capacity(schema.len() * 2 + 256);
    write(&mut out, schema);
    out.truncate(out.trim_end().len());
    out
}

/// Appends the text that [`output_instruction`] returns, and a blank line.
pub(super) fn write(out: &mut String, schema: &str) {
    out.push_str("[Output Schema]\n");
    json::push_indented(out, schema, 0);
    out.push_str(
        "\n\nYour answer must be ONLY one JSON value that fits this JSON Schema: no other text before or behind it, and no \
         explanation.\n\n",
    );
}
