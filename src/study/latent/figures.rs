//! Figure 3 (how much each attribute is changed) and Figure 5 (S# over correlation and number of tied typefaces). SVG.

use std::fmt::Write;

use super::rows::Row;
use super::tables::{explainers, mean_and_std, of};
use crate::explain::latent::{Method, Setting};
use crate::metrics::latent::profile::ATTRIBUTES;

const COLOURS: [&str; 7] = [
    "#000000", "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
];
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 46.0;
const BAR: f64 = 9.0;

fn head(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>\n"
    )
}

/// Lines across a plot at round values, with numbers.
fn grid(svg: &mut String, top: f64, [left, right]: [f64; 2], most: f64) {
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let y = top + HEIGHT * (1.0 - f64::from(step) / 4.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.2}</text>",
            left - 6.0,
            y + 4.0
        );
    }
}

fn legend(svg: &mut String, names: &[&str], x: f64) {
    for (i, name) in names.iter().enumerate() {
        let y = TOP + 18.0 * i as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            COLOURS[i % COLOURS.len()],
            x + 18.0,
            y + 11.0,
            Method::title(name)
        );
    }
}

/// Bars of the mean change of each attribute, a panel for each setting, a colour for each explainer.
pub fn profile_svg(rows: &[Row], settings: &[Setting]) -> String {
    let names = explainers(rows);
    let mean = |setting: Setting, name: &str, attribute: usize| {
        let values: Vec<f64> = of(rows, setting, name)
            .iter()
            .map(|r| r.profile[attribute])
            .collect();
        (!values.is_empty()).then(|| mean_and_std(&values).0)
    };
    let mut most: f64 = 1e-9;
    for &setting in settings {
        for name in &names {
            for a in 0..ATTRIBUTES.len() {
                most = most.max(mean(setting, name, a).unwrap_or(0.0));
            }
        }
    }
    let group = BAR * (names.len() as f64 + 1.5);
    let right = LEFT + group * ATTRIBUTES.len() as f64;
    let panel = HEIGHT + 60.0;
    let mut svg = head(
        right + 130.0,
        TOP + panel * settings.len() as f64,
        "mean change of each attribute, in standard deviations",
    );
    for (p, &setting) in settings.iter().enumerate() {
        let top = TOP + panel * p as f64;
        grid(&mut svg, top, [LEFT, right], most);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.1}\">{} tied typefaces, correlation {:.2}</text>",
            top - 6.0,
            setting.spurious,
            setting.correlation()
        );
        for (a, (attribute, _)) in ATTRIBUTES.iter().enumerate() {
            let start = LEFT + group * a as f64 + BAR / 2.0;
            for (m, name) in names.iter().enumerate() {
                let Some(value) = mean(setting, name, a) else {
                    continue;
                };
                let height = HEIGHT * value / most;
                let _ = writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{} {attribute}: {value:.3}</title></rect>",
                    start + BAR * m as f64,
                    top + HEIGHT - height,
                    BAR - 1.5,
                    COLOURS[m % COLOURS.len()],
                    Method::title(name)
                );
            }
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{attribute}</text>",
                start + BAR * names.len() as f64 / 2.0,
                top + HEIGHT + 16.0
            );
        }
    }
    legend(&mut svg, &names, right + 14.0);
    svg.push_str("</svg>\n");
    svg
}

/// S# over the correlation (of the most tied typefaces) and over their number (at the largest correlation), exact.
pub fn sensitivity_svg(rows: &[Row], settings: &[Setting]) -> String {
    let names = explainers(rows);
    let spurious = settings.iter().map(|s| s.spurious).max().unwrap_or(0);
    let percent = settings.iter().map(|s| s.percent).max().unwrap_or(0);
    let by_correlation: Vec<Setting> = settings
        .iter()
        .filter(|s| s.spurious == spurious)
        .copied()
        .collect();
    let by_number: Vec<Setting> = settings
        .iter()
        .filter(|s| s.percent == percent)
        .copied()
        .collect();
    let value = |setting: Setting, name: &str| {
        let all: Vec<f64> = of(rows, setting, name)
            .iter()
            .map(|r| r.exact.cardinality)
            .collect();
        (!all.is_empty()).then(|| mean_and_std(&all))
    };
    let mut most: f64 = 1.0;
    for &setting in settings {
        for name in &names {
            most = most.max(value(setting, name).map_or(0.0, |(m, s)| m + s));
        }
    }
    let panel = 260.0;
    let mut svg = head(
        LEFT + 2.0 * panel + 140.0,
        TOP + HEIGHT + 50.0,
        "S# (exact)",
    );
    for (p, (what, points)) in [
        (
            format!("correlation, {spurious} tied typefaces"),
            by_correlation,
        ),
        (
            format!("tied typefaces, correlation 0.{percent}"),
            by_number,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let left = LEFT + panel * p as f64;
        let right = left + panel - 60.0;
        grid(&mut svg, TOP, [left, right], most);
        let x = |i: usize| match points.len() {
            0 | 1 => (left + right) / 2.0,
            n => left + 20.0 + (right - left - 40.0) * i as f64 / (n - 1) as f64,
        };
        let y = |v: f64| TOP + HEIGHT * (1.0 - v / most);
        for (i, setting) in points.iter().enumerate() {
            let tick = match p {
                0 => format!("{:.2}", setting.correlation()),
                _ => setting.spurious.to_string(),
            };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                x(i),
                TOP + HEIGHT + 16.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{what}</text>",
            (left + right) / 2.0,
            TOP + HEIGHT + 36.0
        );
        for (m, name) in names.iter().enumerate() {
            let colour = COLOURS[m % COLOURS.len()];
            let at: Vec<(f64, f64, f64)> = { points.iter().enumerate() }
                .filter_map(|(i, s)| value(*s, name).map(|(mean, std)| (x(i), mean, std)))
                .collect();
            let line: Vec<String> = at
                .iter()
                .map(|(x, v, _)| format!("{x:.1},{:.1}", y(*v)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                line.join(" ")
            );
            for (x, v, std) in at {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {v:.2} ± {std:.2}</title></circle>",
                    y(v),
                    Method::title(name)
                );
            }
        }
    }
    legend(&mut svg, &names, LEFT + 2.0 * panel - 30.0);
    svg.push_str("</svg>\n");
    svg
}
