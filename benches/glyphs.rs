//! The glyph world: images per second on one core, and the atlas as a whole.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::glyphs::{Atlas, Drawing, Embeddings, Model, World, dataset};

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

criterion_group!(benches, render, atlas);
criterion_main!(benches);
