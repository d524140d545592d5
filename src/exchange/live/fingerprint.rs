//! Fingerprints of content: few bytes that compare as the content does, in this process and in the next one.

use std::hash::Hasher;

use ring::digest::{Context, SHA256};

use dfp_model::message::{Message, MessageFields};

/// A fingerprint of content: 128 bits of SHA-256, so that threads of different users can't be made to look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64);

impl Fingerprint {
    /// The fingerprint of `message` by `hash`, which is called once for a message: a thread that goes on has the message in each
    /// of its calls.
    pub(super) fn of(message: &Message, hash: impl Fn(&MessageFields, &mut PrintHasher)) -> Fingerprint {
        let (a, b) = message.digest(|fields| {
            let Fingerprint(a, b) = print(|state| hash(fields, state));
            (a, b)
        });
        Fingerprint(a, b)
    }

    /// 32 bytes that nobody knows who does not know the fingerprint, and from which nobody finds it. `purpose` makes them others for
    /// each use.
    pub(super) fn derived(&self, purpose: &str) -> [u8; 32] {
        let mut state = Context::new(&SHA256);
        state.update(&self.0.to_le_bytes());
        state.update(&self.1.to_le_bytes());
        state.update(purpose.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(state.finish().as_ref());
        bytes
    }
}

/// Content that is on its way to be a fingerprint.
pub(crate) struct PrintHasher(Context);

impl Hasher for PrintHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        halves(&self.0).0
    }
}

/// The first two numbers in the digest.
fn halves(state: &Context) -> (u64, u64) {
    let digest = state.clone().finish();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (number(&digest.as_ref()[..8]), number(&digest.as_ref()[8..16]))
}

/// The fingerprint of the data that `hash` feeds in.
pub(crate) fn print(hash: impl Fn(&mut PrintHasher)) -> Fingerprint {
    let mut state = PrintHasher(Context::new(&SHA256));
    hash(&mut state);
    let (a, b) = halves(&state.0);
    Fingerprint(a, b)
}

#[cfg(test)]
impl Fingerprint {
    /// The fingerprint of these two halves.
    pub(crate) fn of_halves(a: u64, b: u64) -> Fingerprint {
        Fingerprint(a, b)
    }
}
