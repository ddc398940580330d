//! Gradients do not depend on the number of threads: compared bit by bit.

use candle_core::Var;
use foil::tensor::candle::{Candle, Differentiable, Tensor, TrainableNorm};
use foil::tensor::{
    Activation, Attention, Backend, Conv, Norm, Part, Pool, QkvLayout, Resize, Shape,
};

use crate::difference::{coarse, weighted_sum};

/// The gradients of a small network of all operations by its input and its trained weights.
fn gradients(n: usize) -> Vec<Vec<u32>> {
    let b = Candle;
    let device = candle_core::Device::Cpu;
    let x = b.variable(&coarse("x", [n, 48, 21, 34])).unwrap();
    let var = |name: &str, shape: &[usize]| {
        Var::from_slice(&coarse(name, shape).data, shape, &device).unwrap()
    };
    let weight = var("trained", &[48, 48, 3, 3]);
    let bias = var("bias", &[48]);
    let (gain, offset) = (var("gain", &[48]), var("offset", &[48]));
    let norm = Norm {
        weight: coarse("w", [48]).data,
        bias: coarse("b", [48]).data,
        epsilon: 1e-5,
        ..Default::default()
    };
    let prepare = |spec: Conv| {
        let shape = [
            spec.outputs,
            spec.inputs / spec.groups,
            spec.kernel[0],
            spec.kernel[1],
        ];
        b.prepare(spec, &coarse("weight", shape), &[]).unwrap()
    };
    let start = Tensor::new(x.as_tensor()).unwrap();
    let trained = b
        .prepare_trainable(Conv::square(48, 48, 3).padding(1), &weight, Some(&bias))
        .unwrap();
    let h = b.conv(&start, &trained, None).unwrap();
    let in_training = TrainableNorm {
        groups: 8,
        weight: &gain,
        bias: &offset,
        epsilon: 1e-5,
    };
    let mean = b.global_mean(&h);
    let modulation = b
        .concat(&[Part::Tensor(&mean), Part::Tensor(&mean)])
        .unwrap();
    let h = b
        .trainable_group_norm(&h, in_training, Some(&modulation), Activation::Silu)
        .unwrap();
    let h = b.trainable_layer_norm(&h, &gain, &offset, 1e-5).unwrap();
    let h = b
        .conv(
            &h,
            &prepare(Conv::square(48, 48, 3).padding(1)),
            Some(&start),
        )
        .unwrap();
    let h = b.add(&h, &mean).unwrap();
    let depthwise = prepare(Conv::square(48, 48, 3).padding(1).groups(48));
    let h = b.conv(&h, &depthwise, None).unwrap();
    let h = b.group_norm(&h, 4, &norm, None, Activation::Gelu).unwrap();
    let h = b.pool(&h, Pool::max(3, 2)).unwrap();
    let h = b.upsample(&h, 2).unwrap();
    let h = b
        .conv(
            &h,
            &prepare(Conv::square(48, 48, 3).padding(1).stride(2)),
            None,
        )
        .unwrap();
    let h = b.resize(&h, 13, 12, Resize::HalfPixel).unwrap();
    let h = b.pool(&h, Pool::mean(3, 1).padding(1)).unwrap();
    let tokens = b.view(&h, Shape::new(n, 1, 13 * 12, 48)).unwrap();
    let attention = Attention {
        heads: 2,
        layout: QkvLayout::PerHead,
    };
    let mixed = b.attention(&tokens, attention, None).unwrap();
    let other = b
        .layer_norm(
            &mixed,
            &Norm {
                weight: norm.weight[..16].to_vec(),
                bias: norm.bias[..16].to_vec(),
                epsilon: 1e-5,
                ..Default::default()
            },
        )
        .unwrap();
    let map = b
        .feature_distance(&mixed, &other, &coarse("head", [16]).data)
        .unwrap();
    let (loss, _) = weighted_sum(&Candle, &map);
    let grads = loss.backward().unwrap();
    [&x, &weight, &bias, &gain, &offset]
        .map(|v| {
            let values = grads.get(v.as_tensor()).unwrap().flatten_all().unwrap();
            let values = values.to_vec1::<f32>().unwrap();
            assert!(values.iter().any(|v| *v != 0.0));
            values.into_iter().map(f32::to_bits).collect()
        })
        .to_vec()
}

#[test]
fn one_two_and_three_threads_give_the_same_bits() {
    for n in [1, 3] {
        let runs = [1, 2, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a pool of threads");
            pool.install(|| gradients(n))
        });
        assert!(runs[0] == runs[1], "2 threads differ from 1, {n} images");
        assert!(runs[0] == runs[2], "3 threads differ from 1, {n} images");
    }
}
