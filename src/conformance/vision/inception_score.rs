//! The Inception Score cases of `fid_expected.json`, with given permutations. 1e-5 relative; chunk sizes exact.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::{matrix, number_in};
use crate::metrics::inception_score::{Order, inception_score};

const SCORE: Tolerance = Tolerance::relative(1e-5);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("fid_expected.json")? else {
        return Ok(());
    };
    let Some(cases) = json.root().get("inception_score") else {
        return Ok(());
    };
    let Some(stored) = folder.tensors("inception_score_logits.safetensors")? else {
        cases.skip();
        check.absent("Inception Score: all cases (its logits are absent)");
        return Ok(());
    };
    check.group("Inception Score");
    let logits = stored.f32_of_rank("logits", 2)?;
    for (name, case) in cases.fields()? {
        let Some(splits) = number_in(name, "splits") else {
            continue;
        };
        let order = case.at("permutation")?.usizes()?;
        let got = inception_score(matrix(name, &logits)?, splits, Order::Given(&order)).of(name)?;
        for (field, expected) in case.fields()? {
            let what = format!("{name} {field}");
            match field {
                "mean" => check.close(what, expected.f64()?, got.mean, SCORE),
                "chunk_sizes" => check.equal(what, &expected.usizes()?, &got.chunk_sizes),
                "std_sample" => match (expected.f64_or_null()?, got.std_sample) {
                    (Some(expected), Some(got)) => check.close(what, expected, got, SCORE),
                    (expected, got) => check.equal(what, &expected, &got),
                },
                _ => {}
            }
        }
    }
    Ok(())
}
