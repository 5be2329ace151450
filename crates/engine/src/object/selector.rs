//! Label selectors and node selector terms.

use super::{Labels, Text};

/// Operator of a requirement.
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
    /// The label is an integer greater than the only value (nodes only).
    Gt,
    /// The label is an integer less than the only value (nodes only).
    Lt,
}

/// A condition on one label.
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
    /// Returns `true` if a label value satisfies the requirement; `None` means that the label is
    /// absent.
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

    /// Returns `true` if the label and the first value are integers for which `holds` is true.
    fn compares(&self, label: &str, holds: fn(i64, i64) -> bool) -> bool {
        let bound = self.values.first().and_then(|value| value.parse().ok());
        matches!((label.parse(), bound), (Ok(label), Some(bound)) if holds(label, bound))
    }
}

/// A conjunction of requirements; an empty selector matches everything.
///
/// Where Kubernetes lets an unset selector match nothing, the field is an `Option`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// Requirements that must all hold, sorted so that equal selectors compare equal.
    pub requirements: Box<[Requirement]>,
}

impl Selector {
    /// Returns `true` if all requirements hold.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| r.accepts(labels.get(&r.key)))
    }

    /// Returns `true` if the selector has no requirements and matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

/// A term of a node selector: label and field expressions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeTerm {
    /// `matchExpressions`.
    pub expressions: Box<[Requirement]>,
    /// `matchFields`; the key is always `metadata.name`, with one value.
    pub fields: Box<[Requirement]>,
    /// Set if upstream cannot parse the term (`Gt` with a word, an unknown field, …); it then
    /// matches nothing.
    pub malformed: bool,
}

impl NodeTerm {
    /// Returns `true` if a node of this name and these labels satisfies the term.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        !self.malformed
            && !self.is_empty()
            && self.fields.iter().all(|r| r.accepts(Some(name)))
            && self.expressions.iter().all(|r| r.accepts(labels.get(&r.key)))
    }

    /// Returns `true` if the term has no conditions; it then matches nothing.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests;
