//! A call whose API refuses a field that the call has put into its request: made once more in the other way.
//!
//! In: a call and its failures. Out: the call as it is to be made now. An API names what it refuses, as a rule, and that is remembered for the
//! binary, with its login and environment, and for the model. If it refuses a request and names nothing, the call is made once without any
//! such field: if that succeeds, the fields were at fault; if not, such refusals of this API are never again taken for theirs.

use dfp_exchange::form::SessionCall;
use dfp_exchange::installed::Binary;
use dfp_model::error::{Code, ProviderError, clip};
use dfp_model::event::Event;
use dfp_provider::request_field::{Refused, RequestField};

use super::sessions::warning;
use crate::capabilities::{self, ApiRefusal};

/// The status of an answer to a request that an API can't take.
const BAD_REQUEST: u16 = 400;

/// A call, without what the API is known to refuse.
pub(super) struct Refusals<'a, T> {
    call: &'a SessionCall<T>,
    binary: Binary,
    model: String,
    /// The names of the fields that the call does without.
    without: Vec<&'static str>,
    other: Option<SessionCall<T>>,
    /// The names of those fields that were left out although the API has named none.
    suspects: Vec<&'static str>,
    /// True once the call was refused: it is made once more.
    is_again: bool,
}

impl<'a, T> Refusals<'a, T> {
    /// The call `call` of `binary`, which asks `model`.
    pub fn of(call: &'a SessionCall<T>, binary: &Binary, model: Option<&str>) -> Refusals<'a, T> {
        let model = model.unwrap_or_default().to_owned();
        let is_refused = |name: &'static str, value: &str| {
            capabilities::is_of_api(binary, &ApiRefusal::OfField(model.clone(), name))
                || capabilities::is_of_api(binary, &ApiRefusal::of_value(&model, name, value))
        };
        let refused = call
            .fields
            .iter()
            .filter(|sent| is_refused(sent.field.name, &sent.value));
        let without: Vec<&str> = refused.map(|sent| sent.field.name).collect();
        Refusals {
            other: call.without(&without),
            call,
            binary: binary.clone(),
            without,
            suspects: Vec::new(),
            is_again: false,
            model,
        }
    }

    /// Returns whether the call is made once more: what is told once of it has been told.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// The call as it is to be made.
    pub fn call(&self) -> &SessionCall<T> {
        self.other.as_ref().unwrap_or(self.call)
    }

    /// Takes the failure of the call; returns the warnings with which it is made once more, if a field of its may be at fault.
    pub fn failed(&mut self, error: &ProviderError) -> Option<Vec<Event>> {
        if error.http_status != Some(BAD_REQUEST) {
            return None;
        }
        if !self.suspects.is_empty() {
            self.remember(ApiRefusal::Unrelated(self.model.clone()));
            return None;
        }
        let named: Vec<&'static RequestField> = self.named(&error.message);
        let left_out: Vec<&'static RequestField> = match named.is_empty() {
            false => named,
            true if self.may_be_at_fault(error) => self.call().fields.iter().map(|sent| sent.field).collect(),
            true => return None,
        };
        if left_out.is_empty() {
            return None;
        }
        self.is_again = true;
        self.without.extend(left_out.iter().map(|field| field.name));
        self.other = self.call.without(&self.without);
        let why = clip(&error.message, 160);
        let of_field = |field: &&RequestField| {
            let message = format!(
                "{} is asked {}: the API has refused a request with `{}`: {why}",
                error.provider, field.otherwise, field.name
            );
            warning(field.warning, message)
        };
        Some(left_out.iter().map(of_field).collect())
    }

    /// Notes that the call was answered: the fields without which it was made once more were at fault.
    pub fn answered(&mut self) {
        for name in std::mem::take(&mut self.suspects) {
            self.remember(ApiRefusal::OfField(self.model.clone(), name));
        }
    }

    /// The fields of the call that a refusal with `message` names, which are remembered.
    fn named(&self, message: &str) -> Vec<&'static RequestField> {
        let mut named = Vec::new();
        for sent in &self.call().fields {
            let name = sent.field.name;
            let refusal = match sent.field.refused(message) {
                None => continue,
                Some(Refused::Field) => ApiRefusal::OfField(self.model.clone(), name),
                Some(Refused::Value) => ApiRefusal::of_value(&self.model, name, &sent.value),
            };
            self.remember(refusal);
            named.push(sent.field);
        }
        named
    }

    /// Returns whether fields may be at fault for a refusal that names none; then they are suspects.
    fn may_be_at_fault(&mut self, error: &ProviderError) -> bool {
        let is_innocent = || capabilities::is_of_api(&self.binary, &ApiRefusal::Unrelated(self.model.clone()));
        if error.code != Code::InvalidRequest || is_innocent() {
            return false;
        }
        self.suspects = self.call().fields.iter().map(|sent| sent.field.name).collect();
        true
    }

    fn remember(&self, refusal: ApiRefusal) {
        capabilities::remember_of_api(&self.binary, refusal);
    }
}
