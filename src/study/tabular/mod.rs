//! The study of \[tabular-benchmark\]: methods × data sets, scored, ranked, and what a decision tree makes of it.

mod data;
mod diagram;
mod error;
mod rank;
mod recommend;
mod results;
mod run;

pub use data::{StudySet, find_sets};
pub use diagram::critical_difference_svg;
pub use error::TabularStudyError;
pub use rank::{Constraint, Ranking, rank_all, rank_text};
pub use recommend::{Recommendation, TREE_FEATURES, recommend};
pub use results::{ResultRow, Results};
pub use run::{Task, TaskSettings, by_data_set, run_task, summary};

type Result<T> = std::result::Result<T, TabularStudyError>;
