//! A panic ends the process, wherever it happens.
//!
//! A scheduler that lost a thread or a task still holds its lease: it would neither place pods nor let
//! another replica do so. Ended, it releases the lease by not renewing it.
//!
//! The exception is a handler of the embedded API server: a panic there concerns one request, as in
//! kube-apiserver, and unwinds to the connection, which answers 500 or closes.

use std::panic;
use std::process;

/// Installs a panic hook that prints the panic and aborts, unless the thread that panics handles a
/// request of the embedded API server.
///
/// The process ends by SIGABRT, as it does under `panic = "abort"`.
pub fn abort_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        if !sandbox::handles_request() {
            process::abort();
        }
    }));
}
