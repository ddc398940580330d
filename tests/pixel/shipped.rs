//! The networks of dots that ship inside the program, on letters that none of them has seen.

use foil::explain::pixel::{Alpha, Ecinn};
use foil::glyphs::{Atlas, Drawing, World, dataset};
use foil::nets::{Autoencoder, build};
use foil::study::quantitative::made::{Config, SHIPPED};
use foil::tensor::candle::Candle;
use foil::tensor::{Array, Backend, StateDict, cpu::Cpu};
use foil::weights::{Card, Registry};

/// Another seed than those of the images that the networks learnt from, which their cards state.
const SEED: u64 = 4321;
const RANGE: [f32; 2] = [-0.5, 0.5];

struct Letters {
    images: Array,
    dots: Vec<usize>,
    characters: Vec<usize>,
}

fn letters(n: usize) -> Letters {
    let config: Config = toml::from_str(SHIPPED[0].1).unwrap();
    let atlas = Atlas::embedded().unwrap();
    let world = World::new(config.model(), SEED, &atlas).unwrap();
    let drawing = Drawing {
        size: 28,
        pixel_noise: 0.0,
    };
    let mut all = Letters {
        images: Array::zeros([n, 1, 28, 28]),
        dots: Vec::new(),
        characters: Vec::new(),
    };
    for (i, values) in all.images.data.chunks_exact_mut(28 * 28).enumerate() {
        let (example, pixels) = dataset::image(&atlas, &world, &drawing, i as u64).unwrap();
        all.dots.push(usize::from(example.label));
        all.characters.push(example.attributes.character);
        for (value, &pixel) in values.iter_mut().zip(&pixels) {
            *value = f32::from(pixel) / 255.0 - 0.5;
        }
    }
    all
}

fn opened(name: &str) -> (Card, StateDict) {
    let registry = Registry::open().unwrap();
    let card = registry.card(name).unwrap();
    let dict = registry.load(&card).unwrap().dict;
    (card, dict)
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}

fn share(found: &[usize], expected: &[usize]) -> f64 {
    let right = found.iter().zip(expected).filter(|(a, b)| a == b).count();
    right as f64 / expected.len() as f64
}

#[test]
fn the_cnns_tell_dots_and_characters_apart() {
    let letters = letters(300);
    for (name, expected) in [
        ("dot_cnn", &letters.dots),
        ("dot_oracle", &letters.dots),
        ("dot_character", &letters.characters),
    ] {
        let (card, dict) = opened(name);
        let net = build(card.architecture, &Cpu, &dict, &card.unet).unwrap();
        let x = Cpu.upload(&letters.images).unwrap();
        let logits = Cpu
            .download(&net.predict(&Cpu, &x).unwrap().logits)
            .unwrap();
        let found: Vec<usize> = (0..300).map(|i| argmax(logits.row(i))).collect();
        let right = share(&found, expected);
        assert!(right >= 0.95, "{name}: {right}");
    }
}

#[test]
fn the_invertible_network_inverts_and_its_corrections_reach_every_target() {
    let letters = letters(40);
    let ecinn = Ecinn::new(&opened("dot_inn").1).unwrap();
    let [codes, probabilities] = ecinn.encode(&letters.images, RANGE).unwrap();
    let found: Vec<usize> = probabilities.iter().map(|row| argmax(row)).collect();
    assert!(share(&found, &letters.dots) >= 0.95);
    let flat: Vec<f32> = codes.iter().flatten().copied().collect();
    let z = candle_core::Tensor::from_vec(flat, (40, 784), &candle_core::Device::Cpu).unwrap();
    let back = ecinn.net.inverse(&Candle, &z, 28, 28).unwrap();
    // The network sees −1 to 1.
    let off = back.data.iter().zip(&letters.images.data);
    let off = off.map(|(a, b)| (a - 2.0 * b).abs()).fold(0.0, f32::max);
    assert!(off < 1e-4, "{off}");
    let targets: Vec<usize> = found
        .iter()
        .enumerate()
        .map(|(i, own)| (own + 1 + i % 9) % 10)
        .collect();
    let outcomes = ecinn
        .explain(&letters.images, RANGE, &targets, Alpha::Convincing)
        .unwrap();
    let reached: Vec<usize> = outcomes
        .into_iter()
        .map(|o| o.found.unwrap().class)
        .collect();
    assert!(share(&reached, &targets) >= 0.95, "{reached:?} {targets:?}");
}

#[test]
fn auto_encoders_draw_letters_again() {
    let letters = letters(100);
    let names = (0..10).map(|k| format!("dot_autoencoder_{k}"));
    for name in names.chain(["dot_autoencoder".into(), "dot_autoencoder_proto".into()]) {
        let net = Autoencoder::new(&Cpu, &opened(&name).1).unwrap();
        let x = Cpu.upload(&letters.images).unwrap();
        let again = Cpu.download(&net.reconstruct(&Cpu, &x).unwrap()).unwrap();
        let off = again.data.iter().zip(&letters.images.data);
        let off: f64 = off.map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let values = letters.images.len() as f64;
        let mean = letters
            .images
            .data
            .iter()
            .map(|&v| f64::from(v))
            .sum::<f64>()
            / values;
        let spread = letters
            .images
            .data
            .iter()
            .map(|&v| (f64::from(v) - mean).powi(2));
        // At most a third of the variance is lost.
        let lost = off / spread.sum::<f64>();
        assert!(lost < 0.33, "{name}: {lost}");
    }
}
