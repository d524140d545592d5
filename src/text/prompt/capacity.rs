//! Estimates the size of a prompt.

use dfp_model::message::Message;

/// The bytes that the messages probably need: their text, an eighth more for escapes, and the markup around each.
pub(super) fn of(messages: &[Message]) -> usize {
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
