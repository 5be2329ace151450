//! What all kinds have in common on the wire.
//!
//! Types here hold only fields that scheduling reads; all others are ignored.
//! Kubernetes takes `null` for anything, which means the same as leaving it out.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use engine::object::{Digest, Labels, Text};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::limits::MAP_BYTES_MAX;
use super::problem::{Path, Report, quoted};
use super::quantity::{Quantity, RawQuantity};
use super::time;

/// A value for which `null` means the default.
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

/// A string; `null` is the empty one.
pub(super) type Str = Nullable<Text>;
/// A list; `null` is the empty one.
pub(super) type List<T> = Nullable<Vec<T>>;
/// Labels or annotations.
pub(super) type StrMap = Nullable<RawLabels>;
/// Amounts by resource name.
pub(super) type RawAmounts = Nullable<BTreeMap<Text, RawQuantity>>;

/// A map of strings; `null` as a value is the empty one.
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

/// A string of which only a change matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Hashed(Digest);

impl<'de> Deserialize<'de> for Hashed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;

        impl Visitor<'_> for Once {
            type Value = Hashed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Hashed, E> {
                // In protobuf an empty string stands there, in JSON it does not.
                Ok(Hashed(Digest::of(Some(text).filter(|text| !text.is_empty()))))
            }
        }

        deserializer.deserialize_str(Once)
    }
}

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
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
    /// The namespace, `default` when unset.
    pub(super) fn namespace(&self) -> Text {
        if self.namespace.is_empty() { "default".into() } else { self.namespace.0.clone() }
    }

    /// The uid, made from the name when unset.
    pub(super) fn uid(&self) -> Text {
        if self.uid.is_empty() {
            format!("uid-{}-{}", self.namespace(), &*self.name.0).into()
        } else {
            self.uid.0.clone()
        }
    }

    /// The owner that manages the object.
    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller.0)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    /// Reports what is wrong with any kind of object.
    pub(super) fn check(&self, report: &mut Report) {
        let path = Path::Root.field("metadata");
        if self.name.is_empty() {
            report.fatal(&path.field("name"), "found none, expected the name of the object");
        }
        check_size(&path.field("labels"), &self.labels, report);
        check_size(&path.field("annotations"), &self.annotations, report);
        report.bounded(&path.field("ownerReferences"), &self.owner_references);
    }

    pub(super) fn labels(&self) -> Labels {
        self.labels.0.0.clone()
    }

    /// `creationTimestamp` in nanoseconds since the epoch, zero when unset.
    pub(super) fn creation_time(&self, report: &mut Report) -> i64 {
        let path = Path::Root.field("metadata");
        timestamp(&path.field("creationTimestamp"), &self.creation_timestamp, report).unwrap_or(0)
    }
}

/// A `resourceVersion`, zero when unset or not a number.
pub(super) fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Nanoseconds since the epoch; `None` when unset.
pub(super) fn timestamp(path: &Path<'_>, text: &str, report: &mut Report) -> Option<i64> {
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

/// Reads a quantity; zero after reporting that it is none.
pub(super) fn quantity(path: &Path<'_>, raw: &RawQuantity, report: &mut Report) -> Quantity {
    let Some(quantity) = raw.parse() else {
        let found = quoted(&raw.0);
        report.fatal(path, format!("found {found}, expected a quantity such as 500m, 2, 1Gi"));
        return Quantity::ZERO;
    };
    if quantity.is_negative() {
        let found = quoted(&raw.0);
        report.error(path, format!("found {found}, expected a quantity that is not negative"));
    }
    if !quantity.fits() {
        let (found, most) = (quoted(&raw.0), i64::MAX);
        report.warning(path, format!("found {found}, which counts as {most}, the largest amount"));
    }
    quantity
}

fn check_size(path: &Path<'_>, map: &Labels, report: &mut Report) {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    report.within(path, bytes, MAP_BYTES_MAX, "bytes");
}
