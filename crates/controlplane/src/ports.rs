//! Free ports on loopback.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// Ports that nobody listens on, all different.
///
/// Somebody may take one before it is used; who starts a server on it tries again then.
pub fn free<const COUNT: usize>() -> Result<[u16; COUNT]> {
    // All are held until the last one is found, so that none is given twice.
    let held = (0..COUNT)
        .map(|_| hold())
        .collect::<Result<Vec<_>, _>>()
        .context("no free port on 127.0.0.1")?;
    let mut ports = [0; COUNT];
    for (port, (_, number)) in ports.iter_mut().zip(&held) {
        *port = *number;
    }
    Ok(ports)
}

/// A socket that keeps a port from being given again, without listening: a process that is
/// started meanwhile has a copy until it runs its own program, and a listening one would keep
/// the server from the port after all were let go here.
fn hold() -> rustix::io::Result<(OwnedFd, u16)> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let address = SocketAddrV4::try_from(getsockname(&socket)?)?;
    Ok((socket, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    #[test]
    fn ports_differ_and_can_be_used() {
        let ports = free::<16>().unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 16);
        assert!(ports.iter().all(|port| *port > 0));
        // One may be taken by another test of this machine in between, but not all.
        assert!(ports.iter().any(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()));
    }

    #[test]
    fn a_copy_in_another_process_does_not_keep_the_server_away() {
        let (held, port) = hold().unwrap();
        let _copy = held.try_clone().unwrap();
        drop(held);
        TcpListener::bind(("127.0.0.1", port)).unwrap();
    }
}
