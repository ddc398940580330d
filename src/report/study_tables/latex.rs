//! LaTeX tables that need no package.

use std::fmt::Write;

use super::{Document, NOTHING, parts, printed};
use crate::study::tables::Cell;
use crate::study::tables::settings::Better;

/// All tables as floats, each with its convention and notes in the caption.
pub fn render(document: &Document) -> String {
    let mut text = String::new();
    for table in &document.tables {
        let columns = "r".repeat(table.columns.len());
        let _ = writeln!(
            text,
            "\\begin{{table}}\n\\centering\n\\begin{{tabular}}{{l{columns}}}\n\\hline"
        );
        let header: String = table
            .columns
            .iter()
            .map(|name| format!(" & {}", escaped(name)))
            .collect();
        let _ = writeln!(text, "metric{header} \\\\\n\\hline");
        for row in &table.rows {
            let name = row.latex.clone().unwrap_or_else(|| escaped(&row.name));
            let arrow = match row.better {
                Better::Higher => " $\\uparrow$",
                Better::Lower => " $\\downarrow$",
                Better::Open => "",
            };
            let _ = write!(text, "{name}{arrow}");
            for cell in &row.cells {
                if let Cell::Interval { .. } = cell {
                    let shown = printed(cell, table, document.digits);
                    let _ = write!(text, " & ${shown}$");
                    continue;
                }
                let _ = match parts(cell, table, document.digits) {
                    Some((mean, std)) if std != NOTHING => write!(text, " & ${mean} \\pm {std}$"),
                    Some((mean, _)) => write!(text, " & ${mean}$"),
                    None => write!(text, " & {NOTHING}"),
                };
            }
            text.push_str(" \\\\\n");
        }
        let title = escaped(&table.title);
        let _ = writeln!(
            text,
            "\\hline\n\\end{{tabular}}\n\\caption{{Table {} of the study: {title}.",
            table.number
        );
        let _ = writeln!(text, "{}", escaped(&table.convention));
        for note in &table.notes {
            let _ = writeln!(text, "Note: {}.", escaped(note));
        }
        text.push_str("}\n\\end{table}\n\n");
    }
    for note in &document.notes {
        let _ = writeln!(text, "% {note}");
    }
    text
}

/// Text in which no character means anything to LaTeX.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '→' => out.push_str("$\\to$"),
            '±' => out.push_str("$\\pm$"),
            '−' => out.push_str("$-$"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_table() {
        assert_eq!(escaped("a_b & 5 %"), "a\\_b \\& 5 \\%");
        assert_eq!(escaped("n − 1 → {x}"), "n $-$ 1 $\\to$ \\{x\\}");
    }
}
