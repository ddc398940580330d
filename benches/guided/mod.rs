//! One guided diffusion step on seeded networks: denoise, predict the clean image, judge it, and take the gradient of
//! the verdict by the noisy image back through both networks. The values of the weights do not change the time.

use foil::nets::{Unet, UnetConfig, UnetEncoder, UnetEncoderConfig};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::{Array, Backend, StateDict};

/// Widths of the two networks: residual up- and down-sampling, scale-shift norms, attention on the last level.
pub struct Size {
    pub name: &'static str,
    pub side: usize,
    pub channels: usize,
    /// Multiples of `channels`, one per level.
    pub levels: &'static [usize],
    pub per_head: usize,
}

pub const SIZES: [Size; 3] = [
    Size {
        name: "32x32_c32",
        side: 32,
        channels: 32,
        levels: &[1, 2],
        per_head: 16,
    },
    Size {
        name: "64x64_c64",
        side: 64,
        channels: 64,
        levels: &[1, 2, 2],
        per_head: 64,
    },
    Size {
        name: "64x64_c128",
        side: 64,
        channels: 128,
        levels: &[1, 2, 2],
        per_head: 64,
    },
];

const CLASSES: usize = 10;

struct Weights<'a> {
    dict: StateDict,
    time: usize,
    random: &'a dyn Fn(&str, &[usize]) -> Array,
}

impl Weights<'_> {
    fn put(&mut self, name: String, shape: &[usize]) {
        let mut array = (self.random)(&name, shape);
        let inputs: usize = shape[1..].iter().product();
        let scale = 1.0 / (inputs as f32).sqrt();
        array.data.iter_mut().for_each(|v| *v *= scale);
        self.dict.insert(name, array);
    }

    /// Weight and bias.
    fn layer(&mut self, name: &str, shape: &[usize]) {
        self.put(format!("{name}.weight"), shape);
        self.put(format!("{name}.bias"), &shape[..1]);
    }

    fn residual(&mut self, at: &str, inputs: usize, outputs: usize) {
        self.layer(&format!("{at}.in_layers.0"), &[inputs]);
        self.layer(&format!("{at}.in_layers.2"), &[outputs, inputs, 3, 3]);
        self.layer(&format!("{at}.emb_layers.1"), &[2 * outputs, self.time]);
        self.layer(&format!("{at}.out_layers.0"), &[outputs]);
        self.layer(&format!("{at}.out_layers.3"), &[outputs, outputs, 3, 3]);
        if inputs != outputs {
            self.layer(&format!("{at}.skip_connection"), &[outputs, inputs, 1, 1]);
        }
    }

    fn attend(&mut self, at: &str, c: usize) {
        self.layer(&format!("{at}.norm"), &[c]);
        self.layer(&format!("{at}.qkv"), &[3 * c, c, 1]);
        self.layer(&format!("{at}.proj_out"), &[c, c, 1]);
    }

    /// The way down and the middle: one residual block per level. Returns the widths of the blocks.
    fn encoder(&mut self, size: &Size) -> Vec<usize> {
        let c = size.channels;
        self.layer("time_embed.0", &[self.time, c]);
        self.layer("time_embed.2", &[self.time, self.time]);
        self.layer("input_blocks.0.0", &[c, 3, 3, 3]);
        let mut widths = vec![c];
        let mut c = c;
        for (level, multiple) in size.levels.iter().enumerate() {
            let outputs = multiple * size.channels;
            let at = format!("input_blocks.{}", widths.len());
            self.residual(&format!("{at}.0"), c, outputs);
            c = outputs;
            widths.push(c);
            if level + 1 < size.levels.len() {
                self.residual(&format!("input_blocks.{}.0", widths.len()), c, c);
                widths.push(c);
            } else {
                self.attend(&format!("{at}.1"), c);
            }
        }
        self.residual("middle_block.0", c, c);
        self.attend("middle_block.1", c);
        self.residual("middle_block.2", c, c);
        widths
    }

    fn decoder(&mut self, size: &Size, mut widths: Vec<usize>) {
        let mut c = widths[widths.len() - 1];
        let mut index = 0;
        for (level, multiple) in size.levels.iter().enumerate().rev() {
            let outputs = multiple * size.channels;
            for i in 0..2 {
                let at = format!("output_blocks.{index}");
                let skip = widths.pop().unwrap_or(0);
                self.residual(&format!("{at}.0"), c + skip, outputs);
                c = outputs;
                let attend = level + 1 == size.levels.len();
                if attend {
                    self.attend(&format!("{at}.1"), c);
                }
                if level > 0 && i == 1 {
                    let place = 1 + usize::from(attend);
                    self.residual(&format!("{at}.{place}"), c, c);
                }
                index += 1;
            }
        }
        self.layer("out.0", &[c]);
        self.layer("out.2", &[6, c, 3, 3]);
    }

    fn pool(&mut self, size: &Size, c: usize) {
        let side = size.side >> (size.levels.len() - 1);
        self.layer("out.0", &[c]);
        self.put("out.2.positional_embedding".into(), &[c, side * side + 1]);
        self.layer("out.2.qkv_proj", &[3 * c, c, 1]);
        self.layer("out.2.c_proj", &[CLASSES, c, 1]);
    }
}

/// The networks and the noisy image.
pub struct Guided {
    unet: Unet<Candle>,
    classifier: UnetEncoder<Candle>,
    x: Array,
}

impl Guided {
    pub fn new(size: &Size, random: &dyn Fn(&str, &[usize]) -> Array) -> Self {
        let weights = || Weights {
            dict: StateDict::new(),
            time: 4 * size.channels,
            random,
        };
        let mut judge = weights();
        let widths = judge.encoder(size);
        judge.pool(size, widths[widths.len() - 1]);
        let judging = UnetEncoderConfig {
            num_res_blocks: 1,
            num_head_channels: size.per_head,
            ..UnetEncoderConfig::default()
        };
        Self {
            unet: denoiser(size, random),
            classifier: UnetEncoder::new(&Candle, &judge.dict, judging).expect("a classifier"),
            x: random("x", &[1, 3, size.side, size.side]),
        }
    }

    /// The denoiser alone, forward only.
    pub fn denoise(&self) -> Array {
        let x = Candle.upload(&self.x).expect("an image");
        let y = self.unet.predict(&Candle, &x, &[500.0], None);
        Candle.download(&y.expect("it runs")).expect("a download")
    }

    /// The gradient by the noisy image.
    pub fn step(&self) -> Array {
        self.gradient().expect("a step")
    }

    fn gradient(&self) -> Result<Array, Box<dyn std::error::Error>> {
        let b = &Candle;
        let x = b.variable(&self.x)?;
        let noisy = Tensor::new(x.as_tensor())?;
        let output = self.unet.predict(b, &noisy, &[500.0], None)?;
        // x0 = 1.2·x − 0.6·noise, the first three channels of the output.
        let noise = b.affine(&output, &[0, 1, 2], &[-0.6; 3], &[0.0; 3])?;
        let clean = b.add(&b.affine(&noisy, &[0, 1, 2], &[1.2; 3], &[0.0; 3])?, &noise)?;
        let logits = self.classifier.predict_at(b, &clean, &[0.0])?.logits;
        let verdict = b
            .log_softmax(&logits)?
            .candle()
            .narrow(3, 3, 1)?
            .sum_all()?;
        let grads = verdict.backward()?;
        let gradient = grads.get(x.as_tensor()).ok_or("no gradient")?;
        Ok(b.download(&Tensor::new(gradient)?)?)
    }
}

/// The denoiser of a size.
pub fn denoiser(size: &Size, random: &dyn Fn(&str, &[usize]) -> Array) -> Unet<Candle> {
    let mut weights = Weights {
        dict: StateDict::new(),
        time: 4 * size.channels,
        random,
    };
    let widths = weights.encoder(size);
    weights.decoder(size, widths);
    let config = UnetConfig {
        num_head_channels: size.per_head,
        ..UnetConfig::default()
    };
    Unet::new(&Candle, &weights.dict, config).expect("a UNet")
}

/// The published denoiser, from a list of its tensors (`full_size_shapes.json` of the golden data).
pub fn published(
    shapes: &serde_json::Value,
    random: &dyn Fn(&str, &[usize]) -> Array,
) -> Unet<Candle> {
    let mut weights = Weights {
        dict: StateDict::new(),
        time: 0,
        random,
    };
    let shapes = shapes["diffusion_model"]["shapes"].as_object();
    for (name, shape) in shapes.expect("shapes of a diffusion_model") {
        let shape: Vec<usize> = { shape.as_array().into_iter().flatten() }
            .filter_map(|side| side.as_u64())
            .map(|side| side as usize)
            .collect();
        weights.put(name.clone(), &shape);
    }
    Unet::new(&Candle, &weights.dict, UnetConfig::default()).expect("the published UNet")
}

/// The gradient of the sum of a denoiser's output by the noisy image.
pub fn way_back(unet: &Unet<Candle>, x: &Array) -> Array {
    let gradient = || -> Result<Array, Box<dyn std::error::Error>> {
        let by = Candle.variable(x)?;
        let noisy = Tensor::new(by.as_tensor())?;
        let output = unet.predict(&Candle, &noisy, &[500.0], None)?;
        let grads = output.candle().sum_all()?.backward()?;
        let gradient = grads.get(by.as_tensor()).ok_or("no gradient")?;
        Ok(Candle.download(&Tensor::new(gradient)?)?)
    };
    gradient().expect("a gradient")
}
