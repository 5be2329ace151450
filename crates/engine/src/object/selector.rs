//! Label selectors and node selector terms.

use super::{Labels, Text};

/// How a requirement compares a label with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The label exists and has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than the one value (nodes only).
    Gt,
    /// The label is an integer less than the one value (nodes only).
    Lt,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// Label key.
    pub key: Text,
    /// Comparison.
    pub operator: Operator,
    /// Values; sorted and unique for `In` and `NotIn`, one integer for `Gt` and `Lt`, else empty.
    pub values: Box<[Text]>,
}

impl Requirement {
    /// Whether a label value (`None` when the label is absent) satisfies this requirement.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::In, Some(value)) => self.lists(value),
            (Operator::NotIn, Some(value)) => !self.lists(value),
            (Operator::NotIn | Operator::DoesNotExist, None) | (Operator::Exists, Some(_)) => true,
            (Operator::Gt, Some(value)) => self.compares(value, |label, bound| label > bound),
            (Operator::Lt, Some(value)) => self.compares(value, |label, bound| label < bound),
            (Operator::DoesNotExist, Some(_)) | (_, None) => false,
        }
    }

    fn lists(&self, value: &str) -> bool {
        self.values.binary_search_by(|v| (**v).cmp(value)).is_ok()
    }

    fn compares(&self, label: &str, holds: fn(i64, i64) -> bool) -> bool {
        let bound = self.values.first().and_then(|value| value.parse().ok());
        matches!((label.parse(), bound), (Ok(label), Some(bound)) if holds(label, bound))
    }
}

/// A conjunction of requirements; the empty one matches everything.
///
/// Where Kubernetes distinguishes "no selector" (matches nothing), the field is an `Option`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// All must hold. Sorted, so that equal selectors compare equal.
    pub requirements: Box<[Requirement]>,
}

impl Selector {
    /// Whether all requirements hold.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| r.accepts(labels.get(&r.key)))
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

/// One term of a node selector: label expressions and field expressions, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeTerm {
    /// `matchExpressions`.
    pub expressions: Box<[Requirement]>,
    /// `matchFields`; the key is always `metadata.name`, with one value.
    pub fields: Box<[Requirement]>,
    /// A term that upstream cannot parse (`Gt` on a word, an unknown field, …) never matches.
    pub malformed: bool,
}

impl NodeTerm {
    /// Whether a node with this name and these labels satisfies the term.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        !self.malformed
            && !self.is_empty()
            && self.fields.iter().all(|r| r.accepts(Some(name)))
            && self.expressions.iter().all(|r| r.accepts(labels.get(&r.key)))
    }

    /// A term without any condition matches nothing.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests;
