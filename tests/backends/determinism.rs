//! A result depends neither on the batch an image is in nor on the number of threads: compared bit by bit.

use foil::tensor::{
    Activation, Array, Attention, Backend, Conv, Norm, Padding, Part, Pool, QkvLayout, Shape,
};

use crate::conv::weights;
use crate::host::{random, random_values, up};
use crate::resize::MODES;

/// Every operation on a batch of `[n, 24, 17, 19]`: for each its name and, image by image, the bits of its result.
fn every_operation<B: Backend>(b: &B, images: &Array) -> Vec<(String, Vec<Vec<u32>>)> {
    let n = images.shape[0];
    let x = up(b, images);
    let mut results: Vec<(String, Vec<Vec<u32>>)> = Vec::new();
    let mut keep = |name: String, tensor: &B::Tensor| {
        let values = b.download(tensor).unwrap();
        let size = values.len() / n;
        let bits = values
            .data
            .chunks(size)
            .map(|image| image.iter().map(|v| v.to_bits()).collect())
            .collect();
        results.push((name, bits));
    };

    let specs = [
        Conv::square(24, 40, 3).padding(1),
        Conv::square(24, 17, 1).activation(Activation::Silu),
        Conv::square(24, 33, 5).stride(2).padding(2),
        Conv::square(24, 20, 7).stride(4),
        Conv::square(24, 20, 7).stride(2),
        Conv::square(24, 24, 3).groups(24).padding(1),
        Conv::square(24, 36, 3).groups(4).padding(1),
        Conv {
            kernel: [17, 19],
            ..Conv::square(24, 21, 1)
        },
        Conv {
            kernel: [1, 7],
            padding: Padding::symmetric(0, 3),
            ..Conv::square(24, 19, 1).activation(Activation::Gelu)
        },
    ];
    let mut prepared = Vec::new();
    for spec in specs {
        let (weight, bias) = weights(&spec, true);
        let conv = b.prepare(spec, &weight, &bias).unwrap();
        keep(format!("{spec:?}"), &b.conv(&x, &conv, None).unwrap());
        prepared.push(conv);
    }
    let residual = b.conv(&x, &prepared[0], None).unwrap();
    let sum = b.conv(&x, &prepared[0], Some(&residual)).unwrap();
    keep("residual".into(), &sum);
    let parts = [
        Part::Conv(&x, &prepared[0]),
        Part::Tensor(&x),
        Part::Pool(&x, Pool::mean(3, 1).padding(1)),
    ];
    keep("concat".into(), &b.concat(&parts).unwrap());
    for pool in [Pool::max(3, 2).ceil(), Pool::mean(5, 3).padding(2)] {
        keep(format!("{pool:?}"), &b.pool(&x, pool).unwrap());
    }
    keep("global mean".into(), &b.global_mean(&x));
    keep("adaptive".into(), &b.adaptive_mean(&x, 6, 5).unwrap());
    let norm = Norm {
        weight: random_values("w", 24),
        bias: random_values("b", 24),
        epsilon: 1e-6,
        ..Default::default()
    };
    keep("layer norm".into(), &b.layer_norm(&x, &norm).unwrap());
    let modulation = b.view(
        &b.stack(&[b.global_mean(&x)]).unwrap(),
        Shape::new(n, 1, 1, 24),
    );
    let modulation = modulation.unwrap();
    let modulation = b
        .concat(&[Part::Tensor(&modulation), Part::Tensor(&modulation)])
        .unwrap();
    let group = b.group_norm(&x, 8, &norm, Some(&modulation), Activation::Silu);
    keep("group norm".into(), &group.unwrap());
    let modulated = b.modulate(&x, &modulation, Activation::Tanh);
    keep("modulation".into(), &modulated.unwrap());
    let tokens = b.view(&x, Shape::new(n, 1, 17 * 19, 24)).unwrap();
    for layout in [QkvLayout::Stacked, QkvLayout::PerHead] {
        let attention = Attention { heads: 2, layout };
        let got = b.attention(&tokens, attention, None).unwrap();
        keep(format!("{attention:?}"), &got);
    }
    keep("add".into(), &b.add(&x, &b.global_mean(&x)).unwrap());
    for activation in [Activation::Silu, Activation::Gelu, Activation::Tanh] {
        keep(format!("{activation:?}"), &b.activate(&x, activation));
    }
    let order: Vec<usize> = (0..24).rev().collect();
    let affine = b.affine(&x, &order, &norm.weight, &norm.bias).unwrap();
    keep("affine".into(), &affine);
    keep("windows".into(), &b.windows(&x, 4, [2, 2]));
    keep("patches".into(), &b.merge_patches(&x));
    keep("upsample".into(), &b.upsample(&x, 2).unwrap());
    keep("crop".into(), &b.crop(&x, 3, 2, 9, 11).unwrap());
    for mode in MODES {
        keep(format!("{mode:?}"), &b.resize(&x, 29, 13, mode).unwrap());
    }
    let other = b.activate(&x, Activation::Relu);
    let map = b.feature_distance(&x, &other, &norm.weight).unwrap();
    keep("feature distance".into(), &map);
    let means = b.mean_feature_distance(&x, &other, &norm.weight).unwrap();
    let bits = means
        .iter()
        .map(|m| {
            let bits = m.to_bits();
            vec![(bits >> 32) as u32, bits as u32]
        })
        .collect();
    results.push(("mean feature distance".into(), bits));
    results
}

pub fn a_batch_equals_its_images_one_by_one<B: Backend>(b: &B) {
    let images = random("batch", [7, 24, 17, 19]);
    let batch = every_operation(b, &images);
    for i in 0..7 {
        let one = Array::new([1, 24, 17, 19], images.row(i).to_vec()).unwrap();
        for ((name, all), (_, alone)) in batch.iter().zip(every_operation(b, &one)) {
            assert!(all[i] == alone[0], "{name}: image {i} of 7 is not itself");
        }
    }
}

/// The fast algorithm for 3×3 and 5×5 windows and sums in chunks take tiles of several images together; so does the fast
/// mode, under 1×1 windows and on small images. The long windows and the strided ones are its other ways.
fn convolutions<B: Backend>(b: &B, images: &Array) -> Vec<Vec<u32>> {
    let n = images.shape[0];
    let x = up(b, images);
    let mut results = vec![Vec::new(); n];
    for spec in [
        Conv::square(544, 40, 3)
            .padding(1)
            .activation(Activation::Relu),
        Conv::square(544, 128, 3).padding(1),
        Conv::square(544, 24, 5).padding(2),
        Conv::square(544, 24, 1),
        Conv::square(544, 70, 1).stride(2),
        Conv::square(544, 20, 3).stride(2),
        Conv {
            kernel: [1, 3],
            padding: Padding::symmetric(0, 1),
            ..Conv::square(544, 33, 1)
        },
        Conv::square(544, 544, 3).groups(544).padding(1),
    ] {
        let (weight, bias) = weights(&spec, true);
        let conv = b.prepare(spec, &weight, &bias).unwrap();
        let out = b.download(&b.conv(&x, &conv, None).unwrap()).unwrap();
        for (image, values) in results.iter_mut().zip(out.data.chunks(out.len() / n)) {
            image.extend(values.iter().map(|v| v.to_bits()));
        }
    }
    results
}

pub fn batches_of_1_7_and_64_on_1_and_2_threads_give_the_same_bits<B: Backend>(b: &B) {
    for [h, w] in [[5, 25], [7, 7]] {
        let images = random("many", [64, 544, h, w]);
        let part = |range: std::ops::Range<usize>| {
            let size = images.len() / 64;
            let data = images.data[range.start * size..range.end * size].to_vec();
            Array::new([range.len(), 544, h, w], data).unwrap()
        };
        let on = |threads: usize, images: &Array| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().expect("a pool of threads");
            pool.install(|| convolutions(b, images))
        };
        let all = on(2, &images);
        assert!(all == on(1, &images), "1 thread differs from 2");
        for threads in [1, 2] {
            assert!(all[3..10] == on(threads, &part(3..10)), "a batch of 7");
            assert!(all[63..] == on(threads, &part(63..64)), "a batch of 1");
        }
    }
}

pub fn threads_do_not_change_a_bit<B: Backend>(b: &B) {
    for n in [1, 3] {
        let images = random("threads", [n, 24, 17, 19]);
        let runs = [1, 2, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a pool of threads");
            pool.install(|| every_operation(b, &images))
        });
        for ((name, one), (two, three)) in runs[0].iter().zip(runs[1].iter().zip(&runs[2])) {
            assert!(*one == two.1, "{name}: 2 threads differ from 1, {n} images");
            assert!(
                *one == three.1,
                "{name}: 3 threads differ from 1, {n} images"
            );
        }
    }
}
