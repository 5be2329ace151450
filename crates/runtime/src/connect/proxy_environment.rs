//! The proxy for an API server from `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, by the rules of Go's
//! `httpproxy` package.

use std::net::IpAddr;

use http::Uri;

use super::ConnectError;

/// Returns the proxy for a server. Upper-case variables take precedence; loopback addresses have no proxy.
pub(super) fn from_environment(
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, ConnectError> {
    let either = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, variable(name).filter(|it| !it.is_empty())?)))
    };
    let (names, port) = match server.scheme_str() {
        Some("http") => (["HTTP_PROXY", "http_proxy"], 80),
        _ => (["HTTPS_PROXY", "https_proxy"], 443),
    };
    let Some((name, proxy)) = either(names) else { return Ok(None) };
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    let port = server.port_u16().unwrap_or(port);
    let (_, excluded) = either(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let address = host.parse::<IpAddr>().ok();
    if host == "localhost"
        || address.is_some_and(|address| address.is_loopback())
        || excluded.split(',').any(|rule| matches_no_proxy(rule, &host, address, port))
    {
        return Ok(None);
    }
    parse(name, &proxy).map(Some)
}

/// Parses the address of a proxy from a field or variable. The default scheme is `http`.
pub(super) fn parse(setting: &'static str, address: &str) -> Result<Uri, ConnectError> {
    let uri =
        if address.contains("://") { address.parse() } else { format!("http://{address}").parse() };
    uri.map_err(|source| ConnectError::Proxy { setting, address: address.to_owned(), source })
}

/// Returns `true` if an entry of `NO_PROXY` matches this server.
fn matches_no_proxy(rule: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    let rule = rule.trim().to_ascii_lowercase();
    if rule == "*" {
        return true;
    }
    if let Some((network, bits)) = rule.split_once('/') {
        let network = network.parse::<IpAddr>().ok().zip(bits.parse().ok());
        return address
            .zip(network)
            .is_some_and(|(address, (network, bits))| is_in_network(address, network, bits));
    }
    let (name, wanted) = match rule.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            (name, port.parse().ok())
        }
        _ => (&*rule, None),
    };
    let name = name.trim_matches(['[', ']']);
    if name.is_empty() || wanted.is_some_and(|wanted: u16| wanted != port) {
        return false;
    }
    if let Ok(excluded) = name.parse::<IpAddr>() {
        return address == Some(excluded);
    }
    // A leading dot matches subdomains only.
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        Some(_) => host.ends_with(name),
        None => host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

fn is_in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (address, network, all) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32_u32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let Some(rest) = all.checked_sub(bits) else { return false };
    // `/0` shifts out all bits, which matches every address.
    (address ^ network).checked_shr(rest).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxy = from_environment(&server.parse().unwrap(), variable).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_variable_for_the_scheme_counts() {
        let both = [("HTTPS_PROXY", "http://a:1"), ("HTTP_PROXY", "http://b:2")];
        assert_eq!(proxy("https://api:6443", &both).as_deref(), Some("http://a:1/"));
        assert_eq!(proxy("http://api", &both).as_deref(), Some("http://b:2/"));
        assert_eq!(proxy("https://api", &[("https_proxy", "c:3")]).as_deref(), Some("http://c:3/"));
        let capitals = [("https_proxy", "c:3"), ("HTTPS_PROXY", "d:4")];
        assert_eq!(proxy("https://api", &capitals).as_deref(), Some("http://d:4/"));
        assert_eq!(proxy("https://api", &[("HTTPS_PROXY", "")]), None);
        assert_eq!(proxy("https://api", &[]), None);
        for loopback in ["https://localhost:6443", "https://127.0.0.2", "https://[::1]:6443"] {
            assert_eq!(proxy(loopback, &both), None, "{loopback}");
        }
        let odd = |name: &str| (name == "HTTPS_PROXY").then(|| "http://a b".to_owned());
        let error = from_environment(&"https://api".parse().unwrap(), odd).unwrap_err();
        assert_eq!(error.to_string(), "HTTPS_PROXY \"http://a b\" is no address of a proxy");
    }

    #[test]
    fn servers_that_are_excluded_are_reached_without_a_proxy() {
        for (rules, server, excluded) in [
            ("*", "https://api", true),
            ("other, api.example.com", "https://api.example.com:6443", true),
            ("example.com", "https://api.example.com", true),
            ("example.com", "https://example.com", true),
            ("example.com", "https://counterexample.com", false),
            (".example.com", "https://api.example.com", true),
            (".example.com", "https://example.com", false),
            ("*.example.com", "https://api.example.com", true),
            ("API.Example.com", "https://api.example.COM", true),
            ("api:6443", "https://api:6443", true),
            ("api:443", "https://api", true),
            ("api:6443", "https://api", false),
            ("10.96.0.1", "https://10.96.0.1", true),
            ("10.96.0.0/12", "https://10.100.0.1", true),
            ("10.96.0.0/12", "https://10.112.0.1", false),
            ("0.0.0.0/0", "https://10.112.0.1", true),
            ("10.96.0.0/33", "https://10.96.0.0", false),
            ("fd00::/8", "https://[fd12::1]:6443", true),
            ("::/0", "https://10.0.0.1", false),
            ("fd12::1", "https://[fd12::1]", true),
            ("[fd12::1]:6443", "https://[fd12::1]:6443", true),
            ("[fd12::1]:6443", "https://[fd12::1]", false),
            ("10.96", "https://10.96.0.1", false),
            ("", "https://api", false),
            (",,", "https://api", false),
        ] {
            let variables = [("HTTPS_PROXY", "proxy:3128"), ("NO_PROXY", rules)];
            assert_eq!(proxy(server, &variables).is_none(), excluded, "{rules:?} {server}");
        }
    }
}
