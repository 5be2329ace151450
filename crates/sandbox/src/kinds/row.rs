//! A row of the table of kinds.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::field_error::FieldError;
use crate::names::NameRule;
use crate::store::SelectableField;
use crate::tables::{self, Clock};

type Text = Cow<'static, str>;

/// What is known of a kind.
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
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// How its objects are described.
    pub schema: SchemaSource,
    /// How its objects are shown.
    pub columns: Columns,
    /// The `status` subresource.
    pub status: bool,
    /// The `scale` subresource.
    pub scale: Option<Scale>,
    /// The rest.
    pub strategy: Strategy,
}

impl Kind {
    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Where the schema of a kind comes from.
#[derive(Clone, Debug)]
pub enum SchemaSource {
    /// Kubernetes' own types.
    Types(fn(&mut SchemaGenerator) -> Schema),
    /// A custom resource definition.
    Custom(Arc<crate::custom::Structure>),
}

/// How objects are shown in tables.
#[derive(Clone, Debug)]
pub enum Columns {
    /// Heads (a star marks what only wide tables show) and a function for the cells.
    Own(&'static str, fn(&Value, Clock) -> Vec<Value>),
    /// The columns of a custom resource definition.
    Custom(Arc<Vec<tables::Printed>>),
}

/// The paths of a `scale` subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Wanted replicas, such as `spec.replicas`.
    pub wanted: Text,
    /// Replicas that are there.
    pub present: Text,
    /// A selector, in the form of an object or of a text.
    pub selector: Text,
}

/// What may be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// Everything.
    All,
    /// Objects are only posted and answered, never kept.
    Create,
    /// Objects are computed when they are asked for.
    Read,
}

/// What sets a kind apart from others.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// What may be done with it.
    pub verbs: Verbs,
    /// Subresources beside `status` and `scale`.
    pub subresources: &'static [&'static str],
    /// Fields that selectors may ask for.
    pub fields: &'static [SelectableField],
    /// Which of them is indexed.
    pub indexed: Option<usize>,
    /// Rules of its names.
    pub names: NameRule,
    /// Fills in what was left out.
    pub defaults: fn(&mut Value),
    /// What is wrong with an object; the second one is the one before, if there is one.
    pub validate: fn(&Value, Option<&Value>) -> Vec<FieldError>,
    /// Whether changes of the spec count as generations.
    pub generations: bool,
    /// Group and plural of the kind whose objects these are, in another form.
    pub stored_as: Option<(&'static str, &'static str)>,
}

/// A kind of Kubernetes' own.
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

/// A kind whose objects are in namespaces.
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

    pub(super) const fn indexed(mut self, place: usize) -> Self {
        self.strategy.indexed = Some(place);
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

    /// What is known of the kind.
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
