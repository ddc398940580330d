//! One CSV for all tables: `table, std, metric`, then a column per classifier. `std` says what ± is.

use super::{Document, printed};
use crate::study::tables::Std;

/// The text of the CSV.
pub fn render(document: &Document) -> Result<Vec<u8>, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fail = |e: csv::Error| e.to_string();
    for (i, table) in document.tables.iter().enumerate() {
        if i == 0 {
            let fixed = ["table", "std", "metric"].into_iter();
            let header = fixed.chain(table.columns.iter().map(String::as_str));
            writer.write_record(header).map_err(fail)?;
        }
        let std = match table.std {
            Std::Population => "population",
            Std::Sample => "sample",
        };
        let std = match (table.against, table.paired) {
            (None, _) => std.to_owned(),
            (Some(_), false) if table.apart => format!("{std} of differences of groups apart"),
            (Some(_), false) => format!("difference of {std} stds"),
            (Some(_), true) => format!("{std} of changes"),
        };
        for row in &table.rows {
            let mut fields = vec![table.number.to_string(), std.clone(), row.name.clone()];
            let cells = row.cells.iter();
            fields.extend(cells.map(|cell| printed(cell, table, document.digits)));
            writer.write_record(&fields).map_err(fail)?;
        }
    }
    writer.into_inner().map_err(|e| e.to_string())
}
