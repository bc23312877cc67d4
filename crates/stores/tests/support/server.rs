//! Private servers, which are skipped where they are not installed.

use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions, StartError};

/// Starts a server in a directory, which must outlive it. `None`, said on stderr, when it is not
/// installed; under CI that is a failure.
pub fn start(name: &str, dir: &PrivateDir, options: &ServerOptions) -> Option<Server> {
    match Server::start(ServerKind::by_name(name).unwrap(), dir.path(), options) {
        Ok(server) => Some(server),
        Err(error @ StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A port on which nobody listens.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
