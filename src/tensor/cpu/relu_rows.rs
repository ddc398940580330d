//! One hidden layer of rectified units on many rows in double precision, for models of tables.
//!
//! y\[r\] = b₁ + Σ_h w₁\[h\] · max(0, b₀\[h\] + Σ_d w₀\[h,d\] · x\[r,d\]). Sixteen rows are computed at once, one in each lane; a row's sum runs over
//! the units in their order, so it does not depend on the rows beside it. Compiled for AVX-512, AVX2 with FMA, and any machine.

/// Rows in a block.
pub const LANES: usize = 16;

type Block = [f64; LANES];

/// The weights of the layer; `into` is `units × columns`, a row for each unit.
#[derive(Clone, Copy, Debug)]
pub struct HiddenLayer<'a> {
    pub columns: usize,
    pub into: &'a [f64],
    pub bias: &'a [f64],
    pub out: &'a [f64],
    pub out_bias: f64,
}

/// The layer's value for each row of `rows` (`n × columns`).
pub fn hidden_layer(layer: HiddenLayer<'_>, rows: &[f64], result: &mut [f64]) {
    for (rows, result) in rows
        .chunks(LANES * layer.columns.max(1))
        .zip(result.chunks_mut(LANES))
    {
        let mut turned = vec![[0.0; LANES]; layer.columns];
        for (lane, row) in rows.chunks_exact(layer.columns).enumerate() {
            for (column, value) in turned.iter_mut().zip(row) {
                column[lane] = *value;
            }
        }
        let block = values(layer, &turned);
        result.copy_from_slice(&block[..result.len()]);
    }
}

/// Walks through all subsets of the columns that differ between a point and sixteen rows of background, one column
/// changed in each step (Gray code), so that a step costs one product for each unit whatever the number of columns.
/// `visit` gets each subset (bit d: column d is the point's) with the values of the rows.
pub fn coalitions(
    layer: HiddenLayer<'_>,
    point: &[f64],
    background: &[Block],
    mut visit: impl FnMut(u64, &Block),
) {
    let mut before: Vec<Block> = layer.bias.iter().map(|&b| [b; LANES]).collect();
    for (unit, before) in before.iter_mut().enumerate() {
        for (column, rows) in background.iter().enumerate() {
            let weight = layer.into[unit * layer.columns + column];
            for (sum, value) in before.iter_mut().zip(rows) {
                *sum += weight * value;
            }
        }
    }
    let mut change: Vec<Block> = vec![[0.0; LANES]; layer.columns];
    for ((change, rows), value) in change.iter_mut().zip(background).zip(point) {
        for (c, row) in change.iter_mut().zip(rows) {
            *c = value - row;
        }
    }
    visit(0, &step(layer, &mut before, None));
    let mut subset = 0u64;
    for count in 1..1u64 << layer.columns {
        let column = count.trailing_zeros() as usize;
        subset ^= 1 << column;
        let sign = if subset >> column & 1 == 1 { 1.0 } else { -1.0 };
        let changed = Some((column, sign, &change[column]));
        visit(subset, &step(layer, &mut before, changed));
    }
}

type Changed<'a> = Option<(usize, f64, &'a Block)>;

macro_rules! on_each_machine {
    ($name:ident, $body:ident, ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name($($argument: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn wide($($argument: $type),*) -> $result { $body::<true>($($argument),*) }
                #[target_feature(enable = "avx2,fma")]
                fn narrow($($argument: $type),*) -> $result { $body::<true>($($argument),*) }
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the instructions are there.
                    return unsafe { wide($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the instructions are there.
                    return unsafe { narrow($($argument),*) };
                }
            }
            $body::<false>($($argument),*)
        }
    };
}

on_each_machine!(values, values_of, (layer: HiddenLayer<'_>, rows: &[Block]) -> Block);
on_each_machine!(step, step_of, (layer: HiddenLayer<'_>, before: &mut [Block], changed: Changed<'_>) -> Block);

/// `mul_add` is one instruction where there is FMA, and a call of a library elsewhere.
#[inline(always)]
fn fused<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn values_of<const FMA: bool>(layer: HiddenLayer<'_>, rows: &[Block]) -> Block {
    let mut result = [layer.out_bias; LANES];
    for ((weights, &bias), &out) in layer
        .into
        .chunks_exact(layer.columns.max(1))
        .zip(layer.bias)
        .zip(layer.out)
    {
        let mut sum = [bias; LANES];
        for (weight, column) in weights.iter().zip(rows) {
            for lane in 0..LANES {
                sum[lane] = fused::<FMA>(*weight, column[lane], sum[lane]);
            }
        }
        for lane in 0..LANES {
            let active = if sum[lane] > 0.0 { sum[lane] } else { 0.0 };
            result[lane] = fused::<FMA>(out, active, result[lane]);
        }
    }
    result
}

#[inline(always)]
fn step_of<const FMA: bool>(
    layer: HiddenLayer<'_>,
    before: &mut [Block],
    changed: Changed<'_>,
) -> Block {
    let mut result = [layer.out_bias; LANES];
    let nothing = [0.0; LANES];
    let (column, sign, change) = changed.unwrap_or((0, 0.0, &nothing));
    for (unit, (sum, &out)) in before.iter_mut().zip(layer.out).enumerate() {
        let weight = sign * layer.into[unit * layer.columns + column];
        for lane in 0..LANES {
            sum[lane] = fused::<FMA>(weight, change[lane], sum[lane]);
            let active = if sum[lane] > 0.0 { sum[lane] } else { 0.0 };
            result[lane] = fused::<FMA>(out, active, result[lane]);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer_of(into: &[f64], columns: usize) -> HiddenLayer<'_> {
        HiddenLayer {
            columns,
            into,
            bias: &[0.1, -0.2, 0.3],
            out: &[1.0, -2.0, 0.5],
            out_bias: 0.25,
        }
    }

    fn plain(layer: HiddenLayer<'_>, row: &[f64]) -> f64 {
        let mut sum = layer.out_bias;
        for unit in 0..layer.out.len() {
            let weights = &layer.into[unit * layer.columns..][..layer.columns];
            let inner: f64 = weights.iter().zip(row).map(|(w, x)| w * x).sum();
            sum += layer.out[unit] * (inner + layer.bias[unit]).max(0.0);
        }
        sum
    }

    #[test]
    fn rows_in_blocks_give_the_plain_sums_and_do_not_know_their_neighbours() {
        let into: Vec<f64> = (0..12).map(|i| (i as f64 * 0.7).sin()).collect();
        let layer = layer_of(&into, 4);
        let rows: Vec<f64> = (0..37 * 4).map(|i| (i as f64 * 1.3).cos()).collect();
        let mut all = vec![0.0; 37];
        hidden_layer(layer, &rows, &mut all);
        for (row, value) in rows.chunks_exact(4).zip(&all) {
            assert!((plain(layer, row) - value).abs() < 1e-14);
            let mut one = [0.0];
            hidden_layer(layer, row, &mut one);
            assert_eq!(one[0], *value);
        }
    }

    #[test]
    fn every_subset_is_visited_once_with_its_rows() {
        let into: Vec<f64> = (0..9).map(|i| (i as f64 * 0.9).sin()).collect();
        let layer = layer_of(&into, 3);
        let point = [0.4, -0.6, 1.1];
        let background: Vec<Block> = (0..3)
            .map(|d| std::array::from_fn(|r| ((d * 31 + r) as f64).cos()))
            .collect();
        let mut seen = [0; 8];
        coalitions(layer, &point, &background, |subset, values| {
            seen[subset as usize] += 1;
            for (lane, value) in values.iter().enumerate() {
                let row: Vec<f64> = (0..3)
                    .map(|d| match subset >> d & 1 {
                        1 => point[d],
                        _ => background[d][lane],
                    })
                    .collect();
                assert!((plain(layer, &row) - value).abs() < 1e-13);
            }
        });
        assert_eq!(seen, [1; 8]);
    }
}
