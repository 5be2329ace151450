//! What is only compared with what it was before.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Stands for things of which only a change matters: eight bytes however many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl Digest {
    /// Of things in their order; the default is the one of none.
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
