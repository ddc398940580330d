//! `foil tabular recommend`.

use std::path::PathBuf;

use clap::Args;

use super::files::{DataArgs, Model};
use super::rank::{read_results, usage};
use crate::cli::print;
use crate::study::tabular::{Recommendation, recommend};
use crate::tabular::Network;

#[derive(Args)]
pub struct RecommendArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The model: a network (.safetensors), any model (.onnx) or a table of answers (.csv)
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// What won elsewhere: results of `foil study tabular`, files or folders
    #[arg(long, value_name = "FILE|DIR", required = true, num_args = 1..)]
    results: Vec<PathBuf>,
    /// Realistic counterfactuals only
    #[arg(long)]
    realistic: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &RecommendArgs) -> anyhow::Result<()> {
    let prepared = args.data.prepare(true)?;
    let model = Model::open(&args.model, &prepared)?;
    let predictor = model.predictor();
    let results = read_results(&args.results)?;
    let labels = prepared.table.labels();
    let predicted = prepared.predicted(predictor);
    let numerical = prepared.encoding.numerical().len();
    let mut answers: Vec<(usize, Recommendation)> = Vec::new();
    for class in 0..2 {
        let rows: Vec<usize> = prepared
            .split
            .test
            .iter()
            .copied()
            .filter(|&r| predicted[r] == class)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let n = rows.len() as f64;
        let flat: Vec<f64> = rows
            .iter()
            .flat_map(|&r| prepared.rows[r].iter().copied())
            .collect();
        let sure: f64 = predictor
            .probabilities(&flat)
            .iter()
            .map(|p| p[class])
            .sum::<f64>()
            / n;
        let share = labels.iter().filter(|&&l| l == class).count() as f64 / labels.len() as f64;
        // A typical factual of the class: rightly classified, as sure as they are on average.
        let problem = [
            predictor.network().map_or(0, Network::hidden) as f64,
            prepared.auc(predictor, &prepared.split.test),
            prepared.train.len() as f64,
            numerical as f64,
            (prepared.encoding.width() - numerical) as f64,
            0.0,
            sure,
            share,
        ];
        for metric in ["sparsity", "l2", "madd", "md", "time"] {
            let answer = recommend(&results, metric, args.realistic, &problem).map_err(usage)?;
            answers.push((class, answer));
        }
    }
    if args.json {
        let list: Vec<serde_json::Value> = answers
            .iter()
            .map(|(class, r)| serde_json::json!({"factual_class": class, "recommendation": r}))
            .collect();
        return print(&format!("{}\n", serde_json::to_string_pretty(&list)?));
    }
    let mut text = String::new();
    for (class, answer) in &answers {
        let because = match answer.because.is_empty() {
            true => "one method wins everywhere".to_string(),
            false => answer.because.join(", "),
        };
        text.push_str(&format!(
            "factuals of class {class}, {}: {} (won {:.0} % of the like; {because}; the tree is right about {:.0} % of {} factuals)\n",
            answer.metric,
            answer.method,
            100.0 * answer.share,
            100.0 * answer.accuracy,
            answer.factuals
        ));
    }
    print(&text)
}
