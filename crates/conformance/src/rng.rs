//! A seeded generator of random numbers: the same seed gives the same cases on every machine.

/// The xoshiro256++ generator, seeded through splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Returns the generator for case `index` of a seed, so that a case does not depend on those before it.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let mut mixer = seed ^ index.wrapping_mul(0xD134_2543_DE82_EF95);
        let state = [mix(&mut mixer), mix(&mut mixer), mix(&mut mixer), mix(&mut mixer)];
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a number in `0..bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns a number in `low..=high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    /// Returns `true` in `percent` of 100 calls.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns `true` in `permille` of 1000 calls.
    pub(crate) fn rarely(&mut self, permille: usize) -> bool {
        self.below(1000) < permille
    }

    /// Returns one of `options`, which must not be empty.
    pub(crate) fn pick<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())].clone()
    }

    /// Returns one of the values, with a probability proportional to its weight.
    pub(crate) fn weighted<T: Copy>(&mut self, options: &[(usize, T)]) -> T {
        let total = options.iter().map(|(weight, _)| weight).sum();
        let mut ticket = self.below(total);
        for (weight, value) in options {
            if ticket < *weight {
                return *value;
            }
            ticket -= weight;
        }
        options[0].1
    }

    /// Returns `count` of `options`, or all if there are fewer, in random order.
    pub(crate) fn some<T: Clone>(&mut self, options: &[T], count: usize) -> Vec<T> {
        let mut copy = options.to_vec();
        self.shuffle(&mut copy);
        copy.truncate(count);
        copy
    }

    /// Shuffles the items.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Advances splitmix64 and returns its next number.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let (mut a, mut b, mut c) = (Rng::new(7, 1), Rng::new(7, 1), Rng::new(7, 2));
        let first: Vec<u64> = (0..8).map(|_| a.next()).collect();
        assert_eq!(first, (0..8).map(|_| b.next()).collect::<Vec<_>>());
        assert_ne!(first, (0..8).map(|_| c.next()).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut rng = Rng::new(1, 0);
        assert!((0..1000).all(|_| (3..=5).contains(&rng.between(3, 5))));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.some(&[1, 2, 3], 9).len(), 3);
    }
}
