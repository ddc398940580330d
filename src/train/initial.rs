//! Weights to begin with, for networks of any width.

use crate::stats::random::{Draws, Stream};
use crate::tensor::{Array, StateDict};

/// Fills a state dict with seeded values, layer by layer.
pub struct Initial {
    dict: StateDict,
    seed: u64,
    /// Parameters so far: each has its own random numbers.
    count: u64,
}

impl Initial {
    pub fn new(seed: u64) -> Self {
        Self {
            dict: StateDict::new(),
            seed,
            count: 0,
        }
    }

    pub fn finish(self) -> StateDict {
        self.dict
    }

    /// Normal values with deviation `gain / √(inputs of an output)`.
    pub fn weight(&mut self, name: &str, shape: &[usize], gain: f64) {
        let fan_in: usize = shape.iter().skip(1).product();
        let deviation = gain / (fan_in.max(1) as f64).sqrt();
        let mut draws = Draws::new(self.seed, Stream::INITIAL_WEIGHTS, self.count);
        self.count += 1;
        let len: usize = shape.iter().product();
        let data = (0..len)
            .map(|_| (draws.normal() * deviation) as f32)
            .collect();
        let shape = shape.to_vec();
        self.dict.insert(name, Array { shape, data });
    }

    pub fn constant(&mut self, name: &str, shape: &[usize], value: f32) {
        let len: usize = shape.iter().product();
        let array = Array {
            shape: shape.to_vec(),
            data: vec![value; len],
        };
        self.dict.insert(name, array);
    }

    /// `at.weight` and `at.bias` of a layer followed by a ReLU or the like.
    pub fn layer(&mut self, at: &str, shape: &[usize]) {
        self.weight(&format!("{at}.weight"), shape, 2f64.sqrt());
        self.constant(&format!("{at}.bias"), &shape[..1], 0.0);
    }

    /// The same for a layer that nothing follows.
    pub fn last(&mut self, at: &str, shape: &[usize]) {
        self.weight(&format!("{at}.weight"), shape, 1.0);
        self.constant(&format!("{at}.bias"), &shape[..1], 0.0);
    }

    /// A layer that gives zeros to begin with.
    pub fn zero(&mut self, at: &str, shape: &[usize]) {
        self.constant(&format!("{at}.weight"), shape, 0.0);
        self.constant(&format!("{at}.bias"), &shape[..1], 0.0);
    }

    /// Scale 1 and shift 0 of a layer or group norm.
    pub fn norm(&mut self, at: &str, channels: usize) {
        self.constant(&format!("{at}.weight"), &[channels], 1.0);
        self.constant(&format!("{at}.bias"), &[channels], 0.0);
    }

    /// A batch norm.
    pub fn batch_norm(&mut self, at: &str, channels: usize) {
        self.norm(at, channels);
        self.constant(&format!("{at}.running_mean"), &[channels], 0.0);
        self.constant(&format!("{at}.running_var"), &[channels], 1.0);
    }

    /// A convolution without bias and its batch norm.
    pub fn conv_bn(&mut self, conv: &str, norm: &str, shape: &[usize]) {
        self.weight(&format!("{conv}.weight"), shape, 2f64.sqrt());
        self.batch_norm(norm, shape[0]);
    }
}

/// ResNet-18 of torchvision with another width (64 there) and number of outputs.
pub fn resnet18(seed: u64, width: usize, outputs: usize) -> StateDict {
    let mut net = Initial::new(seed);
    net.conv_bn("conv1", "bn1", &[width, 3, 7, 7]);
    let mut inputs = width;
    for stage in 0..4 {
        let channels = width << stage;
        for block in 0..2 {
            let at = format!("layer{}.{block}", stage + 1);
            net.conv_bn(
                &format!("{at}.conv1"),
                &format!("{at}.bn1"),
                &[channels, inputs, 3, 3],
            );
            net.conv_bn(
                &format!("{at}.conv2"),
                &format!("{at}.bn2"),
                &[channels, channels, 3, 3],
            );
            if stage > 0 && block == 0 {
                let down = format!("{at}.downsample");
                net.conv_bn(
                    &format!("{down}.0"),
                    &format!("{down}.1"),
                    &[channels, inputs, 1, 1],
                );
            }
            inputs = channels;
        }
    }
    net.last("fc", &[outputs, inputs]);
    net.finish()
}

/// ConvNeXt of torchvision with other widths and depths, and a stem of `patch × patch` pixels.
pub fn convnext(
    seed: u64,
    patch: usize,
    widths: &[usize],
    depths: &[usize],
    outputs: usize,
) -> StateDict {
    let mut net = Initial::new(seed);
    let mut channels = 3;
    for (stage, (&width, &depth)) in widths.iter().zip(depths).enumerate() {
        let at = format!("features.{}", 2 * stage);
        if stage == 0 {
            net.last(&format!("{at}.0"), &[width, channels, patch, patch]);
            net.norm(&format!("{at}.1"), width);
        } else {
            net.norm(&format!("{at}.0"), channels);
            net.last(&format!("{at}.1"), &[width, channels, 2, 2]);
        }
        for block in 0..depth {
            let at = format!("features.{}.{block}", 2 * stage + 1);
            net.constant(&format!("{at}.layer_scale"), &[width, 1, 1], 0.1);
            net.last(&format!("{at}.block.0"), &[width, 1, 7, 7]);
            net.norm(&format!("{at}.block.2"), width);
            net.layer(&format!("{at}.block.3"), &[4 * width, width]);
            net.last(&format!("{at}.block.5"), &[width, 4 * width]);
        }
        channels = width;
    }
    net.norm("classifier.0", channels);
    net.last("classifier.2", &[outputs, channels]);
    net.finish()
}

/// The ConvNeXt with batch norms of [`crate::nets::ConvNextBn`].
pub fn convnext_bn(seed: u64, widths: &[usize], depths: &[usize], outputs: usize) -> StateDict {
    let mut net = Initial::new(seed);
    let normed = |net: &mut Initial, at: String, shape: &[usize]| {
        net.weight(&format!("{at}.conv.weight"), shape, 1.0);
        net.batch_norm(&format!("{at}.norm"), shape[0]);
    };
    let mut inputs = 3;
    for (stage, (&width, &depth)) in widths.iter().zip(depths).enumerate() {
        if stage == 0 {
            normed(&mut net, "stem".into(), &[width, inputs, 4, 4]);
        } else {
            normed(
                &mut net,
                format!("stages.{stage}.down"),
                &[width, inputs, 2, 2],
            );
        }
        for block in 0..depth {
            let at = format!("stages.{stage}.{block}");
            normed(&mut net, format!("{at}.depthwise"), &[width, 1, 7, 7]);
            net.layer(&format!("{at}.widen"), &[4 * width, width]);
            normed(&mut net, format!("{at}.narrow"), &[width, 4 * width]);
        }
        inputs = width;
    }
    net.last("head", &[outputs, inputs]);
    net.finish()
}

/// The plain CNN: two convolutions of each width.
pub fn plain_cnn(seed: u64, widths: &[usize], outputs: usize) -> StateDict {
    let mut net = Initial::new(seed);
    let mut inputs = 3;
    for (i, &width) in widths.iter().flat_map(|w| [w, w]).enumerate() {
        let at = format!("features.{i}");
        net.conv_bn(
            &format!("{at}.conv"),
            &format!("{at}.norm"),
            &[width, inputs, 3, 3],
        );
        inputs = width;
    }
    net.last("head", &[outputs, inputs]);
    net.finish()
}

/// The autoencoder of [`crate::nets::Autoencoder`] for images of some channels.
pub fn autoencoder(seed: u64, channels: usize, width: usize) -> StateDict {
    let mut net = Initial::new(seed);
    net.layer("encoder.0", &[width, channels, 3, 3]);
    net.layer("encoder.1", &[width, width, 3, 3]);
    net.last("encoder.2", &[1, width, 3, 3]);
    net.layer("decoder.0", &[width, 1, 3, 3]);
    net.layer("decoder.1", &[width, width, 3, 3]);
    net.last("decoder.2", &[channels, width, 3, 3]);
    net.finish()
}

/// The CNN of [`crate::nets::MnistCnn`] for square images: filters of the two convolutions, width of the linear layer.
pub fn mnist_cnn(
    seed: u64,
    channels: usize,
    size: usize,
    [first, second, dense]: [usize; 3],
    outputs: usize,
) -> StateDict {
    let mut net = Initial::new(seed);
    let side = size / 2 / 2;
    net.layer("conv1", &[first, channels, 2, 2]);
    net.layer("conv2", &[second, first, 2, 2]);
    net.layer("dense1", &[dense, side * side * second]);
    net.last("dense2", &[outputs, dense]);
    net.finish()
}
