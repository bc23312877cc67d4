//! Starts a contender: private directories and server, or the user's own store.
//!
//! Dropping a [`Deployment`] removes what it made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_fixtures::{Instance, PrivateDir, Server, ServerKind, ServerOptions, cpu_time};
use sessile_stores::with_option;

use crate::cluster::PrivateCluster;
use crate::defaults::LONG_TTL;
use crate::footprint::FootprintSource;
use crate::network::DelayedNetwork;
use crate::redact;
use crate::reference::Reference;
use crate::selection::{Choice, ContenderSource};
use crate::standby::PrivatePair;
use crate::worker::protocol::ContenderSpec;

pub(crate) const LOCK_TTL: &str = "lock_ttl_ms";

pub(crate) struct Deployment {
    pub what: ContenderSpec,
    server_pid: Option<u32>,
    socket: Option<PathBuf>,
    dir: Option<PathBuf>,
    /// Texts that must not be shown, and their replacements.
    pub hidden: Vec<(String, &'static str)>,
    network: Option<DelayedNetwork>,
    keep: OwnedResources,
}

/// Lives as long as the deployment. The server is dropped before its directory.
enum OwnedResources {
    Nothing,
    Instance { instance: Box<Instance> },
    Server { server: Box<Server>, _dir: PrivateDir },
    Cluster { cluster: Box<PrivateCluster> },
    Pair { pair: Box<PrivatePair> },
    Dir { _dir: PrivateDir },
}

impl Deployment {
    fn new(what: ContenderSpec, keep: OwnedResources) -> Deployment {
        let (server_pid, socket, dir) = (None, None, None);
        Deployment { what, server_pid, socket, dir, hidden: Vec::new(), network: None, keep }
    }

    pub(crate) fn start(
        choice: &Choice,
        round_trip: Option<Duration>,
    ) -> Result<Deployment, String> {
        if let ContenderSource::Cluster(contender) = choice.target {
            let cluster = PrivateCluster::start(round_trip).map_err(|error| error.to_string())?;
            let what = contender.opened(&cluster);
            let keep = OwnedResources::Cluster { cluster: Box::new(cluster) };
            return Ok(Deployment::new(what, keep));
        }
        if let ContenderSource::Standby(contender) = choice.target {
            let pair = PrivatePair::start(contender, choice.tier(), round_trip);
            let pair = Box::new(pair.map_err(|error| error.to_string())?);
            return Ok(Deployment::new(pair.opened(), OwnedResources::Pair { pair }));
        }
        let mut stage = Deployment::start_local(choice)?;
        if let (Some(round_trip), Some(server)) = (round_trip, &stage.socket) {
            let network = DelayedNetwork::before(server, round_trip)
                .map_err(|error| format!("no network: {error}"))?;
            match &mut stage.what {
                ContenderSpec::Store { url, .. } => {
                    *url = url.replace(
                        &server.display().to_string(),
                        &network.socket().display().to_string(),
                    );
                }
                ContenderSpec::Reference { place, .. } => *place = network.socket().to_owned(),
                ContenderSpec::Test { .. } => {}
            }
            stage.hidden.push((network.dir().display().to_string(), "<network>"));
            stage.network = Some(network);
        }
        Ok(stage)
    }

    fn start_local(choice: &Choice) -> Result<Deployment, String> {
        let extra = choice.server_arguments.iter().map(OsString::from).collect();
        let options = ServerOptions { durability: choice.tier(), measured: true, extra };
        match choice.target {
            ContenderSource::Fixture(entry, fixture) => {
                let mut instance =
                    Instance::start(entry, fixture, &options).map_err(|error| error.to_string())?;
                let dir = instance.dir().to_owned();
                let name = if fixture.url.contains("{shm}") { "<shm>" } else { "<disk>" };
                let (mut url, server_pid) = (instance.url().to_owned(), instance.server_pid());
                // Sessions of the bench outlive the 24 minutes of PHP's files.
                if fixture.url.contains("php=1") {
                    url = with_option(&url, "maxlifetime", &LONG_TTL.as_secs().to_string());
                }
                let what = ContenderSpec::Store { url, reconnects: choice.reconnects };
                let socket = instance.server().map(|server| server.socket().to_owned());
                let keep = OwnedResources::Instance { instance: Box::new(instance) };
                Ok(Deployment {
                    server_pid,
                    socket,
                    hidden: vec![(dir.display().to_string(), name)],
                    dir: server_pid.is_none().then_some(dir),
                    ..Deployment::new(what, keep)
                })
            }
            ContenderSource::Url(_, url) => {
                let what = ContenderSpec::Store { url: url.to_owned(), reconnects: false };
                Ok(Deployment {
                    dir: dir_in_url(choice, url),
                    hidden: hidden_in_url(url),
                    ..Deployment::new(what, OwnedResources::Nothing)
                })
            }
            ContenderSource::Test(name, place) => {
                let what = ContenderSpec::Test { name: name.to_owned(), place: place.into() };
                let keep = OwnedResources::Nothing;
                Ok(Deployment { dir: Some(place.into()), ..Deployment::new(what, keep) })
            }
            ContenderSource::Reference(reference) => start_reference(reference, &options),
            ContenderSource::Handler(_)
            | ContenderSource::Language(_)
            | ContenderSource::Cluster(_)
            | ContenderSource::Standby(_) => {
                Err(format!("{} is started by its own experiment", choice.title()))
            }
        }
    }

    pub(crate) fn set_lock_ttl(&mut self, choice: &Choice, lock_ttl: Duration) {
        if !self.is_users_store()
            && let Some(entry) = choice.entry()
            && let ContenderSpec::Store { url, .. } = &mut self.what
            && entry.options.iter().any(|option| option.name == LOCK_TTL)
        {
            *url = with_option(url, LOCK_TTL, &lock_ttl.as_millis().to_string());
        }
    }

    fn server(&mut self) -> Option<&mut Server> {
        match &mut self.keep {
            OwnedResources::Instance { instance } => instance.server(),
            OwnedResources::Server { server, .. } => Some(server),
            OwnedResources::Nothing
            | OwnedResources::Dir { .. }
            | OwnedResources::Cluster { .. }
            | OwnedResources::Pair { .. } => None,
        }
    }

    pub(crate) fn cluster(&mut self) -> Option<&mut PrivateCluster> {
        match &mut self.keep {
            OwnedResources::Cluster { cluster } => Some(cluster),
            _ => None,
        }
    }

    pub(crate) fn pair(&mut self) -> Option<&mut PrivatePair> {
        match &mut self.keep {
            OwnedResources::Pair { pair } => Some(pair),
            _ => None,
        }
    }

    pub(crate) fn has_server(&mut self) -> bool {
        self.server().is_some()
    }

    /// Kills the private server with SIGKILL; all of its processes are gone when this returns.
    pub(crate) fn kill_server(&mut self) {
        if let Some(server) = self.server() {
            server.kill();
        }
    }

    /// Restarts the server in the same place; it answers when this returns.
    pub(crate) fn restart_server(&mut self) -> Result<(), String> {
        let Some(server) = self.server() else {
            return Err("there is no server of ours".to_owned());
        };
        server.restart().map_err(|error| error.to_string())?;
        self.server_pid = Some(server.pid());
        Ok(())
    }

    pub(crate) fn server_socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server_pid
    }

    pub(crate) fn server_cpu(&self) -> Duration {
        match &self.keep {
            OwnedResources::Cluster { cluster } => cluster.pids().filter_map(cpu_time).sum(),
            OwnedResources::Pair { pair } => pair.pids().filter_map(cpu_time).sum(),
            _ => self.server_pid.and_then(cpu_time).unwrap_or_default(),
        }
    }

    pub(crate) fn place(&self, choice: &Choice) -> FootprintSource {
        match (self.server_pid, &self.dir) {
            (Some(pid), _) => FootprintSource::Server(pid),
            _ if !choice.shared_by_processes => FootprintSource::Worker,
            (None, Some(dir)) if self.is_users_store() => FootprintSource::Shared(dir.clone()),
            (None, Some(dir)) => FootprintSource::Directory(dir.clone()),
            (None, None) => FootprintSource::Unknown,
        }
    }

    /// Whether it is the user's own store, which may hold other sessions.
    pub(crate) fn is_users_store(&self) -> bool {
        matches!(self.keep, OwnedResources::Nothing)
    }

    pub(crate) fn outlives_its_workers(&self, choice: &Choice) -> bool {
        matches!(choice.target, ContenderSource::Url(..)) && choice.shared_by_processes
    }

    /// The seed of ids. In the user's store a second run must not meet ids of an aborted one.
    pub(crate) fn seed(&self, seed: u64) -> u64 {
        if self.is_users_store() { seed ^ crate::monotonic::now_ns().rotate_left(20) } else { seed }
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        redact::message(text, &self.hidden)
    }
}

fn start_reference(reference: &Reference, options: &ServerOptions) -> Result<Deployment, String> {
    let (dir, name) =
        place_of(reference).map_err(|error| format!("no fresh directory: {error}"))?;
    let hidden = vec![(dir.path().display().to_string(), name)];
    let what = |place: &Path| ContenderSpec::Reference {
        name: reference.name.to_owned(),
        place: place.to_owned(),
        durability: options.durability.name().to_owned(),
    };
    let Some(kind) = reference.server.and_then(ServerKind::by_name) else {
        let (what, place) = (what(dir.path()), dir.path().to_owned());
        let keep = OwnedResources::Dir { _dir: dir };
        return Ok(Deployment { dir: Some(place), hidden, ..Deployment::new(what, keep) });
    };
    let server = Server::start(kind, dir.path(), options).map_err(|error| error.to_string())?;
    let (what, server_pid) = (what(server.socket()), Some(server.pid()));
    let socket = Some(server.socket().to_owned());
    let keep = OwnedResources::Server { server: Box::new(server), _dir: dir };
    Ok(Deployment { server_pid, socket, hidden, ..Deployment::new(what, keep) })
}

/// The directory of a reference row, and how it is shown. A server's is on disk, as that of the
/// store on the same server, and so are files; others are in memory, so that no disk limits them.
fn place_of(reference: &Reference) -> std::io::Result<(PrivateDir, &'static str)> {
    if reference.server.is_some() || reference.on_disk {
        PrivateDir::on_disk().map(|dir| (dir, "<disk>"))
    } else {
        PrivateDir::in_shared_memory().map(|dir| (dir, "<shm>"))
    }
}

fn dir_in_url(choice: &Choice, url: &str) -> Option<PathBuf> {
    let path = sessile_stores::StoreUrl::parse(url).ok()?.path().ok()?;
    (!choice.over_socket && path.is_dir()).then_some(path)
}

fn hidden_in_url(url: &str) -> Vec<(String, &'static str)> {
    let Ok(parsed) = url::Url::parse(url) else { return Vec::new() };
    let mut hidden = vec![(parsed.path().to_owned(), "<path>")];
    hidden.extend(
        parsed.host_str().filter(|host| !host.is_empty()).map(|host| (host.to_owned(), "<host>")),
    );
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::REFERENCES;

    /// Their servers lay in memory, and those of the stores on the disk: the rows were not
    /// comparable, least of all where each commit is synced.
    #[test]
    fn the_server_of_a_reference_row_keeps_its_data_where_the_one_of_a_store_does() {
        for reference in REFERENCES {
            let on_disk = reference.server.is_some() || reference.on_disk;
            let (dir, name) = place_of(reference).unwrap();
            let in_memory = dir.path().starts_with("/dev/shm");
            assert_eq!((in_memory, name == "<disk>"), (!on_disk, on_disk), "{}", reference.name);
        }
    }
}
