//! Makes a contender real: private directories and server, or the user's own store.
//!
//! Dropping a [`Stage`] removes what it made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::Durability;
use sessile_fixtures::{Instance, PrivateDir, Server, ServerKind, ServerOptions, cpu_time, with_option};

use crate::footprint::Place;
use crate::network::Network;
use crate::redact;
use crate::reference::Reference;
use crate::selection::{Choice, Target};
use crate::worker::protocol::What;

/// The option of stores whose locks end with time.
pub(crate) const LOCK_TTL: &str = "lock_ttl_ms";

/// A contender's surroundings.
pub(crate) struct Stage {
    pub what: What,
    server_pid: Option<u32>,
    socket: Option<PathBuf>,
    /// Where it keeps its data, if that is a private directory.
    dir: Option<PathBuf>,
    /// Places that must not be shown, and what is shown instead.
    pub hidden: Vec<(String, &'static str)>,
    network: Option<Network>,
    keep: Keep,
}

/// What lives as long as the stage. The server goes before its directory.
enum Keep {
    Nothing,
    Instance { instance: Box<Instance> },
    Server { server: Box<Server>, _dir: PrivateDir },
    Dir { _dir: PrivateDir },
}

impl Stage {
    /// Makes a contender real, or says why not.
    pub(crate) fn set(choice: &Choice, durability: Durability, round_trip: Option<Duration>) -> Result<Stage, String> {
        let mut stage = Stage::near(choice, durability)?;
        if let (Some(round_trip), Some(server)) = (round_trip, &stage.socket) {
            let network = Network::before(server, round_trip).map_err(|error| format!("no network: {error}"))?;
            match &mut stage.what {
                What::Store { url, .. } => {
                    *url = url.replace(&server.display().to_string(), &network.socket().display().to_string());
                }
                What::Reference { place, .. } => *place = network.socket().to_owned(),
                What::Test { .. } => {}
            }
            stage.hidden.push((network.dir().display().to_string(), "<network>"));
            stage.network = Some(network);
        }
        Ok(stage)
    }

    /// With its server on this machine.
    fn near(choice: &Choice, durability: Durability) -> Result<Stage, String> {
        let extra = if let Target::FixtureOn(.., extra) = choice.target { extra } else { &[] };
        let extra = extra.iter().map(OsString::from).collect();
        let options = ServerOptions { durability, measured: true, extra };
        match choice.target {
            Target::Fixture(entry, fixture) | Target::FixtureOn(entry, fixture, _) => {
                let mut instance = Instance::start(entry, fixture, &options).map_err(|error| error.to_string())?;
                let dir = instance.dir().to_owned();
                let name = if fixture.url.contains("{shm}") { "<shm>" } else { "<disk>" };
                Ok(Stage {
                    what: What::Store { url: instance.url().to_owned(), reconnects: choice.reconnects },
                    server_pid: instance.server_pid(),
                    socket: instance.server().map(|server| server.socket().to_owned()),
                    hidden: vec![(dir.display().to_string(), name)],
                    dir: instance.server_pid().is_none().then_some(dir),
                    network: None,
                    keep: Keep::Instance { instance: Box::new(instance) },
                })
            }
            Target::Url(_, url) => Ok(Stage {
                what: What::Store { url: url.to_owned(), reconnects: false },
                server_pid: None,
                socket: None,
                dir: dir_in_url(choice, url),
                hidden: hidden_in_url(url),
                network: None,
                keep: Keep::Nothing,
            }),
            Target::Handler(handler) => Err(format!("{} runs in PHP only", handler.title())),
            Target::Keeper(keeper) => Err(format!("{} runs in Perl only", keeper.title())),
            Target::Test(name, place) => Ok(Stage {
                what: What::Test { name: name.to_owned(), place: place.into() },
                server_pid: None,
                socket: None,
                dir: Some(place.into()),
                hidden: Vec::new(),
                network: None,
                keep: Keep::Nothing,
            }),
            Target::Reference(reference) => {
                let (dir, name) = place_of(reference).map_err(|error| format!("no fresh directory: {error}"))?;
                let hidden = vec![(dir.path().display().to_string(), name)];
                let what = |place: &Path| What::Reference { name: reference.name.to_owned(), place: place.to_owned() };
                let Some(kind) = reference.server.and_then(ServerKind::by_name) else {
                    return Ok(Stage {
                        what: what(dir.path()),
                        server_pid: None,
                        socket: None,
                        dir: Some(dir.path().to_owned()),
                        hidden,
                        network: None,
                        keep: Keep::Dir { _dir: dir },
                    });
                };
                let server = kind.start(dir.path(), &options).map_err(|error| error.to_string())?;
                Ok(Stage {
                    what: what(server.socket()),
                    server_pid: Some(server.pid()),
                    socket: Some(server.socket().to_owned()),
                    dir: None,
                    hidden,
                    network: None,
                    keep: Keep::Server { server: Box::new(server), _dir: dir },
                })
            }
        }
    }

    /// Lets the locks of a private store end after this time, where they end with time at all.
    pub(crate) fn let_locks_lapse(&mut self, choice: &Choice, lock_ttl: Duration) {
        let (Target::Fixture(entry, _) | Target::FixtureOn(entry, ..)) = choice.target else { return };
        if let What::Store { url, .. } = &mut self.what
            && entry.options.iter().any(|option| option.name == LOCK_TTL)
        {
            *url = with_option(url, LOCK_TTL, &lock_ttl.as_millis().to_string());
        }
    }

    fn server(&mut self) -> Option<&mut Server> {
        match &mut self.keep {
            Keep::Instance { instance } => instance.server(),
            Keep::Server { server, .. } => Some(server),
            Keep::Nothing | Keep::Dir { .. } => None,
        }
    }

    /// Whether there is a server that may be killed.
    pub(crate) fn has_server(&mut self) -> bool {
        self.server().is_some()
    }

    /// Kills the private server with SIGKILL; none of its processes is left when this returns.
    pub(crate) fn kill_server(&mut self) {
        if let Some(server) = self.server() {
            server.kill();
        }
    }

    /// Starts it again in the same place; it answers when this returns.
    pub(crate) fn restart_server(&mut self) -> Result<(), String> {
        let Some(server) = self.server() else { return Err("there is no server of ours".to_owned()) };
        server.restart().map_err(|error| error.to_string())?;
        self.server_pid = Some(server.pid());
        Ok(())
    }

    /// The private server's socket.
    pub(crate) fn server_socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The private server's process.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server_pid
    }

    /// CPU time that the private server has used so far.
    pub(crate) fn server_cpu(&self) -> Duration {
        self.server_pid.and_then(cpu_time).unwrap_or_default()
    }

    /// Where the sessions take space.
    pub(crate) fn place(&self, choice: &Choice) -> Place {
        match (self.server_pid, &self.dir) {
            (Some(pid), _) => Place::Server(pid),
            _ if !choice.shared_by_processes => Place::Worker,
            (None, Some(dir)) if self.is_foreign() => Place::Shared(dir.clone()),
            (None, Some(dir)) => Place::Directory(dir.clone()),
            (None, None) => Place::Unknown,
        }
    }

    /// Whether it is a store of the user's, which may hold sessions that are not ours.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.keep, Keep::Nothing)
    }

    /// Whether what workers put into it stays when they and this are gone.
    pub(crate) fn outlives_its_workers(&self, choice: &Choice) -> bool {
        matches!(choice.target, Target::Url(..)) && choice.shared_by_processes
    }

    /// The seed of ids. In a store of the user's a second run must not meet the ids of an aborted one.
    pub(crate) fn seed(&self, seed: u64) -> u64 {
        if self.is_foreign() { seed ^ crate::monotonic::now_ns().rotate_left(20) } else { seed }
    }

    /// The private server's socket directory is gone from this text, and so are the user's places.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact::message(text, &self.hidden)
    }
}

/// Where a reference row keeps its data, and what is shown of that: its server where the store of the same server has its
/// own, on the disk; without a server in memory, as no disk must stand in the way of what is possible.
fn place_of(reference: &Reference) -> std::io::Result<(PrivateDir, &'static str)> {
    match reference.server {
        Some(_) => PrivateDir::on_disk().map(|dir| (dir, "<disk>")),
        None => PrivateDir::in_shared_memory().map(|dir| (dir, "<shm>")),
    }
}

/// The directory that the URL of an embedded store names, if there is one.
fn dir_in_url(choice: &Choice, url: &str) -> Option<PathBuf> {
    let path = sessile_stores::StoreUrl::parse(url).ok()?.path().ok()?;
    (!choice.over_socket && path.is_dir()).then_some(path)
}

fn hidden_in_url(url: &str) -> Vec<(String, &'static str)> {
    let Ok(parsed) = url::Url::parse(url) else { return Vec::new() };
    let mut hidden = vec![(parsed.path().to_owned(), "<path>")];
    hidden.extend(parsed.host_str().filter(|host| !host.is_empty()).map(|host| (host.to_owned(), "<host>")));
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::REFERENCES;

    /// Their servers lay in memory, and those of the stores on the disk: the rows were not comparable, least of all where
    /// each commit is synced.
    #[test]
    fn the_server_of_a_reference_row_keeps_its_data_where_the_one_of_a_store_does() {
        for reference in REFERENCES {
            let (dir, name) = place_of(reference).unwrap();
            assert_eq!(dir.path().starts_with("/dev/shm"), reference.server.is_none(), "{}", reference.name);
            assert_eq!(name == "<disk>", reference.server.is_some(), "{}", reference.name);
        }
    }
}
