//! A running keeper: its Perl process, server and directories.
//!
//! Invariant: dropping a [`RunningKeeper`] leaves no process and no file. Its texts contain no path
//! and no session id.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions, cpu_time};

use crate::footprint::{Footprint, FootprintSource};
use crate::options::Settings;
use crate::perl::{Keeper, PerlInstallation, Runner, SpaceSource};
use crate::redact;

/// Space in payloads where it is fixed beforehand: it includes overhead and uneven partitions.
const ROOM: usize = 8;

pub(super) struct RunningKeeper {
    // Dropped in this order: Perl, server, directories.
    pub runner: Runner,
    server: Option<Server>,
    footprint: Option<Footprint>,
    hidden: Vec<(String, &'static str)>,
    _dirs: Vec<PrivateDir>,
}

impl RunningKeeper {
    pub(super) fn open(
        keeper: &Keeper,
        perl: &PerlInstallation,
        settings: &Settings,
    ) -> Result<RunningKeeper, String> {
        let no_directory = |error: std::io::Error| format!("no fresh directory: {error}");
        let mut dirs = vec![PrivateDir::in_shared_memory().map_err(no_directory)?];
        let mut hidden = Vec::new();
        if keeper.server.is_some()
            || keeper.settings.iter().any(|(_, value)| value.contains("{disk}"))
        {
            dirs.push(PrivateDir::on_disk().map_err(no_directory)?);
        }
        hidden.extend(
            dirs.iter()
                .zip(["<shm>", "<disk>"])
                .map(|(dir, name)| (dir.path().display().to_string(), name)),
        );
        let scripts = create_subdir(&dirs, 0, "scripts").map_err(no_directory)?;
        let sessions = create_subdir(&dirs, dirs.len() - 1, "sessions").map_err(no_directory)?;
        let server = match (keeper.server.and_then(ServerKind::by_name), dirs.last()) {
            (Some(kind), Some(disk)) => {
                let options = ServerOptions {
                    durability: settings.durability,
                    measured: true,
                    ..ServerOptions::default()
                };
                Some(
                    Server::start(kind, disk.path(), &options)
                        .map_err(|error| redact::start_error(&error))?,
                )
            }
            _ => None,
        };
        let most = settings.sizes.last().copied().unwrap_or(settings.sessions);
        let megabytes = ((most * settings.payload_bytes * ROOM) >> 20) + ROOM;
        let fill = |value: &str| {
            let mut value = value.replace("{megabytes}", &megabytes.to_string());
            for mark in ["{shm}", "{disk}"] {
                value = value.replace(mark, &sessions.display().to_string());
            }
            if let Some(server) = &server {
                let socket = server.socket();
                value = value.replace("{socket}", &socket.display().to_string());
                value = value.replace(
                    "{socket_dir}",
                    &socket.parent().unwrap_or(socket).display().to_string(),
                );
            }
            value
        };
        let filled: Vec<(String, String)> =
            keeper.settings.iter().map(|(name, value)| ((*name).to_owned(), fill(value))).collect();
        let runner = Runner::start(perl.command(keeper), &scripts, keeper, &filled)
            .map_err(|why| redact::ids(&redact::message(&why, &hidden)))?;
        let footprint = (keeper.space == SpaceSource::Files)
            .then(|| Footprint::of_empty(FootprintSource::Directory(sessions), runner.pid()));
        Ok(RunningKeeper { runner, server, footprint, hidden, _dirs: dirs })
    }

    pub(super) fn server_cpu(&self) -> Duration {
        self.server.as_ref().and_then(|server| cpu_time(server.pid())).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.footprint.as_ref().map(Footprint::bytes)
    }

    /// Removes paths and session ids.
    pub(super) fn redact(&self, text: &str) -> String {
        redact::ids(&redact::message(text, &self.hidden))
    }
}

fn create_subdir(dirs: &[PrivateDir], number: usize, name: &str) -> std::io::Result<PathBuf> {
    let parent = dirs.get(number).map_or(Path::new("/"), PrivateDir::path);
    let dir = parent.join(name);
    std::fs::create_dir(&dir)?;
    Ok(dir)
}
