//! A thread as labelled plain text: SPEC-01's `messagesToPrompt`.
//!
//! In: messages. Out: `[Label]\ncontent` for each of them, a blank line between. Tool calls are not part of this form, and a
//! content can look like further messages: no prompt is written in it (see `labelled`).

use dfp_model::message::{Message, Role};

/// The thread as labelled text, byte for byte as SPEC-01 writes it.
pub fn messages_to_prompt(messages: &[Message]) -> String {
    let mut out = String::with_capacity(super::capacity::of(messages));
    write(&mut out, messages);
    out
}

fn write(out: &mut String, messages: &[Message]) {
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push_str("\n\n");
        }
        out.push('[');
        out.push_str(match &message.role {
            Role::System => "System",
            Role::Human => "User",
            Role::Ai => "Assistant",
            Role::Tool => "Tool Result",
            Role::Other(name) => name,
        });
        out.push_str("]\n");
        out.push_str(message.content.as_text());
    }
}
