//! Networks of one hidden layer on plain vectors: softmax(relu(x·w1 + b1)·w2 + b2), and the way back by hand.
//!
//! Searches ask for one point at a time, thousands of times in a row, where a device's launch costs more than the sums. Entries of
//! `x` that are 0 (most of a one-hot vector) are skipped; sums run over inputs in order, so a result depends on the point alone.
//! Batches of rows go through [`crate::Backend`] instead.

macro_rules! dense {
    ($name:ident, $pass:ident, $real:ty) => {
        /// Weights of a network of one hidden layer and two outputs.
        #[derive(Clone, Debug)]
        pub struct $name {
            inputs: usize,
            hidden: usize,
            /// `[inputs, hidden]`.
            w1: Vec<$real>,
            b1: Vec<$real>,
            /// `[hidden, 2]`.
            w2: Vec<$real>,
            b2: [$real; 2],
        }

        /// What a pass leaves for the way back.
        #[derive(Clone, Debug)]
        pub struct $pass {
            /// Hidden values before the ReLU.
            pub hidden: Vec<$real>,
            pub logits: [$real; 2],
            back: Vec<$real>,
        }

        impl $name {
            /// From f32 weights `[inputs, hidden]`, `[hidden]`, `[hidden, 2]`, `[2]`; the lengths must fit.
            pub fn new(inputs: usize, w1: &[f32], b1: &[f32], w2: &[f32], b2: [f32; 2]) -> Self {
                let hidden = b1.len();
                assert_eq!((w1.len(), w2.len()), (inputs * hidden, 2 * hidden));
                let wide = |v: &[f32]| v.iter().map(|&x| <$real>::from(x)).collect();
                Self {
                    inputs,
                    hidden,
                    w1: wide(w1),
                    b1: wide(b1),
                    w2: wide(w2),
                    b2: b2.map(<$real>::from),
                }
            }

            /// Room for a pass.
            pub fn pass(&self) -> $pass {
                $pass {
                    hidden: vec![0.0; self.hidden],
                    logits: [0.0; 2],
                    back: vec![0.0; self.hidden],
                }
            }

            /// Computes hidden values and logits of `x`.
            pub fn forward(&self, x: &[$real], pass: &mut $pass) {
                pass.hidden.copy_from_slice(&self.b1);
                for (&value, row) in x.iter().zip(self.w1.chunks_exact(self.hidden)) {
                    if value != 0.0 {
                        for (h, &w) in pass.hidden.iter_mut().zip(row) {
                            *h += value * w;
                        }
                    }
                }
                self.outputs(pass);
            }

            /// Moves the hidden values of a pass as the input `at` moves by `by`, and computes the logits.
            pub fn shift(&self, at: usize, by: $real, pass: &mut $pass) {
                let row = &self.w1[at * self.hidden..(at + 1) * self.hidden];
                for (h, &w) in pass.hidden.iter_mut().zip(row) {
                    *h += by * w;
                }
                self.outputs(pass);
            }

            /// The logits of hidden values.
            pub fn outputs(&self, pass: &mut $pass) {
                let mut z = self.b2;
                for (&h, w) in pass.hidden.iter().zip(self.w2.chunks_exact(2)) {
                    if h > 0.0 {
                        z[0] += h * w[0];
                        z[1] += h * w[1];
                    }
                }
                pass.logits = z;
            }

            /// Gradient by the inputs of `d[0]·z0 + d[1]·z1` at the point of `pass`; written over `out`.
            pub fn backward(&self, pass: &mut $pass, d: [$real; 2], out: &mut [$real]) {
                let each = pass.hidden.iter().zip(self.w2.chunks_exact(2));
                for (back, (&h, w)) in pass.back.iter_mut().zip(each) {
                    *back = if h > 0.0 {
                        d[0] * w[0] + d[1] * w[1]
                    } else {
                        0.0
                    };
                }
                let rows = self.w1.chunks_exact(self.hidden);
                for (value, row) in out.iter_mut().zip(rows) {
                    // Eight sums side by side; their number is fixed, so the result is too.
                    let mut sums = [0.0; 8];
                    let (chunks, back) = (row.chunks_exact(8), pass.back.chunks_exact(8));
                    let rest = chunks.remainder().iter().zip(back.remainder());
                    for (a, b) in chunks.zip(back) {
                        for i in 0..8 {
                            sums[i] += a[i] * b[i];
                        }
                    }
                    let tail: $real = rest.map(|(a, b)| a * b).sum();
                    *value = sums.iter().sum::<$real>() + tail;
                }
            }

            /// Number of inputs.
            pub fn inputs(&self) -> usize {
                self.inputs
            }

            /// Number of hidden values.
            pub fn hidden(&self) -> usize {
                self.hidden
            }
        }

        impl $pass {
            /// Softmax of the logits.
            pub fn probabilities(&self) -> [$real; 2] {
                let [a, b] = self.logits;
                let most = a.max(b);
                let (a, b) = ((a - most).exp(), (b - most).exp());
                [a / (a + b), b / (a + b)]
            }
        }
    };
}

dense!(Dense32, Pass32, f32);
dense!(Dense64, Pass64, f64);
