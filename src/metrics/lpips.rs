//! LPIPS v0.1 (Zhang et al. 2018): distance between deep features of two images.
//!
//! `d(a, b) = Σ_l mean_{h,w} Σ_c w_{l,c} (â_{l,h,w,c} − b̂_{l,h,w,c})²`, with every pixel's channel vector scaled to
//! unit length (`x/(‖x‖ + 1e-10)`, as in the `lpips` package). Images are in [-1, 1] and then shifted and scaled per
//! channel. Agrees with lpips 0.1.4 and torchmetrics to 1e-5 relative.

use crate::nets::{AlexNet, Backbone, NetError, SqueezeNet, Vgg16};
use crate::tensor::{Backend, Compared, Resize, Shape, StateDict, Tap};

/// Per-channel shift and scale of the input, in the range [-1, 1].
const SHIFT: [f32; 3] = [-0.030, -0.088, -0.188];
const SCALE: [f32; 3] = [0.458, 0.448, 0.450];

/// The backbone whose features are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LpipsNet {
    Alex,
    Vgg,
    Squeeze,
}

impl LpipsNet {
    pub const ALL: [LpipsNet; 3] = [LpipsNet::Alex, LpipsNet::Vgg, LpipsNet::Squeeze];

    /// Shortest side of an image whose deepest tap still has a pixel.
    pub fn min_side(self) -> usize {
        match self {
            LpipsNet::Alex => 31,
            LpipsNet::Vgg => 16,
            LpipsNet::Squeeze => 25,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            LpipsNet::Alex => "alex",
            LpipsNet::Vgg => "vgg",
            LpipsNet::Squeeze => "squeeze",
        }
    }
}

impl std::str::FromStr for LpipsNet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|n| n.name() == text)
            .ok_or_else(|| format!("unknown LPIPS backbone {text:?}; use alex, vgg or squeeze"))
    }
}

/// The features of two batches that are compared, tap by tap.
pub type Features<'a, B> = (&'a [<B as Backend>::Tensor], &'a [<B as Backend>::Tensor]);

/// LPIPS on a device.
pub struct Lpips<B: Backend> {
    backbone: Box<dyn Backbone<B>>,
    heads: Vec<Vec<f32>>,
}

/// One distance and the part each layer adds to it.
#[derive(Clone, Debug, PartialEq)]
pub struct LpipsDistance {
    pub value: f64,
    pub layers: Vec<f64>,
}

impl<B: Backend + 'static> Lpips<B> {
    /// Builds the backbone (torchvision names) with its heads, one weight per channel of each tap.
    pub fn new(
        backend: &B,
        net: LpipsNet,
        backbone: &StateDict,
        heads: Vec<Vec<f32>>,
    ) -> Result<Self, NetError> {
        let backbone: Box<dyn Backbone<B>> = match net {
            LpipsNet::Alex => Box::new(AlexNet::new(backend, backbone)?),
            LpipsNet::Vgg => Box::new(Vgg16::new(backend, backbone)?),
            LpipsNet::Squeeze => Box::new(SqueezeNet::new(backend, backbone)?),
        };
        Ok(Self { backbone, heads })
    }

    /// Features of images whose value `v` stands for `v · factor + offset` in [-1, 1]; pixels 0..255 have
    /// factor 1/127.5 and offset -1.
    pub fn features(
        &self,
        backend: &B,
        images: &B::Tensor,
        factor: f32,
        offset: f32,
    ) -> Result<Vec<B::Tensor>, NetError> {
        let scale: Vec<f32> = SCALE.iter().map(|s| factor / s).collect();
        let shift: Vec<f32> = (0..3).map(|c| (offset - SHIFT[c]) / SCALE[c]).collect();
        let x = backend.affine(images, &[0, 1, 2], &scale, &shift)?;
        self.backbone.taps(backend, &x)
    }

    /// Distance of each image of one batch of features from the same image of another.
    pub fn distances(
        &self,
        backend: &B,
        a: &[B::Tensor],
        b: &[B::Tensor],
    ) -> Result<Vec<LpipsDistance>, NetError> {
        Ok(self.distances_of(backend, &[(a, b)])?.concat())
    }

    /// The same for many pairs of batches, asked of the device at once.
    pub fn distances_of(
        &self,
        backend: &B,
        pairs: &[Features<'_, B>],
    ) -> Result<Vec<Vec<LpipsDistance>>, NetError> {
        let taps = pairs
            .iter()
            .flat_map(|(a, b)| a.iter().zip(*b).zip(&self.heads));
        let compared: Vec<Compared<'_, B>> =
            taps.map(|((a, b), head)| Compared { a, b, head }).collect();
        let layers = backend.mean_feature_distances(&compared)?;
        let pairs = layers.chunks(self.heads.len().max(1));
        Ok(pairs.map(joined).collect())
    }

    /// Distances of all pairs of images, given the features of each: 0 and 1, 0 and 2, …, 1 and 2, ….
    pub fn all_pairs<T: AsRef<[B::Tensor]>>(
        &self,
        backend: &B,
        features: &[T],
    ) -> Result<Vec<LpipsDistance>, NetError> {
        let n = features.len();
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| [i, j]));
        self.some_pairs(backend, features, &pairs.collect::<Vec<_>>())
    }

    /// Distances of pairs of images, given the features of each: the images of a set are asked of the device at once.
    pub fn some_pairs<T: AsRef<[B::Tensor]>>(
        &self,
        backend: &B,
        features: &[T],
        pairs: &[[usize; 2]],
    ) -> Result<Vec<LpipsDistance>, NetError> {
        let taps: Vec<Tap<'_, B>> = self
            .heads
            .iter()
            .enumerate()
            .map(|(layer, head)| Tap {
                images: features.iter().map(|f| &f.as_ref()[layer]).collect(),
                head,
            })
            .collect();
        Ok(joined(&backend.feature_distances_of_pairs(&taps, pairs)?))
    }

    /// Maps of each layer brought to `height × width` (bilinear, half-pixel centres), `[n, h, w, 1]`; their sum
    /// is the spatial LPIPS.
    pub fn maps(
        &self,
        backend: &B,
        a: &[B::Tensor],
        b: &[B::Tensor],
        height: usize,
        width: usize,
    ) -> Result<Vec<B::Tensor>, NetError> {
        let mut maps = Vec::with_capacity(self.heads.len());
        for ((a, b), head) in a.iter().zip(b).zip(&self.heads) {
            let map = backend.feature_distance(a, b, head)?;
            maps.push(backend.resize(&map, height, width, Resize::HalfPixel)?);
        }
        Ok(maps)
    }

    /// The spatial map of each image: the sum of [`Lpips::maps`].
    pub fn map(
        &self,
        backend: &B,
        a: &[B::Tensor],
        b: &[B::Tensor],
        height: usize,
        width: usize,
    ) -> Result<B::Tensor, NetError> {
        let maps = self.maps(backend, a, b, height, width)?;
        let mut maps = maps.into_iter();
        let Some(mut sum) = maps.next() else {
            return Err(NetError::MissingPart {
                network: "LPIPS",
                part: "heads",
            });
        };
        for map in maps {
            sum = backend.add(&sum, &map)?;
        }
        Ok(sum)
    }

    /// Number of taps.
    pub fn layers(&self) -> usize {
        self.heads.len()
    }
}

/// Distances of images from those of their layers.
fn joined(layers: &[Vec<f64>]) -> Vec<LpipsDistance> {
    let images = layers.first().map_or(0, Vec::len);
    (0..images)
        .map(|i| {
            let layers: Vec<f64> = layers.iter().map(|l| l[i]).collect();
            LpipsDistance {
                value: layers.iter().sum(),
                layers,
            }
        })
        .collect()
}

/// Bytes that the features of one image take, for bounding a cache.
pub fn feature_bytes<B: Backend>(backend: &B, features: &[B::Tensor]) -> usize {
    features
        .iter()
        .map(|f| {
            let Shape { n, h, w, c } = backend.shape(f);
            4 * n * h * w * c
        })
        .sum()
}
