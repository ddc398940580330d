//! Figure 5: Label Variation Scores as bars, a group for each label, a bar for each method, with 95 % intervals. SVG.

use std::fmt::Write;

use super::MethodScores;

pub(super) const COLOURS: [&str; 6] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
];
/// Of the plot, in pixels.
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const BAR: f64 = 26.0;

/// The chart; none if no method has such scores. The axis ends at ln 2, the largest divergence.
pub fn label_variation_svg(title: &str, methods: &[MethodScores]) -> Option<String> {
    let of = |name: &str| name.strip_prefix("label_variation/").map(str::to_owned);
    let mut labels: Vec<String> = methods
        .iter()
        .flat_map(|m| m.scores.keys().filter_map(|name| of(name)))
        .collect();
    labels.sort();
    labels.dedup();
    if labels.is_empty() {
        return None;
    }
    let most = std::f64::consts::LN_2;
    let group = BAR * (methods.len() as f64 + 1.0);
    let width = LEFT + group * labels.len() as f64 + 130.0;
    let y = |value: f64| TOP + HEIGHT * (1.0 - value.clamp(0.0, most) / most);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        TOP + HEIGHT + 40.0,
        escaped(title)
    );
    for (value, name) in [(0.0, "0"), (most / 2.0, "½ ln 2"), (most, "ln 2")] {
        let at = y(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#cccccc\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            width - 120.0,
            LEFT - 6.0,
            at + 4.0
        );
    }
    for (g, label) in labels.iter().enumerate() {
        let start = LEFT + group * g as f64 + BAR / 2.0;
        for (m, method) in methods.iter().enumerate() {
            let Some(score) = method.scores.get(&format!("label_variation/{label}")) else {
                continue;
            };
            let Some(value) = score.value else {
                continue;
            };
            let (x, top) = (start + BAR * m as f64, y(value));
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{} {}: {value:.4}</title></rect>",
                BAR - 4.0,
                TOP + HEIGHT - top,
                COLOURS[m % COLOURS.len()],
                escaped(&method.method),
                escaped(label)
            );
            if let Some([low, high]) = score.ci95 {
                let middle = x + (BAR - 4.0) / 2.0;
                let _ = writeln!(
                    svg,
                    "<line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"black\"/>",
                    y(low),
                    y(high)
                );
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            start + BAR * methods.len() as f64 / 2.0,
            TOP + HEIGHT + 18.0,
            escaped(label)
        );
    }
    for (m, method) in methods.iter().enumerate() {
        let at = TOP + 18.0 * m as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{at:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            width - 110.0,
            COLOURS[m % COLOURS.len()],
            width - 92.0,
            at + 11.0,
            escaped(&method.method)
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Score;

    #[test]
    fn a_bar_for_each_method_and_label_as_high_as_its_score() {
        let method = |name: &str, value: f64| MethodScores {
            method: name.into(),
            place: String::new(),
            scores: [(
                "label_variation/dot<".to_owned(),
                Score {
                    value: Some(value),
                    n: 2,
                    ci95: Some([value - 0.01, value + 0.01]),
                    ..Score::default()
                },
            )]
            .into(),
            fingerprints: Default::default(),
            notes: Vec::new(),
        };
        let methods = [
            method("GB", std::f64::consts::LN_2 / 2.0),
            method("GEN", std::f64::consts::LN_2),
        ];
        let svg = label_variation_svg("LVS", &methods).unwrap();
        assert!(
            svg.contains("height=\"110.0\"") && svg.contains("height=\"220.0\""),
            "{svg}"
        );
        assert!(svg.contains("dot&lt;") && !svg.contains("dot<"));
        assert!(label_variation_svg("LVS", &[]).is_none());
    }
}
