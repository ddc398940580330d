//! Counter-based random numbers: every draw is a function of (seed, stream, index) alone.
//!
//! Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The key is the
//! seed; the 128-bit counter holds the block number, the stream and the index. Two [`Draws`] with the same three
//! numbers give the same sequence whatever ran before, on any thread and in any order.

/// Which purpose a random number serves, so that one seed never feeds two purposes with equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(pub u32);

impl Stream {
    /// Rows of the bootstrap replicates of the Fréchet distance.
    pub const FID_BOOTSTRAP: Stream = Stream(1);
    /// Random subsets of the kernel distance.
    pub const KID_SUBSETS: Stream = Stream(2);
    /// Rows of the bootstrap replicates of the kernel distance.
    pub const KID_BOOTSTRAP: Stream = Stream(3);
    /// Order of the rows before the Inception score is split.
    pub const INCEPTION_SCORE: Stream = Stream(4);
    /// Rows of any other bootstrap.
    pub const BOOTSTRAP: Stream = Stream(5);
    /// Order of the images in each epoch of a training.
    pub const TRAINING_ORDER: Stream = Stream(6);
    /// Weights a training begins with.
    pub const INITIAL_WEIGHTS: Stream = Stream(7);
    /// Steps and noise of the batches a denoiser learns from.
    pub const DIFFUSION_TRAINING: Stream = Stream(8);
    /// Noise of sampled images.
    pub const DIFFUSION_NOISE: Stream = Stream(9);
    /// Which characters the demonstration changes to.
    pub const DEMO_CHARACTERS: Stream = Stream(10);
    /// Noise of counterfactuals by diffusion.
    pub const COUNTERFACTUAL_NOISE: Stream = Stream(11);
    /// Weights of networks that are never trained.
    pub const UNTRAINED_WEIGHTS: Stream = Stream(12);
    /// Attributes and labels of glyph images.
    pub const GLYPH_ATTRIBUTES: Stream = Stream(16);
    /// Pixel noise of glyph images.
    pub const GLYPH_NOISE: Stream = Stream(17);
    /// Which glyph images are for training, validation and test.
    pub const GLYPH_SPLIT: Stream = Stream(18);
    /// Dots that are the labels of glyph images.
    pub const GLYPH_DOT: Stream = Stream(71);
    /// Fixed rotations and the order of values of an invertible network.
    pub const INVERTIBLE_LAYOUT: Stream = Stream(72);
    /// Noise on the images an invertible network learns from.
    pub const INVERTIBLE_NOISE: Stream = Stream(73);
    /// Target classes of a study that draws them.
    pub const STUDY_TARGETS: Stream = Stream(74);
    /// Random numbers of explainers in a latent space.
    pub const LATENT_EXPLAINER: Stream = Stream(80);
    /// First weights of a network for tables.
    pub const TABULAR_WEIGHTS: Stream = Stream(90);
    /// Order of the rows in each epoch of its training.
    pub const TABULAR_ORDER: Stream = Stream(91);
    /// What a search for a counterfactual of a table's row draws.
    pub const TABULAR_SEARCH: Stream = Stream(92);
    /// Rows of the bootstrap replicates of mean ranks.
    pub const RANK_BOOTSTRAP: Stream = Stream(93);
}

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The Philox-4x32-10 bijection of `counter` under `key`.
pub fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    }
    counter
}

/// The sequence of random numbers that belongs to one (seed, stream, index).
#[derive(Debug, Clone)]
pub struct Draws {
    key: [u32; 2],
    stream: u32,
    index: u64,
    block: u32,
    words: [u32; 4],
    used: usize,
    spare_normal: Option<f64>,
}

impl Draws {
    /// Starts the sequence of `(seed, stream, index)`.
    pub fn new(seed: u64, stream: Stream, index: u64) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            stream: stream.0,
            index,
            block: 0,
            words: [0; 4],
            used: 4,
            spare_normal: None,
        }
    }

    /// Next 32 random bits. A sequence holds 2^34 of them before it repeats.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            let counter = [
                self.block,
                self.stream,
                self.index as u32,
                (self.index >> 32) as u32,
            ];
            self.words = philox4x32_10(counter, self.key);
            self.block = self.block.wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Next 64 random bits (first word low).
    pub fn next_u64(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << 32
    }

    /// Uniform in [0, 1) with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform index in `0..n` without bias (Lemire 2019: multiply, reject the short remainder). `None` when `n == 0`.
    pub fn index_below(&mut self, n: usize) -> Option<usize> {
        if n == 0 {
            return None;
        }
        let n = n as u64;
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= threshold {
                return Some((product >> 64) as usize);
            }
        }
    }

    /// A uniformly random order of `0..n` (Fisher–Yates).
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        self.sample_without_replacement(n, n)
    }

    /// `size` distinct indices of `0..n` in random order; all `n` when `size > n`.
    pub fn sample_without_replacement(&mut self, n: usize, size: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        let size = size.min(n);
        for i in 0..size {
            if let Some(offset) = self.index_below(n - i) {
                order.swap(i, i + offset);
            }
        }
        order.truncate(size);
        order
    }

    /// How often each of `n` rows occurs in `n` draws with replacement.
    pub fn resample_counts(&mut self, n: usize) -> Vec<u32> {
        let mut counts = vec![0; n];
        for _ in 0..n {
            if let Some(i) = self.index_below(n) {
                counts[i] += 1;
            }
        }
        counts
    }

    /// Standard normal (Box–Muller, both values used). Uses the platform's `ln`, `sin` and `cos`.
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare_normal.take() {
            return value;
        }
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare_normal = Some(radius * sin);
        radius * cos
    }

    /// Fills a slice with standard normals in single precision (Box–Muller of 24 random bits each, so none is beyond
    /// 5.9). For noise on many values: twice as fast as [`Draws::normal`], and another sequence.
    pub fn fill_normal(&mut self, out: &mut [f32]) {
        const UNIT: f32 = 1.0 / (1 << 24) as f32;
        for pair in out.chunks_mut(2) {
            let [first, second] = [self.next_u32(), self.next_u32()].map(|w| (w >> 8) as f32);
            let radius = (-2.0 * ((first + 0.5) * UNIT).ln()).sqrt();
            let (sin, cos) = (std::f32::consts::TAU * UNIT * second).sin_cos();
            for (value, direction) in pair.iter_mut().zip([cos, sin]) {
                *value = radius * direction;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution (`kat_vectors`, philox4x32 10).
    #[test]
    fn philox_gives_the_published_known_answers() {
        assert_eq!(
            philox4x32_10([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32_10(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_sequence_does_not_depend_on_other_sequences() {
        let mut alone = Draws::new(7, Stream::BOOTSTRAP, 3);
        let mut other = Draws::new(7, Stream::BOOTSTRAP, 4);
        let mut again = Draws::new(7, Stream::BOOTSTRAP, 3);
        for _ in 0..50 {
            other.next_u64();
            assert_eq!(alone.next_u64(), again.next_u64());
        }
        let first = |seed, stream, index| Draws::new(seed, stream, index).next_u64();
        let base = first(7, Stream::BOOTSTRAP, 3);
        assert_ne!(base, first(8, Stream::BOOTSTRAP, 3));
        assert_ne!(base, first(7, Stream::KID_SUBSETS, 3));
        assert_ne!(base, first(7, Stream::BOOTSTRAP, 3 + (1 << 32)));
    }

    #[test]
    fn indices_are_uniform_and_below_the_bound() {
        let mut draws = Draws::new(1, Stream::BOOTSTRAP, 0);
        let mut seen = [0usize; 7];
        for _ in 0..70_000 {
            seen[draws.index_below(7).unwrap()] += 1;
        }
        // 10,000 expected each; five standard deviations are 463.
        assert!(
            seen.iter().all(|&c| (9_500..10_500).contains(&c)),
            "{seen:?}"
        );
        assert_eq!(draws.index_below(0), None);
        assert_eq!(draws.index_below(1), Some(0));
    }

    #[test]
    fn a_permutation_holds_every_index_once() {
        let order = Draws::new(5, Stream::INCEPTION_SCORE, 0).permutation(100);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert_ne!(order, sorted);
        let some = Draws::new(5, Stream::INCEPTION_SCORE, 0).sample_without_replacement(100, 10);
        assert_eq!(some, order[..10]);
    }

    #[test]
    fn normal_draws_have_zero_mean_and_unit_variance() {
        let mut draws = Draws::new(2, Stream::BOOTSTRAP, 0);
        let values: Vec<f64> = (0..40_000).map(|_| draws.normal()).collect();
        let mean = values.iter().sum::<f64>() / 40_000.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 40_000.0;
        // Five standard errors: 0.025 for the mean, 0.035 for the variance.
        assert!(mean.abs() < 0.025, "{mean}");
        assert!((variance - 1.0).abs() < 0.035, "{variance}");
    }

    #[test]
    fn a_slice_of_normals_has_their_shares() {
        let mut values = vec![0.0; 40_001];
        Draws::new(2, Stream::BOOTSTRAP, 0).fill_normal(&mut values);
        let share = |holds: &dyn Fn(f32) -> bool| {
            values.iter().filter(|v| holds(**v)).count() as f64 / values.len() as f64
        };
        // Five standard errors of a share are 0.0125 at most.
        assert!((share(&|v| v > 0.0) - 0.5).abs() < 0.0125);
        assert!((share(&|v| v.abs() < 1.0) - 0.682_689_5).abs() < 0.0117);
        assert!((share(&|v| v.abs() > 2.0) - 0.045_500_3).abs() < 0.0053);
        assert!(values.iter().all(|v| v.abs() < 5.9));
        let products = values.windows(2).map(|w| f64::from(w[0] * w[1]));
        assert!((products.sum::<f64>() / 40_000.0).abs() < 0.025);
    }
}
