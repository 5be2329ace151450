//! Kubernetes' rules for names and label values, with upstream's messages.

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the violations of the rules for a qualified name, which also apply to label keys.
pub(super) fn qualified_name_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let base = match parts[..] {
        [base] => base,
        [prefix, base] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    errors.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !prefix.split('.').all(is_dns_label) {
                    errors.push(format!("prefix part {SUBDOMAIN_RULE}"));
                }
            }
            base
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if base.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if base.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(base) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    errors
}

/// Returns the violations of the rules for a label value.
pub(super) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE_RULE.to_owned());
    }
    errors
}

/// Returns `true` for an extended resource: not native to Kubernetes, and valid as a quota name.
pub(super) fn is_extended_resource(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && qualified_name_errors(&format!("requests.{name}")).is_empty()
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns_label(label: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_label_keys() {
        for name in ["cpu", "example.com/gpu", "a.b-c_d", "9", "x.y/Z"] {
            assert!(qualified_name_errors(name).is_empty(), "{name}");
        }
        for name in
            ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "A.com/x", "a..b/x", "é", &"a".repeat(64)]
        {
            assert!(!qualified_name_errors(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn native_resources_are_not_extended_resources() {
        assert!(is_extended_resource("example.com/gpu"));
        for name in ["cpu", "kubernetes.io/batch", "requests.example.com/gpu"] {
            assert!(!is_extended_resource(name), "{name}");
        }
    }
}
