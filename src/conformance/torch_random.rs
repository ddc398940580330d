//! PyTorch's CPU random numbers, to make the inputs of examples that were documented with a seed only.
//!
//! The generator is MT19937 (Matsumoto & Nishimura 1998) seeded with `init_genrand`. `torch.randint` with a range below
//! 2³² takes one 32-bit number per value, modulo the range; `torch.randperm` is a Fisher–Yates shuffle from the front
//! that takes one number per step; initialising a layer's weights uniformly takes one number per f32 weight.

const STATE: usize = 624;
const MIDDLE: usize = 397;

/// `torch.Generator` on the CPU.
pub struct TorchRandom {
    state: [u32; STATE],
    next: usize,
}

impl TorchRandom {
    /// The state after `torch.manual_seed(seed)`.
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; STATE];
        for i in 1..STATE {
            let last = state[i - 1];
            state[i] = 1_812_433_253u32
                .wrapping_mul(last ^ (last >> 30))
                .wrapping_add(i as u32);
        }
        Self { state, next: STATE }
    }

    pub fn next_u32(&mut self) -> u32 {
        if self.next == STATE {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..STATE {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % STATE] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % STATE] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Passes over `count` numbers, as the initialisation of as many weights does.
    pub fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next_u32();
        }
    }

    /// `torch.randint(low, high, (count,), dtype=torch.uint8)`.
    pub fn randint_u8(&mut self, low: u8, high: u8, count: usize) -> Vec<u8> {
        let range = u32::from(high.saturating_sub(low)).max(1);
        (0..count)
            .map(|_| low + (self.next_u32() % range) as u8)
            .collect()
    }

    /// `torch.randperm(n)`.
    pub fn randperm(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in 0..n.saturating_sub(1) {
            let step = self.next_u32() as usize % (n - i);
            order.swap(i, i + step);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_equal_those_of_torch_2_15() {
        // torch.manual_seed(42); randint(0, 200, (8,)), randint(100, 255, (8,)), randperm(10)
        let mut random = TorchRandom::new(42);
        assert_eq!(random.randint_u8(0, 200, 8), RANDINT_0_200);
        assert_eq!(random.randint_u8(100, 255, 8), RANDINT_100_255);
        assert_eq!(random.randperm(10), RANDPERM_10);
    }

    const RANDINT_0_200: [u8; 8] = [142, 67, 76, 14, 26, 135, 20, 124];
    const RANDINT_100_255: [u8; 8] = [135, 228, 103, 209, 235, 199, 241, 187];
    const RANDPERM_10: [usize; 10] = [5, 0, 9, 6, 1, 3, 7, 2, 4, 8];
}
