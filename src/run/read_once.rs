//! What a caller has given as JSON and what that says: read once, by the first who needs to know.
//!
//! An agent's turns share what it was given, so it is read once in a run. What it says may depend on who reads it: on the one provider
//! that it was given for.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer};

/// Something given as a `G`, which says a `T`. To clone it is to share it.
#[derive(Debug)]
pub struct Given<G, T>(Arc<Contents<G, T>>);

#[derive(Debug)]
struct Contents<G, T> {
    given: G,
    read: OnceLock<Result<T, String>>,
}

impl<G, T> Given<G, T> {
    fn new(given: G) -> Given<G, T> {
        let read = OnceLock::new();
        Given(Arc::new(Contents { given, read }))
    }

    /// As it was given.
    pub fn given(&self) -> &G {
        &self.0.given
    }

    /// What it says, by `read`, which is asked the first time only.
    ///
    /// # Errors
    /// What `read` has found wrong with it.
    pub fn read(&self, read: impl FnOnce(&G) -> Result<T, String>) -> Result<&T, String> {
        let known = self.0.read.get_or_init(|| read(&self.0.given));
        known.as_ref().map_err(Clone::clone)
    }
}

impl<G, T> Clone for Given<G, T> {
    fn clone(&self) -> Given<G, T> {
        Given(Arc::clone(&self.0))
    }
}

impl<G: Default, T> Default for Given<G, T> {
    fn default() -> Given<G, T> {
        Given::new(G::default())
    }
}

impl<'de, G: Deserialize<'de>, T> Deserialize<'de> for Given<G, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given<G, T>, D::Error> {
        G::deserialize(deserializer).map(Given::new)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_shared_is_read_once_whatever_comes_of_it() {
        for (given, expected) in [("7", Ok(7)), ("x", Err("no number: x".to_owned()))] {
            let times = Cell::new(0);
            let read = |text: &String| {
                times.set(times.get() + 1);
                text.parse().map_err(|_| format!("no number: {text}"))
            };
            let first: Given<String, u32> = serde_json::from_value(given.into()).unwrap();
            let second = first.clone();
            assert_eq!(
                [first.read(read), second.read(read)],
                [
                    expected.as_ref().map_err(Clone::clone),
                    expected.as_ref().map_err(Clone::clone)
                ]
            );
            assert_eq!((times.get(), second.given().as_str()), (1, given));
        }
    }
}
