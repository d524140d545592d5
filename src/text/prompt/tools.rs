//! The instructions that tell a model which tools it may call and how to write a call, SPEC-01's `[Available Tools]`, and which schema
//! its answer has to fit.
//!
//! In: the bound tools. Out: their definitions as `JSON.stringify(defs, null, 2)` writes them, then the call format.

use dfp_model::message::ToolSpec;

use super::scan;

/// The instruction on the form of a call (SPEC-01, `TOOL_CALL_FORMAT`).
pub const TOOL_CALL_FORMAT: &str = r#"When you need to call a tool, respond with ONLY a JSON block in this exact format:

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
    let mut out = String::with_capacity(capacity(tools));
    write(&mut out, tools, mark, false);
    out
}

/// Appends the text that [`tool_instruction`] returns. With `by_schema`, an answer without calls is not plain text.
pub(super) fn write(out: &mut String, tools: &[ToolSpec], mark: Option<&str>, by_schema: bool) {
    let begin = out.len();
    if tools.is_empty() {
        return;
    }
    out.push_str("[Available Tools]\n[");
    for (index, tool) in tools.iter().enumerate() {
        out.push_str(if index > 0 { ",\n  {\n    " } else { "\n  {\n    " });
        out.push_str("\"name\": ");
        scan::push_string(out, &tool.name);
        if let Some(description) = &tool.description {
            out.push_str(",\n    \"description\": ");
            scan::push_string(out, description);
        }
        out.push_str(",\n    \"parameters\": ");
        scan::push_indented(out, tool.schema.get(), 2);
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
pub(super) fn capacity(tools: &[ToolSpec]) -> usize {
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
pub(super) fn write_output(out: &mut String, schema: &str) {
    out.push_str("[Output Schema]\n");
    scan::push_indented(out, schema, 0);
    out.push_str(
        "\n\nYour answer must be ONLY one JSON value that fits this JSON Schema: no other text before or behind it, and no \
         explanation.\n\n",
    );
}
