//! Aligned columns for a terminal.

use std::fmt::Write;

use super::{Document, printed, titled};
use crate::report::table::{aligned, wrapped};

/// All tables, each with its convention and notes below it.
pub fn render(document: &Document) -> String {
    let mut text = String::new();
    for table in &document.tables {
        let _ = writeln!(text, "Table {}: {}", table.number, table.title);
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(table.columns.iter().cloned());
        for row in &table.rows {
            let cells = row.cells.iter();
            let cells = cells.map(|cell| printed(cell, table, document.digits));
            rows.push(std::iter::once(titled(row)).chain(cells).collect());
        }
        let _ = writeln!(text, "{}{}", aligned(&rows), wrapped(&table.convention));
        for note in &table.notes {
            let _ = writeln!(text, "{}", wrapped(&format!("note: {note}")));
        }
        text.push('\n');
    }
    for note in &document.notes {
        let _ = writeln!(text, "{}", wrapped(note));
    }
    text
}
