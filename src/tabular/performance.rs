//! How good a classifier is.

/// Area under the receiver operating characteristic of `scores` for the rows whose label is 1; ties count half.
/// `None` if one of the labels is absent.
pub fn area_under_curve(scores: &[f64], labels: &[usize]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let positives = labels.iter().filter(|&&l| l == 1).count();
    let negatives = labels.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    // Mann–Whitney: ranks of the positives, ties sharing the mean of their ranks.
    let (mut sum, mut start) = (0.0, 0);
    while start < order.len() {
        let same = |&&at: &&usize| scores[at] == scores[order[start]];
        let end = start + order[start..].iter().take_while(same).count().max(1);
        let rank = (start + 1 + end) as f64 / 2.0;
        let hits = order[start..end]
            .iter()
            .filter(|&&at| labels[at] == 1)
            .count();
        sum += rank * hits as f64;
        start = end;
    }
    let (p, n) = (positives as f64, negatives as f64);
    Some((sum - p * (p + 1.0) / 2.0) / (p * n))
}

/// Share of rows whose class (1 where the score is above one half) is their label.
pub fn accuracy(scores: &[f64], labels: &[usize]) -> f64 {
    let each = scores.iter().zip(labels);
    let right = each.filter(|(s, l)| usize::from(**s > 0.5) == **l).count();
    right as f64 / labels.len() as f64
}
