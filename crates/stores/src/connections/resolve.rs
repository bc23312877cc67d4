//! From the name of a host to its addresses, in bounded time.
//!
//! The resolver of the system takes no time-out and no deadline: with the usual settings a silent
//! name server costs ten seconds. So a thread asks it. A thread that is asked in vain ends when the
//! resolver does. It takes no signal, because the handlers of a host program, as PHP's, count on
//! their own threads; and it holds nothing that a fork could leave locked.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};

pub fn resolve(host: &str, port: u16, within: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    ask(within, move || Ok((host.as_str(), port).to_socket_addrs()?.collect()))
}

fn ask<T: Send + 'static>(
    within: Duration,
    question: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, answer) = mpsc::sync_channel(1);
    // A new thread inherits the mask.
    let signals = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new().name("resolve".to_owned());
    let spawned = thread.spawn(move || sender.send(question()));
    signals.thread_set_mask()?;
    spawned?;
    answer.recv_timeout(within).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nix::sys::signal::Signal;

    use super::*;

    #[test]
    fn addresses_need_no_resolver_and_a_name_of_this_host_is_found() {
        let none = Duration::ZERO;
        assert_eq!(resolve("::1", 7, none).unwrap(), ["[::1]:7".parse().unwrap()]);
        assert_eq!(resolve("127.0.0.1", 7, none).unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        assert!(!resolve("localhost", 7, Duration::from_secs(10)).unwrap().is_empty());
        assert!(resolve("no host", 7, Duration::from_secs(10)).is_err());
    }

    #[test]
    fn a_silent_resolver_is_given_up_in_time_and_takes_no_signals() {
        let start = Instant::now();
        let silent = ask(Duration::from_millis(50), || {
            std::thread::sleep(Duration::from_secs(2));
            Ok(())
        });
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() < Duration::from_secs(1));
        let blocked = || Ok(SigSet::thread_get_mask()?.contains(Signal::SIGPROF));
        assert!(!blocked().unwrap());
        assert!(ask(Duration::from_secs(10), blocked).unwrap());
        assert!(!blocked().unwrap(), "only for the other thread");
    }
}
