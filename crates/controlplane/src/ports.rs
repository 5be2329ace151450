//! Free ports on loopback.

use std::net::TcpListener;

use anyhow::{Context as _, Result};

/// Ports that nobody listens on, all different.
///
/// Somebody may take one before it is used; who starts a server on it tries again then.
pub fn free<const COUNT: usize>() -> Result<[u16; COUNT]> {
    // All are held until the last one is found, so that none is given twice.
    let held = (0..COUNT)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<Result<Vec<_>, _>>()
        .context("no free port on 127.0.0.1")?;
    let mut ports = [0; COUNT];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr().context("a listener without an address")?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_differ_and_can_be_used() {
        let ports = free::<16>().unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 16);
        assert!(ports.iter().all(|port| *port > 0));
        assert!(ports.iter().any(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()));
    }
}
