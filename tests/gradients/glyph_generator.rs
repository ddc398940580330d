//! The glyph generator: its gradients by every coordinate of a latent vector, against differences of a plain reference,
//! and a classifier behind it.
//!
//! The reference evaluates the formula of `glyphs::render` in f64 with the weights of all 48 · 48 glyphs. Steps
//! are so small that no pixel crosses a node of a distance image on the way, but for chances of one in hundreds; the
//! function is smooth in between.

use std::sync::{Arc, OnceLock};

use foil::glyphs::atlas::{GRID, REACH, SPACING};
use foil::glyphs::choice::TEMPERATURE;
use foil::glyphs::embedding::LATENT;
use foil::glyphs::render::EDGE;
use foil::glyphs::{Atlas, Attributes, Embeddings, Generator};
use foil::nets::{Classifier, ResNet};
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::{Array, Backend, StateDict};

use crate::difference::{assert_gradient, coarse};
use crate::host::random;

type Latent = [f64; LATENT];

struct World {
    distances: Vec<f32>,
    half_extents: Vec<[f32; 2]>,
    embeddings: Embeddings,
    generator: Arc<Generator>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let atlas = Atlas::embedded().expect("the typefaces of the program");
        let embeddings = Embeddings::new(&atlas);
        World {
            distances: atlas.distances(),
            half_extents: atlas.half_extents(),
            generator: Arc::new(Generator::new(&atlas, &embeddings).expect("a generator")),
            embeddings,
        }
    })
}

/// `softmax(−‖z − e‖² / temperature)`.
fn weights(table: &[[f32; 3]], z: &[f64]) -> Vec<f64> {
    let exponents: Vec<f64> = table
        .iter()
        .map(|e| {
            let squared: f64 = (0..3).map(|k| (z[k] - f64::from(e[k])).powi(2)).sum();
            -squared / TEMPERATURE
        })
        .collect();
    let largest = exponents.iter().copied().fold(f64::MIN, f64::max);
    let raised: Vec<f64> = exponents.iter().map(|e| (e - largest).exp()).collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|v| v / sum).collect()
}

/// Mean distance image and mean half sides.
fn mixture(z: &Latent) -> (Vec<f64>, [f64; 2]) {
    let world = world();
    let by_character = weights(&world.embeddings.characters, &z[..3]);
    let by_font = weights(&world.embeddings.fonts, &z[3..6]);
    let (mut grid, mut half) = (vec![0.0; GRID * GRID], [0.0; 2]);
    for (c, a) in by_character.iter().enumerate() {
        for (f, b) in by_font.iter().enumerate() {
            let (weight, glyph) = (a * b, c * by_font.len() + f);
            // Far below what f64 keeps of the sum.
            if weight < 1e-22 {
                continue;
            }
            let image = &world.distances[glyph * GRID * GRID..][..GRID * GRID];
            for (sum, d) in grid.iter_mut().zip(image) {
                *sum += weight * f64::from(*d);
            }
            for (sum, h) in half.iter_mut().zip(world.half_extents[glyph]) {
                *sum += weight * f64::from(h);
            }
        }
    }
    (grid, half)
}

/// The intensity of every pixel.
fn image(z: &Latent, (grid, half): &(Vec<f64>, [f64; 2]), size: usize) -> Vec<f64> {
    let [v, scale, x, y, rotation] = [z[6], z[7], z[8], z[9], z[10]];
    let (reach, spacing) = (f64::from(REACH), f64::from(SPACING));
    let side = scale * size as f64;
    let (s, c) = rotation.sin_cos();
    let middle = 0.5 * size as f64;
    let extent = [
        side * (c.abs() * half[0] + s.abs() * half[1]),
        side * (s.abs() * half[0] + c.abs() * half[1]),
    ];
    let centre_x = middle + x * (middle - extent[0]).max(0.0);
    let centre_y = middle + y * (middle - extent[1]).max(0.0);
    let mut pixels = Vec::with_capacity(size * size);
    for i in 0..size {
        for k in 0..size {
            let (px, py) = (k as f64 + 0.5 - centre_x, i as f64 + 0.5 - centre_y);
            let u = [(c * px + s * py) / side, (c * py - s * px) / side];
            let inner = u.map(|u| u.clamp(-reach, reach));
            let beyond = (u[0] - inner[0]).abs() + (u[1] - inner[1]).abs();
            let at = inner.map(|u| (u + reach) / spacing);
            let cell = at.map(|a| (a as usize).min(GRID - 2));
            let [fx, fy] = [at[0] - cell[0] as f64, at[1] - cell[1] as f64];
            let node = |dx: usize, dy: usize| grid[(cell[1] + dy) * GRID + cell[0] + dx];
            let top = node(0, 0) * (1.0 - fx) + node(1, 0) * fx;
            let bottom = node(0, 1) * (1.0 - fx) + node(1, 1) * fx;
            let distance = side * (top * (1.0 - fy) + bottom * fy + beyond);
            let t = (0.5 - distance / f64::from(EDGE)).clamp(0.0, 1.0);
            pixels.push(v + (1.0 - 2.0 * v) * t * t * (3.0 - 2.0 * t));
        }
    }
    pixels
}

/// The gradient of `Σ by_image · image` by each coordinate, from four points each.
fn expected(z: &Latent, by_image: &[f32], size: usize) -> Latent {
    let unmoved = mixture(z);
    std::array::from_fn(|k| {
        // Where the soft choice has a small slope the loss must change by more than its rounding.
        let h = 2f64.powi(if k < 6 { -15 } else { -21 });
        let at = |steps: f64| -> f64 {
            let mut moved = *z;
            moved[k] += steps * h;
            let pixels = match k {
                0..6 => image(&moved, &mixture(&moved), size),
                _ => image(&moved, &unmoved, size),
            };
            let pairs = pixels.iter().zip(by_image);
            pairs.map(|(p, g)| p * f64::from(*g)).sum()
        };
        (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * h)
    })
}

/// What rounding leaves of differences, and less than what pairs left out could add.
const FLOOR: f64 = 1e-8;

/// The usual error must be far smaller than the largest allowed.
fn assert_usually_small(mut errors: Vec<f64>) {
    errors.sort_by(f64::total_cmp);
    let (usual, largest) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    println!("usual error {usual:e}, largest {largest:e}");
    assert!(usual < 1e-5, "usual error {usual:e}");
}

/// A pattern of waves about ten pixels long. Gradients of noise would be small differences of large sums.
fn waves(size: usize, phase: f32) -> Vec<f32> {
    let at = |i: usize| (0.31 * (i % size) as f32 + 0.23 * (i / size) as f32 + phase).sin();
    (0..size * size).map(at).collect()
}

/// How far a step of an embedding's coordinate can move the mixture: `(2 / temperature) · Σ w ‖e − ē‖`.
fn leverage(table: &[[f32; 3]], z: &[f64]) -> f64 {
    let weights = weights(table, z);
    let mean: [f64; 3] = std::array::from_fn(|k| {
        table
            .iter()
            .zip(&weights)
            .map(|(e, w)| w * f64::from(e[k]))
            .sum()
    });
    let gap = |e: &[f32; 3]| -> f64 {
        let squared: f64 = (0..3).map(|k| (f64::from(e[k]) - mean[k]).powi(2)).sum();
        squared.sqrt()
    };
    let moved: f64 = table.iter().zip(&weights).map(|(e, w)| w * gap(e)).sum();
    2.0 / TEMPERATURE * moved
}

/// Compares image and gradients at one point; gives the errors of the gradient as shares of its scale.
///
/// A pixel that lies on the line between two nodes to within the rounding of f32 may take its slope from the other
/// cell, which one in some thousand pixels does: 1e-3 for single gradients.
fn check(what: &str, z: &[f32; LATENT], size: usize) -> [f64; LATENT] {
    let by_image = waves(size, what.len() as f32 + z[7]);
    let wide = z.map(f64::from);
    let pixels = image(&wide, &mixture(&wide), size);
    let got = world().generator.forward(&[*z], size).expect(what);
    for (i, (g, e)) in got.iter().zip(&pixels).enumerate() {
        // Places and distances in f32 move the edge by 1e-5 pixels; pairs left out weigh nothing.
        assert!(
            (f64::from(*g) - e).abs() < 3e-5,
            "{what}: pixel {i}: {g} {e}"
        );
    }
    let got = world()
        .generator
        .backward(&[*z], size, &by_image)
        .expect(what)[0];
    let expected = expected(&wide, &by_image, size);
    // The derivative by the weight of a glyph is of the order of the derivative by the scale: both move all edges.
    let edges = expected[7].abs().max(1.0);
    let embeddings = &world().embeddings;
    let levers = [
        leverage(&embeddings.characters, &wide[..3]),
        leverage(&embeddings.fonts, &wide[3..6]),
    ];
    std::array::from_fn(|k| {
        let (g, e) = (f64::from(got[k]), expected[k]);
        // On an embedding a step hardly moves the mixture, and the gradient is small: there the scale is the leverage.
        let scale = match k {
            0..3 => levers[0] * edges,
            3..6 => levers[1] * edges,
            _ => edges,
        };
        assert!(
            (g - e).abs() <= 1e-3 * scale + FLOOR,
            "{what}: coordinate {k}: expected {e:e}, got {g:e}, scale {scale:e}"
        );
        ((g - e).abs() - FLOOR).max(0.0) / scale
    })
}

/// Attributes off every kink of the formula.
fn attributes(index: usize) -> Attributes {
    let draws = random(&format!("attributes {index}"), [4]).data;
    Attributes {
        character: (index * 11) % 48,
        font: (index * 7 + 3) % 48,
        inverse: index % 2 == 1,
        scale: 0.6 + 0.2 * draws[0],
        x: 0.8 * draws[1],
        y: 0.8 * draws[2],
        rotation: 0.05 + 0.7 * draws[3].abs(),
    }
}

#[test]
fn gradients_on_the_embeddings() {
    let mut errors = Vec::new();
    for index in 0..16 {
        let z = world()
            .embeddings
            .latent(&attributes(index))
            .expect("a glyph");
        errors.extend(check(&format!("glyph {index}"), &z, [32, 64][index % 2]));
    }
    assert_usually_small(errors);
}

#[test]
fn gradients_between_the_embeddings() {
    let embeddings = &world().embeddings;
    let mut errors = Vec::new();
    for index in 0..16 {
        let mut z = embeddings.latent(&attributes(index)).expect("a glyph");
        let other = embeddings.latent(&attributes(index + 5)).expect("a glyph");
        let share = 0.5 + 0.05 * (index % 4) as f32 - 0.075;
        for k in 0..6 {
            z[k] += share * (other[k] - z[k]);
        }
        z[6] = 0.1 + 0.05 * index as f32;
        z[10] = -z[10] + if index % 3 == 0 { 2.0 } else { 0.0 };
        errors.extend(check(&format!("between {index}"), &z, [64, 32][index % 2]));
    }
    assert_usually_small(errors);
}

#[test]
fn gradients_far_from_all_embeddings_and_where_no_space_is_free() {
    let mut far = world().embeddings.latent(&attributes(3)).expect("a glyph");
    far[0] += 6.0;
    far[4] -= 5.0;
    check("far", &far, 32);
    let mut large = world().embeddings.latent(&attributes(4)).expect("a glyph");
    large[7] = 1.7;
    let by_image = vec![1.0; 1024];
    let back = world().generator.backward(&[large], 32, &by_image).unwrap();
    assert_eq!((back[0][8], back[0][9]), (0.0, 0.0), "no space to move in");
    check("large", &large, 32);
}

/// A small ResNet of seeded weights.
fn classifier() -> ResNet<Candle> {
    let mut dict = StateDict::new();
    let conv = |dict: &mut StateDict, name: &str, shape: [usize; 4]| {
        let mut weight = coarse(name, shape);
        let fan = (shape[1] * shape[2] * shape[3]) as f32;
        weight
            .data
            .iter_mut()
            .for_each(|w| *w *= (6.0 / fan).sqrt());
        dict.insert(format!("{name}.weight"), weight);
    };
    let norm = |dict: &mut StateDict, name: &str, c: usize| {
        for (part, value) in [
            ("weight", 1.0),
            ("bias", 0.1),
            ("running_mean", 0.0),
            ("running_var", 1.0),
        ] {
            dict.insert(
                format!("{name}.{part}"),
                Array::new([c], vec![value; c]).unwrap(),
            );
        }
    };
    conv(&mut dict, "conv1", [4, 3, 7, 7]);
    norm(&mut dict, "bn1", 4);
    let mut inputs = 4;
    for stage in 1..=4 {
        let outputs = 4 << (stage - 1);
        let at = format!("layer{stage}.0");
        conv(&mut dict, &format!("{at}.conv1"), [outputs, inputs, 3, 3]);
        norm(&mut dict, &format!("{at}.bn1"), outputs);
        conv(&mut dict, &format!("{at}.conv2"), [outputs, outputs, 3, 3]);
        norm(&mut dict, &format!("{at}.bn2"), outputs);
        if stage > 1 {
            conv(
                &mut dict,
                &format!("{at}.downsample.0"),
                [outputs, inputs, 1, 1],
            );
            norm(&mut dict, &format!("{at}.downsample.1"), outputs);
        }
        inputs = outputs;
    }
    dict.insert("fc.weight", coarse("fc", [2, 32]));
    dict.insert("fc.bias", coarse("fc bias", [2]));
    ResNet::new(&Candle, &dict, [1, 1, 1, 1]).expect("a network")
}

#[test]
fn a_gradient_flows_through_a_classifier_to_the_latent_vectors() {
    let (world, network) = (world(), classifier());
    let latents: Vec<[f32; LATENT]> = (0..3)
        .map(|i| {
            let mut z = world.embeddings.latent(&attributes(i)).expect("a glyph");
            z[1] += 0.3;
            z[5] -= 0.3;
            z
        })
        .collect();
    // From [0, 1] to [−1, 1], as the networks of bex take images.
    let logits = |z: &Tensor| {
        let images = world.generator.tensor(z, 32, 3).expect("images");
        assert_eq!(Candle.shape(&images).c, 3);
        let x = Candle.affine(&images, &[0, 1, 2], &[2.0; 3], &[-1.0; 3]);
        network
            .predict(&Candle, &x.unwrap())
            .expect("logits")
            .logits
    };
    let array = Array::new([3, LATENT], latents.concat()).unwrap();
    let var = Candle.variable(&array).unwrap();
    let y = logits(&Tensor::new(var.as_tensor()).unwrap());
    let sign = Candle
        .upload(&Array::new([1, 2], vec![-1.0, 1.0]).unwrap())
        .unwrap();
    let sum = y
        .candle()
        .broadcast_mul(sign.candle())
        .unwrap()
        .sum_all()
        .unwrap();
    let grads = sum.backward().unwrap();
    let got = Tensor::new(grads.get(var.as_tensor()).unwrap()).unwrap();
    let got = Candle.download(&got).unwrap().data;
    assert!(
        got.chunks(LATENT).all(|row| row.iter().all(|g| *g != 0.0)),
        "{got:?}"
    );

    // The same in two parts: the classifier's gradient by the images, then the generator's way back. Their own
    // differences are tested on their own; here the three equal channels and the change of range must add up.
    let grey = world.generator.forward(&latents, 32).unwrap();
    let images = Candle
        .variable(&Array::new([3, 1, 32, 32], grey).unwrap())
        .unwrap();
    let x = Tensor::new(images.as_tensor()).unwrap();
    let x = Candle
        .affine(&x, &[0, 0, 0], &[2.0; 3], &[-1.0; 3])
        .unwrap();
    let y = network.predict(&Candle, &x).unwrap().logits;
    let sum = y
        .candle()
        .broadcast_mul(sign.candle())
        .unwrap()
        .sum_all()
        .unwrap();
    let grads = sum.backward().unwrap();
    let by_image = Tensor::new(grads.get(images.as_tensor()).unwrap()).unwrap();
    let by_image = Candle.download(&by_image).unwrap().data;
    let expected = world.generator.backward(&latents, 32, &by_image).unwrap();
    let expected: Vec<f64> = expected.concat().iter().map(|&v| f64::from(v)).collect();
    let got: Vec<f64> = got.iter().map(|&v| f64::from(v)).collect();
    assert_gradient("through a classifier", &got, &expected);
}

#[test]
fn what_is_no_latent_vector_is_an_error() {
    let upload = |array: Array| Candle.upload(&array).unwrap();
    let generator = &world().generator;
    let short = upload(Array::zeros([2, 10]));
    assert!(generator.tensor(&short, 32, 1).is_err());
    let mut nan = Array::zeros([2, LATENT]);
    nan.data[13] = f32::NAN;
    let message = generator
        .tensor(&upload(nan), 32, 3)
        .unwrap_err()
        .to_string();
    assert!(message.contains("vector 1"), "{message}");
    let empty = generator.tensor(&upload(Array::zeros([0, LATENT])), 32, 3);
    assert_eq!(Candle.shape(&empty.unwrap()).n, 0);
}
