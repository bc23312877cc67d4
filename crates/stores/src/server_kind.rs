//! How a private instance of a server runs, for the conformance suite and the benchmark.
//!
//! Plain data, kept beside the store. `crates/fixtures` starts and stops the servers.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sessile_core::Durability;

use crate::STORES;

/// A kind of server.
#[derive(Clone, Copy, Debug)]
pub struct ServerKind {
    /// The name in capabilities.
    pub name: &'static str,
    /// The Debian package.
    pub package: &'static str,
    /// The programs, the preferred one first.
    pub programs: &'static [&'static str],
    /// Further directories to search, the preferred one first.
    pub places: fn() -> Vec<PathBuf>,
    /// The file name of the socket.
    pub socket: &'static str,
    /// Whether it refuses to run as root.
    pub refuses_root: bool,
    /// The signal for an immediate, orderly end.
    pub ends_on: &'static str,
    /// The command line that creates the data directory, if needed, from the program and the
    /// directory.
    pub prepare: Option<fn(&Path, &Path) -> Vec<OsString>>,
    /// The command line for a directory, a socket and a durability.
    pub arguments: fn(&Path, &Path, Durability) -> Vec<OsString>,
    /// The vendor's settings for a dedicated machine, only for measurements: tests stay small.
    pub when_measured: &'static [&'static str],
    /// Whether it serves requests on a connected socket.
    pub serves: fn(UnixStream) -> bool,
}

impl ServerKind {
    /// What most servers have in common.
    pub const PLAIN: ServerKind = ServerKind {
        name: "",
        package: "",
        programs: &[],
        places: Vec::new,
        socket: "socket",
        refuses_root: false,
        ends_on: "TERM",
        prepare: None,
        arguments: |_, _, _| Vec::new(),
        when_measured: &[],
        serves: |_| true,
    };

    /// The server of each store that needs one.
    pub fn all() -> impl Iterator<Item = &'static ServerKind> {
        STORES.iter().filter_map(|entry| entry.server)
    }

    /// The kind with this name in capabilities.
    pub fn by_name(name: &str) -> Option<&'static ServerKind> {
        ServerKind::all().find(|kind| kind.name == name)
    }

    /// The installed program, also from system directories that PATH may lack.
    pub fn find(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin".into(), "/usr/local/sbin".into()];
        let places: Vec<PathBuf> =
            std::env::split_paths(&path).chain(system).chain((self.places)()).collect();
        let installed =
            |name: &&str| places.iter().map(|place| place.join(name)).find(|file| file.is_file());
        self.programs.iter().find_map(installed)
    }
}
