//! Random choices by seed with `SplitMix64`, which do not change with a library.

/// A generator of random choices.
pub struct Draw(u64);

impl Draw {
    /// Returns the generator of a seed.
    pub fn new(seed: u64) -> Self {
        // Consecutive seeds must not draw similar numbers.
        let mut draw = Self(seed);
        Self(draw.next() ^ seed.rotate_left(32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which must not be zero.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// Returns true once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one element of a non-empty list.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Returns one element of a weighted list.
    pub fn weighed<'a, T>(&mut self, of: &'a [(usize, T)]) -> &'a T {
        let mut at = self.below(of.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in of {
            if at < *weight {
                return one;
            }
            at -= weight;
        }
        &of[0].1
    }
}
