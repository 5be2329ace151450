//! Rules for names, labels and annotations, with upstream's messages.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS subdomain (RFC 1123).
    Subdomain,
    /// DNS label (RFC 1123).
    Label,
    /// DNS label that begins with a letter (RFC 1035).
    Dns1035,
    /// Any path segment, for RBAC kinds.
    Path,
}

impl NameRule {
    /// Checks a name. Returns upstream's message if it is invalid.
    pub fn check(self, name: &str) -> Result<(), String> {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::Dns1035 => dns_1035(name),
            Self::Path => path(name),
        }
    }
}

fn lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn part(text: &str, inner: impl Fn(u8) -> bool, ends: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => ends(first) && ends(last) && bytes.iter().all(|&c| inner(c)),
        _ => false,
    }
}

fn at_most(text: &str, max: usize) -> Result<(), String> {
    if text.len() > max { Err(format!("must be no more than {max} bytes")) } else { Ok(()) }
}

/// Checks a DNS subdomain: labels joined by dots.
pub(crate) fn subdomain(text: &str) -> Result<(), String> {
    at_most(text, 253)?;
    let good = text.split('.').all(|one| part(one, |c| lower(c) || c == b'-', lower));
    if good { Ok(()) } else { Err(SUBDOMAIN.to_owned()) }
}

/// Checks a DNS label: lower-case letters, digits and dashes.
pub(crate) fn label(text: &str) -> Result<(), String> {
    at_most(text, 63)?;
    if part(text, |c| lower(c) || c == b'-', lower) { Ok(()) } else { Err(LABEL.to_owned()) }
}

fn dns_1035(text: &str) -> Result<(), String> {
    at_most(text, 63)?;
    let good = part(text, |c| lower(c) || c == b'-', lower)
        && text.starts_with(|c: char| c.is_ascii_lowercase());
    if good { Ok(()) } else { Err(DNS_1035.to_owned()) }
}

fn path(text: &str) -> Result<(), String> {
    match text {
        "." | ".." => Err(format!("may not be '{text}'")),
        _ if text.contains('/') => Err("may not contain '/'".to_owned()),
        _ if text.contains('%') => Err("may not contain '%'".to_owned()),
        _ => Ok(()),
    }
}

fn named(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"-_.".contains(&c)
}

/// Checks the key of a label or annotation: an optional prefix and a name.
pub(crate) fn qualified(text: &str) -> Result<(), String> {
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return Err("a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_string());
        }
        Some(("", _)) => return Err("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => {
            subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
            name
        }
    };
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    at_most(name, 63).map_err(|why| format!("name part {why}"))?;
    let good = part(name, named, |c| c.is_ascii_alphanumeric());
    if good { Ok(()) } else { Err(QUALIFIED.to_owned()) }
}

/// Checks the value of a label.
pub(crate) fn label_value(text: &str) -> Result<(), String> {
    at_most(text, 63)?;
    let good = text.is_empty() || part(text, named, |c| c.is_ascii_alphanumeric());
    if good { Ok(()) } else { Err(VALUE.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rules() {
        for (check, good, bad) in [
            (
                subdomain as fn(&str) -> Result<(), String>,
                &["a", "a.b-c.d1", "1"][..],
                &["", "A", "-a", "a-", "a..b", "a_b", ".a"][..],
            ),
            (label, &["a", "a-b", "1"], &["", "a.b", "A", "-"]),
            (qualified, &["a", "A_b.c", "example.com/a"], &["", "/a", "a/", "a/b/c", "-a", "A/b"]),
            (label_value, &["", "a", "A_b.c-1"], &["-a", "a b", "ä"]),
            (path, &["system:node", "a b"], &[".", "a/b", "%"]),
        ] {
            for text in good {
                assert_eq!(check(text), Ok(()), "{text:?}");
            }
            for text in bad {
                assert!(check(text).is_err(), "{text:?}");
            }
        }
        assert!(label(&"a".repeat(64)).is_err());
        assert!(subdomain(&"a".repeat(254)).is_err());
    }
}
