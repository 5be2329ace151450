//! Label and field selectors.

use serde_json::Value;

use crate::status_error::{ApiResult, StatusError};

/// Labels or fields of an object, as selectors read them.
pub trait Attributes {
    /// Returns the value under a key.
    fn value_of(&self, key: &str) -> Option<&str>;
}

/// A conjunction of requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    /// Also matches objects without the key.
    NotIn(Vec<String>),
    Exists,
    Missing,
    Greater(i64),
    Less(i64),
}

impl Selector {
    /// Returns `true` if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if an object is selected.
    pub fn matches(&self, of: &impl Attributes) -> bool {
        self.0.iter().all(|requirement| requirement.matches(of))
    }

    /// Returns the keys of its requirements.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| &*requirement.key)
    }

    /// Returns the only value that the selector allows for a key, if there is one.
    pub fn exactly(&self, key: &str) -> Option<&str> {
        self.0.iter().find_map(|requirement| match &requirement.operator {
            Operator::In(values) if requirement.key == key && values.len() == 1 => {
                Some(&*values[0])
            }
            _ => None,
        })
    }

    /// Parses a label selector.
    pub fn labels(text: &str) -> ApiResult<Self> {
        Parser { text, at: 0 }.labels().map_err(StatusError::bad_request)
    }

    /// Parses a field selector.
    pub fn fields(text: &str) -> ApiResult<Self> {
        let mut requirements = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (key, operator, value) = if let Some((key, value)) = part.split_once("!=") {
                (key, false, value)
            } else if let Some((key, value)) = part.split_once("==") {
                (key, true, value)
            } else if let Some((key, value)) = part.split_once('=') {
                (key, true, value)
            } else {
                return Err(StatusError::bad_request(format!(
                    "invalid selector: '{part}'; can't understand '{part}'"
                )));
            };
            let values = vec![unescape(value)];
            let operator = if operator { Operator::In(values) } else { Operator::NotIn(values) };
            requirements.push(Requirement { key: key.to_owned(), operator });
        }
        Ok(Self(requirements))
    }

    /// Parses a label selector object (`matchLabels` and `matchExpressions`). Returns `None` if it is
    /// malformed.
    pub fn of_object(selector: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels {
                let values = vec![value.as_str()?.to_owned()];
                requirements.push(Requirement { key: key.clone(), operator: Operator::In(values) });
            }
        }
        if let Some(expressions) = selector.get("matchExpressions").and_then(Value::as_array) {
            for expression in expressions {
                let values = || -> Option<Vec<String>> {
                    let values = expression.get("values")?.as_array()?;
                    values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
                };
                let operator = match expression.get("operator")?.as_str()? {
                    "In" => Operator::In(values()?),
                    "NotIn" => Operator::NotIn(values()?),
                    "Exists" => Operator::Exists,
                    "DoesNotExist" => Operator::Missing,
                    _ => return None,
                };
                let key = expression.get("key")?.as_str()?.to_owned();
                requirements.push(Requirement { key, operator });
            }
        }
        Some(Self(requirements))
    }

    /// Returns the selector that matches a map of labels.
    pub fn of_map(labels: &Value) -> Self {
        let labels = labels.as_object().into_iter().flatten();
        let requirements = labels.filter_map(|(key, value)| {
            let operator = Operator::In(vec![value.as_str()?.to_owned()]);
            Some(Requirement { key: key.clone(), operator })
        });
        Self(requirements.collect())
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut requirements: Vec<&Requirement> = self.0.iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        for (i, Requirement { key, operator }) in requirements.into_iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0])?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::Missing => write!(f, "!{key}")?,
                Operator::Greater(bound) => write!(f, "{key}>{bound}")?,
                Operator::Less(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

impl Requirement {
    fn matches(&self, of: &impl Attributes) -> bool {
        let value = of.value_of(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Operator::NotIn(values) => {
                !value.is_some_and(|value| values.iter().any(|v| v == value))
            }
            Operator::Exists => value.is_some(),
            Operator::Missing => value.is_none(),
            Operator::Greater(bound) => number().is_some_and(|number| number > *bound),
            Operator::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == ',' {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => result.extend(characters.next()),
            other => result.push(other),
        }
    }
    result
}

/// A parser of label selectors.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn labels(mut self) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        loop {
            self.space();
            if self.rest().is_empty() {
                return Ok(Selector(requirements));
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            self.space();
            if !self.rest().is_empty() && !self.take(",") {
                return Err(format!("found '{}', expected: ',' or 'end of string'", self.token()));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.take("!") {
            self.space();
            return Ok(Requirement { key: self.key()?, operator: Operator::Missing });
        }
        let key = self.key()?;
        self.space();
        let operator = if self.take("!=") {
            Operator::NotIn(vec![self.value()?])
        } else if self.take("==") || self.take("=") {
            Operator::In(vec![self.value()?])
        } else if self.take(">") {
            Operator::Greater(self.number()?)
        } else if self.take("<") {
            Operator::Less(self.number()?)
        } else if self.word("notin") {
            Operator::NotIn(self.values()?)
        } else if self.word("in") {
            Operator::In(self.values()?)
        } else {
            Operator::Exists
        };
        Ok(Requirement { key, operator })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Consumes an operator that is a word.
    fn word(&mut self, token: &str) -> bool {
        let after = self.rest().strip_prefix(token);
        after.is_some_and(|after| after.is_empty() || after.starts_with([' ', '(']))
            && self.take(token)
    }

    /// Returns the next token, for messages.
    fn token(&self) -> &'a str {
        let rest = self.rest();
        let symbol = rest.chars().next().map_or(0, char::len_utf8);
        match (Parser { text: rest, at: 0 }).literal() {
            "" => &rest[..symbol],
            literal => literal,
        }
    }

    fn literal(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| " ,!=<>()\t".contains(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.literal();
        match crate::names::qualified(key) {
            Ok(()) => Ok(key.to_owned()),
            Err(_) if key.is_empty() => {
                Err(format!("found '{}', expected: identifier", self.token()))
            }
            Err(why) => Err(format!("key: Invalid value: {key:?}: {why}")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        self.space();
        let value = self.literal();
        crate::names::label_value(value)
            .map_err(|why| format!("values[0]: Invalid value: {value:?}: {why}"))?;
        Ok(value.to_owned())
    }

    fn number(&mut self) -> Result<i64, String> {
        self.value()?
            .parse()
            .map_err(|_| "for 'Gt', 'Lt' operators, the value must be an integer".to_owned())
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.space();
        if !self.take("(") {
            return Err(format!("found '{}' expected: '('", self.token()));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            self.space();
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(format!("found '{}', expected: ',' or ')'", self.token()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Labels(&'static [(&'static str, &'static str)]);

    impl Attributes for Labels {
        fn value_of(&self, key: &str) -> Option<&str> {
            self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
        }
    }

    #[test]
    fn label_selectors_select() {
        let labels = Labels(&[("app", "web"), ("tier", "5"), ("empty", "")]);
        for (text, selected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=5", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, api)", true),
            ("app notin (web)", false),
            ("other notin (web)", true),
            ("app", true),
            ("!app", false),
            ("! other", true),
            ("tier>4", true),
            ("tier<5", false),
            ("empty=", true),
            ("in", false),
            ("app in (web),tier notin (6)", true),
        ] {
            assert_eq!(Selector::labels(text).unwrap().matches(&labels), selected, "{text}");
        }
    }

    #[test]
    fn malformed_selectors_are_rejected() {
        for text in ["a b", "=x", "a in", "a in (", "a in (x", "a>b", "a=b=c", "a,,", "-a=b"] {
            let parsed = Selector::labels(text);
            assert!(parsed.is_err_and(|failure| failure.code == 400), "{text}");
        }
        assert!(Selector::fields("nonsense").is_err());
        for (text, message) in [
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a b c", "found 'b', expected: ',' or 'end of string'"),
        ] {
            assert_eq!(Selector::labels(text).unwrap_err().message, message);
        }
    }

    #[test]
    fn field_selectors_support_escapes() {
        let fields = Labels(&[("a", "x,y"), ("b", "")]);
        for (text, selected) in
            [("a=x\\,y", true), ("a!=x\\,y", false), ("b=", true), ("b==q", false)]
        {
            assert_eq!(Selector::fields(text).unwrap().matches(&fields), selected, "{text}");
        }
    }
}
