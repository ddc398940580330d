//! Images on the host in f64, seeded inputs, comparison.

use foil::tensor::{Array, Backend};

/// NCHW values in f64.
#[derive(Clone, Debug)]
pub struct Host {
    pub n: usize,
    pub c: usize,
    pub h: usize,
    pub w: usize,
    pub data: Vec<f64>,
}

impl Host {
    pub fn zeros(n: usize, c: usize, h: usize, w: usize) -> Self {
        let data = vec![0.0; n * c * h * w];
        Self { n, c, h, w, data }
    }

    /// Value by value from its place.
    pub fn build(
        [n, c, h, w]: [usize; 4],
        mut value: impl FnMut(usize, usize, usize, usize) -> f64,
    ) -> Self {
        let mut host = Self::zeros(n, c, h, w);
        for i in 0..n {
            for channel in 0..c {
                for y in 0..h {
                    for x in 0..w {
                        *host.at_mut(i, channel, y, x) = value(i, channel, y, x);
                    }
                }
            }
        }
        host
    }

    pub fn at(&self, n: usize, c: usize, y: usize, x: usize) -> f64 {
        self.data[((n * self.c + c) * self.h + y) * self.w + x]
    }

    pub fn at_mut(&mut self, n: usize, c: usize, y: usize, x: usize) -> &mut f64 {
        &mut self.data[((n * self.c + c) * self.h + y) * self.w + x]
    }

    /// The value at a place that may lie outside the image.
    pub fn inside(&self, n: usize, c: usize, y: isize, x: isize) -> Option<f64> {
        let (y, x) = (usize::try_from(y).ok()?, usize::try_from(x).ok()?);
        (y < self.h && x < self.w).then(|| self.at(n, c, y, x))
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            data: self.data.iter().map(|&v| f(v)).collect(),
            ..*self
        }
    }
}

impl From<&Array> for Host {
    fn from(array: &Array) -> Self {
        let data = array.data.iter().map(|&v| f64::from(v)).collect();
        match array.shape[..] {
            [n, c] => Self {
                n,
                c,
                h: 1,
                w: 1,
                data,
            },
            [n, c, h, w] => Self { n, c, h, w, data },
            _ => panic!("no image: {:?}", array.shape),
        }
    }
}

/// Values in [-1, 1) with all 24 bits of an f32's mantissa in use, from the name alone.
pub fn random(name: &str, shape: impl Into<Vec<usize>>) -> Array {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut array = Array::zeros(shape);
    for (i, value) in array.data.iter_mut().enumerate() {
        let mut z = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        *value = (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
    }
    array
}

/// Plain values, for biases, heads and the like.
pub fn random_values(name: &str, len: usize) -> Vec<f32> {
    random(name, [len]).data
}

/// Uploads an array that must be acceptable.
pub fn up<B: Backend>(b: &B, array: &Array) -> B::Tensor {
    b.upload(array).expect("upload")
}

/// Uploads `[n, tokens, c]` as the device's `[n, 1, tokens, c]`.
pub fn up_tokens<B: Backend>(b: &B, array: &Array) -> B::Tensor {
    let [n, tokens, c] = array.shape[..] else {
        panic!("no tokens: {:?}", array.shape);
    };
    let swapped = array.permuted(&[0, 2, 1]).expect("three axes");
    up(b, &swapped.reshape([n, c, 1, tokens]).expect("same size"))
}

/// Downloads as f64 and checks the shape on the way.
pub fn down<B: Backend>(b: &B, tensor: &B::Tensor) -> Host {
    let host = Host::from(&b.download(tensor).unwrap());
    let shape = b.shape(tensor);
    assert_eq!(
        [host.n, host.c, host.h, host.w],
        [shape.n, shape.c, shape.h, shape.w],
        "the shape of the download is not that of the tensor"
    );
    host
}

/// Fails unless both have one shape and each value is within `tolerance(index)`.
pub fn assert_close(what: &str, got: &Host, expected: &Host, tolerance: impl Fn(usize) -> f64) {
    assert_eq!(
        [got.n, got.c, got.h, got.w],
        [expected.n, expected.c, expected.h, expected.w],
        "{what}: shape"
    );
    for (i, (&g, &e)) in got.data.iter().zip(&expected.data).enumerate() {
        let limit = tolerance(i);
        assert!(
            (g - e).abs() <= limit || g == e,
            "{what}: value {i}: expected {e:e}, got {g:e}, off by {:e}, allowed {limit:e}",
            (g - e).abs()
        );
    }
}

/// Fails unless the values are the same.
pub fn assert_equal(what: &str, got: &Host, expected: &Host) {
    assert_close(what, got, expected, |_| 0.0);
}
