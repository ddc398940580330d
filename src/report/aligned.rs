//! A plain table: columns as wide as their widest cell, the first to the left, the others to the right.

use std::fmt;

/// Rows of cells below a header.
pub struct Aligned {
    rows: Vec<Vec<String>>,
}

impl Aligned {
    /// A table with its header.
    pub fn new<S: AsRef<str>>(header: &[S]) -> Self {
        let header = header.iter().map(|h| h.as_ref().to_string()).collect();
        Self { rows: vec![header] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |c: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(c));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(wide).collect();
        for row in &self.rows {
            for (c, cell) in row.iter().enumerate() {
                let width = widths[c];
                match c {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
