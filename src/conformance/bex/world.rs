//! Statistics of the small world, and the scores of the package's runs on it.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::{ConformanceError, Result};
use super::released_world::ReleasedWorld;
use super::{latents, logits, wide};
use crate::explain::latent::dice::median_deviations;
use crate::explain::latent::fisher::{fisher, last_chunk};
use crate::explain::latent::selection::{LEVELS, select};
use crate::explain::latent::{Latent, Networks, Variant};
use crate::metrics::latent::Explanations;
use crate::metrics::latent::released::{
    BATCH, ReleasedScores, bounded, flags, run_average, score_batch,
};
use crate::metrics::latent::space::{limits, moments};

/// Of f32 statistics.
const STATISTIC: Tolerance = Tolerance::both(2e-6, 1e-6);
const LOGIT: Tolerance = Tolerance::both(1e-5, 2e-5);
/// What the data's page promises of scores from given latents.
const SCORE: Tolerance = Tolerance::absolute(1e-5);
/// Sums of products of gradients in f32.
const FISHER: f64 = 1e-4;

pub fn run(world: &ReleasedWorld, folder: &Folder, check: &mut Check) -> Result<()> {
    statistics(world, check)?;
    runs(world, folder, check)
}

fn statistics(world: &ReleasedWorld, check: &mut Check) -> Result<()> {
    let stats = &world.stats;
    check.group("world_stats");
    let (mean, std) = moments(&world.train);
    let validation = latents(stats, "val_latents_raw")?;
    let standardised: Vec<Latent> = validation
        .iter()
        .map(|z| world.space.standardise(z))
        .collect();
    let (low, high) = limits(&standardised);
    for (name, got) in [
        ("latent_mean", mean),
        ("latent_std", std),
        ("clip_min", low),
        ("clip_max", high),
    ] {
        check.close_all(name, &wide(&stats.f32(name)?.data), &wide(&got), STATISTIC);
    }
    // Cached logits are of latents as they are, without limits.
    let looked = world.networks.look(&validation).of("val_latents_raw")?;
    let cached = logits(stats, "val_logits")?;
    check.close_all(
        "val_logits",
        &wide(cached.as_flattened()),
        &wide(looked.logits.as_flattened()),
        LOGIT,
    );
    let pairs = stats.index_rows("val_char_font")?;
    let known: Vec<Vec<usize>> = standardised
        .iter()
        .map(|z| world.space.nearest(z).to_vec())
        .collect();
    check.identical("val_char_font: nearest embeddings", &pairs, &known);
    let labels: Vec<u8> = { stats.i64("val_labels")?.into_iter() }
        .map(|l| u8::try_from(l).unwrap_or(u8::MAX))
        .collect();
    let expected: Vec<usize> = { stats.i64("selected_indices")?.into_iter() }
        .map(|i| usize::try_from(i).unwrap_or(usize::MAX))
        .collect();
    let per_level = (expected.len() / LEVELS.len()).max(1);
    let (chosen, _) =
        select(&cached, &labels, per_level, Variant::AsReleased).of("selected_indices")?;
    check.equal("selected_indices", &expected, &chosen);
    let of = |values: &[Latent]| -> Vec<f64> {
        let rows = expected.iter().filter_map(|&i| values.get(i));
        rows.flat_map(|z| wide(z)).collect()
    };
    check.close_all(
        "z",
        &wide(&stats.f32("z")?.data),
        &of(&standardised),
        STATISTIC,
    );
    let own: Vec<f64> = { expected.iter() }
        .filter_map(|&i| looked.logits.get(i))
        .flat_map(|l| wide(l))
        .collect();
    check.close_all("logits", &wide(&stats.f32("logits")?.data), &own, LOGIT);
    let mads = median_deviations(&world.train);
    check.close_all(
        "dice_mads",
        &wide(&stats.f32("dice_mads")?.data),
        &mads,
        STATISTIC,
    );
    let train = world.explained().training();
    let found = fisher(&world.explained(), &train[last_chunk(train.len())..]).of("dive_fisher")?;
    let found: Vec<f32> = found.iter().flatten().map(|&v| v as f32).collect();
    check.close_to_peak(
        "dive_fisher",
        &stats.f32("dive_fisher")?.data,
        &found,
        FISHER,
    );
    stats.skip("correlated_fonts");
    Ok(())
}

/// One line of the batches' table.
struct Line {
    explainer: String,
    batch: usize,
    samples: usize,
    values: ReleasedScores,
}

fn runs(world: &ReleasedWorld, folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(arrays) = folder.tensors("world_runs.safetensors")? else {
        if let Some(json) = folder.json("world.json")? {
            json.root().skip();
        }
        folder.bytes("world_batches.csv")?;
        return Ok(());
    };
    let lines = lines(folder)?;
    let json = folder.json("world.json")?;
    let (z, before) = (latents(&world.stats, "z")?, logits(&world.stats, "logits")?);
    let settings = json.as_ref().and_then(|j| j.root().get("world"));
    let mut size = BATCH;
    if let Some(settings) = &settings {
        size = settings.at("batch_size")?.usize()?.max(1);
        check.group("world");
        check.equal(
            "n_train",
            &settings.at("n_train")?.usize()?,
            &world.train.len(),
        );
        let validation = latents(&world.stats, "val_latents_raw")?.len();
        check.equal("n_val", &settings.at("n_val")?.usize()?, &validation);
        let fonts = world.stats.i64("correlated_fonts")?.len();
        check.equal("n_corr", &settings.at("n_corr")?.usize()?, &fonts);
        let levels = settings.at("n_samples_per_level")?.usize()? * LEVELS.len();
        check.equal("samples", &levels, &z.len());
        let cached = logits(&world.stats, "val_logits")?;
        let labels = world.stats.i64("val_labels")?;
        let right = { cached.iter().zip(&labels) }
            .filter(|(l, label)| crate::metrics::latent::class(**l) as i64 == **label);
        let share = right.count() as f64 / labels.len().max(1) as f64;
        check.close(
            "val_accuracy",
            settings.at("val_accuracy")?.f64()?,
            share,
            SCORE,
        );
        // How the data were made.
        settings.skip_fields(&["corr_level", "seed", "generator", "classifier"]);
    }
    let names: Vec<String> = { arrays.names() }
        .filter_map(|n| n.strip_suffix(".z_cf_raw").map(str::to_owned))
        .collect();
    for name in &names {
        check.group(format!("world_runs {name}"));
        let raw = latents(&arrays, &format!("{name}.z_cf_raw"))?;
        if z.is_empty() || !raw.len().is_multiple_of(z.len()) {
            let found = format!("{} of {} samples", raw.len(), z.len());
            return Err(arrays.wrong(&format!("{name}.z_cf_raw"), "as many of each sample", found));
        }
        let n = raw.len() / z.len();
        let near: Vec<Latent> = { raw.iter().enumerate() }
            .map(|(i, z_cf)| bounded(&world.space, &z[i / n], z_cf))
            .collect();
        let after = world.explained().logits(&near).of(name)?;
        let expected = logits(&arrays, &format!("{name}.logits_cf"))?;
        check.close_all(
            "logits_cf",
            &wide(expected.as_flattened()),
            &wide(after.as_flattened()),
            Tolerance::both(1e-5, 1e-4),
        );
        let mut success = Vec::new();
        let mut batches = Vec::new();
        for (place, own) in z.chunks(size).enumerate() {
            let first = place * size;
            let rows = first * n..(first + own.len()) * n;
            let given = Explanations {
                z: own,
                logits: &before[first..first + own.len()],
                z_cf: &near[rows.clone()],
                logits_cf: &after[rows],
            };
            success.extend(
                flags(&world.space, &given)
                    .of(name)?
                    .iter()
                    .map(|f| i64::from(f.successful())),
            );
            batches.push(score_batch(&world.space, &given).of(name)?);
            let line = lines
                .iter()
                .find(|l| l.explainer == *name && l.batch == place);
            if let Some(line) = line {
                check.equal(format!("batch {place} samples"), &line.samples, &own.len());
                let what = format!("batch {place} sce, ncf, cf, trivial, S#, flips");
                check.close_all(what, &values(&line.values), &values(&batches[place]), SCORE);
            }
        }
        let flags = arrays.i64(&format!("{name}.successful"))?;
        check.identical("successful", &flags, &success);
        let stated = lines.iter().filter(|l| l.explainer == *name).count();
        if stated > 0 {
            check.equal("batches of world_batches.csv", &stated, &batches.len());
        }
        let summary = json
            .as_ref()
            .and_then(|j| j.root().get("summary")?.get(name));
        if let Some(summary) = summary {
            let mean = run_average(&batches);
            for (field, got) in [
                ("Cardinality (S#)", mean.cardinality),
                ("SCE", mean.successful),
                ("Non-Causal Flip", mean.non_causal_flip),
                ("Causal Flip", mean.causal_flip),
                ("Trivial", mean.trivial),
                ("estimator_flip_mean_over_batches", mean.estimator_flip),
            ] {
                check.close(field, summary.at(field)?.f64()?, got, SCORE);
            }
            check.equal("batches", &summary.at("batches")?.usize()?, &batches.len());
            summary.skip_fields(&["explainer", "seconds_here"]);
        }
    }
    for line in lines.iter().filter(|l| !names.contains(&l.explainer)) {
        check.unknown(format!("world_batches.csv: explainer {}", line.explainer));
    }
    Ok(())
}

fn values(s: &ReleasedScores) -> [f64; 6] {
    [
        s.successful,
        s.non_causal_flip,
        s.causal_flip,
        s.trivial,
        s.cardinality,
        s.estimator_flip,
    ]
}

fn lines(folder: &Folder) -> Result<Vec<Line>> {
    const FILE: &str = "world_batches.csv";
    let Some(bytes) = folder.bytes(FILE)? else {
        return Ok(Vec::new());
    };
    let wrong = |place: String, expected: &str, found: String| ConformanceError::Content {
        file: folder.name(FILE),
        place,
        expected: expected.into(),
        found,
    };
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let header = reader
        .headers()
        .map_err(|e| wrong("header".into(), "a CSV file", e.to_string()))?
        .clone();
    const COLUMNS: [&str; 9] = [
        "explainer",
        "batch",
        "n_samples",
        "sce",
        "non_causal_flip",
        "causal_flip",
        "trivial",
        "cardinality",
        "estimator_flip_derived",
    ];
    let mut places = [0; 9];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let found = header.iter().position(|h| h == column);
        let lacking = || {
            wrong(
                "header".into(),
                column,
                header.iter().collect::<Vec<_>>().join(", "),
            )
        };
        *place = found.ok_or_else(lacking)?;
    }
    let mut all = Vec::new();
    for (i, record) in reader.records().enumerate() {
        let row = || format!("row {}", i + 2);
        let record = record.map_err(|e| wrong(row(), "a row", e.to_string()))?;
        let text = |k: usize| record.get(places[k]).unwrap_or_default();
        let number = |k: usize| {
            let parsed = text(k).parse::<f64>();
            parsed.map_err(|_| wrong(row(), "a number", text(k).to_owned()))
        };
        all.push(Line {
            explainer: text(0).to_owned(),
            batch: number(1)? as usize,
            samples: number(2)? as usize,
            values: ReleasedScores {
                successful: number(3)?,
                non_causal_flip: number(4)?,
                causal_flip: number(5)?,
                trivial: number(6)?,
                cardinality: number(7)?,
                estimator_flip: number(8)?,
            },
        });
    }
    Ok(all)
}
