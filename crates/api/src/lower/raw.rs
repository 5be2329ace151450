//! Deserialization types shared by all kinds.
//!
//! The types here and in the modules of the kinds hold only fields that scheduling reads; all
//! others are ignored. Kubernetes accepts `null` for any field, with the same meaning as an absent
//! field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use engine::object::{Digest, Labels, Owner, Text};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::limits::MAP_BYTES_MAX;
use super::problem::{FieldPath, ProblemReport, quoted};
use super::quantity::{Quantity, RawQuantity};
use super::time;

/// A value whose default is used for `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Nullable<T>(pub(super) T);

impl<T> Deref for Nullable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// A string; `null` is the empty string.
pub(super) type Str = Nullable<Text>;
/// A list; `null` is the empty list.
pub(super) type List<T> = Nullable<Vec<T>>;
/// Labels or annotations.
pub(super) type StrMap = Nullable<RawLabels>;
/// Quantities by resource name.
pub(super) type RawAmounts = Nullable<BTreeMap<Text, RawQuantity>>;

/// A map of strings; a `null` value is the empty string.
#[derive(Clone, Debug, Default)]
pub(super) struct RawLabels(pub(super) Labels);

impl Deref for RawLabels {
    type Target = Labels;

    fn deref(&self) -> &Labels {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RawLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = RawLabels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawLabels, A::Error> {
                let mut pairs: Vec<(Text, Text)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text, Str>()? {
                    pairs.push((key, value.0));
                }
                Ok(RawLabels(pairs.into_iter().collect()))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// A string kept only as a digest, because scheduling needs to detect changes and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HashedText(Digest);

impl<'de> Deserialize<'de> for HashedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;

        impl Visitor<'_> for Once {
            type Value = HashedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<HashedText, E> {
                // Protobuf encodes an empty string explicitly, JSON omits it.
                Ok(HashedText(Digest::of(Some(text).filter(|text| !text.is_empty()))))
            }
        }

        deserializer.deserialize_str(Once)
    }
}

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(super) name: Str,
    pub(super) namespace: Str,
    pub(super) uid: Str,
    pub(super) labels: StrMap,
    pub(super) annotations: StrMap,
    pub(super) resource_version: Str,
    pub(super) generation: Nullable<i64>,
    pub(super) creation_timestamp: Str,
    pub(super) deletion_timestamp: Option<Text>,
    pub(super) owner_references: List<OwnerReference>,
}

/// `metadata.ownerReferences[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerReference {
    pub(super) api_version: Str,
    pub(super) kind: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    pub(super) controller: Nullable<bool>,
}

impl Meta {
    /// Returns the namespace, `default` if unset.
    pub(super) fn namespace(&self) -> Text {
        if self.namespace.is_empty() { "default".into() } else { self.namespace.0.clone() }
    }

    /// Returns the uid, or one derived from namespace and name if unset.
    pub(super) fn uid(&self) -> Text {
        if self.uid.is_empty() {
            format!("uid-{}-{}", self.namespace(), &*self.name.0).into()
        } else {
            self.uid.0.clone()
        }
    }

    /// Returns the owner reference of the managing controller.
    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller.0)
    }

    /// Returns the controller as the engine has it.
    pub(super) fn owner(&self) -> Option<Box<Owner>> {
        let owner = self.controller()?;
        Some(Box::new(Owner {
            api_version: owner.api_version.0.clone(),
            kind: owner.kind.0.clone(),
            name: owner.name.0.clone(),
            uid: owner.uid.0.clone(),
        }))
    }

    /// Returns the annotations with these keys.
    pub(super) fn annotations_of(&self, keys: &BTreeSet<Text>) -> Labels {
        if keys.is_empty() {
            return Labels::default();
        }
        self.annotations.iter().filter(|(key, _)| keys.contains(*key)).collect()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    /// Reports problems that any kind of object can have.
    pub(super) fn check(&self, report: &mut ProblemReport) {
        let path = FieldPath::Root.field("metadata");
        if self.name.is_empty() {
            report.fatal(&path.field("name"), "found none, expected the name of the object");
        }
        check_size(&path.field("labels"), &self.labels, report);
        check_size(&path.field("annotations"), &self.annotations, report);
        report.check_entries(&path.field("ownerReferences"), &self.owner_references);
    }

    pub(super) fn labels(&self) -> Labels {
        self.labels.0.0.clone()
    }

    /// Returns `creationTimestamp` in nanoseconds since the Unix epoch, zero if unset.
    pub(super) fn creation_time(&self, report: &mut ProblemReport) -> i64 {
        let path = FieldPath::Root.field("metadata");
        timestamp(&path.field("creationTimestamp"), &self.creation_timestamp, report).unwrap_or(0)
    }
}

/// Parses a `resourceVersion`; an unset one or one that is not a number is zero.
pub(super) fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Parses a timestamp into nanoseconds since the Unix epoch; returns `None` if unset or malformed,
/// and reports the latter.
pub(super) fn timestamp(
    path: &FieldPath<'_>,
    text: &str,
    report: &mut ProblemReport,
) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    let parsed = time::parse(text);
    if parsed.is_none() {
        let found = quoted(text);
        report.fatal(path, format!("found {found}, expected a time such as 2026-01-31T12:00:00Z"));
    }
    parsed
}

/// Parses a quantity, or reports that it is malformed and returns zero.
pub(super) fn quantity(
    path: &FieldPath<'_>,
    raw: &RawQuantity,
    report: &mut ProblemReport,
) -> Quantity {
    let Some(quantity) = raw.parse() else {
        let found = quoted(&raw.0);
        report.fatal(path, format!("found {found}, expected a quantity such as 500m, 2, 1Gi"));
        return Quantity::ZERO;
    };
    if quantity.is_negative() {
        let found = quoted(&raw.0);
        report.error(path, format!("found {found}, expected a quantity that is not negative"));
    }
    if !quantity.fits_i64() {
        let (found, most) = (quoted(&raw.0), i64::MAX);
        report.warning(path, format!("found {found}, which counts as {most}, the largest amount"));
    }
    quantity
}

fn check_size(path: &FieldPath<'_>, map: &Labels, report: &mut ProblemReport) {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    report.check_limit(path, bytes, MAP_BYTES_MAX, "bytes");
}
