//! The permutations of numpy's legacy generator (`numpy.random.RandomState`), for data sets that were published with it.
//!
//! MT19937 (Matsumoto & Nishimura 1998) with Knuth's seeding; a permutation is the shuffle from the last place down, each
//! place drawn by masking 32 bits and rejecting what is too large. foil's own numbers come from [`super::random`].

const SIZE: usize = 624;
const SHIFT: usize = 397;

/// The generator with its state.
pub struct LegacyNumpy {
    state: [u32; SIZE],
    at: usize,
    spare_normal: Option<f64>,
}

impl LegacyNumpy {
    /// `RandomState(seed)`.
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; SIZE];
        for i in 1..SIZE {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32
                .wrapping_mul(before ^ (before >> 30))
                .wrapping_add(i as u32);
        }
        Self {
            state,
            at: SIZE,
            spare_normal: None,
        }
    }

    fn refill(&mut self) {
        for i in 0..SIZE {
            let mixed = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % SIZE] & 0x7fff_ffff);
            let odd = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % SIZE] ^ (mixed >> 1) ^ odd;
        }
        self.at = 0;
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.at == SIZE {
            self.refill();
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// `RandomState.random_sample()`: 53 bits in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        let (high, low) = (self.next_u32() >> 5, self.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// `RandomState.standard_normal()`: Marsaglia's polar method, the second of a pair first.
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare_normal.take() {
            return value;
        }
        loop {
            let (a, b) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = a * a + b * b;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare_normal = Some(scale * a);
                return scale * b;
            }
        }
    }

    /// `RandomState.randint(n)` and the place that `RandomState.choice` takes: a whole number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        self.up_to(n.saturating_sub(1))
    }

    /// A whole number from 0 to `largest`, both included.
    fn up_to(&mut self, largest: u32) -> u32 {
        if largest == 0 {
            return 0;
        }
        let mask = u32::MAX >> largest.leading_zeros();
        loop {
            let value = self.next_u32() & mask;
            if value <= largest {
                return value;
            }
        }
    }

    /// `RandomState.permutation(n)`.
    pub fn permutation(&mut self, n: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n as usize).collect();
        for i in (1..n).rev() {
            let j = self.up_to(i);
            order.swap(i as usize, j as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of numpy 2's `RandomState`: the first 32-bit words (`bytes(20)`), and two permutations one after the other with
    /// the sum of place (from 1) times value.
    #[test]
    fn words_and_permutations_are_those_of_numpy() {
        let mut random = LegacyNumpy::new(42);
        let words: Vec<u32> = (0..5).map(|_| random.next_u32()).collect();
        let expected = [1608637542, 3421126067, 4083286876, 787846414, 3143890026];
        assert_eq!(words, expected);
        let check =
            |order: &[usize]| -> usize { order.iter().enumerate().map(|(i, v)| (i + 1) * v).sum() };
        let mut random = LegacyNumpy::new(42);
        assert_eq!(random.permutation(10), [8, 1, 5, 0, 7, 2, 9, 4, 3, 6]);
        assert_eq!(random.permutation(10), [0, 1, 8, 5, 3, 4, 7, 9, 6, 2]);
        let mut random = LegacyNumpy::new(42);
        let (first, second) = (random.permutation(1000), random.permutation(1000));
        assert_eq!(first[..6], [521, 737, 740, 660, 411, 678]);
        assert_eq!([check(&first), check(&second)], [251874299, 252391469]);
        let mut random = LegacyNumpy::new(7);
        assert_eq!(
            [
                check(&random.permutation(33)),
                check(&random.permutation(33))
            ],
            [9447, 8032]
        );
        assert!(random.permutation(0).is_empty());
    }
}
