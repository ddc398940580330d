//! Small linear programs: minimise c·x where rows of sums are bounded and every variable lies between 0 and its own bound.
//!
//! The two-phase simplex method on a dense tableau. Programs here have some tens of variables and are solved by the thousand; a solver for large sparse ones (and its
//! dependencies) would not pay. The largest fall of the cost enters; after many steps the first one does (Bland's rule), which cannot go round in circles.

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
    /// a·x ≤ b.
    rows: Vec<(Vec<(usize, f64)>, f64)>,
}

/// The cheapest values.
pub struct Solution {
    values: Vec<f64>,
    pub cost: f64,
}

impl Solution {
    /// A variable's value.
    pub fn value(&self, variable: Variable) -> f64 {
        self.values[variable.0]
    }
}

const ZERO: f64 = 1e-9;
/// Steps after which Bland's rule takes over, for each row of the tableau.
const PATIENCE: usize = 20;
/// Steps after which a program is given up, for each row of the tableau.
const MOST: usize = 400;

impl Program {
    /// A variable between 0 and `most`.
    pub fn variable(&mut self, cost: f64, most: f64) -> Variable {
        let variable = Variable(self.costs.len());
        self.costs.push(cost);
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

    /// The cheapest solution; none if there is none (or the program is given up).
    pub fn solve(&self) -> Option<Solution> {
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
            tableau.run(n + m + broken.len(), m)?;
            // Minus the sum of the helpers.
            if tableau.cost[width - 1] < -1e-7 {
                return None;
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
        tableau.run(n + m, m)?;
        let mut values = vec![0.0; n];
        for r in 0..m {
            if tableau.basis[r] < n {
                values[tableau.basis[r]] = tableau.cells[r * width + width - 1];
            }
        }
        let cost = values.iter().zip(&self.costs).map(|(v, c)| v * c).sum();
        Some(Solution { values, cost })
    }
}

struct Tableau {
    cells: Vec<f64>,
    width: usize,
    basis: Vec<usize>,
    cost: Vec<f64>,
}

impl Tableau {
    /// Pivots until no column before `columns` lowers the cost; none if the cost falls without end.
    fn run(&mut self, columns: usize, rows: usize) -> Option<()> {
        for step in 0..MOST * (rows + 1) {
            let candidates = (0..columns).filter(|&c| self.cost[c] < -ZERO);
            let entering = match step < PATIENCE * (rows + 1) {
                true => candidates.min_by(|&a, &b| self.cost[a].total_cmp(&self.cost[b])),
                false => candidates.min(),
            };
            let Some(entering) = entering else {
                return Some(());
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
            let (_, row) = leaving?;
            self.pivot(row, entering, rows);
        }
        None
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

    /// max 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18: 36 at (2, 6).
    #[test]
    fn a_textbook_program_has_its_textbook_answer() {
        let mut program = Program::default();
        let (x, y) = (
            program.variable(-3.0, 4.0),
            program.variable(-5.0, f64::INFINITY),
        );
        program.row(&[(y, 2.0)], Bound::AtMost, 12.0);
        program.row(&[(x, 3.0), (y, 2.0)], Bound::AtMost, 18.0);
        let solution = program.solve().unwrap();
        assert!((solution.cost + 36.0).abs() < 1e-12);
        assert!((solution.value(x) - 2.0).abs() < 1e-12 && (solution.value(y) - 6.0).abs() < 1e-12);
    }

    #[test]
    fn rows_that_zero_breaks_are_met_and_impossible_ones_are_found() {
        let mut program = Program::default();
        let (x, y) = (program.variable(1.0, 3.0), program.variable(2.0, 3.0));
        program.row(&[(x, 1.0), (y, 1.0)], Bound::AtLeast, 4.0);
        let solution = program.solve().unwrap();
        assert!((solution.cost - 5.0).abs() < 1e-12, "{}", solution.cost);
        program.row(&[(x, 1.0), (y, 1.0)], Bound::AtLeast, 7.0);
        assert!(program.solve().is_none());
    }
}
