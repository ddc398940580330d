//! Shape rules: what every device checks before it computes, and the shape of what comes out.

use super::{Along, Array, Attention, Conv, FixedTaps, Norm, PixelPass, Pool, Shape, TensorError};

type Result<T> = std::result::Result<T, TensorError>;

fn refuse<T>(operation: &'static str, expected: String, found: String) -> Result<T> {
    Err(TensorError::Shape {
        operation,
        expected,
        found,
    })
}

/// A shape whose number of values is one: what is computed from sizes that a caller chose must go through this.
fn sized(operation: &'static str, shape: Shape) -> Result<Shape> {
    match shape.checked_len() {
        Some(_) => Ok(shape),
        None => refuse(
            operation,
            "a size that memory has addresses for".into(),
            format!("{shape:?}"),
        ),
    }
}

/// Both shapes must agree.
pub fn equal(operation: &'static str, expected: Shape, found: Shape) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    refuse(operation, format!("{expected:?}"), format!("{found:?}"))
}

/// An array that may be uploaded: images NCHW, or vectors.
pub fn upload(array: &Array) -> Result<Shape> {
    let shape = match array.shape[..] {
        [n, c] => Shape::new(n, 1, 1, c),
        [n, c, h, w] => Shape::new(n, h, w, c),
        _ => {
            let found = format!("{:?}", array.shape);
            return refuse("upload", "[n, c] or [n, c, h, w]".into(), found);
        }
    };
    if shape.checked_len() != Some(array.data.len()) {
        return Err(TensorError::Length {
            shape: array.shape.clone(),
            found: array.data.len(),
        });
    }
    Ok(shape)
}

/// 8-bit images of one size.
pub fn pixels(images: &[&[u8]], height: usize, width: usize) -> Result<Shape> {
    let shape = sized("pixels", Shape::new(images.len(), height, width, 3))?;
    match images.iter().find(|i| i.len() != shape.image()) {
        Some(odd) => Err(TensorError::Length {
            shape: vec![height, width, 3],
            found: odd.len(),
        }),
        None => Ok(shape),
    }
}

/// The same number of values under another shape.
pub fn view(from: Shape, to: Shape) -> Result<()> {
    if to.checked_len() == Some(from.len()) {
        return Ok(());
    }
    let expected = format!("{} values", from.len());
    refuse("view", expected, format!("{to:?}"))
}

/// Tensors of one image size as one batch.
pub fn stack(shapes: &[Shape]) -> Result<Shape> {
    let Some(&first) = shapes.first() else {
        return refuse("stack", "at least one tensor".into(), "none".into());
    };
    for &shape in shapes {
        equal(
            "stack",
            Shape {
                n: shape.n,
                ..first
            },
            shape,
        )?;
    }
    let n = shapes.iter().fold(0usize, |n, s| n.saturating_add(s.n));
    sized("stack", Shape { n, ..first })
}

/// Tensors of one image size and number side by side in their channels.
pub fn concat(shapes: &[Shape]) -> Result<Shape> {
    let Some(&first) = shapes.first() else {
        return refuse("concatenation", "at least one part".into(), "none".into());
    };
    for &shape in shapes {
        equal(
            "concatenation",
            Shape {
                c: shape.c,
                ..first
            },
            shape,
        )?;
    }
    let c = shapes.iter().fold(0usize, |c, s| c.saturating_add(s.c));
    sized("concatenation", Shape { c, ..first })
}

/// Weights OIHW, of a linear layer also `[o, i]`, and biases or none.
pub fn conv_weights(spec: &Conv, weight: &Array, bias: &[f32]) -> Result<()> {
    let [kh, kw] = spec.kernel;
    let inputs = spec.inputs / spec.groups.max(1);
    let expected = [spec.outputs, inputs, kh, kw];
    let trailing_ones = weight.shape.iter().skip(2).all(|&d| d == 1);
    let fits = weight.shape == expected
        || (kh * kw == 1 && weight.shape.get(..2) == Some(&expected[..2]) && trailing_ones);
    let divides = spec.groups > 0
        && spec.inputs > 0
        && spec.outputs > 0
        && spec.inputs.is_multiple_of(spec.groups)
        && spec.outputs.is_multiple_of(spec.groups);
    if fits && divides && (bias.is_empty() || bias.len() == spec.outputs) {
        return Ok(());
    }
    refuse(
        "convolution weights",
        format!(
            "{expected:?} with {} biases in {} groups",
            spec.outputs, spec.groups
        ),
        format!("{:?} with {} biases", weight.shape, bias.len()),
    )
}

/// Shape of a convolution's output.
pub fn conv(x: Shape, spec: &Conv) -> Result<Shape> {
    if x.c != spec.inputs {
        let expected = format!("{} input channels", spec.inputs);
        return refuse("convolution", expected, format!("{}", x.c));
    }
    let [h, w] = spec.output(x.h, x.w)?;
    // What lies around the image, and the steps over it, are walked too.
    let p = spec.padding;
    let (rows, columns) = (x.h + p.top + p.bottom, x.w + p.left + p.right);
    let around = Shape::new(x.n.max(1), rows, columns.saturating_mul(spec.stride), x.c);
    sized("convolution", around)?;
    sized("convolution", Shape::new(x.n, h, w, spec.outputs))
}

/// Shape of a pooled tensor.
pub fn pool(x: Shape, pool: Pool) -> Result<Shape> {
    let [h, w] = pool.output(x.h, x.w)?;
    sized("pooling", Shape { h, w, ..x })
}

/// Shape of the means over a grid of cells.
pub fn adaptive_mean(x: Shape, rows: usize, columns: usize) -> Result<Shape> {
    if x.h == 0 || x.w == 0 || rows == 0 || columns == 0 {
        let found = format!("{x:?} to {rows}x{columns}");
        return refuse("adaptive mean", "at least one pixel".into(), found);
    }
    let out = Shape {
        h: rows,
        w: columns,
        ..x
    };
    sized("adaptive mean", out)
}

/// A norm over groups of channels.
pub fn norm(operation: &'static str, x: Shape, norm: &Norm, groups: usize) -> Result<()> {
    let fits = norm.weight.len() == x.c && norm.bias.len() == x.c;
    if fits && groups > 0 && x.c.is_multiple_of(groups) {
        return Ok(());
    }
    let expected = format!("{} channels in {groups} groups", norm.weight.len());
    refuse(operation, expected, format!("{} channels", x.c))
}

/// Scales and shifts of each image's own.
pub fn modulation(operation: &'static str, x: Shape, modulation: Shape) -> Result<()> {
    equal(operation, Shape::new(x.n, 1, 1, 2 * x.c), modulation)
}

/// Shape of the output of attention.
pub fn attention(qkv: Shape, attention: Attention, bias: Option<Shape>) -> Result<Shape> {
    let heads = attention.heads;
    if heads == 0 || !qkv.c.is_multiple_of(3 * heads) {
        let expected = format!("3 · {heads} heads · d channels");
        return refuse("attention", expected, format!("{}", qkv.c));
    }
    if let Some(b) = bias {
        let tokens = qkv.h * qkv.w;
        equal(
            "attention bias",
            Shape::new(b.n.max(1), heads, tokens, tokens),
            b,
        )?;
    }
    Ok(Shape {
        c: qkv.c / 3,
        ..qkv
    })
}

/// `b` has the shape of `a`, or repeats to it over pixels or images.
pub fn add(a: Shape, b: Shape) -> Result<()> {
    let same_pixels = (a.h, a.w) == (b.h, b.w);
    let over_pixels = (b.h, b.w) == (1, 1);
    if a.c == b.c && (b.n == a.n || b.n == 1) && (same_pixels || over_pixels) {
        return Ok(());
    }
    let expected = format!("{a:?} or one that repeats to it");
    refuse("add", expected, format!("{b:?}"))
}

/// Shape of an affine map over channels.
pub fn affine(x: Shape, order: &[usize], scale: &[f32], shift: &[f32]) -> Result<Shape> {
    let c = order.len();
    if scale.len() != c || shift.len() != c || order.iter().any(|&i| i >= x.c) {
        return refuse(
            "affine",
            format!("scale, shift and order for {} channels", x.c),
            format!("{} / {} / {order:?}", scale.len(), shift.len()),
        );
    }
    sized("affine", Shape { c, ..x })
}

/// Shape of an image whose pixels are repeated.
pub fn upsample(x: Shape, factor: usize) -> Result<Shape> {
    let sides = [x.h, x.w].map(|side| side.checked_mul(factor));
    let (1.., [Some(h), Some(w)]) = (factor, sides) else {
        return refuse(
            "upsample",
            "a factor of at least 1 that leaves a size".into(),
            format!("{factor} for {}x{}", x.h, x.w),
        );
    };
    sized("upsample", Shape { h, w, ..x })
}

/// Shape of a resized image.
pub fn resize(x: Shape, height: usize, width: usize) -> Result<Shape> {
    if x.h == 0 || x.w == 0 || height == 0 || width == 0 {
        let found = format!("{}x{} to {height}x{width}", x.h, x.w);
        return refuse("resize", "at least one pixel".into(), found);
    }
    let out = Shape {
        h: height,
        w: width,
        ..x
    };
    sized("resize", out)
}

/// Shape after one pass of a resize in fixed point.
pub fn pixel_pass(x: Shape, pass: &PixelPass) -> Result<Shape> {
    let (size, what) = match pass.along {
        Along::Height => (x.h, "rows"),
        Along::Width => (x.w, "columns"),
    };
    let outside = |t: &&FixedTaps| {
        let end = t.first.checked_add(t.weights.len());
        end.is_none_or(|end| end > size)
    };
    if let Some(taps) = pass.taps.iter().find(outside) {
        let expected = format!("taps within {size} {what}");
        let found = format!("{} from {}", taps.weights.len(), taps.first);
        return refuse("resize of pixels", expected, found);
    }
    let outputs = pass.taps.len();
    let out = match pass.along {
        Along::Height => Shape { h: outputs, ..x },
        Along::Width => Shape { w: outputs, ..x },
    };
    sized("resize of pixels", out)
}

/// Shape of a rectangle of each image.
pub fn crop(x: Shape, top: usize, left: usize, height: usize, width: usize) -> Result<Shape> {
    let inside = |start: usize, size: usize, all: usize| {
        start.checked_add(size).is_some_and(|end| end <= all)
    };
    if !inside(top, height, x.h) || !inside(left, width, x.w) {
        let expected = format!("room for {height}x{width} from ({top}, {left})");
        return refuse("crop", expected, format!("{}x{}", x.h, x.w));
    }
    Ok(Shape {
        h: height,
        w: width,
        ..x
    })
}

/// Shape of the map of feature distances.
pub fn feature_distance(a: Shape, b: Shape, head: &[f32]) -> Result<Shape> {
    equal("feature distance", a, b)?;
    if head.len() != a.c || head.is_empty() {
        let expected = format!("a head of {} weights, at least one", a.c);
        return refuse("feature distance", expected, format!("{}", head.len()));
    }
    Ok(Shape { c: 1, ..a })
}
