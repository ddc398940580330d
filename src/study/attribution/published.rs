//! Table 1 of [xai-bench]: mean ± standard deviation over ten trials, and which fault of the released code explains a cell.

/// Trials behind each published mean.
pub const PUBLISHED_TRIALS: f64 = 10.0;

/// Columns of the table.
pub const EXPLAINERS: [&str; 7] = [
    "random",
    "shap",
    "shapr",
    "lime",
    "maple",
    "l2x",
    "breakdown",
];

const TABLE: [(&str, [(f64, f64); 7]); 5] = [
    (
        "faithfulness",
        [
            (0.002, 0.034),
            (0.651, 0.051),
            (0.799, 0.036),
            (0.524, 0.06),
            (0.478, 0.061),
            (0.0, 0.075),
            (0.11, 0.049),
        ],
    ),
    (
        "monotonicity",
        [
            (0.525, 0.017),
            (0.537, 0.014),
            (0.55, 0.025),
            (0.517, 0.022),
            (0.543, 0.026),
            (0.535, 0.022),
            (0.562, 0.021),
        ],
    ),
    (
        "roar",
        [
            (0.38, 0.051),
            (0.455, 0.054),
            (0.465, 0.054),
            (0.432, 0.051),
            (0.432, 0.059),
            (0.365, 0.053),
            (0.329, 0.057),
        ],
    ),
    (
        "gt-shapley",
        [
            (0.004, 0.049),
            (0.81, 0.023),
            (0.93, 0.012),
            (0.711, 0.032),
            (0.53, 0.128),
            (-0.014, 0.068),
            (-0.127, 0.066),
        ],
    ),
    (
        "infidelity",
        [
            (0.114, 0.058),
            (0.05, 0.023),
            (0.036, 0.013),
            (0.053, 0.016),
            (0.019, 0.011),
            (0.025, 0.01),
            (0.126, 0.057),
        ],
    ),
];

/// Mean and standard deviation of a cell.
pub fn published(metric: &str, explainer: &str) -> Option<(f64, f64)> {
    let column = EXPLAINERS.iter().position(|e| *e == explainer)?;
    let row = TABLE.iter().find(|(m, _)| *m == metric)?;
    Some(row.1[column])
}

/// Faults of the released code that decide a cell, by a letter below the table.
pub const FAULTS: [(char, &str); 6] = [
    (
        'a',
        "monotonicity compares changes between unrelated sets: the prediction after feature j is kept at place j, not at its step",
    ),
    (
        'b',
        "L2X is trained for one step, with responses taken for probabilities",
    ),
    (
        'c',
        "breakDown returns weights in the order of importance, not of features",
    ),
    (
        'd',
        "infidelity replaces all features by clip(−0.2 z, 0, 1), whatever the data are",
    ),
    (
        'e',
        "ROAR replaces a removed feature by one random draw, and rounds shares of 5 features down, so that two of its six points remove nothing and none removes all",
    ),
    (
        'f',
        "SHAPR has σ = 0.4 for all subsets and takes single features for unconditional",
    ),
];

/// The faults behind a cell.
pub fn faults(metric: &str, explainer: &str) -> Vec<char> {
    let mut found = Vec::new();
    match metric {
        "monotonicity" => found.push('a'),
        "infidelity" => found.push('d'),
        "roar" => found.push('e'),
        _ => {}
    }
    match explainer {
        "l2x" => found.push('b'),
        "breakdown" => found.push('c'),
        "shapr" => found.push('f'),
        _ => {}
    }
    found
}
