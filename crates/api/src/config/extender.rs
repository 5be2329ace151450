//! HTTP extenders.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::duration::Duration;
use super::fields::Fields;
use super::names::{is_extended_resource, qualified_name_errors};
use super::problem::{ProblemSink, child, index, invalid, invalid_text};

/// The timeout of calls to an extender that sets none.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// An HTTP extender. An empty verb means that the extender does not serve this call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Extender {
    /// The base URL to which verbs are appended.
    pub url_prefix: String,
    /// The verb that filters nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// The verb that processes the victims of preemption.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// The verb that scores nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// The weight of its scores; greater than zero if it has a prioritize verb.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// The verb that binds; at most one extender may set it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Uses HTTPS.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// TLS settings for HTTPS.
    #[serde(rename = "tlsConfig", skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExtenderTls>,
    /// The timeout of a call.
    #[serde(rename = "httpTimeout", skip_serializing_if = "is_zero_duration")]
    pub http_timeout: Duration,
    /// The extender caches node information, so calls carry node names only.
    #[serde(skip_serializing_if = "is_false")]
    pub node_cache_capable: bool,
    /// The resources it manages. If not empty, only pods that request one of them are sent to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// Failures of the extender do not fail scheduling.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// TLS settings of the connection to an extender; inline data takes precedence over files.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtenderTls {
    /// Does not verify the certificate of the server.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The server name for SNI and verification.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// The file of the client certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// The file of the client key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// The file of the trusted roots.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// The client certificate.
    #[serde(skip_serializing_if = "Base64::is_empty")]
    pub cert_data: Base64,
    /// The client key.
    #[serde(skip_serializing_if = "Base64::is_empty")]
    pub key_data: Base64,
    /// The trusted roots.
    #[serde(skip_serializing_if = "Base64::is_empty")]
    pub ca_data: Base64,
}

/// A resource that an extender manages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedResource {
    /// The extended resource.
    pub name: String,
    /// NodeResourcesFit ignores this resource.
    #[serde(skip_serializing_if = "is_false")]
    pub ignored_by_scheduler: bool,
}

/// Bytes that are base64-encoded in files.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Base64 {
    /// The decoded bytes.
    pub bytes: Vec<u8>,
}

impl Base64 {
    /// Returns `true` if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn parse(text: &str) -> Option<Self> {
        let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
        if !text.len().is_multiple_of(4) {
            return None;
        }
        let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
        for chunk in text[..text.len() - padding].chunks(4) {
            let mut bits = 0u32;
            for byte in chunk {
                bits = bits << 6 | ALPHABET.iter().position(|symbol| symbol == byte)? as u32;
            }
            bits <<= 6 * (4 - chunk.len());
            bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
        }
        Some(Self { bytes })
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        for chunk in self.bytes.chunks(3) {
            let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for at in 0..4 {
                let symbol = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
                text.push(if at <= chunk.len() { symbol.into() } else { '=' });
            }
        }
        serializer.serialize_str(&text)
    }
}

impl Extender {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let extender = Self {
            url_prefix: fields.text("urlPrefix").unwrap_or_default(),
            filter_verb: fields.text("filterVerb").unwrap_or_default(),
            preempt_verb: fields.text("preemptVerb").unwrap_or_default(),
            prioritize_verb: fields.text("prioritizeVerb").unwrap_or_default(),
            weight: fields.number("weight").unwrap_or_default(),
            bind_verb: fields.text("bindVerb").unwrap_or_default(),
            enable_https: fields.flag("enableHTTPS").unwrap_or_default(),
            tls: fields.object("tlsConfig").map(read_tls),
            http_timeout: fields.duration("httpTimeout").unwrap_or_default(),
            node_cache_capable: fields.flag("nodeCacheCapable").unwrap_or_default(),
            managed_resources: fields
                .objects("managedResources")
                .unwrap_or_default()
                .into_iter()
                .map(read_managed_resource)
                .collect(),
            ignorable: fields.flag("ignorable").unwrap_or_default(),
        };
        fields.finish();
        extender
    }

    /// Applies the default timeout.
    pub(super) fn complete(mut self) -> Self {
        if self.http_timeout == Duration::ZERO {
            self.http_timeout = TIMEOUT_DEFAULT;
        }
        self
    }

    /// Returns `true` if TLS is on without any means to verify the server.
    fn skips_verification(&self) -> bool {
        let verifies = |tls: &ExtenderTls| !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
        self.enable_https && !self.tls.as_ref().is_some_and(|tls| tls.insecure || verifies(tls))
    }
}

/// Validates the extenders, individually and together.
pub(super) fn validate(extenders: &[Extender], sink: &ProblemSink) {
    let mut names = BTreeSet::new();
    for (position, extender) in extenders.iter().enumerate() {
        let path = index("extenders", position);
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let message = invalid(extender.weight, "must have a positive weight applied to it");
            sink.report(child(&path, "weight"), message);
        }
        for (position, resource) in extender.managed_resources.iter().enumerate() {
            let path = child(&index(&child(&path, "managedResources"), position), "name");
            let errors = qualified_name_errors(&resource.name);
            if errors.is_empty() && !is_extended_resource(&resource.name) {
                sink.report(
                    &path,
                    invalid_text(&resource.name, "is an invalid extended resource name"),
                );
            }
            for error in errors {
                sink.report(&path, invalid_text(&resource.name, &error));
            }
            if !names.insert(&resource.name) {
                sink.report(
                    &path,
                    invalid_text(&resource.name, "duplicate extender managed resource name"),
                );
            }
        }
        if extender.skips_verification() {
            sink.note(format!(
                "{path}: enableHTTPS is set without tlsConfig.caFile or caData, so the server's certificate is not verified"
            ));
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        sink.report("extenders", invalid_text(&found, "only one extender can implement bind"));
    }
}

fn read_managed_resource(mut fields: Fields<'_>) -> ManagedResource {
    let resource = ManagedResource {
        name: fields.text("name").unwrap_or_default(),
        ignored_by_scheduler: fields.flag("ignoredByScheduler").unwrap_or_default(),
    };
    fields.finish();
    resource
}

fn read_tls(mut fields: Fields<'_>) -> ExtenderTls {
    let tls = ExtenderTls {
        insecure: fields.flag("insecure").unwrap_or_default(),
        server_name: fields.text("serverName").unwrap_or_default(),
        cert_file: fields.text("certFile").unwrap_or_default(),
        key_file: fields.text("keyFile").unwrap_or_default(),
        ca_file: fields.text("caFile").unwrap_or_default(),
        cert_data: read_base64(&mut fields, "certData"),
        key_data: read_base64(&mut fields, "keyData"),
        ca_data: read_base64(&mut fields, "caData"),
    };
    fields.finish();
    tls
}

fn read_base64(fields: &mut Fields<'_>, key: &'static str) -> Base64 {
    let Some(text) = fields.text(key) else {
        return Base64::default();
    };
    Base64::parse(&text).unwrap_or_else(|| {
        // The value is not quoted because it may be a private key.
        fields.sink.report(
            fields.child(key),
            "illegal base64 data; write the bytes of the file in base64",
        );
        Base64::default()
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_duration(value: &Duration) -> bool {
    *value == Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_and_written_back() {
        for (text, bytes) in
            [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("aGVsbG8=", "hello")]
        {
            let read = Base64::parse(text).unwrap();
            assert_eq!(read.bytes, bytes.as_bytes());
            assert_eq!(serde_json::to_value(&read).unwrap(), text);
        }
        for text in ["a", "YQ=", "Y===", "====", "YQ==YQ==", "é==="] {
            assert_eq!(Base64::parse(text), None, "{text}");
        }
    }
}
