//! The Inception-V3 of the FID (Heusel et al. 2017; TensorFlow graph of 2015-12-05, pytorch-fid names).
//!
//! It differs from torchvision's: average-pool branches leave padding out of the divisor, the pool branch of the
//! last block is a max-pool, and there are 1008 classes. Batch norms have ε = 0.001.

use super::batch::one_by_one;
use super::layers::Scope;
use super::{NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Padding, Part, Pool, PoolKind, StateDict};

const EPSILON: f64 = 1e-3;

/// Where features are taken: 64 and 192 after the first and second max-pool, 768 after `Mixed_6e`, 2048 after
/// the last block; each averaged over pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FidTap {
    F64,
    F192,
    F768,
    F2048,
}

impl FidTap {
    pub const ALL: [FidTap; 4] = [FidTap::F64, FidTap::F192, FidTap::F768, FidTap::F2048];

    /// Number of features.
    pub fn size(self) -> usize {
        match self {
            FidTap::F64 => 64,
            FidTap::F192 => 192,
            FidTap::F768 => 768,
            FidTap::F2048 => 2048,
        }
    }
}

/// The FID Inception, loaded up to the deepest block the weights hold (the stem file ends at 192 features).
pub struct Inception<B: Backend> {
    stem64: [B::Conv; 3],
    stem192: Option<[B::Conv; 2]>,
    to768: Option<Vec<Block<B>>>,
    to2048: Option<Vec<Block<B>>>,
    fc: Option<B::Conv>,
}

/// A block: branches whose outputs are concatenated.
struct Block<B: Backend>(Vec<Branch<B>>);

enum Branch<B: Backend> {
    /// Convolutions one after another.
    Convs(Vec<B::Conv>),
    /// Pooling, then a convolution if there is one.
    Pool(Pool, Option<B::Conv>),
    /// Convolutions, then two more side by side.
    Fork(Vec<B::Conv>, [B::Conv; 2]),
}

struct Loader<'a, B: Backend> {
    backend: &'a B,
    scope: Scope<'a>,
}

impl<B: Backend> Loader<'_, B> {
    fn conv(&self, name: &str, spec: Conv) -> Result<B::Conv, NetError> {
        let layer = self.scope.at(name);
        let spec = spec.activation(Activation::Relu);
        layer
            .at("conv")
            .conv_bn(&layer.at("bn"), self.backend, spec, EPSILON)
    }

    fn below(&self, block: &str) -> Self {
        Self {
            backend: self.backend,
            scope: self.scope.at(block),
        }
    }

    fn chain(&self, convs: &[(&str, Conv)]) -> Result<Vec<B::Conv>, NetError> {
        convs.iter().map(|(n, s)| self.conv(n, *s)).collect()
    }

    fn convs(&self, convs: &[(&str, Conv)]) -> Result<Branch<B>, NetError> {
        Ok(Branch::Convs(self.chain(convs)?))
    }

    fn pooled(&self, pool: Pool, name: &str, spec: Conv) -> Result<Branch<B>, NetError> {
        Ok(Branch::Pool(pool, Some(self.conv(name, spec)?)))
    }
}

fn one(i: usize, o: usize) -> Conv {
    Conv::square(i, o, 1)
}

fn three(i: usize, o: usize) -> Conv {
    Conv::square(i, o, 3).padding(1)
}

fn three_stride2(i: usize, o: usize) -> Conv {
    Conv::square(i, o, 3).stride(2)
}

/// A `1 × k` kernel with padding that keeps the size.
fn wide(i: usize, o: usize, k: usize) -> Conv {
    Conv {
        kernel: [1, k],
        padding: Padding::symmetric(0, k / 2),
        ..one(i, o)
    }
}

/// A `k × 1` kernel with padding that keeps the size.
fn tall(i: usize, o: usize, k: usize) -> Conv {
    Conv {
        kernel: [k, 1],
        padding: Padding::symmetric(k / 2, 0),
        ..one(i, o)
    }
}

fn mean_pool() -> Pool {
    Pool {
        kind: PoolKind::Mean {
            count_padding: false,
        },
        ..Pool::max(3, 1).padding(1)
    }
}

fn block_a<B: Backend>(l: &Loader<'_, B>, i: usize, pool: usize) -> Result<Block<B>, NetError> {
    Ok(Block(vec![
        l.convs(&[("branch1x1", one(i, 64))])?,
        l.convs(&[
            ("branch5x5_1", one(i, 48)),
            ("branch5x5_2", Conv::square(48, 64, 5).padding(2)),
        ])?,
        l.convs(&[
            ("branch3x3dbl_1", one(i, 64)),
            ("branch3x3dbl_2", three(64, 96)),
            ("branch3x3dbl_3", three(96, 96)),
        ])?,
        l.pooled(mean_pool(), "branch_pool", one(i, pool))?,
    ]))
}

fn block_b<B: Backend>(l: &Loader<'_, B>, i: usize) -> Result<Block<B>, NetError> {
    Ok(Block(vec![
        l.convs(&[("branch3x3", three_stride2(i, 384))])?,
        l.convs(&[
            ("branch3x3dbl_1", one(i, 64)),
            ("branch3x3dbl_2", three(64, 96)),
            ("branch3x3dbl_3", three_stride2(96, 96)),
        ])?,
        Branch::Pool(Pool::max(3, 2), None),
    ]))
}

fn block_c<B: Backend>(l: &Loader<'_, B>, i: usize, c: usize) -> Result<Block<B>, NetError> {
    Ok(Block(vec![
        l.convs(&[("branch1x1", one(i, 192))])?,
        l.convs(&[
            ("branch7x7_1", one(i, c)),
            ("branch7x7_2", wide(c, c, 7)),
            ("branch7x7_3", tall(c, 192, 7)),
        ])?,
        l.convs(&[
            ("branch7x7dbl_1", one(i, c)),
            ("branch7x7dbl_2", tall(c, c, 7)),
            ("branch7x7dbl_3", wide(c, c, 7)),
            ("branch7x7dbl_4", tall(c, c, 7)),
            ("branch7x7dbl_5", wide(c, 192, 7)),
        ])?,
        l.pooled(mean_pool(), "branch_pool", one(i, 192))?,
    ]))
}

fn block_d<B: Backend>(l: &Loader<'_, B>, i: usize) -> Result<Block<B>, NetError> {
    Ok(Block(vec![
        l.convs(&[
            ("branch3x3_1", one(i, 192)),
            ("branch3x3_2", three_stride2(192, 320)),
        ])?,
        l.convs(&[
            ("branch7x7x3_1", one(i, 192)),
            ("branch7x7x3_2", wide(192, 192, 7)),
            ("branch7x7x3_3", tall(192, 192, 7)),
            ("branch7x7x3_4", three_stride2(192, 192)),
        ])?,
        Branch::Pool(Pool::max(3, 2), None),
    ]))
}

fn block_e<B: Backend>(l: &Loader<'_, B>, i: usize, pool: Pool) -> Result<Block<B>, NetError> {
    let fork = |a: &str, b: &str| -> Result<[B::Conv; 2], NetError> {
        Ok([l.conv(a, wide(384, 384, 3))?, l.conv(b, tall(384, 384, 3))?])
    };
    Ok(Block(vec![
        l.convs(&[("branch1x1", one(i, 320))])?,
        Branch::Fork(
            l.chain(&[("branch3x3_1", one(i, 384))])?,
            fork("branch3x3_2a", "branch3x3_2b")?,
        ),
        Branch::Fork(
            l.chain(&[
                ("branch3x3dbl_1", one(i, 448)),
                ("branch3x3dbl_2", three(448, 384)),
            ])?,
            fork("branch3x3dbl_3a", "branch3x3dbl_3b")?,
        ),
        l.pooled(pool, "branch_pool", one(i, 192))?,
    ]))
}

impl<B: Backend> Block<B> {
    fn run(&self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        // Each branch is brought to its last convolution, which then writes into its place.
        let inputs = self
            .0
            .iter()
            .map(|branch| match branch {
                Branch::Convs(convs) => chain(b, x, &convs[..convs.len() - 1]),
                Branch::Pool(pool, Some(_)) => Ok(b.pool(x, *pool)?),
                Branch::Pool(_, None) => Ok(x.clone()),
                Branch::Fork(convs, _) => chain(b, x, convs),
            })
            .collect::<Result<Vec<_>, NetError>>()?;
        let mut parts = Vec::with_capacity(6);
        for (branch, input) in self.0.iter().zip(&inputs) {
            match branch {
                Branch::Convs(convs) => parts.push(Part::Conv(input, &convs[convs.len() - 1])),
                Branch::Pool(_, Some(conv)) => parts.push(Part::Conv(input, conv)),
                Branch::Pool(pool, None) => parts.push(Part::Pool(input, *pool)),
                Branch::Fork(_, [first, second]) => {
                    parts.push(Part::Conv(input, first));
                    parts.push(Part::Conv(input, second));
                }
            }
        }
        Ok(b.concat(&parts)?)
    }
}

fn chain<B: Backend>(b: &B, x: &B::Tensor, convs: &[B::Conv]) -> Result<B::Tensor, NetError> {
    let mut x = x.clone();
    for conv in convs {
        x = b.conv(&x, conv, None)?;
    }
    Ok(x)
}

impl<B: Backend> Inception<B> {
    /// Builds the network up to `deepest`; blocks beyond it are not loaded.
    pub fn new(backend: &B, dict: &StateDict, deepest: FidTap) -> Result<Self, NetError> {
        let l = Loader {
            backend,
            scope: Scope::new(dict),
        };
        let at = |name: &str| l.below(name);
        let stem64 = [
            l.conv("Conv2d_1a_3x3", three_stride2(3, 32))?,
            l.conv("Conv2d_2a_3x3", Conv::square(32, 32, 3))?,
            l.conv("Conv2d_2b_3x3", three(32, 64))?,
        ];
        let stem192 = (deepest >= FidTap::F192)
            .then(|| {
                Ok::<_, NetError>([
                    l.conv("Conv2d_3b_1x1", one(64, 80))?,
                    l.conv("Conv2d_4a_3x3", Conv::square(80, 192, 3))?,
                ])
            })
            .transpose()?;
        let to768 = (deepest >= FidTap::F768)
            .then(|| {
                Ok::<_, NetError>(vec![
                    block_a(&at("Mixed_5b"), 192, 32)?,
                    block_a(&at("Mixed_5c"), 256, 64)?,
                    block_a(&at("Mixed_5d"), 288, 64)?,
                    block_b(&at("Mixed_6a"), 288)?,
                    block_c(&at("Mixed_6b"), 768, 128)?,
                    block_c(&at("Mixed_6c"), 768, 160)?,
                    block_c(&at("Mixed_6d"), 768, 160)?,
                    block_c(&at("Mixed_6e"), 768, 192)?,
                ])
            })
            .transpose()?;
        let to2048 = (deepest >= FidTap::F2048)
            .then(|| {
                Ok::<_, NetError>(vec![
                    block_d(&at("Mixed_7a"), 768)?,
                    block_e(&at("Mixed_7b"), 1280, mean_pool())?,
                    block_e(&at("Mixed_7c"), 2048, Pool::max(3, 1).padding(1))?,
                ])
            })
            .transpose()?;
        let fc = if deepest >= FidTap::F2048 && dict.contains("fc.weight") {
            let classes = l.scope.array("fc.weight")?.shape[0];
            // The Inception Score uses the logits without bias.
            let weight = l.scope.shaped("fc.weight", &[classes, 2048])?;
            Some(backend.prepare(Conv::linear(2048, classes), weight, &[])?)
        } else {
            None
        };
        Ok(Self {
            stem64,
            stem192,
            to768,
            to2048,
            fc,
        })
    }

    /// True if the 1008-way layer is there (Inception Score).
    pub fn has_logits(&self) -> bool {
        self.fc.is_some()
    }

    /// Features of a 299×299 batch scaled to about [-1, 1], at one tap, `[n, size]`.
    pub fn features(&self, b: &B, x: &B::Tensor, tap: FidTap) -> Result<B::Tensor, NetError> {
        let mut all = self.features_at(b, x, &[tap])?;
        all.pop().ok_or(NetError::MissingPart {
            network: "inception_v3_fid",
            part: "tap",
        })
    }

    /// Features at several taps in one pass, in the order asked for.
    pub fn features_at(
        &self,
        b: &B,
        x: &B::Tensor,
        taps: &[FidTap],
    ) -> Result<Vec<B::Tensor>, NetError> {
        let deepest = taps.iter().max().copied().unwrap_or(FidTap::F64);
        let mut found: Vec<(FidTap, B::Tensor)> = Vec::new();
        let mut note = |tap: FidTap, x: &B::Tensor| {
            if taps.contains(&tap) {
                found.push((tap, b.global_mean(x)));
            }
        };
        let missing = |part| NetError::MissingPart {
            network: "inception_v3_fid",
            part,
        };
        let mut x = one_by_one(b, x, |x| {
            Ok(b.pool(&chain(b, x, &self.stem64)?, Pool::max(3, 2))?)
        })?;
        note(FidTap::F64, &x);
        if deepest >= FidTap::F192 {
            let convs = self.stem192.as_ref().ok_or(missing("192-feature stem"))?;
            x = one_by_one(
                b,
                &x,
                |x| Ok(b.pool(&chain(b, x, convs)?, Pool::max(3, 2))?),
            )?;
            note(FidTap::F192, &x);
        }
        if deepest >= FidTap::F768 {
            for block in self.to768.as_ref().ok_or(missing("blocks 5b to 6e"))? {
                x = block.run(b, &x)?;
            }
            note(FidTap::F768, &x);
        }
        if deepest >= FidTap::F2048 {
            for block in self.to2048.as_ref().ok_or(missing("blocks 7a to 7c"))? {
                x = block.run(b, &x)?;
            }
            note(FidTap::F2048, &x);
        }
        Ok(taps
            .iter()
            .filter_map(|tap| found.iter().find(|(t, _)| t == tap))
            .map(|(_, x)| x.clone())
            .collect())
    }

    /// 2048 features and the logits without bias that the Inception Score uses.
    pub fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let embedding = self.features(b, x, FidTap::F2048)?;
        let logits = self.logits(b, &embedding)?;
        Ok(Prediction { logits, embedding })
    }

    /// 1008 logits of 2048 features.
    pub fn logits(&self, b: &B, embedding: &B::Tensor) -> Result<B::Tensor, NetError> {
        let fc = self.fc.as_ref().ok_or(NetError::MissingPart {
            network: "inception_v3_fid",
            part: "1008-way layer `fc`",
        })?;
        Ok(b.conv(embedding, fc, None)?)
    }
}
