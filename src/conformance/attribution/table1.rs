//! `table1_small.*`: the arithmetic of the small repetition, and that the paper's numbers in it are those that foil prints.

use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::{ConformanceError, Result};
use super::golden::CLOSED;
use crate::attribute::mean_and_std;
use crate::study::attribution::published;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let file = "table1_small.csv";
    let (Some(bytes), Some(json)) = (folder.bytes(file)?, folder.json("table1_small.json")?) else {
        return Ok(());
    };
    check.group("table 1, small repetition");
    let root = json.root();
    // The monotonicity of three more trials: one number each, without a summary.
    root.skip_fields(&["settings", "monotonicity_variants_3_trials"]);
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    for (line, record) in reader.records().enumerate() {
        let record = record.map_err(|e| ConformanceError::Content {
            file: folder.name(file),
            place: format!("line {}", line + 2),
            expected: "a row of the header's columns".into(),
            found: e.to_string(),
        })?;
        let field = |k: usize| record.get(k).unwrap_or_default();
        let number = |k: usize| field(k).parse::<f64>().ok();
        let (metric, explainer) = (field(0), field(1));
        let what = format!("{metric}, {explainer}");
        let values = root.at(metric)?.at(explainer)?.f64s()?;
        let (mean, std) = mean_and_std(&values, 1);
        if let Some(expected) = number(4) {
            check.close(format!("{what}, mean"), expected, mean, CLOSED);
        }
        if let Some(expected) = number(5) {
            check.close(format!("{what}, deviation"), expected, std, CLOSED);
        }
        check.equal(
            format!("{what}, trials"),
            field(6),
            &values.len().to_string()[..],
        );
        let key = metric
            .trim_end_matches("_dec_as_released")
            .replace('_', "-");
        if let (Some(mean), Some(std)) = (number(2), number(3)) {
            let Some((own_mean, own_std)) = published(&key, explainer) else {
                check.unknown(format!("{file}: published value of {what}"));
                continue;
            };
            check.close(
                format!("{what}, published"),
                mean,
                own_mean,
                Tolerance::absolute(1e-9),
            );
            check.close(
                format!("{what}, published deviation"),
                std,
                own_std,
                Tolerance::absolute(1e-9),
            );
        }
    }
    Ok(())
}
