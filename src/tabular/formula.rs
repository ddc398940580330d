//! Rules over several features, as the user writes them: `3.14 * radius^2 <= 1.1 * area`, `area == height * length +- 0.0001`.
//!
//! Numbers, names of features (in backticks if they hold other signs than letters, digits and `_`), `+ - * / ^`, parentheses, `pi`, and the
//! functions `abs(x)`, `sqrt(x)`, `min(x, y)`, `max(x, y)` and `round(x, digits)` (half to even). One comparison `< <= > >= ==`; an equality
//! may have a tolerance after `+-`, absolute or in per cent of the right side (`+- 5%`). Values are in the features' own units. A rule `feature == formula` also says how the feature follows
//! from others.

use super::{Result, TabularError};

/// A term over the features of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    Number(f64),
    Feature(String),
    Negated(Box<Formula>),
    Binary(char, Box<Formula>, Box<Formula>),
    Call(Function, Vec<Formula>),
}

/// What a formula can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Abs,
    Sqrt,
    Min,
    Max,
    Round,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

/// A comparison of two formulas that realistic rows satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    text: String,
    left: Formula,
    comparison: Comparison,
    right: Formula,
    /// Of an equality: absolute, and as a share of the right side.
    tolerance: [f64; 2],
}

/// Slack of an equality that names none: what rounding may do.
const ROUNDING: f64 = 1e-9;

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { text, rest: text };
        let left = parser.sum()?;
        let comparison = parser.comparison()?;
        let right = parser.sum()?;
        let mut tolerance = [ROUNDING, ROUNDING];
        parser.space();
        if comparison == Comparison::Equal && parser.take("+-") {
            tolerance = match (parser.sum()?, parser.take("%")) {
                (Formula::Number(value), false) if value >= 0.0 => [value, 0.0],
                (Formula::Number(value), true) if value >= 0.0 => [0.0, value / 100.0],
                _ => return Err(parser.wrong("a number is expected after `+-`")),
            };
        }
        parser.space();
        if !parser.rest.is_empty() {
            return Err(parser.wrong("nothing more is expected here"));
        }
        Ok(Self {
            text: text.into(),
            left,
            comparison,
            right,
            tolerance,
        })
    }

    /// The rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of the features in it.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.left.collect_names(&mut names);
        self.right.collect_names(&mut names);
        names
    }

    /// Whether it holds; `value` gives a feature by name.
    pub fn holds(&self, value: &dyn Fn(&str) -> f64) -> bool {
        let (a, b) = (self.left.value(value), self.right.value(value));
        match self.comparison {
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterOrEqual => a >= b,
            Comparison::Equal => {
                let [absolute, share] = self.tolerance;
                (a - b).abs() <= absolute + share * b.abs()
            }
        }
    }

    /// The feature that follows from others, and how.
    pub fn definition(&self) -> Option<(&str, &Formula)> {
        let named = match (&self.left, self.comparison) {
            (Formula::Feature(name), Comparison::Equal) => name.as_str(),
            _ => return None,
        };
        let mut names = Vec::new();
        self.right.collect_names(&mut names);
        (!names.contains(&named)).then_some((named, &self.right))
    }
}

impl Formula {
    /// Its value on a row.
    pub fn value(&self, of: &dyn Fn(&str) -> f64) -> f64 {
        match self {
            Formula::Number(value) => *value,
            Formula::Feature(name) => of(name),
            Formula::Negated(inner) => -inner.value(of),
            Formula::Binary(sign, a, b) => {
                let (a, b) = (a.value(of), b.value(of));
                match sign {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' => a / b,
                    _ => a.powf(b),
                }
            }
            Formula::Call(function, arguments) => {
                let each: Vec<f64> = arguments.iter().map(|a| a.value(of)).collect();
                match (function, &each[..]) {
                    (Function::Abs, [x, ..]) => x.abs(),
                    (Function::Sqrt, [x, ..]) => x.sqrt(),
                    (Function::Min, [x, y, ..]) => x.min(*y),
                    (Function::Max, [x, y, ..]) => x.max(*y),
                    (Function::Round, [x, digits, ..]) => rounded(*x, *digits),
                    _ => f64::NAN,
                }
            }
        }
    }

    fn collect_names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Formula::Number(_) => {}
            Formula::Feature(name) => names.push(name),
            Formula::Negated(inner) => inner.collect_names(names),
            Formula::Binary(_, a, b) => {
                a.collect_names(names);
                b.collect_names(names);
            }
            Formula::Call(_, arguments) => arguments.iter().for_each(|a| a.collect_names(names)),
        }
    }
}

/// numpy's `round`: half to even after scaling by a power of ten.
pub fn rounded(value: f64, digits: f64) -> f64 {
    let scale = 10f64.powi(digits as i32);
    (value * scale).round_ties_even() / scale
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Parser<'_> {
    fn wrong(&self, reason: &str) -> TabularError {
        let before = &self.text[..self.text.len() - self.rest.len()];
        TabularError::Formula {
            text: self.text.into(),
            at: before.chars().count() + 1,
            reason: reason.into(),
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn comparison(&mut self) -> Result<Comparison> {
        let signs = [
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("==", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = signs.into_iter().find(|(sign, _)| self.take(sign));
        match found {
            Some((_, comparison)) => Ok(comparison),
            None => Err(self.wrong("one of < <= > >= == is expected")),
        }
    }

    fn sum(&mut self) -> Result<Formula> {
        let mut left = self.product()?;
        loop {
            self.space();
            // The tolerance of an equality, not a sum.
            if self.rest.starts_with("+-") {
                return Ok(left);
            }
            let sign = match self.rest.chars().next() {
                Some(sign @ ('+' | '-')) => sign,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = Formula::Binary(sign, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Formula> {
        let mut left = self.power()?;
        loop {
            self.space();
            let sign = match self.rest.chars().next() {
                Some(sign @ ('*' | '/')) => sign,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = Formula::Binary(sign, Box::new(left), Box::new(self.power()?));
        }
    }

    fn power(&mut self) -> Result<Formula> {
        if self.take("-") {
            return Ok(Formula::Negated(Box::new(self.power()?)));
        }
        let base = self.atom()?;
        if self.take("^") {
            return Ok(Formula::Binary(
                '^',
                Box::new(base),
                Box::new(self.power()?),
            ));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<Formula> {
        if self.take("(") {
            let inner = self.sum()?;
            return match self.take(")") {
                true => Ok(inner),
                false => Err(self.wrong("`)` is expected")),
            };
        }
        if self.take("`") {
            let Some((name, rest)) = self.rest.split_once('`') else {
                return Err(self.wrong("a closing backtick is expected"));
            };
            self.rest = rest;
            return Ok(Formula::Feature(name.into()));
        }
        self.space();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let first = self.rest.chars().next();
        if first.is_some_and(|c| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        if word.is_empty() {
            return Err(self.wrong("a number, a feature or `(` is expected"));
        }
        let before = self.rest;
        self.rest = &self.rest[end..];
        if !self.take("(") {
            return Ok(match word {
                "pi" => Formula::Number(std::f64::consts::PI),
                name => Formula::Feature(name.into()),
            });
        }
        let (function, count) = match word {
            "abs" => (Function::Abs, 1),
            "sqrt" => (Function::Sqrt, 1),
            "min" => (Function::Min, 2),
            "max" => (Function::Max, 2),
            "round" => (Function::Round, 2),
            _ => {
                self.rest = before;
                return Err(self.wrong("unknown function; use abs, sqrt, min, max or round"));
            }
        };
        let mut arguments = vec![self.sum()?];
        while self.take(",") {
            arguments.push(self.sum()?);
        }
        if !self.take(")") || arguments.len() != count {
            return Err(self.wrong(&format!("`{word}` takes {count} value(s) and `)`")));
        }
        Ok(Formula::Call(function, arguments))
    }

    fn number(&mut self) -> Result<Formula> {
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        while end < bytes.len() {
            let exponent = end > 0 && matches!(bytes[end - 1], b'e' | b'E');
            match bytes[end] {
                b'0'..=b'9' | b'.' | b'e' | b'E' => end += 1,
                b'+' | b'-' if exponent => end += 1,
                _ => break,
            }
        }
        match self.rest[..end].parse::<f64>() {
            Ok(value) => {
                self.rest = &self.rest[end..];
                Ok(Formula::Number(value))
            }
            Err(_) => Err(self.wrong("a number is expected")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> f64 {
        match name {
            "a" => 2.0,
            "b c" => 3.0,
            _ => f64::NAN,
        }
    }

    #[test]
    fn rules_follow_the_usual_order_of_operations() {
        let holds = |text: &str| Rule::parse(text).unwrap().holds(&of);
        assert!(holds("1 + a * `b c` ^ 2 == 19"));
        assert!(holds("-a^2 + 2*(a - 1) == -2"));
        assert!(holds("round(a / `b c`, 2) == 0.67"));
        assert!(holds("max(a, `b c`) - 2.5e0 < abs(-1)"));
        assert!(holds("a == 2.3 +- 0.31") && !holds("a == 2.3 +- 0.29"));
        assert!(holds("a == 4 +- 50%") && !holds("a == 4 +- 49%"));
        assert!(holds("a >= 2") && !holds("a > 2"));
    }

    #[test]
    fn a_rule_that_cannot_be_read_says_where() {
        let error = |text: &str| Rule::parse(text).unwrap_err().to_string();
        assert!(error("a + < 2").contains("character 5"));
        assert!(error("a + 2").contains("one of < <= > >= =="));
        assert!(error("log(a) < 2").contains("unknown function"));
        assert!(error("(a < 2").contains("`)` is expected"));
    }

    #[test]
    fn an_equality_of_one_feature_defines_it() {
        let rule = Rule::parse("a == `b c` - 1 +- 0.1").unwrap();
        let (name, formula) = rule.definition().unwrap();
        assert_eq!((name, formula.value(&of)), ("a", 2.0));
        assert!(Rule::parse("a == a * 2").unwrap().definition().is_none());
    }
}
