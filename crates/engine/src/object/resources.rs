//! Amounts of resources as integers.

use super::{Stored, Text};

/// Amounts of resources: CPU in millicores, all others in their base unit (bytes, pieces).
///
/// Fractions were rounded up once, after summing, as in upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// CPU in millicores.
    pub cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral: i64,
    /// All other countable resources (extended, hugepages, attachable volumes), sorted by name.
    pub scalars: Box<[(Text, i64)]>,
}

impl Resources {
    /// Returns the amount of a scalar resource, or `None` if it is not listed.
    pub fn scalar(&self, name: &str) -> Option<i64> {
        let found = self.scalars.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        Some(self.scalars[found].1)
    }

    /// Returns the amount of a resource by its Kubernetes name; zero if it is not listed.
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral,
            _ => self.scalar(name).unwrap_or(0),
        }
    }
}

/// A DeviceClass, reduced to the fields that extended resources need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClass {
    /// `metadata.name`.
    pub name: Text,
    /// `spec.extendedResourceName`.
    pub extended_resource: Option<Text>,
}

impl Stored for DeviceClass {
    fn key(&self) -> (Text, Text) {
        (Text::default(), self.name.clone())
    }
}

/// Returns `true` if a resource name is extended: it has a domain outside `kubernetes.io`.
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        // Quotas use the name with this prefix, so the prefixed name must be valid as well.
        && is_qualified_name(&format!("requests.{name}"))
}

/// Returns `true` if the resource is counted in [`Resources::scalars`]; names of other forms are
/// ignored.
pub fn is_scalar_resource(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || is_extended_resource(name)
}

/// Returns `true` if a text is a valid label key or resource name: `name` or `domain/name`.
pub fn is_qualified_name(text: &str) -> bool {
    let name = match text.split_once('/') {
        Some((domain, name)) if is_domain(domain) => name,
        Some(_) => return false,
        None => text,
    };
    !name.is_empty() && is_label_value(name)
}

/// Returns `true` if a text is a valid label value; the empty text is valid.
pub fn is_label_value(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.len() <= 63
        && text.bytes().all(|b| inner(&b))
        && text.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric())
        && text.bytes().last().is_none_or(|b| b.is_ascii_alphanumeric())
}

/// Returns `true` if a text is a DNS subdomain in lower case.
fn is_domain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        })
}

#[cfg(test)]
mod tests;
