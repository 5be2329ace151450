//! Cipher suites and key exchanges of the HTTPS server.

use std::sync::Arc;

use anyhow::{Result, ensure};
use rustls::crypto::CryptoProvider;

use super::certificate::provider;

/// With what TLS is spoken; all that is safe unless something is chosen.
#[derive(Clone, Debug)]
pub struct Ciphers(Arc<CryptoProvider>);

impl Default for Ciphers {
    fn default() -> Self {
        Self(provider())
    }
}

impl Ciphers {
    /// The suites of TLS 1.2 with these names, as IANA has them, and the key exchanges with these
    /// numbers; all if there are none. Those of TLS 1.3 are always spoken, as in Go. Also returns the
    /// names of suites that are not spoken.
    pub fn choose(suites: &[String], curves: &[u16]) -> Result<(Self, Vec<String>)> {
        let mut chosen = CryptoProvider::clone(&provider());
        let name = |suite: &rustls::SupportedCipherSuite| {
            suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_")
        };
        let spoken: Vec<_> = chosen.cipher_suites.iter().map(name).collect();
        let mut unspoken = Vec::new();
        // Go takes two names without their last part.
        let suites = suites.iter().map(|suite| match suite.strip_suffix("_POLY1305") {
            Some(_) => format!("{suite}_SHA256"),
            None => suite.clone(),
        });
        let suites: Vec<_> = suites.collect();
        for suite in &suites {
            ensure!(
                suite.starts_with("TLS_"),
                "{suite:?} is no cipher suite; use names such as {}",
                spoken.last().map_or("", String::as_str)
            );
            if !spoken.contains(suite) {
                unspoken.push(suite.clone());
            }
        }
        if !suites.is_empty() {
            chosen
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || suites.contains(&name(suite)));
        }
        if !curves.is_empty() {
            let known: Vec<_> = chosen.kx_groups.iter().map(|kx| u16::from(kx.name())).collect();
            chosen.kx_groups.retain(|kx| curves.contains(&u16::from(kx.name())));
            ensure!(!chosen.kx_groups.is_empty(), "none of {curves:?} is spoken, only {known:?}");
        }
        Ok((Self(Arc::new(chosen)), unspoken))
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(suites: &[&str], curves: &[u16]) -> Result<(usize, usize, Vec<String>)> {
        let suites: Vec<_> = suites.iter().map(|&suite| suite.to_owned()).collect();
        let (Ciphers(chosen), unspoken) = Ciphers::choose(&suites, curves)?;
        let old = chosen.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        Ok((old.count(), chosen.kx_groups.len(), unspoken))
    }

    #[test]
    fn suites_of_tls_1_2_and_curves_are_those_that_were_chosen() {
        let all = choose(&[], &[]).unwrap();
        assert!(all.0 > 2 && all.1 > 1 && all.2.is_empty(), "{all:?}");
        let two =
            ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"];
        assert_eq!(choose(&two, &[29]).unwrap(), (2, 1, vec![]));
        let of_tls_1_3 = choose(&["TLS_AES_128_GCM_SHA256"], &[23, 4588]).unwrap();
        assert_eq!(of_tls_1_3, (0, 1, vec![]));
    }

    #[test]
    fn suites_that_are_not_safe_are_told_and_what_is_none_is_refused() {
        let old = "TLS_RSA_WITH_AES_128_CBC_SHA";
        assert_eq!(choose(&[old], &[]).unwrap().2, [old]);
        assert!(choose(&["AES"], &[]).unwrap_err().to_string().contains("\"AES\""));
        assert!(choose(&[], &[1]).unwrap_err().to_string().contains("[1]"));
    }
}
