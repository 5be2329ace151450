//! Free ports on loopback.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// No port of loopback is free.
#[derive(Debug, thiserror::Error)]
#[error("no free port on 127.0.0.1")]
pub struct NoFreePort(#[source] rustix::io::Errno);

/// Returns ports that no socket is bound to, all different.
///
/// Another process may bind one before it is used; the caller then tries again with others.
pub fn free<const COUNT: usize>() -> Result<[u16; COUNT], NoFreePort> {
    // All sockets stay bound until the last port is found, so that no port is returned twice.
    let held = (0..COUNT).map(|_| hold()).collect::<Result<Vec<_>, _>>().map_err(NoFreePort)?;
    let mut ports = [0; COUNT];
    for (port, (_, number)) in ports.iter_mut().zip(&held) {
        *port = *number;
    }
    Ok(ports)
}

/// Binds a socket to a free port without listening. A child process that is started meanwhile has a
/// copy until its exec; a listening copy would keep the server from binding the port.
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
    fn a_copy_of_the_socket_does_not_keep_a_server_from_the_port() {
        let (held, port) = hold().unwrap();
        let _copy = held.try_clone().unwrap();
        drop(held);
        TcpListener::bind(("127.0.0.1", port)).unwrap();
    }
}
