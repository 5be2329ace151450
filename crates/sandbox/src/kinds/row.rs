//! A row of the table of built-in kinds.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::field_error::FieldError;
use crate::names::NameRule;
use crate::store::SelectableField;
use crate::tables::{self, Clock};

type Text = Cow<'static, str>;

/// Description of a kind.
#[derive(Clone, Debug)]
pub struct Kind {
    /// API group; empty for the core.
    pub group: Text,
    /// Version within the group.
    pub version: Text,
    /// Kind, such as `Pod`.
    pub kind: Text,
    /// Plural, such as `pods`.
    pub plural: Text,
    /// Singular, such as `pod`.
    pub singular: Text,
    /// Short names, such as `po`.
    pub short: Vec<Text>,
    /// Categories, such as `all`.
    pub categories: Vec<Text>,
    /// `true` if its objects are namespaced.
    pub namespaced: bool,
    /// Schema of its objects.
    pub schema: SchemaSource,
    /// Columns of tables of its objects.
    pub columns: Columns,
    /// `true` if it has a `status` subresource.
    pub status: bool,
    /// Paths of its `scale` subresource, if it has one.
    pub scale: Option<Scale>,
    /// Behaviour of the kind.
    pub strategy: Strategy,
}

impl Kind {
    /// Returns the `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Source of the schema of a kind.
#[derive(Clone, Debug)]
pub enum SchemaSource {
    /// A type of `k8s-openapi`.
    Types(fn(&mut SchemaGenerator) -> Schema),
    /// The structural schema of a custom resource definition.
    Custom(Arc<crate::custom::Structure>),
}

/// Columns of tables.
#[derive(Clone, Debug)]
pub enum Columns {
    /// Column names (a star marks those of `-o wide` only) and a function for the cells.
    Own(&'static str, fn(&Value, Clock) -> Vec<Value>),
    /// Columns of a custom resource definition.
    Custom(Arc<Vec<tables::Printed>>),
}

/// The paths of a `scale` subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Desired replicas, such as `spec.replicas`.
    pub wanted: Text,
    /// Observed replicas, such as `status.replicas`.
    pub present: Text,
    /// Selector, as an object or a text.
    pub selector: Text,
}

/// Verbs that a resource supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// All verbs.
    All,
    /// Only `create`; objects are answered and not stored.
    Create,
    /// Only `get` and `list`; objects are computed on request.
    Read,
}

/// Behaviour of a kind, as upstream's strategies.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Supported verbs.
    pub verbs: Verbs,
    /// Subresources other than `status` and `scale`.
    pub subresources: &'static [&'static str],
    /// Fields that field selectors support.
    pub fields: &'static [SelectableField],
    /// Position of the indexed field in `fields`.
    pub indexed: Option<usize>,
    /// Rule for names.
    pub names: NameRule,
    /// Applies defaults.
    pub defaults: fn(&mut Value),
    /// Returns the problems of an object; the second argument is the previous version, if any.
    pub validate: fn(&Value, Option<&Value>) -> Vec<FieldError>,
    /// `true` if changes of the spec increment the generation.
    pub generations: bool,
    /// Group and plural of the kind in whose form the objects are stored.
    pub stored_as: Option<(&'static str, &'static str)>,
}

/// A built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    schema: fn(&mut SchemaGenerator) -> Schema,
    heads: &'static str,
    cells: fn(&Value, Clock) -> Vec<Value>,
    status: bool,
    scale: Option<(&'static str, &'static str, &'static str)>,
    pub(super) strategy: Strategy,
}

const NAMED: &[SelectableField] = &[field("metadata.name")];
const NAMED_IN: &[SelectableField] = &[field("metadata.name"), field("metadata.namespace")];

pub(super) const fn field(name: &'static str) -> SelectableField {
    SelectableField { name, default: "" }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns the row of a namespaced kind with default behaviour.
pub(super) const fn row<T: JsonSchema>(
    (group, version): (&'static str, &'static str),
    kind: &'static str,
    (plural, singular): (&'static str, &'static str),
) -> Row {
    Row {
        group,
        version,
        kind,
        plural,
        singular,
        short: &[],
        categories: &[],
        namespaced: true,
        schema: schema_of::<T>,
        heads: "Name|Age",
        cells: tables::name_and_age,
        status: false,
        scale: None,
        strategy: Strategy {
            verbs: Verbs::All,
            subresources: &[],
            fields: NAMED_IN,
            indexed: None,
            names: NameRule::Subdomain,
            defaults: |_| {},
            validate: |_, _| Vec::new(),
            generations: false,
            stored_as: None,
        },
    }
}

impl Row {
    pub(super) const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self.strategy.fields = NAMED;
        self
    }

    pub(super) const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }

    pub(super) const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    pub(super) const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    pub(super) const fn shown(
        mut self,
        heads: &'static str,
        cells: fn(&Value, Clock) -> Vec<Value>,
    ) -> Self {
        self.heads = heads;
        self.cells = cells;
        self
    }

    pub(super) const fn status(mut self) -> Self {
        self.status = true;
        self
    }

    pub(super) const fn generations(mut self) -> Self {
        self.strategy.generations = true;
        self
    }

    pub(super) const fn scale(mut self, selector: &'static str) -> Self {
        self.scale = Some(("spec.replicas", "status.replicas", selector));
        self
    }

    pub(super) const fn subresources(mut self, subresources: &'static [&'static str]) -> Self {
        self.strategy.subresources = subresources;
        self
    }

    pub(super) const fn fields(mut self, fields: &'static [SelectableField]) -> Self {
        self.strategy.fields = fields;
        self
    }

    pub(super) const fn indexed(mut self, index: usize) -> Self {
        self.strategy.indexed = Some(index);
        self
    }

    pub(super) const fn names(mut self, names: NameRule) -> Self {
        self.strategy.names = names;
        self
    }

    pub(super) const fn verbs(mut self, verbs: Verbs) -> Self {
        self.strategy.verbs = verbs;
        self
    }

    pub(super) const fn defaults(mut self, defaults: fn(&mut Value)) -> Self {
        self.strategy.defaults = defaults;
        self
    }

    pub(super) const fn validate(
        mut self,
        validate: fn(&Value, Option<&Value>) -> Vec<FieldError>,
    ) -> Self {
        self.strategy.validate = validate;
        self
    }

    pub(super) const fn stored_as(mut self, group: &'static str, plural: &'static str) -> Self {
        self.strategy.stored_as = Some((group, plural));
        self
    }

    /// Returns the description of the kind.
    pub(super) fn kind(&self) -> Kind {
        let texts =
            |texts: &'static [&'static str]| texts.iter().map(|&text| text.into()).collect();
        Kind {
            group: self.group.into(),
            version: self.version.into(),
            kind: self.kind.into(),
            plural: self.plural.into(),
            singular: self.singular.into(),
            short: texts(self.short),
            categories: texts(self.categories),
            namespaced: self.namespaced,
            schema: SchemaSource::Types(self.schema),
            columns: Columns::Own(self.heads, self.cells),
            status: self.status,
            scale: self.scale.map(|(wanted, present, selector)| Scale {
                wanted: wanted.into(),
                present: present.into(),
                selector: selector.into(),
            }),
            strategy: self.strategy,
        }
    }
}
