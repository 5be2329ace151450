//! Serialization of configurations as v1 YAML.

use serde::Serialize;

use super::configuration::Configuration;
use super::v1::KubeSchedulerConfiguration;
use super::version::{KIND, Version};

/// Returns the complete configuration as a v1 file.
pub fn write(config: &Configuration) -> String {
    write_v1(&config.to_v1())
}

/// Returns a configuration as a v1 file with only the fields that are set.
pub fn write_v1(config: &KubeSchedulerConfiguration) -> String {
    let document = ConfigDocument { api_version: Version::V1.api_version(), kind: KIND, config };
    serde_saphyr::to_string(&document)
        .expect("a configuration has only string keys and plain values")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigDocument<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    config: &'a KubeSchedulerConfiguration,
}
