//! Which metric for what ([xai-bench] section 3.3): printed by `foil attribution metrics --why`, and in the docs.

use super::{Conditional, Metric};

/// What a metric is good for.
pub struct Advice {
    pub metric: Metric,
    /// What it measures, in a line.
    pub measures: &'static str,
    pub take_it: &'static str,
    pub beware: &'static str,
    pub cost: &'static str,
}

/// One entry for each metric of the tables.
pub const ADVICE: [Advice; 5] = [
    Advice {
        metric: Metric::Faithfulness,
        measures: "correlation of |weight| with the change of the prediction when that one feature is unknown",
        take_it: "the question is which single feature would change the prediction of this point most; features are little correlated",
        beware: "looks at one feature at a time: blind to features that only matter together, or that others can stand in for",
        cost: "d expectations per point",
    },
    Advice {
        metric: Metric::Monotonicity,
        measures: "share of steps that change the prediction no more than the step before, when features become known by importance",
        take_it: "the question is what features do together as they are added; features are correlated",
        beware: "only the order of the weights counts; random weights get about one half",
        cost: "d + 1 expectations per point",
    },
    Advice {
        metric: Metric::Roar,
        measures: "error of the model after it was trained again without the most important features (area below the curve)",
        take_it: "the model cannot be trusted on unusual rows, as in many dimensions: a retrained one has seen such rows",
        beware: "correlated features make up for removed ones; judges the data as much as the model",
        cost: "explanations of all training rows and d + 1 trainings",
    },
    Advice {
        metric: Metric::GtShapley,
        measures: "correlation of weights with the Shapley values of the known distribution",
        take_it: "the method claims to approximate Shapley values; models are highly nonlinear (all subsets count)",
        beware: "2^d subsets per point; needs a known distribution, that is synthetic data or a twin",
        cost: "2^d expectations per point",
    },
    Advice {
        metric: Metric::Infidelity,
        measures: "squared error of the weights as a linear forecast of what noise on features does (lower is better)",
        take_it: "features interact strongly: sets of features are changed at once",
        beware: "depends on the kind of noise; blind to the scale of the weights, not to their signs",
        cost: "about a thousand predictions per point",
    },
];

/// What speaks for a conditional.
pub fn conditional_advice(conditional: Conditional) -> &'static str {
    match conditional {
        Conditional::Observational => {
            "true to the data: unknown features follow the known ones, so importance spreads over correlated features, even those the model does \
             not use. For what the data say (which genes go with a response)."
        }
        Conditional::Interventional => {
            "true to the model: unknown features do not depend on the known ones, so features the model does not use get nothing. For what the \
             model did (why a loan was refused)."
        }
    }
}

/// The guide as text.
pub fn guide(why: bool) -> String {
    let mut text = String::new();
    for advice in &ADVICE {
        let better = if advice.metric.lower_is_better() {
            "lower is better"
        } else {
            "higher is better"
        };
        text.push_str(&format!(
            "{} ({better}): {}\n",
            advice.metric.name(),
            advice.measures
        ));
        if why {
            text.push_str(&format!("  take it when: {}\n", advice.take_it));
            text.push_str(&format!("  beware:       {}\n", advice.beware));
            text.push_str(&format!("  cost:         {}\n", advice.cost));
        }
    }
    if why {
        text.push_str(
            "\nroar-faithfulness, roar-monotonicity: the same ideas with retrained models.\n",
        );
        for conditional in [Conditional::Observational, Conditional::Interventional] {
            text.push_str(&format!(
                "--conditional {}: {}\n",
                conditional.name(),
                conditional_advice(conditional)
            ));
        }
    }
    text
}
