//! Tables of GitHub's Markdown.

use std::fmt::Write;

use super::{Document, printed, titled};

/// All tables, each with its convention and notes below it.
pub fn render(document: &Document) -> String {
    let mut text = String::new();
    for table in &document.tables {
        let _ = writeln!(text, "**Table {}**: {}\n", table.number, table.title);
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut header = vec!["metric".to_owned()];
        header.extend(table.columns.iter().map(|name| escaped(name)));
        let _ = write!(text, "{}|---|", line(header));
        let _ = writeln!(text, "{}", "---:|".repeat(table.columns.len()));
        for row in &table.rows {
            let cells = row.cells.iter();
            let cells = cells.map(|cell| printed(cell, table, document.digits));
            let name = escaped(&titled(row));
            text.push_str(&line(std::iter::once(name).chain(cells).collect()));
        }
        let _ = writeln!(text, "\n{}\n", table.convention);
        for note in &table.notes {
            let _ = writeln!(text, "- {note}");
        }
        if !table.notes.is_empty() {
            text.push('\n');
        }
    }
    for note in &document.notes {
        let _ = writeln!(text, "{note}\n");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('|', "\\|")
}
