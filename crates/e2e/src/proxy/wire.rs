//! Network partitions between a scheduler and a proxy.
//!
//! ```text
//! scheduler ──▶ kernel ──▶ filter on the proxy's socket (drops segments) ──▶ proxy
//! scheduler ◀── kernel ◀── held back by the proxy ◀── proxy
//! ```
//!
//! In a partition the proxy's sockets drop every segment that arrives, new connections included,
//! before TCP sees it: nothing is acknowledged and nothing is reset. The scheduler's kernel keeps
//! retransmitting, and the segments that it still holds arrive after the partition.

use std::io;

use socket2::{SockFilter, SockRef, Socket};
use tokio::sync::watch;

use super::LinkState;

/// A socket filter that drops every segment by returning a length of 0.
const DROP_ALL: [SockFilter; 1] = [SockFilter::new(RETURN_CONSTANT, 0, 0, 0)];

/// Classic BPF instruction that returns a constant.
const RETURN_CONSTANT: u16 = 0x06;

/// Partitions a socket whenever the link is partitioned. Returns on an error only.
pub(super) async fn partition(socket: Socket, mut link: watch::Receiver<LinkState>) -> io::Error {
    let mut now = false;
    loop {
        let wanted = link.borrow_and_update().partitioned;
        if wanted != now {
            let done =
                if wanted { socket.attach_filter(&DROP_ALL) } else { socket.detach_filter() };
            if let Err(error) = done {
                return error;
            }
            now = wanted;
        }
        if link.changed().await.is_err() {
            return io::ErrorKind::NotConnected.into();
        }
    }
}

/// Returns the same socket under another file descriptor.
pub(super) fn share<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<Socket> {
    socket.into().try_clone()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn what_is_sent_in_a_partition_arrives_after_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let link = watch::Sender::new(LinkState { partitioned: true, ..LinkState::default() });
        let partition = tokio::spawn(partition(share(&far).unwrap(), link.subscribe()));
        // The filter is attached once this task has run.
        tokio::task::yield_now().await;
        near.write_all(b"late").await.unwrap();
        let mut bytes = [0; 4];
        let soon = Duration::from_millis(50);
        assert!(timeout(soon, far.read_exact(&mut bytes)).await.is_err());
        link.send_modify(|link| link.partitioned = false);
        timeout(LONG, far.read_exact(&mut bytes)).await.unwrap().unwrap();
        assert_eq!(&bytes, b"late");
        drop(link);
        timeout(LONG, partition).await.unwrap().unwrap();
    }
}
