//! Small linear programs: minimise c·x where rows of sums are bounded and every variable lies between 0 and its own bound; with certificates.
//!
//! The two-phase simplex method on a dense tableau. Programs here have some tens of variables and are solved by the thousand; a solver for large sparse ones (and its
//! dependencies) would not pay. The largest fall of the cost enters; after many steps the first one does (Bland's rule), which cannot go round in circles.
//!
//! What the tableau says is rounded. A bound that somebody relies on is computed anew from the program itself: for any weights λ ≥ 0 of the rows a·x ≤ b the cost is at
//! least −λ·b + Σ min(0, c + λ·a) · most, less what the rounding of this sum can be. The tableau gives good weights; bad ones would give a weak bound, never a wrong one. With
//! c = 0 a bound above 0 proves that no point meets all rows.

/// A variable of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable(usize);

/// How a row is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    AtMost,
    AtLeast,
}

/// A program in the making.
#[derive(Default)]
pub struct Program {
    costs: Vec<f64>,
    /// Largest value of each variable.
    most: Vec<f64>,
    /// a·x ≤ b.
    rows: Vec<(Vec<(usize, f64)>, f64)>,
}

/// What came of a program.
pub enum Answer {
    Solved(Solution),
    /// Proven: no point meets all rows.
    Impossible,
    /// Neither a point nor a proof.
    Unsure,
}

/// The cheapest values, up to rounding.
pub struct Solution {
    values: Vec<f64>,
    /// Proven: no point that meets all rows costs less.
    pub at_least: f64,
}

impl Solution {
    /// A variable's value.
    pub fn value(&self, variable: Variable) -> f64 {
        self.values[variable.0]
    }
}

const ZERO: f64 = 1e-9;
/// Phase one ends with less than this where all rows can be met.
const MET: f64 = 1e-7;
/// Steps after which Bland's rule takes over, for each row of the tableau.
const PATIENCE: usize = 20;
/// Steps after which a program is given up, for each row of the tableau.
const MOST: usize = 400;

impl Program {
    /// A variable between 0 and `most`.
    pub fn variable(&mut self, cost: f64, most: f64) -> Variable {
        let variable = Variable(self.costs.len());
        self.costs.push(cost);
        self.most.push(most);
        if most.is_finite() {
            self.rows.push((vec![(variable.0, 1.0)], most));
        }
        variable
    }

    /// A bounded sum.
    pub fn row(&mut self, terms: &[(Variable, f64)], bound: Bound, value: f64) {
        let sign = if bound == Bound::AtMost { 1.0 } else { -1.0 };
        let terms = terms.iter().map(|(v, a)| (v.0, sign * a)).collect();
        self.rows.push((terms, sign * value));
    }

    /// The cheapest solution.
    pub fn solve(&self) -> Answer {
        let (n, m) = (self.costs.len(), self.rows.len());
        let broken: Vec<usize> = (0..m).filter(|&r| self.rows[r].1 < 0.0).collect();
        // Columns: variables, one slack for each row, one helper for each row that 0 breaks, the right side.
        let width = n + m + broken.len() + 1;
        let mut tableau = Tableau {
            cells: vec![0.0; m * width],
            width,
            basis: (n..n + m).collect(),
            cost: vec![0.0; width],
        };
        for (r, (terms, bound)) in self.rows.iter().enumerate() {
            let sign = if *bound < 0.0 { -1.0 } else { 1.0 };
            let row = &mut tableau.cells[r * width..(r + 1) * width];
            terms.iter().for_each(|&(v, a)| row[v] += sign * a);
            row[n + r] = sign;
            row[width - 1] = sign * bound;
        }
        for (i, &r) in broken.iter().enumerate() {
            tableau.cells[r * width + n + m + i] = 1.0;
            tableau.basis[r] = n + m + i;
            // The first phase minimises the helpers' sum: its reduced costs are minus the sums of their rows.
            for c in 0..width {
                tableau.cost[c] -= tableau.cells[r * width + c];
            }
        }
        (0..broken.len()).for_each(|i| tableau.cost[n + m + i] = 0.0);
        if !broken.is_empty() {
            let ended = tableau.run(n + m + broken.len(), m);
            // A slack's reduced cost is the weight of its row.
            if self.bound(None, &tableau.cost[n..n + m]) > 0.0 {
                return Answer::Impossible;
            }
            // The last cost is minus the sum of the helpers.
            if !ended || tableau.cost[width - 1] < -MET {
                return Answer::Unsure;
            }
            tableau.expel_helpers(n + m, m);
        }
        tableau.cost.fill(0.0);
        tableau.cost[..n].copy_from_slice(&self.costs);
        for r in 0..m {
            let entering = tableau.basis[r];
            let by = if entering < n {
                self.costs[entering]
            } else {
                0.0
            };
            for c in 0..width {
                tableau.cost[c] -= by * tableau.cells[r * width + c];
            }
        }
        // Where it does not end the point still meets the rows, and the weights so far give a bound.
        tableau.run(n + m, m);
        let mut values = vec![0.0; n];
        for r in 0..m {
            if tableau.basis[r] < n {
                values[tableau.basis[r]] = tableau.cells[r * width + width - 1];
            }
        }
        Answer::Solved(Solution {
            values,
            at_least: self.bound(Some(&self.costs), &tableau.cost[n..n + m]),
        })
    }

    /// What the cost is at least (without costs: 0, so that a bound above it shows that no point meets all rows), by weights of the rows; negative ones count as 0.
    fn bound(&self, costs: Option<&[f64]>, weights: &[f64]) -> f64 {
        let n = self.costs.len();
        let mut slope = costs.map_or_else(|| vec![0.0; n], <[f64]>::to_vec);
        let mut size: Vec<f64> = slope.iter().map(|c| c.abs()).collect();
        let (mut sum, mut sizes) = (0.0, 0.0);
        for ((terms, bound), &weight) in self.rows.iter().zip(weights) {
            if weight > 0.0 && weight.is_finite() {
                sum -= weight * bound;
                sizes += (weight * bound).abs();
                for &(v, a) in terms {
                    slope[v] += weight * a;
                    size[v] += (weight * a).abs();
                }
            }
        }
        // A sum of k rounded products is off by at most k + 1 units in the last place of the sum of their sizes.
        let rounding = 2.0 * f64::EPSILON * (n + self.rows.len() + 8) as f64;
        for v in 0..n {
            let least = slope[v] - rounding * size[v];
            if least < 0.0 {
                sum += least * self.most[v];
                sizes -= least * self.most[v];
            }
        }
        let bound = sum - rounding * sizes;
        if bound.is_nan() {
            f64::NEG_INFINITY
        } else {
            bound
        }
    }
}

struct Tableau {
    cells: Vec<f64>,
    width: usize,
    basis: Vec<usize>,
    cost: Vec<f64>,
}

impl Tableau {
    /// Pivots until no column before `columns` lowers the cost; false if that was not reached.
    fn run(&mut self, columns: usize, rows: usize) -> bool {
        for step in 0..MOST * (rows + 1) {
            let candidates = (0..columns).filter(|&c| self.cost[c] < -ZERO);
            let entering = match step < PATIENCE * (rows + 1) {
                true => candidates.min_by(|&a, &b| self.cost[a].total_cmp(&self.cost[b])),
                false => candidates.min(),
            };
            let Some(entering) = entering else {
                return true;
            };
            let mut leaving: Option<(f64, usize)> = None;
            for r in 0..rows {
                let cell = self.cells[r * self.width + entering];
                if cell > ZERO {
                    let ratio = self.cells[(r + 1) * self.width - 1] / cell;
                    let better = leaving.is_none_or(|(known, at)| {
                        ratio < known - 1e-12
                            || (ratio <= known + 1e-12 && self.basis[r] < self.basis[at])
                    });
                    if better {
                        leaving = Some((ratio, r));
                    }
                }
            }
            let Some((_, row)) = leaving else {
                return false;
            };
            self.pivot(row, entering, rows);
        }
        false
    }

    fn pivot(&mut self, row: usize, column: usize, rows: usize) {
        let width = self.width;
        let by = self.cells[row * width + column];
        let pivot: Vec<f64> = self.cells[row * width..(row + 1) * width]
            .iter()
            .map(|v| v / by)
            .collect();
        self.cells[row * width..(row + 1) * width].copy_from_slice(&pivot);
        for r in (0..rows).filter(|&r| r != row) {
            let factor = self.cells[r * width + column];
            if factor != 0.0 {
                let cells = &mut self.cells[r * width..(r + 1) * width];
                cells
                    .iter_mut()
                    .zip(&pivot)
                    .for_each(|(v, p)| *v -= factor * p);
                // What rounding leaves below 0 on the right side is 0.
                let last = &mut self.cells[(r + 1) * width - 1];
                if *last < 0.0 && *last > -ZERO {
                    *last = 0.0;
                }
            }
        }
        let factor = self.cost[column];
        self.cost
            .iter_mut()
            .zip(&pivot)
            .for_each(|(v, p)| *v -= factor * p);
        self.basis[row] = column;
    }

    /// Helpers that are still in the basis are 0: another column takes their place where one can.
    fn expel_helpers(&mut self, first: usize, rows: usize) {
        for r in 0..rows {
            if self.basis[r] >= first {
                let column = (0..first).find(|&c| self.cells[r * self.width + c].abs() > 1e-7);
                if let Some(column) = column {
                    self.pivot(r, column, rows);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn cost(program: &Program, solution: &Solution) -> f64 {
        let each = solution.values.iter().zip(&program.costs);
        each.map(|(v, c)| v * c).sum()
    }

    fn solved(program: &Program) -> Solution {
        match program.solve() {
            Answer::Solved(solution) => solution,
            Answer::Impossible => panic!("impossible"),
            Answer::Unsure => panic!("unsure"),
        }
    }

    /// max 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18: 36 at (2, 6).
    #[test]
    fn a_textbook_program_has_its_textbook_answer() {
        let mut program = Program::default();
        let (x, y) = (program.variable(-3.0, 4.0), program.variable(-5.0, 100.0));
        program.row(&[(y, 2.0)], Bound::AtMost, 12.0);
        program.row(&[(x, 3.0), (y, 2.0)], Bound::AtMost, 18.0);
        let solution = solved(&program);
        assert!((cost(&program, &solution) + 36.0).abs() < 1e-12);
        assert!((solution.value(x) - 2.0).abs() < 1e-12 && (solution.value(y) - 6.0).abs() < 1e-12);
        assert!(solution.at_least <= -36.0 && solution.at_least > -36.0 - 1e-9);
    }

    #[test]
    fn rows_that_zero_breaks_are_met_and_impossible_ones_are_proven() {
        let mut program = Program::default();
        let (x, y) = (program.variable(1.0, 3.0), program.variable(2.0, 3.0));
        program.row(&[(x, 1.0), (y, 1.0)], Bound::AtLeast, 4.0);
        let solution = solved(&program);
        assert!((cost(&program, &solution) - 5.0).abs() < 1e-12);
        assert!(solution.at_least <= 5.0 && solution.at_least > 5.0 - 1e-9);
        program.row(&[(x, 1.0), (y, 1.0)], Bound::AtLeast, 7.0);
        assert!(matches!(program.solve(), Answer::Impossible));
    }

    /// Weights that have nothing to do with the program must not give a bound above its optimum.
    #[test]
    fn no_weights_give_a_bound_above_the_optimum() {
        let mut draws = Draws::new(5, Stream::TABULAR_SEARCH, 0);
        let mut tight = 0;
        for _ in 0..200 {
            let mut program = Program::default();
            let between =
                |draws: &mut Draws, low: f64, high: f64| low + (high - low) * draws.uniform();
            let list: Vec<Variable> = (0..4)
                .map(|_| {
                    let most = between(&mut draws, 0.1, 3.0);
                    program.variable(between(&mut draws, -1.0, 1.0), most)
                })
                .collect();
            for _ in 0..5 {
                let terms: Vec<(Variable, f64)> = list
                    .iter()
                    .map(|&v| (v, between(&mut draws, -1.0, 1.0)))
                    .collect();
                program.row(&terms, Bound::AtMost, between(&mut draws, -0.5, 1.5));
            }
            let weights: Vec<f64> = program
                .rows
                .iter()
                .map(|_| between(&mut draws, -0.5, 2.0))
                .collect();
            match program.solve() {
                Answer::Solved(solution) => {
                    let any = program.bound(Some(&program.costs), &weights);
                    let cost = cost(&program, &solution);
                    assert!(any <= cost + 1e-12, "{any} {cost}");
                    assert!(program.bound(None, &weights) <= 1e-12);
                    assert!(solution.at_least <= cost + 1e-12);
                    tight += usize::from(solution.at_least > cost - 1e-9);
                }
                Answer::Impossible => {}
                Answer::Unsure => panic!("unsure"),
            }
        }
        assert!(tight > 100, "{tight}");
    }
}
