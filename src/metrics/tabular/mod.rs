//! Metrics of counterfactuals of table rows (\[tabular-benchmark\] Table 3): coverage, sparsity, L2, MADD, MD, RUC, RMC and stability, in the
//! editions in which they were computed.
//!
//! | metric | paper edition (default) | v1 (as published) | v2 |
//! |---|---|---|---|
//! | coverage | the class is the other one | round-half-even(p₁) ≠ class | also p₁ = 0.5 to 5 digits; `validity` needs 0/1 columns and groups that sum to 1 |
//! | sparsity | share of equal features | share of equal encoded columns, rounded to 4 digits | the same |
//! | L2 | Euclidean distance of encoded vectors | both rounded to 4 digits | the same |
//! | MADD | Σ\[differs\]/n over features + mean \|d\|/MAD; MAD 0 → mean absolute deviation | over encoded columns, MAD + 1e-8 of all rows | MAD of training rows |
//! | MD | √((c−u)ᵀ C⁺ (c−u)) to the mean u of all rows | √(dᵀ C d), d = c − x: C was not inverted | C of training rows |
//! | RUC | 0/1 columns are 0 or 1 and numbers in range | the same | 0/1 columns only |
//! | RMC | one 1 in each group, and the rules hold | one entry > 0 in each group; rules instead, one-sided | groups sum to 1 |

mod distances;
mod editions;
mod realism;
mod stability;

pub use distances::{
    Mahalanobis, l2, madd_columns, madd_features, mahalanobis_not_inverted, sparsity_columns,
    sparsity_features,
};
pub use editions::{Edition, Judged, RowScores, Scorer};
pub use realism::{Realism, RealismRules};
pub use stability::stability;
