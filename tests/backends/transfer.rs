//! Upload, download, select, stack.

use foil::tensor::{Activation, Array, Backend, Conv, Pool, Resize, Shape};

use crate::host::{assert_equal, down, random, up};

pub fn what_is_uploaded_comes_back<B: Backend>(b: &B) {
    for shape in [[1, 1, 1, 2], [2, 3, 5, 7], [7, 17, 4, 3], [3, 64, 1, 9]] {
        let x = random("upload", shape);
        assert_eq!(b.download(&up(b, &x)).unwrap(), x);
    }
}

pub fn vectors_have_one_pixel<B: Backend>(b: &B) {
    let x = random("vectors", [3, 10]);
    let tensor = up(b, &x);
    assert_eq!(b.shape(&tensor), Shape::new(3, 1, 1, 10));
    assert_eq!(b.download(&tensor).unwrap(), x);
    // The same as images of one pixel.
    let pixels = up(b, &x.clone().reshape([3, 10, 1, 1]).unwrap());
    assert_eq!(b.download(&pixels).unwrap(), x);
}

pub fn pixels_become_values_from_0_to_255<B: Backend>(b: &B) {
    let (h, w) = (5, 17);
    let images: Vec<Vec<u8>> = (0..3)
        .map(|n| {
            (0..h * w * 3)
                .map(|i| ((i * 7 + n * 31) % 256) as u8)
                .collect()
        })
        .collect();
    let slices: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    let got = b
        .download(&b.upload_pixels(&slices, h, w).unwrap())
        .unwrap();
    let mut expected = Array::zeros([3, 3, h, w]);
    for (n, image) in images.iter().enumerate() {
        for (i, &value) in image.iter().enumerate() {
            expected.data[(n * 3 + i % 3) * h * w + i / 3] = f32::from(value);
        }
    }
    assert_eq!(got, expected);
}

pub fn select_and_stack_undo_each_other<B: Backend>(b: &B) {
    let x = random("select", [7, 5, 3, 4]);
    let batch = up(b, &x);
    let images: Vec<_> = (0..7).map(|i| b.select(&batch, i)).collect();
    for (i, image) in images.iter().enumerate() {
        assert_eq!(b.shape(image), Shape::new(1, 3, 4, 5));
        assert_eq!(b.download(image).unwrap().data, x.row(i));
    }
    assert_eq!(b.download(&b.stack(&images).unwrap()).unwrap(), x);
    // A selected image is a full citizen: it can be selected from, stacked and computed on again.
    let again = b.select(&b.select(&batch, 4), 0);
    assert_eq!(b.download(&again).unwrap().data, x.row(4));
    let sum = b.add(&images[6], &images[2]).unwrap();
    for ((s, p), q) in b
        .download(&sum)
        .unwrap()
        .data
        .iter()
        .zip(x.row(6))
        .zip(x.row(2))
    {
        assert_eq!(*s, p + q);
    }
}

pub fn stack_joins_batches_in_order<B: Backend>(b: &B) {
    let (p, q) = (random("p", [2, 3, 4, 4]), random("q", [3, 3, 4, 4]));
    let joined = b.stack(&[up(b, &p), up(b, &q), up(b, &p)]).unwrap();
    let expected = Array::new([7, 3, 4, 4], [&p.data[..], &q.data, &p.data].concat()).unwrap();
    assert_equal("stack", &down(b, &joined), &(&expected).into());
}

/// Layers shared by images that are computed side by side prepare their weights when the first of them comes.
pub fn images_side_by_side_share_one_network<B: Backend>(b: &B) {
    use rayon::prelude::*;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build();
    let spec = Conv::square(32, 64, 3).padding(1);
    let (weight, bias) = crate::conv::weights(&spec, true);
    let x = up(b, &random("side", [1, 32, 12, 12]));
    pool.expect("a pool of threads").install(|| {
        for _ in 0..20 {
            let conv = b.prepare(spec, &weight, &bias).unwrap();
            let done = (0..32)
                .into_par_iter()
                .map(|_| b.conv(&x, &conv, None).is_ok());
            assert!(done.reduce(|| true, |a, b| a && b));
        }
    });
}

pub fn an_empty_batch_stays_empty<B: Backend>(b: &B) {
    let x = up(b, &Array::zeros([0, 3, 8, 8]));
    for spec in [
        Conv::square(3, 5, 3).padding(1),
        Conv::square(3, 5, 1),
        Conv::square(3, 3, 3).groups(3),
        Conv::square(3, 5, 8),
    ] {
        let (weight, bias) = crate::conv::weights(&spec, true);
        let conv = b.prepare(spec, &weight, &bias).unwrap();
        assert_eq!(b.shape(&b.conv(&x, &conv, None).unwrap()).n, 0);
    }
    for y in [
        b.activate(&x, Activation::Relu),
        b.look_up(&x, &[0.0; 256]).unwrap(),
    ] {
        assert_eq!(b.download(&y).unwrap().data, Vec::<f32>::new());
    }
    let wide = up(b, &Array::zeros([0, 16, 16, 16]));
    let spec = Conv::square(16, 16, 3).padding(1);
    let (weight, bias) = crate::conv::weights(&spec, true);
    let conv = b.prepare(spec, &weight, &bias).unwrap();
    assert_eq!(b.shape(&b.conv(&wide, &conv, None).unwrap()).n, 0);
    assert_eq!(b.shape(&b.pool(&x, Pool::max(2, 2)).unwrap()).n, 0);
    assert_eq!(b.shape(&b.global_mean(&x)).n, 0);
    assert_eq!(b.shape(&b.activate(&x, Activation::Relu)).n, 0);
    let resized = b.resize(&x, 5, 5, Resize::Antialias).unwrap();
    assert_eq!(b.shape(&resized).n, 0);
    assert_eq!(b.shape(&b.crop(&x, 1, 1, 2, 2).unwrap()).n, 0);
    let none = b.mean_feature_distance(&x, &x, &[1.0; 3]).unwrap();
    assert!(none.is_empty());
    assert_eq!(b.download(&x).unwrap(), Array::zeros([0, 3, 8, 8]));
}
