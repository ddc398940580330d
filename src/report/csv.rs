//! `pairs.csv`: one row per pair, in the order of the run.

use crate::score::{PairRow, ScoreError};

/// The text of `pairs.csv`.
pub fn pairs(rows: &[PairRow], oracles: &[String], layers: usize) -> Result<Vec<u8>, ScoreError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut header: Vec<String> = [
        "index",
        "name",
        "group",
        "method",
        "original",
        "counterfactual",
        "source",
        "target",
        "verdict",
        "classifier",
        "target_probability",
        "source_probability",
    ]
    .map(String::from)
    .into();
    header.extend(oracles.iter().map(|o| format!("oracle/{o}")));
    header.extend(["committee", "l1", "l1_5", "l2", "elastic_net", "lpips"].map(String::from));
    header.extend((0..layers).map(|l| format!("lpips_layer{l}")));
    header.push("skipped".into());
    let fail = |e: csv::Error| ScoreError::Report(e.to_string());
    writer.write_record(&header).map_err(fail)?;
    for row in rows {
        let number = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
        let text = |v: &Option<String>| v.clone().unwrap_or_default();
        let mut fields = vec![
            row.index.to_string(),
            row.name.clone(),
            row.group.clone(),
            text(&row.method),
            row.original.clone(),
            row.counterfactual.clone(),
            text(&row.source),
            text(&row.target),
            text(&row.verdict),
            text(&row.classifier),
            number(row.target_probability),
            number(row.source_probability),
        ];
        fields.extend((0..oracles.len()).map(|k| row.oracles.get(k).cloned().unwrap_or_default()));
        fields.push(text(&row.committee));
        fields.extend([row.l1, row.l1_5, row.l2, row.elastic_net, row.lpips].map(number));
        fields.extend((0..layers).map(|l| number(row.lpips_layers.get(l).copied())));
        fields.push(text(&row.skipped));
        writer.write_record(&fields).map_err(fail)?;
    }
    writer
        .into_inner()
        .map_err(|e| ScoreError::Report(e.to_string()))
}
