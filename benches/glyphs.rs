//! The glyph world: images per second on one core, and the atlas as a whole.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::glyphs::{Atlas, Drawing, Embeddings, Generator, Model, World, dataset};

fn render(c: &mut Criterion) {
    let atlas = Atlas::embedded().expect("the typefaces of the program");
    atlas.glyphs();
    let world = World::new(Model::default(), 0, &atlas).expect("the default model");
    let mut group = c.benchmark_group("glyphs");
    group.throughput(Throughput::Elements(1));
    for size in [32, 64] {
        for pixel_noise in [0.0, 0.01] {
            let drawing = Drawing { size, pixel_noise };
            let name = if pixel_noise > 0.0 { "noise" } else { "plain" };
            let mut index = 0;
            group.bench_function(BenchmarkId::new(format!("image_{name}"), size), |bench| {
                bench.iter(|| {
                    index += 1;
                    dataset::image(&atlas, &world, &drawing, black_box(index))
                });
            });
        }
    }
    group.finish();
}

/// One image of the generator forth and back, on an embedding and between two.
fn generate(c: &mut Criterion) {
    let atlas = Atlas::embedded().expect("the typefaces of the program");
    let embeddings = Embeddings::new(&atlas);
    let generator = Generator::new(&atlas, &embeddings).expect("a generator");
    let world = World::new(Model::default(), 0, &atlas).expect("the default model");
    let latents: Vec<_> = (0..256)
        .filter_map(|i| embeddings.latent(&world.example(i).attributes))
        .collect();
    let between: Vec<_> = latents
        .windows(2)
        .map(|pair| std::array::from_fn(|k| 0.5 * (pair[0][k] + pair[1][k])))
        .collect();
    let mut group = c.benchmark_group("generator");
    group.throughput(Throughput::Elements(1));
    for size in [32, 64] {
        let by_image = vec![0.3; size * size];
        for (name, latents) in [("on", &latents), ("between", &between)] {
            let mut at = latents.iter().cycle();
            group.bench_function(BenchmarkId::new(format!("forward_{name}"), size), |bench| {
                bench.iter(|| generator.forward(at.next().map_or(&[], std::slice::from_ref), size));
            });
            let mut at = latents.iter().cycle();
            group.bench_function(
                BenchmarkId::new(format!("backward_{name}"), size),
                |bench| {
                    bench.iter(|| {
                        generator.backward(
                            at.next().map_or(&[], std::slice::from_ref),
                            size,
                            &by_image,
                        )
                    });
                },
            );
        }
    }
    group.finish();
}

fn atlas(c: &mut Criterion) {
    let one = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a thread");
    let mut group = c.benchmark_group("glyphs");
    group.sample_size(10);
    group.bench_function("atlas_one_core", |bench| {
        bench.iter(|| {
            one.install(|| {
                let atlas = Atlas::embedded().expect("the typefaces of the program");
                atlas.glyphs().len()
            })
        });
    });
    let atlas = Atlas::embedded().expect("the typefaces of the program");
    atlas.glyphs();
    group.bench_function("embeddings", |bench| {
        bench.iter(|| Embeddings::new(black_box(&atlas)));
    });
    group.finish();
}

criterion_group!(benches, render, generate, atlas);
criterion_main!(benches);
