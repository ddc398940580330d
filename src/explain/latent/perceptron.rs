//! Generators and classifiers that are perceptrons: small worlds, quick on any machine.
//!
//! A layer is `tanh(W x + b)`; the classifier's last one has no tanh. The image is the generator's output.

use std::cell::Cell;
use std::ops::Range;

use rayon::prelude::*;

use super::{Latent, LatentError, Looked, Networks, Pull, RawPulled, Result, Seen, Weighed};
use crate::tensor::cpu::perceptron::{Block, LANES, Linear, turn, turn_back};

/// A linear layer, and whether a tanh follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer(Linear);

impl Layer {
    /// `weight` is `[outputs, inputs]`.
    pub fn new(weight: Vec<f32>, bias: Vec<f32>, tanh: bool) -> Result<Self> {
        let (values, outputs) = (weight.len(), bias.len());
        let layer = Linear::new(weight, bias, tanh).ok_or_else(|| {
            LatentError::setting(
                "a layer of a perceptron",
                "a weight [outputs, inputs] and a bias [outputs]",
                format!("{values} and {outputs} values"),
            )
        })?;
        Ok(Self(layer))
    }
}

/// A generator and a classifier.
#[derive(Clone, Debug)]
pub struct Perceptrons {
    layers: Vec<Linear>,
    /// How many of the layers are the generator's.
    generator: usize,
    size: [usize; 2],
    /// Values of a latent and of all layers.
    values: usize,
    /// Which of them are the image.
    image: Range<usize>,
    /// Values of the widest layer, or of the latent.
    widest: usize,
}

impl Perceptrons {
    /// Layers must fit together, from 11 numbers to 2; `shape` is that of an image: channels, height, width.
    pub fn new(generator: Vec<Layer>, classifier: Vec<Layer>, shape: [usize; 3]) -> Result<Self> {
        let count = generator.len();
        let layers: Vec<Linear> = generator
            .into_iter()
            .chain(classifier)
            .map(|layer| layer.0)
            .collect();
        let mut width = super::LATENT;
        for (i, layer) in layers.iter().enumerate() {
            if layer.inputs() != width {
                return Err(LatentError::setting(
                    format!("layer {} of the perceptrons", i + 1),
                    format!("{width} inputs"),
                    layer.inputs(),
                ));
            }
            width = layer.outputs();
            let pixels: usize = shape.iter().product();
            if i + 1 == count && width != pixels {
                return Err(LatentError::setting(
                    "the last layer of the generator",
                    format!("{pixels} outputs, an image of {shape:?}"),
                    width,
                ));
            }
        }
        if count == 0 || count == layers.len() || width != 2 {
            return Err(LatentError::setting(
                "perceptrons",
                "layers of a generator, then those of a classifier with 2 outputs",
                format!("{count} and {}, {width} outputs", layers.len() - count),
            ));
        }
        let outputs = || layers.iter().map(Linear::outputs);
        let drawn = super::LATENT + outputs().take(count).sum::<usize>();
        Ok(Self {
            generator: count,
            size: [shape[1], shape[2]],
            values: super::LATENT + outputs().sum::<usize>(),
            image: drawn - shape.iter().product::<usize>()..drawn,
            widest: outputs().fold(super::LATENT, usize::max),
            layers,
        })
    }

    /// Whether the networks are small enough that a thread is quicker alone than in company.
    fn small(&self) -> bool {
        let products = self.layers.iter().map(|l| l.inputs() * l.outputs());
        products.sum::<usize>() <= SMALL
    }

    /// Runs the networks on pieces of the rows, and `work` on what they gave: the place of the first row, the rows, and what is written of them.
    fn by_piece<'a, T: Send>(
        &self,
        raw: &'a [Latent],
        pieces: impl IndexedParallelIterator<Item = T>,
        work: impl Fn(&mut Scratch, usize, &'a [Latent], T) + Sync + Send,
    ) {
        let rows = raw.par_chunks(LANES).zip_eq(pieces).enumerate();
        rows.for_each(|(piece, (raw, out))| {
            let mut scratch = SCRATCH.take();
            scratch.fit(self);
            self.forward(raw, &mut scratch);
            work(&mut scratch, piece * LANES, raw, out);
            SCRATCH.set(scratch);
        });
    }

    /// All values of a piece.
    fn forward(&self, raw: &[Latent], scratch: &mut Scratch) {
        let latents = &mut scratch.values[..super::LATENT];
        turn(raw.as_flattened(), super::LATENT, latents);
        let mut rest = &mut scratch.values[..];
        for layer in &self.layers {
            let (x, after) = rest.split_at_mut(layer.inputs());
            layer.forward(raw.len(), x, &mut after[..layer.outputs()]);
            rest = after;
        }
    }

    /// The derivative of a piece's losses by its latents, given those by images and logits.
    fn backward(&self, rows: usize, scratch: &mut Scratch, images: bool, gradient: &mut [Latent]) {
        let Scratch {
            values,
            by,
            next,
            by_images,
            ..
        } = scratch;
        let mut end = values.len();
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (inputs, outputs) = (layer.inputs(), layer.outputs());
            if i + 1 == self.generator && images {
                let image = &mut next[..outputs];
                turn(&by_images[..rows * outputs], outputs, image);
                for (by, image) in by.iter_mut().zip(image) {
                    by.add(image);
                }
            }
            let y = &values[end - outputs..end];
            layer.backward(rows, y, &mut by[..outputs], &mut next[..inputs]);
            std::mem::swap(by, next);
            end -= outputs;
        }
        let by_latent = &by[..super::LATENT];
        turn_back(by_latent, super::LATENT, gradient.as_flattened_mut());
    }
}

thread_local! {
    /// Kept from piece to piece; whoever takes it leaves an empty one.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

/// What a thread needs for a piece.
#[derive(Default)]
struct Scratch {
    /// Latents, then the outputs of each layer.
    values: Vec<Block>,
    /// Derivatives by a layer's outputs, and by its inputs.
    by: Vec<Block>,
    next: Vec<Block>,
    images: Vec<f32>,
    by_images: Vec<f32>,
}

impl Scratch {
    fn fit(&mut self, networks: &Perceptrons) {
        let [widest, pixels] = [networks.widest, networks.pixels() * LANES];
        self.values.resize(networks.values, Block::ZERO);
        self.by.resize(widest, Block::ZERO);
        self.next.resize(widest, Block::ZERO);
        self.images.resize(pixels, 0.0);
        self.by_images.resize(pixels, 0.0);
    }

    /// The last two values of a row.
    fn logits(&self, row: usize) -> [f32; 2] {
        let last = self.values.len() - 2;
        [last, last + 1].map(|at| self.values[at].0[row])
    }
}

/// Multiplications of a latent up to which a batch is work for one thread.
const SMALL: usize = 1 << 18;

impl Networks for Perceptrons {
    fn pixels(&self) -> usize {
        self.layers[self.generator - 1].outputs()
    }

    fn size(&self) -> [usize; 2] {
        self.size
    }

    fn batch_by_thread(&self) -> bool {
        self.small()
    }

    fn look(&self, raw: &[Latent]) -> Result<Looked> {
        let pixels = self.pixels();
        let mut looked = Looked {
            images: vec![0.0; raw.len() * pixels],
            logits: vec![[0.0; 2]; raw.len()],
        };
        let images = looked.images.par_chunks_mut(LANES * pixels);
        let out = images.zip_eq(looked.logits.par_chunks_mut(LANES));
        self.by_piece(raw, out, |scratch, _, raw, (images, logits)| {
            turn_back(&scratch.values[self.image.clone()], pixels, images);
            (0..raw.len()).for_each(|row| logits[row] = scratch.logits(row));
        });
        Ok(looked)
    }

    fn logits(&self, raw: &[Latent]) -> Result<Vec<[f32; 2]>> {
        let mut logits = vec![[0.0; 2]; raw.len()];
        let out = logits.par_chunks_mut(LANES);
        self.by_piece(raw, out, |scratch, _, raw, logits| {
            (0..raw.len()).for_each(|row| logits[row] = scratch.logits(row));
        });
        Ok(logits)
    }

    fn pull(&self, raw: &[Latent], pull: &Pull<'_>) -> Result<RawPulled> {
        let pixels = if pull.images { self.pixels() } else { 0 };
        let mut logits = vec![[0.0; 2]; raw.len()];
        let mut losses = vec![0.0; raw.len()];
        let mut gradient = vec![[0.0; super::LATENT]; raw.len()];
        let out = logits.par_chunks_mut(LANES);
        let out = out.zip_eq(losses.par_chunks_mut(LANES));
        let out = out.zip_eq(gradient.par_chunks_mut(LANES));
        self.by_piece(raw, out, |scratch, first, raw, out| {
            let ((logits, losses), gradient) = out;
            if pull.images {
                let images = &mut scratch.images[..raw.len() * pixels];
                turn_back(&scratch.values[self.image.clone()], pixels, images);
                scratch.by_images.fill(0.0);
            }
            for row in 0..raw.len() {
                logits[row] = scratch.logits(row);
                let own = row * pixels..(row + 1) * pixels;
                let seen = Seen {
                    logits: logits[row],
                    image: &scratch.images[own.clone()],
                };
                let Weighed { loss, by_logits } =
                    (pull.by)(first + row, &seen, &mut scratch.by_images[own]);
                losses[row] = loss;
                for (by, value) in scratch.by.iter_mut().zip(by_logits) {
                    by.0[row] = value;
                }
            }
            self.backward(raw.len(), scratch, pull.images, gradient);
        });
        Ok((logits, losses, gradient))
    }
}

#[cfg(test)]
mod tests {
    use super::super::LATENT;
    use super::*;

    fn wave(count: usize, step: f64, size: f64) -> Vec<f32> {
        let value = |i: usize| size * (i as f64 * step + 0.3).sin();
        (0..count).map(|i| value(i) as f32).collect()
    }

    /// A layer's weights, kept for the plain sums.
    struct Kept {
        weight: Vec<f32>,
        bias: Vec<f32>,
        tanh: bool,
    }

    /// Networks of these widths; the last of the generator is the image.
    struct Case {
        layers: Vec<Kept>,
        generator: usize,
        networks: Perceptrons,
    }

    fn case(generator: &[usize], classifier: &[usize]) -> Case {
        let widths = [&[LATENT], generator, classifier].concat();
        let count = widths.len() - 1;
        let kept = |i: usize| Kept {
            weight: wave(widths[i] * widths[i + 1], 0.7 + 0.1 * i as f64, 0.5),
            bias: wave(widths[i + 1], 1.1, 0.2),
            tanh: i + 1 < count,
        };
        let layers: Vec<Kept> = (0..count).map(kept).collect();
        let of = |k: &Kept| Layer::new(k.weight.clone(), k.bias.clone(), k.tanh).unwrap();
        let (drawing, judging) = layers.split_at(generator.len());
        let [drawing, judging] = [drawing, judging].map(|l| l.iter().map(of).collect());
        let shape = [1, 1, generator[generator.len() - 1]];
        Case {
            generator: generator.len(),
            networks: Perceptrons::new(drawing, judging, shape).unwrap(),
            layers,
        }
    }

    impl Case {
        /// Image and logits in f64.
        fn plain(&self, raw: &[f64]) -> [Vec<f64>; 2] {
            let (mut x, mut image) = (raw.to_vec(), Vec::new());
            for (i, layer) in self.layers.iter().enumerate() {
                let rows = layer.weight.chunks_exact(x.len()).zip(&layer.bias);
                let sum = |(row, &bias): (&[f32], &f32)| {
                    let products = row.iter().zip(&x).map(|(&w, x)| f64::from(w) * x);
                    let sum = f64::from(bias) + products.sum::<f64>();
                    if layer.tanh { sum.tanh() } else { sum }
                };
                x = rows.map(sum).collect();
                if i + 1 == self.generator {
                    image = x.clone();
                }
            }
            [image, x]
        }

        /// The loss of [`weights`], in f64.
        fn loss(&self, row: usize, raw: &[f64], images: bool) -> f64 {
            let [image, logits] = self.plain(raw);
            let (by_logits, by_image) = weights(row);
            let dot = |a: &[f64], b: &dyn Fn(usize) -> f32| -> f64 {
                let terms = a.iter().enumerate().map(|(i, a)| a * f64::from(b(i)));
                terms.sum()
            };
            let of_images = if images { dot(&image, &by_image) } else { 0.0 };
            dot(&logits, &|i| by_logits[i]) + of_images
        }
    }

    /// What a loss that is linear in logits and image weighs them by.
    fn weights(row: usize) -> ([f32; 2], impl Fn(usize) -> f32) {
        let of = move |i: usize| ((row * 7 + i) as f32 * 0.37).cos();
        ([of(100), of(101)], of)
    }

    fn latents(rows: usize) -> Vec<Latent> {
        wave(rows * LATENT, 1.3, 1.5).as_chunks().0.to_vec()
    }

    fn pulled(networks: &Perceptrons, raw: &[Latent], images: bool) -> RawPulled {
        let by = |row: usize, seen: &Seen<'_>, by_image: &mut [f32]| {
            assert_eq!(seen.image.is_empty(), !images);
            let (by_logits, of) = weights(row);
            for (i, by) in by_image.iter_mut().enumerate() {
                *by = of(i);
            }
            Weighed {
                loss: row as f64,
                by_logits,
            }
        };
        networks.pull(raw, &Pull { images, by: &by }).unwrap()
    }

    fn cases() -> [Case; 4] {
        [
            case(&[12, 16], &[10, 2]),
            case(&[7, 13, 9], &[5, 3, 2]),
            case(&[6], &[2]),
            case(&[1], &[37, 2]),
        ]
    }

    #[test]
    fn images_logits_and_gradients_are_those_of_f64() {
        for case in cases() {
            let networks = &case.networks;
            for rows in [1, 31, 33, 70] {
                let raw = latents(rows);
                let looked = networks.look(&raw).unwrap();
                assert_eq!(networks.logits(&raw).unwrap(), looked.logits);
                let gradients = [false, true].map(|images| {
                    let (logits, losses, gradient) = pulled(networks, &raw, images);
                    assert_eq!(logits, looked.logits);
                    assert_eq!(losses[rows - 1], (rows - 1) as f64);
                    gradient
                });
                for (row, raw) in raw.iter().enumerate() {
                    let raw = raw.map(f64::from);
                    let [image, logits] = case.plain(&raw);
                    let own = &looked.images[row * image.len()..][..image.len()];
                    let seen = own.iter().chain(&looked.logits[row]);
                    for (got, want) in seen.zip(image.iter().chain(&logits)) {
                        assert!((f64::from(*got) - want).abs() < 5e-6, "{got} {want}");
                    }
                    for (gradient, images) in gradients.iter().zip([false, true]) {
                        for k in 0..LATENT {
                            let at = |step: f64| {
                                let mut moved = raw;
                                moved[k] += step;
                                case.loss(row, &moved, images)
                            };
                            let want = (at(1e-5) - at(-1e-5)) / 2e-5;
                            let got = f64::from(gradient[row][k]);
                            assert!((got - want).abs() < 2e-5, "{got} {want}");
                        }
                    }
                }
            }
        }
    }

    /// The first loss is a function of a row's number: rows are compared where they keep it.
    #[test]
    fn neither_batches_nor_threads_change_a_byte() {
        for case in cases() {
            let networks = &case.networks;
            let raw = latents(70);
            let all = pulled(networks, &raw, true);
            let looked = networks.look(&raw).unwrap();
            for rows in [1, 5, 32, 41] {
                let some = pulled(networks, &raw[..rows], true);
                assert_eq!(some.0, all.0[..rows]);
                assert_eq!(some.2, all.2[..rows]);
            }
            for (row, raw) in raw.iter().enumerate() {
                let alone = networks.look(&[*raw]).unwrap();
                let pixels = networks.pixels();
                assert_eq!(alone.logits[0], looked.logits[row]);
                assert_eq!(alone.images, looked.images[row * pixels..][..pixels]);
            }
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let again = pool.build().unwrap();
                let again = again.install(|| pulled(networks, &raw, true));
                assert_eq!(again, all);
            }
        }
    }
}
