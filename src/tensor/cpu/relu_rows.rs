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

/// A layer made ready for walks through the subsets of a point's columns.
///
/// With z' = |w₁|/2 · z a unit adds ±(z' + |z'|) to the value, so that the rectifier becomes an absolute value, and what is linear is one sum for all units. Units
/// that add come before those that subtract.
#[derive(Clone, Debug)]
pub struct Walk {
    columns: usize,
    /// How many units add.
    positive: usize,
    units: usize,
    /// The weights into the units, a column after the other; there are two columns at least, if need be of zeros.
    into: Vec<Vec<f64>>,
    bias: Vec<f64>,
    /// What all units add along each column, and with no column.
    along: Vec<f64>,
    constant: f64,
}

impl Walk {
    pub fn new(layer: HiddenLayer<'_>) -> Self {
        let mut order: Vec<usize> = (0..layer.out.len()).collect();
        let subtracts = |u: usize| layer.out[u] < 0.0;
        order.sort_by_key(|&u| subtracts(u));
        let scaled = |value: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let of = |&u: &usize| layer.out[u].abs() / 2.0 * value(u);
            order.iter().map(of).collect()
        };
        let positive = order.partition_point(|&u| !subtracts(u));
        let sum = |values: &[f64]| {
            let (plus, minus) = values.split_at(positive);
            plus.iter().sum::<f64>() - minus.iter().sum::<f64>()
        };
        let column = |c: usize| match c < layer.columns {
            true => scaled(&|u| layer.into[u * layer.columns + c]),
            false => vec![0.0; order.len()],
        };
        let into: Vec<Vec<f64>> = (0..layer.columns.max(2)).map(column).collect();
        let bias = scaled(&|u| layer.bias[u]);
        Self {
            columns: layer.columns,
            positive,
            units: order.len(),
            along: into.iter().map(|c| sum(c)).collect(),
            constant: layer.out_bias + sum(&bias),
            into,
            bias,
        }
    }

    /// Walks through all subsets of the columns that differ between a point and sixteen rows of background (a block for each column). Two columns are
    /// tried in registers, of the others one is changed in each step (Gray code), so that a step costs the same whatever the number of columns.
    /// `visit` gets each subset (bit d: column d is the point's) with the values of the rows.
    pub fn coalitions(
        &self,
        point: &[f64],
        background: &[Block],
        mut visit: impl FnMut(u64, &Block),
    ) {
        let mut sums: Vec<Block> = vec![[0.0; LANES]; self.units];
        start(self, background, &mut sums);
        let mut linear = [self.constant; LANES];
        for (along, rows) in self.along.iter().zip(background) {
            for lane in 0..LANES {
                linear[lane] += along * rows[lane];
            }
        }
        let mut change = vec![[0.0; LANES]; self.into.len()];
        for ((change, rows), value) in change.iter_mut().zip(background).zip(point) {
            for (c, row) in change.iter_mut().zip(rows) {
                *c = value - row;
            }
        }
        let mut high = 0u64;
        for count in 0..1u64 << self.columns.saturating_sub(2) {
            // The first step changes nothing.
            let (column, by) = match count {
                0 => (0, [0.0; LANES]),
                _ => {
                    let bit = count.trailing_zeros() as usize;
                    high ^= 1 << bit;
                    let sign = if high >> bit & 1 == 1 { 1.0 } else { -1.0 };
                    (2 + bit, change[2 + bit].map(|c| sign * c))
                }
            };
            for lane in 0..LANES {
                linear[lane] += self.along[column] * by[lane];
            }
            let found = step(self, &mut sums, column, &by, [&change[0], &change[1]]);
            for (low, mut values) in found.into_iter().enumerate() {
                let subset = high << 2 | low as u64;
                if subset >> self.columns > 0 {
                    break;
                }
                for (lane, value) in values.iter_mut().enumerate() {
                    *value += linear[lane];
                    for c in (0..2).filter(|c| low >> c & 1 == 1) {
                        *value += self.along[c] * change[c][lane];
                    }
                }
                visit(subset, &values);
            }
        }
    }
}

/// A function that is compiled for each set of instructions, and takes the best that the machine has.
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
pub(super) use on_each_machine;

on_each_machine!(values, values_of, (layer: HiddenLayer<'_>, rows: &[Block]) -> Block);
on_each_machine!(start, start_of, (walk: &Walk, background: &[Block], sums: &mut [Block]) -> ());
on_each_machine!(step, step_of, (walk: &Walk, sums: &mut [Block], column: usize, by: &Block, pair: [&Block; 2]) -> [Block; 4]);

/// `mul_add` is one instruction where there is FMA, and a call of a library elsewhere.
#[inline(always)]
pub(super) fn fused<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
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

/// The units' sums of rows that are all background.
#[inline(always)]
fn start_of<const FMA: bool>(walk: &Walk, background: &[Block], sums: &mut [Block]) {
    for (unit, (sum, &bias)) in sums.iter_mut().zip(&walk.bias).enumerate() {
        let mut all = [bias; LANES];
        for (weights, rows) in walk.into.iter().zip(background) {
            for lane in 0..LANES {
                all[lane] = fused::<FMA>(weights[unit], rows[lane], all[lane]);
            }
        }
        *sum = all;
    }
}

/// Lanes whose four sums stay in registers.
const HALF: usize = 8;

/// Adds `by` times the weights of `column` to the sums, and gives Σ ±|sum| as it is, with the first of the pair of columns 0 and 1 changed, with the
/// second, and with both.
#[inline(always)]
fn step_of<const FMA: bool>(
    walk: &Walk,
    sums: &mut [Block],
    column: usize,
    by: &Block,
    pair: [&Block; 2],
) -> [Block; 4] {
    let mut result = [[0.0; LANES]; 4];
    for half in 0..LANES / HALF {
        let (by, pair) = (part(by, half), [part(pair[0], half), part(pair[1], half)]);
        let mut found = [[0.0; HALF]; 4];
        let (plus, minus) = sums.split_at_mut(walk.positive);
        let weights = [column, 0, 1].map(|c| walk.into[c].split_at(walk.positive));
        for (sums, [changed, a, b]) in [
            (plus, weights.map(|(plus, _)| plus)),
            (minus, weights.map(|(_, minus)| minus)),
        ] {
            // What the units before added; these subtract, and the last negation turns both.
            found.iter_mut().flatten().for_each(|v| *v = -*v);
            for (((sum, &changed), &a), &b) in sums.iter_mut().zip(changed).zip(a).zip(b) {
                let sum = &mut sum.as_chunks_mut::<HALF>().0[half];
                for lane in 0..HALF {
                    let none = fused::<FMA>(changed, by[lane], sum[lane]);
                    let one = fused::<FMA>(a, pair[0][lane], none);
                    let other = fused::<FMA>(b, pair[1][lane], none);
                    let both = fused::<FMA>(b, pair[1][lane], one);
                    sum[lane] = none;
                    found[0][lane] += none.abs();
                    found[1][lane] += one.abs();
                    found[2][lane] += other.abs();
                    found[3][lane] += both.abs();
                }
            }
        }
        for (result, found) in result.iter_mut().zip(&found) {
            for lane in 0..HALF {
                result[half * HALF + lane] = -found[lane];
            }
        }
    }
    result
}

fn part(block: &Block, half: usize) -> [f64; HALF] {
    block.as_chunks().0[half]
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
        for columns in 1..=5 {
            let into: Vec<f64> = (0..3 * columns).map(|i| (i as f64 * 0.9).sin()).collect();
            let layer = layer_of(&into, columns);
            let point: Vec<f64> = (0..columns).map(|i| (i as f64 * 2.3).cos()).collect();
            let background: Vec<Block> = (0..columns)
                .map(|d| std::array::from_fn(|r| ((d * 31 + r) as f64).cos()))
                .collect();
            let mut seen = vec![0; 1 << columns];
            Walk::new(layer).coalitions(&point, &background, |subset, values| {
                seen[subset as usize] += 1;
                for (lane, value) in values.iter().enumerate() {
                    let row: Vec<f64> = (0..columns)
                        .map(|d| match subset >> d & 1 {
                            1 => point[d],
                            _ => background[d][lane],
                        })
                        .collect();
                    assert!((plain(layer, &row) - value).abs() < 1e-13);
                }
            });
            assert!(seen.iter().all(|&times| times == 1), "{columns}: {seen:?}");
        }
    }
}
