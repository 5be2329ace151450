//! Annotations that plugins read.

use std::collections::BTreeSet;

use super::Text;

/// Keys of the annotations that plugins read. Lowering keeps these and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationKeys {
    /// Keys on pods.
    pub pods: BTreeSet<Text>,
    /// Keys on nodes.
    pub nodes: BTreeSet<Text>,
}
