//! Private directories and the server of a contender that lives inside PHP, and their names in its
//! settings: `{shm}` and `{disk}` for directories, `{socket}` for the server's socket in
//! `{socket_dir}`.
//!
//! Invariant: dropping [`PrivatePlaces`] leaves no process and no file. Whatever uses them must be
//! dropped before.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::Durability;
use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions, cpu_time};

use crate::redact;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

const SHARED_MEMORY: &str = "{shm}";
const DISK: &str = "{disk}";

pub(crate) struct PrivatePlaces {
    // Dropped in this order: the server before its directory.
    server: Option<Server>,
    /// Directories that contain only sessions, with the names that stand for them.
    homes: Vec<(&'static str, PathBuf)>,
    /// Texts that must not be shown, and their replacements.
    pub hidden: Vec<(String, &'static str)>,
    shm: PrivateDir,
    _disk: Option<PrivateDir>,
}

impl PrivatePlaces {
    /// Makes the directories that these settings name, and starts the server with these further
    /// arguments.
    pub(crate) fn open(
        settings: &[&str],
        server: Option<&str>,
        durability: Durability,
        arguments: &[&str],
    ) -> WorkerResult<PrivatePlaces> {
        let no_directory = |error: io::Error| {
            ContenderFailure::not_started(format!("no fresh directory: {error}"))
        };
        let is_named = |name: &str| settings.iter().any(|setting| setting.contains(name));
        let kind = server.and_then(ServerKind::by_name);
        let shm = PrivateDir::in_shared_memory().map_err(no_directory)?;
        let on_disk = kind.is_some() || is_named(DISK);
        let disk = on_disk.then(PrivateDir::on_disk).transpose().map_err(no_directory)?;
        let extra = arguments.iter().map(OsString::from).collect();
        let options = ServerOptions { durability, measured: true, extra };
        let start = |(kind, disk): (&ServerKind, &PrivateDir)| {
            Server::start(kind, disk.path(), &options)
                .map_err(|error| ContenderFailure::not_started(redact::start_error(&error)))
        };
        let server = kind.zip(disk.as_ref()).map(start).transpose()?;
        let mut homes = Vec::new();
        let mut hidden = vec![(shm.path().display().to_string(), "<shm>")];
        for (name, dir) in [(SHARED_MEMORY, Some(&shm)), (DISK, disk.as_ref())] {
            if let Some(dir) = dir.filter(|_| is_named(name)) {
                let home = dir.path().join("sessions");
                fs::create_dir(&home).map_err(no_directory)?;
                homes.push((name, home));
            }
        }
        hidden.extend(disk.as_ref().map(|disk| (disk.path().display().to_string(), "<disk>")));
        Ok(PrivatePlaces { server, homes, hidden, shm, _disk: disk })
    }

    /// A setting with the places in it.
    pub(crate) fn fill(&self, setting: &str) -> String {
        let with = |filled: String, (name, home): &(&'static str, PathBuf)| {
            filled.replace(name, &home.display().to_string())
        };
        let filled = self.homes.iter().fold(setting.to_owned(), with);
        let Some(socket) = self.server_socket() else { return filled };
        let dir = socket.parent().unwrap_or(socket).display().to_string();
        filled.replace("{socket}", &socket.display().to_string()).replace("{socket_dir}", &dir)
    }

    /// For files besides the sessions.
    pub(crate) fn scratch(&self) -> &Path {
        self.shm.path()
    }

    pub(crate) fn homes(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.homes.iter().map(|(_, home)| home.as_path())
    }

    pub(crate) fn server_socket(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::socket)
    }

    pub(crate) fn server_cpu(&self) -> Duration {
        self.server.as_ref().and_then(|server| cpu_time(server.pid())).unwrap_or_default()
    }

    /// Removes paths and session ids.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact::ids(&redact::message(text, &self.hidden))
    }
}
