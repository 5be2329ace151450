//! Local addresses of this machine, for a server that listens on all of them.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Returns the local addresses of the Linux routing tables; empty on other systems.
pub(super) fn local() -> BTreeSet<IpAddr> {
    // Unreadable files are ignored: certificates contain localhost anyway.
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let four = four(&text("/proc/net/fib_trie")).into_iter().map(IpAddr::V4);
    let six = six(&text("/proc/net/if_inet6")).into_iter().map(IpAddr::V6);
    four.chain(six).collect()
}

/// Returns the source address of outgoing connections. No packet is sent.
pub(super) fn outgoing(six: bool) -> Option<IpAddr> {
    // Addresses reserved for documentation; they are routed by the default route.
    let (own, other) = if six {
        (
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        )
    } else {
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)))
    };
    let socket = UdpSocket::bind(SocketAddr::new(own, 0)).ok()?;
    socket.connect(SocketAddr::new(other, 9)).ok()?;
    let found = socket.local_addr().ok()?.ip();
    (!found.is_unspecified() && !found.is_loopback()).then_some(found)
}

/// Returns the leaves of the routing trie that are followed by `/32 host LOCAL`.
fn four(trie: &str) -> Vec<Ipv4Addr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in trie.lines() {
        let line = line.trim();
        if let Some(leaf) = line.strip_prefix("|-- ") {
            last = leaf.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last);
        }
    }
    found
}

/// Parses the first column, 32 hexadecimal digits each. Link-local addresses are skipped, since they need
/// the name of an interface.
fn six(table: &str) -> Vec<Ipv6Addr> {
    let addresses = table.lines().filter_map(|line| {
        let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
        u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
    });
    addresses.filter(|address| !address.is_unicast_link_local()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_tables_are_parsed() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.2.3\n        /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n     +-- 127.0.0.0/8 2 0 2\n        |-- 127.0.0.1\n           /32 host LOCAL\n";
        assert_eq!(four(trie), [Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::LOCALHOST]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nfe800000000000000000000000000001 02 40 20 80     eth0\nfd000000000000000000000000000007 02 40 00 80     eth0\nx\n";
        assert_eq!(six(table), [Ipv6Addr::LOCALHOST, "fd00::7".parse().unwrap()]);
    }
}
