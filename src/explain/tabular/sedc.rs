//! SEDC (Martens & Provost 2014; Fernández-Loría et al. 2020): which features, replaced by their mean, change the class? Best first.
//!
//! A queue of sets of features, ordered by the score of the factual's class once they are replaced. The first set is taken: if it changes the class it is
//! pruned and is an explanation, else it is extended by every other feature. Replacement values are the means of the training rows; in the `correct`
//! variant the most frequent category and value of categorical and binary features, and what is replaced is a feature, not a column.
//!
//! As benchmarked: columns are replaced one by one (a category becomes a vector of shares), 20 sets are taken, and in tables without numbers the search
//! replaces by 0 (the array held whole numbers) while the result holds the means, so it is often not valid.

use super::{Found, Problem};
use crate::tabular::{Kind, Kinds, Predictor, SinglePrecision};

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct SedcParams {
    /// Sets taken from the queue.
    pub expansions: usize,
}

impl Default for SedcParams {
    fn default() -> Self {
        Self { expansions: 20 }
    }
}

/// Largest set all of whose subsets are tried.
const MOST_SUBSETS: usize = 16;

/// The probability of the factual's own class.
type Score<'a> = Box<dyn Fn(&[f64]) -> f64 + 'a>;

/// What replacing a set of parts gives.
struct Search<'a> {
    /// Columns of each part that can be replaced.
    parts: Vec<Vec<usize>>,
    factual: &'a [f64],
    /// Replacement values during the search.
    defaults: Vec<f64>,
    score: Score<'a>,
}

impl Search<'_> {
    fn replaced(&self, set: &[usize]) -> Vec<f64> {
        let mut x = self.factual.to_vec();
        for &part in set {
            self.parts[part]
                .iter()
                .for_each(|&c| x[c] = self.defaults[c]);
        }
        x
    }

    fn score_of(&self, set: &[usize]) -> f64 {
        (self.score)(&self.replaced(set))
    }

    /// Explanations in the order in which they are found.
    fn run(&self, problem: &Problem<'_>, params: SedcParams, wanted: usize) -> Vec<Vec<usize>> {
        let mut queue: Vec<(f64, Vec<usize>)> = Vec::new();
        let insert = |queue: &mut Vec<(f64, Vec<usize>)>, set: Vec<usize>| {
            let score = self.score_of(&set);
            let at = queue.partition_point(|(s, _)| *s <= score);
            queue.insert(at, (score, set));
        };
        (0..self.parts.len()).for_each(|part| insert(&mut queue, vec![part]));
        let mut found: Vec<Vec<usize>> = Vec::new();
        for _ in 0..params.expansions {
            if queue.is_empty() || found.len() >= wanted || problem.clock.is_over() {
                break;
            }
            let (score, set) = queue.remove(0);
            let covered = |set: &[usize]| found.iter().any(|f| f.iter().all(|p| set.contains(p)));
            if score < 0.5 {
                if !covered(&set) {
                    found.push(self.pruned(set));
                }
                continue;
            }
            for part in (0..self.parts.len()).filter(|p| !set.contains(p)) {
                let mut larger = set.clone();
                larger.push(part);
                larger.sort_unstable();
                if !covered(&larger) && !queue.iter().any(|(_, s)| *s == larger) {
                    insert(&mut queue, larger);
                }
            }
        }
        found
    }

    /// A smaller set that changes the class as well: subsets of two and more by decreasing size, in the order of their bit masks. Sets too large for
    /// that are shortened by one member at a time.
    fn pruned(&self, mut set: Vec<usize>) -> Vec<usize> {
        while let Some(smaller) = self.smaller(&set) {
            set = smaller;
        }
        set
    }

    fn smaller(&self, set: &[usize]) -> Option<Vec<usize>> {
        let n = set.len();
        let changes = |subset: &Vec<usize>| self.score_of(subset) < 0.5;
        if n > MOST_SUBSETS {
            let without =
                |i: usize| -> Vec<usize> { set.iter().copied().filter(|&p| p != set[i]).collect() };
            return (0..n).map(without).find(changes);
        }
        let of_mask = |mask: u32| -> Vec<usize> {
            (0..n)
                .filter(|i| mask >> i & 1 == 1)
                .map(|i| set[i])
                .collect()
        };
        (2..n).rev().find_map(|size| {
            let masks = (0u32..1 << n).filter(|m| m.count_ones() as usize == size);
            masks.map(of_mask).find(changes)
        })
    }
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: SedcParams) -> Found {
    let space = problem.space;
    let typical = typical_row(problem);
    let mut defaults = typical.clone();
    for c in space.encoding.numerical() {
        let [low, high] = space.box_of(c, problem.factual);
        defaults[c] = space.statistics.mean[c].clamp(low, high);
    }
    let changeable = |&f: &usize| space.mutable[f] && space.differs(f, problem.factual, &defaults);
    let parts: Vec<Vec<usize>> = (0..space.features())
        .filter(changeable)
        .map(|f| space.columns(f).to_vec())
        .collect();
    let realised = |x: &[f64]| space.realise(problem.factual, x);
    let search = Search {
        parts,
        factual: problem.factual,
        defaults,
        score: Box::new(|x| 1.0 - problem.probability(&realised(x))),
    };
    let sets = search.run(problem, params, problem.k.max(1));
    let mut points: Vec<Vec<f64>> = sets.iter().map(|s| realised(&search.replaced(s))).collect();
    points.retain(|x| problem.accepts(x));
    Found::many(points, &problem.clock)
}

/// The most frequent category and value of the training rows.
fn typical_row(problem: &Problem<'_>) -> Vec<f64> {
    let space = problem.space;
    let mut row = vec![0.0; space.encoding.width()];
    for feature in 0..space.features() {
        let columns = space.columns(feature);
        let mean = |c: usize| space.statistics.mean[c];
        match space.kind(feature) {
            Kind::Numerical => row[columns[0]] = mean(columns[0]),
            Kind::Binary => row[columns[0]] = f64::from(u8::from(mean(columns[0]) > 0.5)),
            Kind::Categorical => {
                let mut best = 0;
                for i in 0..columns.len() {
                    if mean(columns[i]) > mean(columns[best]) {
                        best = i;
                    }
                }
                space.set_category(feature, best, &mut row);
            }
        }
    }
    row
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: SedcParams) -> super::Result<Found> {
    let space = problem.space;
    let single = SinglePrecision(problem.network("sedc")?);
    let means = &space.statistics.mean;
    let whole_numbers = space.encoding.kinds() == Kinds::Categorical;
    let defaults = match whole_numbers {
        true => means.iter().map(|m| m.trunc()).collect(),
        false => means.clone(),
    };
    let active = |c: &usize| problem.factual[*c] != means[*c];
    let search = Search {
        parts: (0..means.len()).filter(active).map(|c| vec![c]).collect(),
        factual: problem.factual,
        defaults,
        score: Box::new(|x| 1.0 - single.probability(x, problem.target)),
    };
    let sets = search.run(problem, params, 1);
    let result = sets.first().map(|set| {
        let mut x = problem.factual.to_vec();
        for &part in set {
            search.parts[part].iter().for_each(|&c| x[c] = means[c]);
        }
        x
    });
    Ok(Found::one(result, &problem.clock))
}
