//! `foil.tables/1`: every cell as printed and unrounded.

use serde_json::{Value, json};

use super::{Document, printed};
use crate::study::tables::{Cell, Table, TableRow};

/// The text of the JSON.
pub fn render(document: &Document) -> String {
    let tables: Vec<Value> = document
        .tables
        .iter()
        .map(|t| table(t, document.digits))
        .collect();
    let all = json!({"schema": "foil.tables/1", "tables": tables, "notes": document.notes});
    let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
    text.push('\n');
    text
}

fn table(table: &Table, digits: usize) -> Value {
    let rows: Vec<Value> = table.rows.iter().map(|r| row(r, table, digits)).collect();
    json!({
        "table": table.number,
        "title": table.title,
        "against": table.against,
        "std": table.std,
        "paired": table.paired,
        "convention": table.convention,
        "notes": table.notes,
        "rows": rows,
    })
}

fn row(row: &TableRow, table: &Table, digits: usize) -> Value {
    let cells: serde_json::Map<String, Value> = table
        .columns
        .iter()
        .zip(&row.cells)
        .map(|(column, cell)| {
            let mut shown = json!({"printed": printed(cell, table, digits)});
            if let Cell::Value {
                mean,
                std,
                groups,
                against,
            } = cell
            {
                shown["mean"] = json!(mean);
                shown["std"] = json!(std);
                shown["groups"] = json!(groups);
                if let Some(against) = against {
                    shown["against_groups"] = json!(against);
                }
            }
            if let Cell::Interval {
                mean,
                ci95,
                samples,
            } = cell
            {
                shown["mean"] = json!(mean);
                shown["ci95"] = json!(ci95);
                shown["samples"] = json!(samples);
            }
            (column.clone(), shown)
        })
        .collect();
    json!({"metric": row.name, "better": row.better, "cells": cells})
}
