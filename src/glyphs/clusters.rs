//! k-means (Lloyd 1982) of points in three dimensions, the same for the same points on every machine.

/// Most rounds of Lloyd's iteration; it ends when no point changes its cluster.
const ROUNDS: usize = 300;

type Point = [f64; 3];

fn square_distance(a: &Point, b: &Point) -> f64 {
    (0..3).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum()
}

fn mean(points: impl Iterator<Item = Point>) -> Option<Point> {
    let (mut sum, mut count) = ([0.0; 3], 0usize);
    for point in points {
        for k in 0..3 {
            sum[k] += point[k];
        }
        count += 1;
    }
    (count > 0).then(|| sum.map(|v| v / count as f64))
}

/// Place of the centre that is nearest; the first of equals.
fn nearest(point: &Point, centres: &[Point]) -> usize {
    let mut best = (f64::INFINITY, 0);
    for (k, centre) in centres.iter().enumerate() {
        let distance = square_distance(point, centre);
        if distance < best.0 {
            best = (distance, k);
        }
    }
    best.1
}

/// Centres of `k` clusters, at most as many as there are points. The first start is the point nearest to the mean, each
/// further one the point farthest from those before.
pub fn k_means(points: &[Point], k: usize) -> Vec<Point> {
    let k = k.min(points.len());
    let mut centres: Vec<Point> = Vec::with_capacity(k);
    if let Some(middle) = mean(points.iter().copied()).filter(|_| k > 0) {
        let first = points
            .iter()
            .min_by(|a, b| square_distance(a, &middle).total_cmp(&square_distance(b, &middle)));
        centres.extend(first);
    }
    while centres.len() < k {
        let gap = |p: &Point| square_distance(p, &centres[nearest(p, &centres)]);
        let farthest = points.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)));
        let Some(&farthest) = farthest else { break };
        centres.push(farthest);
    }
    let mut cluster = vec![usize::MAX; points.len()];
    for _ in 0..ROUNDS {
        let now: Vec<usize> = points.iter().map(|p| nearest(p, &centres)).collect();
        if now == cluster {
            break;
        }
        cluster = now;
        for (c, centre) in centres.iter_mut().enumerate() {
            let members = points.iter().zip(&cluster).filter(|(_, own)| **own == c);
            *centre = mean(members.map(|(p, _)| *p)).unwrap_or(*centre);
        }
    }
    centres
}

/// For each cluster of [`k_means`] the point nearest to its centre that no cluster before has taken.
pub fn representatives(points: &[Point], k: usize) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::with_capacity(k);
    for centre in k_means(points, k) {
        let free = (0..points.len()).filter(|i| !taken.contains(i));
        let distance = |i: &usize| square_distance(&points[*i], &centre);
        let nearest = free.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        taken.extend(nearest);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_groups_are_found() {
        let groups = [[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 9.0]];
        let points: Vec<Point> = (0..30)
            .map(|i| {
                let mut point = groups[i % 3];
                point[i % 2] += 0.1 * (i / 3) as f64;
                point
            })
            .collect();
        let chosen = representatives(&points, 3);
        let mut found: Vec<usize> = chosen.iter().map(|i| i % 3).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2]);
    }

    #[test]
    fn equal_points_are_chosen_once_each() {
        let points = [[1.0; 3]; 4];
        assert_eq!(representatives(&points, 4), [0, 1, 2, 3]);
        assert_eq!(representatives(&points, 9).len(), 4);
        assert!(representatives(&[], 2).is_empty());
        assert!(representatives(&points, 0).is_empty());
    }
}
