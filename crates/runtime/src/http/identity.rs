//! Users of requests, from tokens, certificates and the headers of front proxies.

use std::collections::BTreeMap;
use std::fmt::Write;

use http::{HeaderMap, HeaderValue};
use k8s_openapi::api::authentication::v1::UserInfo;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};

use super::cluster_authentication::RequestHeaderConfig;

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Key of the credential in audit logs.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// A user as the API server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestUser {
    pub(super) user: String,
    pub(super) uid: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl RequestUser {
    /// Returns the user of requests without a credential.
    pub(super) fn anonymous() -> Self {
        Self::new(ANONYMOUS.to_owned(), vec![UNAUTHENTICATED.to_owned()])
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// Returns the user of a token review, or `None` if it has no name.
    pub(super) fn of_token(info: UserInfo) -> Option<Self> {
        let user = info.username.filter(|user| !user.is_empty())?;
        let mut identity = Self::new(user, info.groups.unwrap_or_default());
        identity.uid = info.uid.filter(|uid| !uid.is_empty());
        identity.extra = info.extra.unwrap_or_default();
        Some(identity.authenticated())
    }

    /// Returns the user of a verified certificate, or `None` if it has no common name. Its organizations
    /// are the groups.
    pub(super) fn of_certificate(certificate: &CertificateDer) -> Option<Self> {
        let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
        let (mut user, mut groups) = (String::new(), Vec::new());
        for attribute in parsed.tbs_certificate().subject().iter() {
            let known = matches!(attribute.oid, COMMON_NAME | ORGANIZATION);
            let text = matches!(
                attribute.value.tag(),
                Tag::Utf8String | Tag::PrintableString | Tag::Ia5String
            );
            if !known {
                continue;
            }
            // A certificate with an unreadable name is not accepted.
            let value = std::str::from_utf8(attribute.value.value()).ok().filter(|_| text)?;
            if attribute.oid == COMMON_NAME {
                value.clone_into(&mut user);
            } else {
                groups.push(value.to_owned());
            }
        }
        if user.is_empty() {
            return None;
        }
        let mut identity = Self::new(user, groups);
        let credential = format!("X509SHA256={}", hash(certificate));
        identity.extra.insert(CREDENTIAL.to_owned(), vec![credential]);
        Some(identity.authenticated())
    }

    /// Returns the user that a front proxy names in headers, or `None` if there is no name.
    pub(super) fn of_headers(headers: &HeaderMap, rules: &RequestHeaderConfig) -> Option<Self> {
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| text(headers.get(name)?));
            values.find(|value| !value.is_empty())
        };
        let groups = rules.group_headers.iter().flat_map(|name| headers.get_all(name));
        let groups = groups.filter_map(text).filter(|group| !group.is_empty()).collect();
        let mut identity = Self::new(first(&rules.user_headers)?, groups);
        identity.uid = first(&rules.uid_headers);
        for prefix in rules.extra_prefixes.iter().map(|prefix| prefix.to_lowercase()) {
            // `HeaderName` is always in lower case.
            let extra = headers.iter().filter_map(|(name, value)| {
                Some((decoded(name.as_str().strip_prefix(&prefix)?), text(value)?))
            });
            for (key, value) in extra {
                identity.extra.entry(key).or_default().push(value);
            }
        }
        Some(identity.authenticated())
    }

    fn new(user: String, groups: Vec<String>) -> Self {
        Self { user, uid: None, groups, extra: BTreeMap::new() }
    }

    fn authenticated(mut self) -> Self {
        let known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if !self.is_anonymous() && !self.groups.iter().any(known) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// Returns the common name of a certificate, if it has one.
pub(super) fn common_name(certificate: &CertificateDer) -> Option<String> {
    RequestUser::of_certificate(certificate).map(|identity| identity.user)
}

fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

/// Decodes a key of extra data, which is percent-encoded in the header's name.
fn decoded(key: &str) -> String {
    // The decoder is that of forms, where these two characters are special as well.
    let key = key.replace('+', "%2B").replace('&', "%26");
    let mut pairs = form_urlencoded::parse(key.as_bytes());
    pairs.next().map_or_else(String::new, |(key, _)| key.into_owned())
}

fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_names_user_and_groups() {
        let certificate = certificate(&[
            (DnType::CountryName, "CH"),
            (DnType::OrganizationName, "monitoring"),
            (DnType::CommonName, "prometheus"),
        ]);
        let identity = RequestUser::of_certificate(&certificate).unwrap();
        assert_eq!(identity.user, "prometheus");
        assert_eq!(identity.groups, ["monitoring", AUTHENTICATED]);
        let credential = &identity.extra[CREDENTIAL][0];
        assert_eq!(credential.len(), "X509SHA256=".len() + 64, "{credential}");
    }

    #[test]
    fn a_certificate_without_a_common_name_has_no_user() {
        let certificate = certificate(&[(DnType::OrganizationName, "monitoring")]);
        assert_eq!(RequestUser::of_certificate(&certificate), None);
        assert_eq!(RequestUser::of_certificate(&CertificateDer::from(vec![0x30, 0x80])), None);
    }

    #[test]
    fn a_token_review_without_a_user_name_has_no_user() {
        assert_eq!(RequestUser::of_token(UserInfo::default()), None);
        let info = UserInfo { username: Some("a".to_owned()), ..UserInfo::default() };
        assert_eq!(RequestUser::of_token(info).unwrap().groups, [AUTHENTICATED]);
    }
}
