//! Chance: the same seed draws the same, on every machine and for ever. (Splitmix64; a library's generator may change.)

/// Draws from a seed.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        // Neighbours must not share what they draw.
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

    /// A number below `end`, which must not be zero.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list that is not empty.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// One of a list in which each has a weight.
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
