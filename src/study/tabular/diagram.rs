//! A critical-difference diagram (Demšar 2006) as SVG: methods on a line of mean ranks, bars over those that do not differ.

use std::fmt::Write;

use super::rank::Ranking;

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 150.0;
const AXIS: f64 = 70.0;
const LINE: f64 = 20.0;

/// The diagram of one ranking.
pub fn critical_difference_svg(ranking: &Ranking) -> String {
    let ranks = &ranking.test.mean_ranks;
    let k = ranks.len();
    let cd = ranking.test.critical_difference;
    let x = |rank: f64| MARGIN + (rank - 1.0) / (k as f64 - 1.0).max(1.0) * (WIDTH - 2.0 * MARGIN);
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|&a, &b| ranks[a].total_cmp(&ranks[b]));
    let bars = groups(&order, ranks, cd);
    let below = AXIS + 12.0 + 8.0 * bars.len() as f64;
    let height = below + LINE * (k as f64 / 2.0).ceil() + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let line = |svg: &mut String, a: [f64; 2], b: [f64; 2], thick: f64| {
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"black\" stroke-width=\"{thick}\"/>",
            a[0], a[1], b[0], b[1]
        );
    };
    let word = |svg: &mut String, at: [f64; 2], anchor: &str, text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
            at[0], at[1]
        );
    };
    let title = format!(
        "{} ({}), N = {}",
        ranking.metric, ranking.group, ranking.test.blocks
    );
    word(&mut svg, [WIDTH / 2.0, 18.0], "middle", &title);
    line(&mut svg, [x(1.0), 36.0], [x(1.0 + cd), 36.0], 2.0);
    word(
        &mut svg,
        [x(1.0 + cd) + 6.0, 40.0],
        "start",
        &format!("CD = {cd:.3}"),
    );
    line(&mut svg, [x(1.0), AXIS], [x(k as f64), AXIS], 1.0);
    for tick in 1..=k {
        line(
            &mut svg,
            [x(tick as f64), AXIS - 5.0],
            [x(tick as f64), AXIS],
            1.0,
        );
        word(
            &mut svg,
            [x(tick as f64), AXIS - 8.0],
            "middle",
            &tick.to_string(),
        );
    }
    for (i, (from, to)) in bars.iter().enumerate() {
        let y = AXIS + 8.0 + 8.0 * i as f64;
        line(&mut svg, [x(*from) - 3.0, y], [x(*to) + 3.0, y], 4.0);
    }
    let half = k.div_ceil(2);
    for (place, &method) in order.iter().enumerate() {
        let left = place < half;
        let row = if left { place } else { k - 1 - place };
        let y = below + LINE * (row as f64 + 1.0);
        let end = if left {
            MARGIN - 10.0
        } else {
            WIDTH - MARGIN + 10.0
        };
        line(
            &mut svg,
            [x(ranks[method]), AXIS],
            [x(ranks[method]), y],
            1.0,
        );
        line(&mut svg, [x(ranks[method]), y], [end, y], 1.0);
        let label = format!("{} {:.2}", ranking.methods[method], ranks[method]);
        let (at, anchor) = if left {
            (end - 4.0, "end")
        } else {
            (end + 4.0, "start")
        };
        word(&mut svg, [at, y + 4.0], anchor, &label);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Longest runs of methods within the critical difference: first and last rank of each.
fn groups(order: &[usize], ranks: &[f64], cd: f64) -> Vec<(f64, f64)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (start, &first) in order.iter().enumerate() {
        let within = |&&m: &&usize| ranks[m] - ranks[first] <= cd;
        let end = start + order[start..].iter().take_while(within).count() - 1;
        let covered = runs.iter().any(|&(s, e)| s <= start && end <= e);
        if end > start && !covered {
            runs.push((start, end));
        }
    }
    runs.into_iter()
        .map(|(s, e)| (ranks[order[s]], ranks[order[e]]))
        .collect()
}
