//! A value that a caller has given as JSON, read once, by the first who needs it.
//!
//! The turns of an agent share their options, which are therefore read once in a run. The result may depend on the provider that
//! reads them, so a value belongs to one provider.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer};

/// A value given as a `G`, which is read as a `T`. A clone shares both.
#[derive(Debug)]
pub struct ReadOnce<G, T>(Arc<Contents<G, T>>);

#[derive(Debug)]
struct Contents<G, T> {
    original: G,
    read: OnceLock<Result<T, String>>,
}

impl<G, T> ReadOnce<G, T> {
    fn new(original: G) -> ReadOnce<G, T> {
        let read = OnceLock::new();
        ReadOnce(Arc::new(Contents { original, read }))
    }

    /// The value as it was given.
    pub fn original(&self) -> &G {
        &self.0.original
    }

    /// The value as `read` reads it; `read` is called the first time only.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn read(&self, read: impl FnOnce(&G) -> Result<T, String>) -> Result<&T, String> {
        let known = self.0.read.get_or_init(|| read(&self.0.original));
        known.as_ref().map_err(Clone::clone)
    }
}

impl<G, T> Clone for ReadOnce<G, T> {
    fn clone(&self) -> ReadOnce<G, T> {
        ReadOnce(Arc::clone(&self.0))
    }
}

impl<G: Default, T> Default for ReadOnce<G, T> {
    fn default() -> ReadOnce<G, T> {
        ReadOnce::new(G::default())
    }
}

impl<'de, G: Deserialize<'de>, T> Deserialize<'de> for ReadOnce<G, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReadOnce<G, T>, D::Error> {
        G::deserialize(deserializer).map(ReadOnce::new)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_shared_is_read_once_whatever_comes_of_it() {
        for (original, expected) in [("7", Ok(7)), ("x", Err("no number: x".to_owned()))] {
            let times = Cell::new(0);
            let read = |text: &String| {
                times.set(times.get() + 1);
                text.parse().map_err(|_| format!("no number: {text}"))
            };
            let first: ReadOnce<String, u32> = serde_json::from_value(original.into()).unwrap();
            let second = first.clone();
            assert_eq!(
                [first.read(read), second.read(read)],
                [
                    expected.as_ref().map_err(Clone::clone),
                    expected.as_ref().map_err(Clone::clone)
                ]
            );
            assert_eq!((times.get(), second.original().as_str()), (1, original));
        }
    }
}
