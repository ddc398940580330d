//! Lines with bands of one standard deviation, as SVG.

use std::fmt::Write;

const COLOURS: [&str; 9] = [
    "#888888", "#4477aa", "#228833", "#ccbb44", "#ee6677", "#66ccee", "#aa3377", "#000000",
    "#994400",
];
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 36.0;

/// One line: x, mean and standard deviation of each point.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64, f64)>,
}

/// The plot; the axis of values holds all bands, and 0.
pub fn figure(title: &str, x_name: &str, y_name: &str, lines: &[Line]) -> String {
    let all = lines
        .iter()
        .flat_map(|l| &l.points)
        .filter(|p| p.1.is_finite() && p.2.is_finite());
    let (mut low, mut high, mut first, mut last) =
        (0.0f64, 0.0f64, f64::INFINITY, f64::NEG_INFINITY);
    for (x, mean, std) in all {
        low = low.min(mean - std);
        high = high.max(mean + std);
        (first, last) = (first.min(*x), last.max(*x));
    }
    let spread = if high > low { high - low } else { 1.0 };
    let across = if last > first { last - first } else { 1.0 };
    let px = |x: f64| LEFT + (x - first) / across * WIDTH;
    let py = |y: f64| TOP + (high - y) / spread * HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"13\">{}</text>\n",
        LEFT + WIDTH + 120.0,
        TOP + HEIGHT + 50.0,
        escaped(title)
    );
    let step = [0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|s| spread / s <= 8.0);
    let step = step.unwrap_or(spread / 5.0);
    let mut tick = (low / step).ceil() * step;
    while tick <= high + 1e-9 {
        let at = py(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.2}</text>",
            LEFT + WIDTH,
            LEFT - 6.0,
            at + 4.0,
            tick + 0.0
        );
        tick += step;
    }
    let mut places: Vec<f64> = lines
        .iter()
        .flat_map(|l| l.points.iter().map(|p| p.0))
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for x in places {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
            px(x),
            TOP + HEIGHT + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 36.0,
        escaped(x_name),
        TOP + HEIGHT / 2.0,
        escaped(y_name)
    );
    for (k, line) in lines.iter().enumerate() {
        let colour = COLOURS[k % COLOURS.len()];
        let at = |(x, y): (f64, f64)| format!("{:.1},{:.1}", px(x), py(y));
        let upper = line.points.iter().map(|(x, m, s)| (*x, m + s));
        let lower = line.points.iter().rev().map(|(x, m, s)| (*x, m - s));
        let band: Vec<String> = upper.chain(lower).map(at).collect();
        let middle: Vec<String> = line.points.iter().map(|(x, m, _)| at((*x, *m))).collect();
        let _ = writeln!(
            svg,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.15\"/><polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
            band.join(" "),
            middle.join(" ")
        );
        let y = TOP + 18.0 * k as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + WIDTH + 14.0,
            LEFT + WIDTH + 32.0,
            y + 11.0,
            escaped(&line.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_band_and_names_are_escaped() {
        let line = Line {
            name: "a<b".into(),
            points: vec![(0.0, 1.0, 0.5), (1.0, 0.5, 0.5)],
        };
        let svg = figure("t", "rho", "faithfulness", &[line]);
        // The axis runs from 0 to 1.5, the height is 260.
        assert!(svg.contains("60.0,122.7 480.0,209.3"), "{svg}");
        assert!(
            svg.contains("60.0,36.0 480.0,122.7 480.0,296.0 60.0,209.3"),
            "{svg}"
        );
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert!(figure("t", "x", "y", &[]).ends_with("</svg>\n"));
    }
}
