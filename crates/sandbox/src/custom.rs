//! CustomResourceDefinitions: registration of user-defined kinds.

mod structure;

use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use structure::Structure;

use crate::cluster::{Cluster, seconds};
use crate::json::{at, int, list, name, text, truth};
use crate::kinds::{Columns, Kind, Resource, Scale, SchemaSource, Strategy, Verbs};
use crate::limits::CUSTOM_KINDS_MAX;
use crate::names::NameRule;
use crate::path::Path;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{Collection, SelectableField};
use crate::tables::Printed;

const FIELDS: &[SelectableField] = &[
    SelectableField { name: "metadata.name", default: "" },
    SelectableField { name: "metadata.namespace", default: "" },
];

const BEHAVIOUR: Strategy = Strategy {
    verbs: Verbs::All,
    subresources: &[],
    fields: FIELDS,
    indexed: None,
    names: NameRule::Subdomain,
    defaults: |_| {},
    validate: |_, _| Vec::new(),
    generations: true,
    stored_as: None,
};

/// Rejects definitions that replace a built-in kind, or exceed [`CUSTOM_KINDS_MAX`].
pub(crate) fn check_names(cluster: &Cluster, definition: &Value) -> ApiResult<()> {
    let (group, plural) =
        (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "plural"]));
    let definitions = cluster.resource("apiextensions.k8s.io", "customresourcedefinitions");
    let own = crate::kinds::TABLE.iter().map(crate::kinds::kind_of);
    if own.into_iter().any(|kind| kind.group == group && kind.plural == plural) {
        let why = format!("{plural}.{group} is a built-in kind");
        return Err(StatusError::forbidden(definitions.group_resource(), name(definition), &why));
    }
    if definitions.objects.len() >= CUSTOM_KINDS_MAX {
        let why = format!("there are {CUSTOM_KINDS_MAX} definitions already; delete some first");
        return Err(StatusError::forbidden(definitions.group_resource(), name(definition), &why));
    }
    Ok(())
}

/// Registers the kinds of a definition; existing objects are kept.
pub(crate) fn establish(cluster: &Cluster, definition: &Value) {
    let group = text(definition, &["spec", "group"]);
    let plural = text(definition, &["spec", "names", "plural"]);
    let present = cluster.kinds.find(group, plural).map(|resource| Arc::clone(&resource.objects));
    let objects: Arc<Collection> =
        present.unwrap_or_else(|| Arc::new(cluster.store.collection(FIELDS, None)));
    for version in list(definition, &["spec", "versions"]) {
        if truth(version, &["served"]) {
            let kind = kind(definition, version);
            let objects = Arc::clone(&objects);
            cluster.kinds.add(Arc::new(Resource { kind, objects }));
        }
    }
}

fn kind(definition: &Value, version: &Value) -> Kind {
    let names = &definition["spec"]["names"];
    let owned = |path: &[&str]| text(names, path).to_owned();
    let texts = |path: &[&str]| {
        list(names, path).iter().filter_map(|one| Some(one.as_str()?.to_owned().into())).collect()
    };
    let schema = at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or_default();
    let scale = at(version, &["subresources", "scale"]).map(|scale| {
        let path = |name: &str| text(scale, &[name]).trim_start_matches('.').to_owned().into();
        Scale {
            wanted: path("specReplicasPath"),
            present: path("statusReplicasPath"),
            selector: path("labelSelectorPath"),
        }
    });
    Kind {
        group: text(definition, &["spec", "group"]).to_owned().into(),
        version: text(version, &["name"]).to_owned().into(),
        kind: owned(&["kind"]).into(),
        plural: owned(&["plural"]).into(),
        singular: owned(&["singular"]).into(),
        short: texts(&["shortNames"]),
        categories: texts(&["categories"]),
        namespaced: text(definition, &["spec", "scope"]) == "Namespaced",
        schema: SchemaSource::Custom(Arc::new(Structure::new(schema))),
        columns: Columns::Custom(Arc::new(columns(version))),
        status: at(version, &["subresources", "status"]).is_some(),
        scale,
        strategy: BEHAVIOUR,
    }
}

fn columns(version: &Value) -> Vec<Printed> {
    let printed: Vec<Printed> = list(version, &["additionalPrinterColumns"])
        .iter()
        .filter_map(|column| {
            Some(Printed {
                name: text(column, &["name"]).to_owned(),
                kind: text(column, &["type"]).to_owned(),
                priority: int(column, &["priority"]).unwrap_or(0),
                path: Path::parse(text(column, &["jsonPath"])).ok()?,
            })
        })
        .collect();
    if printed.is_empty() {
        return Path::parse(".metadata.creationTimestamp").map_or_else(
            |_| Vec::new(),
            |path| {
                vec![Printed { name: "Age".to_owned(), kind: "date".to_owned(), priority: 0, path }]
            },
        );
    }
    printed
}

/// Returns the status of an established definition.
pub(crate) fn status(definition: &Value, now: jiff::Timestamp) -> Value {
    let time = seconds(now);
    let stored: Vec<&str> = list(definition, &["spec", "versions"])
        .iter()
        .filter(|version| truth(version, &["storage"]))
        .map(|version| text(version, &["name"]))
        .collect();
    json!({
        "acceptedNames": at(definition, &["spec", "names"]),
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": time},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": time},
        ],
        "storedVersions": stored,
    })
}
