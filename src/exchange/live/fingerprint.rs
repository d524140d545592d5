//! Fingerprints of content: few bytes that compare as the content does.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::LazyLock;

use dfp_model::message::{Message, MessageFields};

/// A fingerprint of content: 128 bits of a keyed hash, so that threads of different users can't be made to look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64);

impl Fingerprint {
    /// The fingerprint of `message` by `hash`, which is called once for a message: a thread that goes on has the message in each
    /// of its calls.
    pub(super) fn of(message: &Message, hash: impl Fn(&MessageFields, &mut DefaultHasher)) -> Fingerprint {
        let (a, b) = message.digest(|fields| {
            let Fingerprint(a, b) = print(|state| hash(fields, state));
            (a, b)
        });
        Fingerprint(a, b)
    }
}

static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// The fingerprint of the data that `hash` feeds in.
pub(crate) fn print(hash: impl Fn(&mut DefaultHasher)) -> Fingerprint {
    let [a, b] = &*KEYS;
    let (mut a, mut b) = (a.build_hasher(), b.build_hasher());
    hash(&mut a);
    hash(&mut b);
    Fingerprint(a.finish(), b.finish())
}
