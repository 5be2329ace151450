//! Cipher suites and key exchanges of the HTTPS server.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

use super::certificate::provider;

/// Why a choice of cipher suites or key exchanges cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CipherError {
    /// A name is not that of a suite.
    #[error("{suite:?} is no cipher suite; use names such as {example}")]
    NotASuite {
        /// The name.
        suite: String,
        /// Name of a suite that is supported.
        example: String,
    },
    /// None of the key exchanges is supported.
    #[error("none of {curves:?} is spoken, only {supported:?}")]
    NoKeyExchange {
        /// Numbers of the chosen key exchanges.
        curves: Vec<u16>,
        /// Numbers of the supported key exchanges.
        supported: Vec<u16>,
    },
}

/// Cipher suites and key exchanges; by default all that are safe.
#[derive(Clone, Debug)]
pub struct Ciphers(Arc<CryptoProvider>);

impl Default for Ciphers {
    fn default() -> Self {
        Self(provider())
    }
}

impl Ciphers {
    /// Chooses the TLS 1.2 suites of these names (IANA) and the key exchanges of these numbers; an empty
    /// list chooses all. TLS 1.3 suites are always enabled, as in Go. Also returns the names of suites
    /// that are not supported.
    pub fn choose(suites: &[String], curves: &[u16]) -> Result<(Self, Vec<String>), CipherError> {
        let mut chosen = CryptoProvider::clone(&provider());
        let name = |suite: &rustls::SupportedCipherSuite| {
            suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_")
        };
        let supported: Vec<_> = chosen.cipher_suites.iter().map(name).collect();
        let mut unsupported = Vec::new();
        // Go accepts two names without their last part.
        let suites = suites.iter().map(|suite| match suite.strip_suffix("_POLY1305") {
            Some(_) => format!("{suite}_SHA256"),
            None => suite.clone(),
        });
        let suites: Vec<_> = suites.collect();
        for suite in &suites {
            if !suite.starts_with("TLS_") {
                let example = supported.last().cloned().unwrap_or_default();
                return Err(CipherError::NotASuite { suite: suite.clone(), example });
            }
            if !supported.contains(suite) {
                unsupported.push(suite.clone());
            }
        }
        if !suites.is_empty() {
            chosen
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || suites.contains(&name(suite)));
        }
        if !curves.is_empty() {
            let supported: Vec<_> =
                chosen.kx_groups.iter().map(|kx| u16::from(kx.name())).collect();
            chosen.kx_groups.retain(|kx| curves.contains(&u16::from(kx.name())));
            if chosen.kx_groups.is_empty() {
                return Err(CipherError::NoKeyExchange { curves: curves.to_vec(), supported });
            }
        }
        Ok((Self(Arc::new(chosen)), unsupported))
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Choice = (usize, usize, Vec<String>);

    fn choose(suites: &[&str], curves: &[u16]) -> Result<Choice, CipherError> {
        let suites: Vec<_> = suites.iter().map(|&suite| suite.to_owned()).collect();
        let (Ciphers(chosen), unsupported) = Ciphers::choose(&suites, curves)?;
        let old = chosen.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        Ok((old.count(), chosen.kx_groups.len(), unsupported))
    }

    #[test]
    fn tls_1_2_suites_and_key_exchanges_are_limited_to_the_chosen_ones() {
        let all = choose(&[], &[]).unwrap();
        assert!(all.0 > 2 && all.1 > 1 && all.2.is_empty(), "{all:?}");
        let two =
            ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"];
        assert_eq!(choose(&two, &[29]).unwrap(), (2, 1, vec![]));
        let of_tls_1_3 = choose(&["TLS_AES_128_GCM_SHA256"], &[23, 4588]).unwrap();
        assert_eq!(of_tls_1_3, (0, 1, vec![]));
    }

    #[test]
    fn unsupported_suites_are_returned_and_unknown_names_are_errors() {
        let old = "TLS_RSA_WITH_AES_128_CBC_SHA";
        assert_eq!(choose(&[old], &[]).unwrap().2, [old]);
        assert!(choose(&["AES"], &[]).unwrap_err().to_string().contains("\"AES\""));
        assert!(choose(&[], &[1]).unwrap_err().to_string().contains("[1]"));
    }
}
