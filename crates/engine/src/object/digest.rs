//! Hashes that stand for data of which only changes matter.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Hash of a sequence whose content the engine never reads. It takes eight bytes; equal sequences
/// have equal digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// Returns the digest of the items in their order; that of an empty sequence is the default.
    pub fn of<T: Hash>(all: impl IntoIterator<Item = T>) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut count = 0_u64;
        for one in all {
            one.hash(&mut hasher);
            count += 1;
        }
        if count == 0 { Self::default() } else { Self(hasher.finish()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_have_equal_digests() {
        assert_eq!(Digest::of(["a", "b"]), Digest::of(["a".to_owned(), "b".to_owned()]));
        assert_ne!(Digest::of(["a", "b"]), Digest::of(["b", "a"]));
        assert_ne!(Digest::of(["ab"]), Digest::of(["a", "b"]));
        assert_eq!(Digest::of([""; 0]), Digest::default());
        assert_ne!(Digest::of([""]), Digest::default());
    }
}
