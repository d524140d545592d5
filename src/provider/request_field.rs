//! The fields that a live form puts into the requests of its CLI for one call, where another way is there as well.
//!
//! In: an API's refusal. Out: whether it is about such a field. The call is then made once more in the other way.

/// A field of an API's request.
#[derive(Debug)]
pub struct RequestField {
    /// The name at the top of the request.
    pub name: &'static str,
    /// Words, in lower case, by which a refusal names it.
    pub named_by: &'static [&'static str],
    /// Words, in lower case, of refusals that are about another member of the field than ours.
    pub not_by: &'static [&'static str],
    /// Words, in lower case, of refusals of one value alone.
    pub of_value_by: &'static [&'static str],
    /// True if it says what is otherwise said in words behind the thread.
    pub is_in_words_otherwise: bool,
    /// The other way, and the option that it serves, for a warning: "X is asked …".
    pub otherwise: &'static str,
    /// The code of that warning.
    pub warning: &'static str,
}

/// The extent of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The API does not take the field.
    Field,
    /// The API does not take this value of the field.
    Value,
}

impl RequestField {
    /// Returns what of the field an API refuses with `message`; `None` if the message does not name it.
    pub fn refused(&self, message: &str) -> Option<Refused> {
        let message = message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if !says(self.named_by) || says(self.not_by) {
            return None;
        }
        Some(match says(self.of_value_by) {
            true => Refused::Value,
            false => Refused::Field,
        })
    }
}
