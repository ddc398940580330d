//! Joint decision of a committee of oracles, image by image.
//!
//! The papers report each oracle on its own; how votes are joined is this project's definition:
//! plurality (lowest class index on tied votes), strict majority (more than half, otherwise abstain), unanimity, and the class of
//! the highest mean probability.

use serde::{Deserialize, Serialize};

use super::error::{MetricError, Result};

/// Votes for one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ballot {
    /// Votes for each class.
    pub counts: Vec<usize>,
    /// Class with most votes, lowest index on ties.
    pub plurality: usize,
    /// Whether another class has as many votes.
    pub tied: bool,
    /// Class with more than half of the votes.
    pub strict_majority: Option<usize>,
    /// Class with all the votes.
    pub unanimous: Option<usize>,
}

/// What a ballot comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// See [`Ballot`].
    pub plurality: usize,
    pub tied: bool,
    pub strict_majority: Option<usize>,
    pub unanimous: Option<usize>,
}

impl Vote {
    /// Of so many oracles, `most` of which name the plurality.
    pub fn new(plurality: usize, tied: bool, most: usize, oracles: usize) -> Self {
        Self {
            plurality,
            tied,
            strict_majority: (2 * most > oracles).then_some(plurality),
            unanimous: (most == oracles).then_some(plurality),
        }
    }
}

impl From<&Ballot> for Vote {
    fn from(ballot: &Ballot) -> Self {
        Self {
            plurality: ballot.plurality,
            tied: ballot.tied,
            strict_majority: ballot.strict_majority,
            unanimous: ballot.unanimous,
        }
    }
}

/// Counts the votes of `predictions` (one list per oracle, one class per image) over `classes` classes.
pub fn count_votes(predictions: &[Vec<usize>], classes: usize) -> Result<Vec<Ballot>> {
    let Some(first) = predictions.first() else {
        return Err(MetricError::TooFew {
            metric: "a committee",
            what: "oracles".to_owned(),
            needed: 1,
            found: 0,
        });
    };
    let n = first.len();
    for (oracle, votes) in predictions.iter().enumerate() {
        if votes.len() != n {
            return Err(MetricError::shape(
                format!("predictions of oracle {oracle}"),
                format!("{n} images"),
                format!("{} images", votes.len()),
            ));
        }
        if let Some(row) = votes.iter().position(|&class| class >= classes) {
            return Err(MetricError::LabelOutOfRange {
                what: format!("predictions of oracle {oracle}"),
                row,
                label: votes[row] as i64,
                classes,
            });
        }
    }
    Ok((0..n).map(|i| ballot(predictions, i, classes)).collect())
}

/// Votes of each class for one image.
pub(crate) fn counts(predictions: &[Vec<usize>], image: usize, classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    for votes in predictions {
        counts[votes[image]] += 1;
    }
    counts
}

fn ballot(predictions: &[Vec<usize>], image: usize, classes: usize) -> Ballot {
    let oracles = predictions.len();
    let counts = counts(predictions, image, classes);
    let most = counts.iter().copied().max().unwrap_or(0);
    let plurality = counts.iter().position(|&c| c == most).unwrap_or(0);
    Ballot {
        plurality,
        tied: counts.iter().filter(|&&c| c == most).count() > 1,
        strict_majority: (2 * most > oracles).then_some(plurality),
        unanimous: (most == oracles).then_some(plurality),
        counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_votes_go_to_the_lowest_class_and_give_no_majority() {
        let ballots = count_votes(&[vec![2, 1], vec![0, 1], vec![2, 1], vec![0, 1]], 3).unwrap();
        assert_eq!(ballots[0].counts, [2, 0, 2]);
        assert_eq!((ballots[0].plurality, ballots[0].tied), (0, true));
        assert_eq!(ballots[0].strict_majority, None);
        assert_eq!(ballots[1].unanimous, Some(1));
        assert_eq!(ballots[1].strict_majority, Some(1));
        assert!(!ballots[1].tied);
    }

    #[test]
    fn missing_oracles_and_uneven_votes_are_errors() {
        assert!(count_votes(&[], 3).is_err());
        assert!(count_votes(&[vec![0], vec![0, 1]], 3).is_err());
        assert!(count_votes(&[vec![3]], 3).is_err());
    }
}
