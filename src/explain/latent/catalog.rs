//! The explainers by name, with their settings. A new method is a name in [`NAMES`], a [`Method`] and a line in each `match` of it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::dice::Dice;
use super::dive::{Dive, Xgem};
use super::informed::Informed;
use super::latent_cf::LatentCf;
use super::spheres::Spheres;
use super::stylex::StylEx;
use super::{Explainer, LatentError, Result, Variant, World};

/// Names of all explainers, in the order of the paper's tables.
pub const NAMES: [&str; 7] = ["is", "dice", "dive", "gs", "stylex", "latent-cf", "xgem"];

/// An explainer with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "explainer", rename_all = "kebab-case")]
pub enum Method {
    Is { variant: Variant },
    Dice(Dice),
    Dive(Dive),
    Gs(Spheres),
    Stylex(StylEx),
    LatentCf(LatentCf),
    Xgem(Xgem),
}

impl Method {
    /// The paper's settings, but for `settings` (name and value).
    pub fn new(name: &str, variant: Variant, settings: &[(String, String)]) -> Result<Self> {
        let method = match name {
            "is" => {
                if let Some((key, _)) = settings.first() {
                    return Err(unknown(name, key, "none"));
                }
                Method::Is { variant }
            }
            "dice" => Method::Dice(with(name, Dice::default(), variant, settings)?),
            "dive" => Method::Dive(with(name, Dive::default(), variant, settings)?),
            "gs" => Method::Gs(with(name, Spheres::default(), variant, settings)?),
            "stylex" => Method::Stylex(with(name, StylEx::default(), variant, settings)?),
            "latent-cf" => Method::LatentCf(with(name, LatentCf::default(), variant, settings)?),
            "xgem" => Method::Xgem(with(name, Xgem::default(), variant, settings)?),
            other => {
                let expected = format!("one of {}", NAMES.join(", "));
                return Err(LatentError::setting("explainer", expected, other));
            }
        };
        method.check()?;
        Ok(method)
    }

    pub fn name(&self) -> &'static str {
        match self {
            Method::Is { .. } => "is",
            Method::Dice(_) => "dice",
            Method::Dive(_) => "dive",
            Method::Gs(_) => "gs",
            Method::Stylex(_) => "stylex",
            Method::LatentCf(_) => "latent-cf",
            Method::Xgem(_) => "xgem",
        }
    }

    /// As a table's heading has it.
    pub fn title(name: &str) -> &str {
        match name {
            "is" => "IS",
            "dice" => "DiCE",
            "dive" => "DiVE",
            "gs" => "GS",
            "stylex" => "StylEx",
            "latent-cf" => "Latent-CF",
            "xgem" => "xGEM",
            other => other,
        }
    }

    /// The explainer for a world.
    pub fn build(&self, world: &World) -> Result<Box<dyn Explainer>> {
        Ok(match *self {
            Method::Is { variant } => {
                Box::new(Informed::new(&world.space, world.tied.clone(), variant)?)
            }
            Method::Dice(dice) => Box::new(dice),
            Method::Dive(dive) => Box::new(dive.for_world(&world.explained())?),
            Method::Gs(spheres) => Box::new(spheres),
            Method::Stylex(stylex) => Box::new(stylex),
            Method::LatentCf(latent_cf) => Box::new(latent_cf),
            Method::Xgem(xgem) => Box::new(xgem),
        })
    }

    /// Refuses settings that make no sense.
    fn check(&self) -> Result<()> {
        let refuse = |what: &str, expected: &str, found: f64| {
            let what = format!("setting {what} of {}", self.name());
            Err(LatentError::setting(what, expected, found))
        };
        let (rate, iterations) = match self {
            Method::Dice(m) => (m.rate, m.iterations),
            Method::Dive(m) => (m.rate, m.iterations),
            Method::LatentCf(m) => (m.rate, m.iterations),
            Method::Xgem(m) => (m.rate, m.iterations),
            _ => (1.0, 1),
        };
        if !(rate > 0.0 && rate <= 1e6) {
            return refuse("rate", "a number above 0, up to 1e6", rate);
        }
        if !(1..=1_000_000).contains(&iterations) {
            return refuse("iterations", "1 to 1000000", iterations as f64);
        }
        if let Method::Gs(m) = self {
            // Beyond these there are millions of balls or layers, or no finite latents.
            if !(1.01..=1e6).contains(&m.shrink) {
                return refuse("shrink", "a number from 1.01 to 1e6", m.shrink);
            }
            if !(0.01..=1e6).contains(&m.first_radius) {
                return refuse("first-radius", "a number from 0.01 to 1e6", m.first_radius);
            }
            if !(1..=1_000_000).contains(&m.candidates) {
                return refuse("candidates", "1 to 1000000", m.candidates as f64);
            }
        }
        Ok(())
    }
}

fn unknown(name: &str, key: &str, known: &str) -> LatentError {
    LatentError::setting(format!("settings of {name}"), format!("of {known}"), key)
}

/// Settings with some of them replaced.
fn with<T: Serialize + DeserializeOwned>(
    name: &str,
    usual: T,
    variant: Variant,
    settings: &[(String, String)],
) -> Result<T> {
    let wrong = |e: serde_json::Error| {
        LatentError::setting(format!("settings of {name}"), "values of their types", e)
    };
    let mut value = serde_json::to_value(usual).map_err(wrong)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("variant".into(), variant.name().into());
        for (key, given) in settings {
            if key == "variant" || !fields.contains_key(key) {
                let known: Vec<&str> = fields
                    .keys()
                    .map(String::as_str)
                    .filter(|k| *k != "variant")
                    .collect();
                return Err(unknown(name, key, &known.join(", ")));
            }
            let parsed = given.parse::<serde_json::Number>().map(Value::Number);
            fields.insert(key.clone(), parsed.unwrap_or_else(|_| given.clone().into()));
        }
    }
    serde_json::from_value(value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, key: &str, value: &str) -> Result<Method> {
        Method::new(name, Variant::Correct, &[(key.into(), value.into())])
    }

    #[test]
    fn settings_are_the_papers_unless_replaced() {
        for name in NAMES {
            assert_eq!(
                Method::new(name, Variant::Correct, &[]).unwrap().name(),
                name
            );
        }
        let Method::Dice(dice) = set("dice", "iterations", "7").unwrap() else {
            panic!()
        };
        let usual = Dice::default();
        assert_eq!(
            dice,
            Dice {
                iterations: 7,
                ..usual
            }
        );
        assert!(matches!(
            set("stylex", "strategy", "subset").unwrap(),
            Method::Stylex(s) if s.strategy == super::super::stylex::Strategy::Subset
        ));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (name, key, value, named) in [
            ("gs", "shrink", "1.0000001", "shrink"),
            ("gs", "first-radius", "0.00001", "first-radius"),
            ("gs", "first-radius", "1e200", "first-radius"),
            ("latent-cf", "rate", "1e39", "rate"),
            ("xgem", "rate", "-1", "rate"),
            ("dice", "iterations", "0", "iterations"),
            ("dice", "speed", "3", "speed"),
            ("is", "rate", "1", "rate"),
            ("best", "rate", "1", "latent-cf"),
            ("dive", "masks", "some", "some"),
        ] {
            let message = set(name, key, value).unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
        }
    }
}
