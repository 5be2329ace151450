//! Amounts of resources as integers.

use super::Text;

/// Amounts of resources: cpu in millicores, all others in their base unit (bytes, pieces).
///
/// Fractions were rounded up after summing, as upstream does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Millicores.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of `ephemeral-storage`.
    pub ephemeral: i64,
    /// All other countable resources (extended, hugepages, attachable volumes), sorted by name.
    pub scalars: Box<[(Text, i64)]>,
}

impl Resources {
    /// Amount of a scalar resource, if it is named at all.
    pub fn scalar(&self, name: &str) -> Option<i64> {
        let found = self.scalars.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        Some(self.scalars[found].1)
    }

    /// Amount of any resource by its Kubernetes name; absent is zero.
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral,
            _ => self.scalar(name).unwrap_or(0),
        }
    }
}

/// A DeviceClass, as far as the fit of extended resources reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClass {
    /// `metadata.name`.
    pub name: Text,
    /// `spec.extendedResourceName`.
    pub extended_resource: Option<Text>,
}

/// A ResourceClaim, known by name only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceClaim {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
}

/// Whether a resource name is an extended one: it has a domain that is not Kubernetes' own.
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        // A quota names it with this prefix, and the result must still be a valid name.
        && is_qualified_name(&format!("requests.{name}"))
}

/// Whether amounts of a resource other than cpu, memory and ephemeral storage are counted at all.
pub fn is_scalar_resource(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || is_extended_resource(name)
}

/// Whether a name has the form of label keys and resource names: `name` or `domain/name`.
pub fn is_qualified_name(text: &str) -> bool {
    let name = match text.split_once('/') {
        Some((domain, name)) if is_domain(domain) => name,
        Some(_) => return false,
        None => text,
    };
    !name.is_empty() && is_label_value(name)
}

/// Whether a text may be the value of a label; the empty one may.
pub fn is_label_value(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.len() <= 63
        && text.bytes().all(|b| inner(&b))
        && text.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric())
        && text.bytes().last().is_none_or(|b| b.is_ascii_alphanumeric())
}

/// Whether a text is a domain name in lower case.
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
