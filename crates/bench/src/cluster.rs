//! Contenders on a private Redis cluster: three primaries, each with a replica.
//!
//! Chosen by name (`redis#cluster`), in any experiment: six servers would take the processors of a
//! small machine from the other rows. All are on this host; `--round-trip` delays what goes there.

use std::path::PathBuf;
use std::time::Duration;

use sessile_core::Durability;
use sessile_fixtures::{RedisCluster, ServerKind, ServerOptions, StartError, server_flags};
use sessile_results::DurabilityPromise;
use sessile_stores::registry;

use crate::network::DelayedPort;
use crate::reference::{self, AfterDeath};
use crate::selection::{Choice, ContenderSource};
use crate::worker::protocol::ContenderSpec;

pub(crate) const PRIMARIES: u16 = 3;
/// A primary that is silent for this long is replaced. Redis' default is 15 s; here a failover is
/// to take seconds.
const NODE_TIMEOUT_MS: u32 = 1_000;
/// Begins the place of a reference row on a cluster; the hosts follow.
pub(crate) const SCHEME: &str = "redis+cluster:";
pub(crate) const SERVER: &str = "redis-server";

/// A store or a reference row, on a cluster.
#[derive(Debug)]
pub struct ClusterContender {
    pub store: &'static str,
    variant: &'static str,
    /// Replicas that have a change before it is acknowledged.
    min_replicas: u8,
}

static CONTENDERS: [ClusterContender; 4] = [
    ClusterContender { store: "redis", variant: "cluster", min_replicas: 0 },
    ClusterContender { store: "redis", variant: "cluster-confirmed", min_replicas: 1 },
    // Its lock and its record are on different servers, as two keys without a common tag are.
    ClusterContender { store: "redis-four-trips", variant: "cluster", min_replicas: 0 },
    // What phpredis does on a cluster, where it has no lock.
    ClusterContender { store: "redis-setex", variant: "cluster", min_replicas: 0 },
];

pub(crate) fn choices() -> impl Iterator<Item = Choice> {
    CONTENDERS.iter().map(|contender| {
        let of_store = registry::by_name(contender.store);
        let of_store = of_store.map(|entry| AfterDeath::of_store(&entry.capabilities));
        let of_row = || reference::by_name(contender.store).map(|row| row.after_death);
        let (target, url) = (ContenderSource::Cluster(contender), contender.url("<hosts>"));
        let none = Durability::None.name();
        Choice {
            server: Some(SERVER),
            over_socket: true,
            after_death: of_store.or_else(of_row).unwrap_or(AfterDeath::NoLock),
            // What replicas have counts, and not what disks have.
            tiers: Some(&[Durability::None]),
            ..Choice::new(contender.store, contender.variant, url, target, none)
        }
    })
}

impl ClusterContender {
    /// What of the acknowledged updates survives the death of a primary. Replication lags far less
    /// than a second behind.
    pub(crate) fn promise(&self) -> DurabilityPromise {
        match self.min_replicas {
            0 => DurabilityPromise::AllButTheLastSecond,
            _ => DurabilityPromise::Everything,
        }
    }

    pub(crate) fn opened(&self, cluster: &PrivateCluster) -> ContenderSpec {
        let url = self.url(&cluster.hosts);
        if registry::by_name(self.store).is_some() {
            return ContenderSpec::Store { url, reconnects: false };
        }
        ContenderSpec::Reference {
            name: self.store.to_owned(),
            place: PathBuf::from(url),
            durability: Durability::None.name().to_owned(),
        }
    }

    fn url(&self, hosts: &str) -> String {
        match (reference::by_name(self.store), self.min_replicas) {
            (Some(_), _) => format!("{SCHEME}{hosts}"),
            (None, 0) => format!("redis+cluster://{hosts}/"),
            (None, replicas) => format!("redis+cluster://{hosts}/?min_replicas={replicas}"),
        }
    }

    /// Of each server.
    pub(crate) fn flags() -> Option<String> {
        let flags = server_flags(ServerKind::by_name(SERVER)?, &ServerOptions::default());
        let of_cluster = format!(
            "--cluster-enabled yes --cluster-node-timeout {NODE_TIMEOUT_MS} \
             --cluster-require-full-coverage no"
        );
        Some(format!("{flags} {of_cluster} ({PRIMARIES} primaries, {PRIMARIES} replicas)"))
    }
}

/// The servers, and the delayed ways to them.
pub(crate) struct PrivateCluster {
    pub servers: RedisCluster,
    /// `host:port` of each, with commas.
    hosts: String,
    // After the servers.
    ways: Vec<DelayedPort>,
}

impl PrivateCluster {
    pub(crate) fn start(round_trip: Option<Duration>) -> Result<PrivateCluster, StartError> {
        PrivateCluster::start_with(round_trip, NODE_TIMEOUT_MS)
    }

    fn start_with(
        round_trip: Option<Duration>,
        node_timeout_ms: u32,
    ) -> Result<PrivateCluster, StartError> {
        let servers = RedisCluster::start(PRIMARIES, node_timeout_ms)?;
        let mut ways = Vec::new();
        if let Some(round_trip) = round_trip {
            for host in &servers.hosts {
                let way = DelayedPort::before(host.server.socket(), round_trip)
                    .map_err(|error| StartError::Failed(format!("no network: {error}")))?;
                ways.push(way);
            }
        }
        let host = |port: u16| format!("127.0.0.1:{port}");
        let hosts: Vec<String> = match ways.as_slice() {
            [] => servers.hosts.iter().map(|server| server.address()).collect(),
            ways => ways.iter().map(|way| host(way.port())).collect(),
        };
        let cluster = PrivateCluster { servers, hosts: hosts.join(","), ways };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Also puts a server that was started again behind its delayed way.
    pub(crate) fn wait_until_whole(&self) -> Result<(), StartError> {
        if !self.ways.is_empty() {
            let ports: Vec<u16> = self.ways.iter().map(DelayedPort::port).collect();
            self.servers.announce(&ports)?;
        }
        self.servers.wait_until_whole()
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.servers.hosts.iter().map(|host| host.server.pid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The servers tell clients the hosts: without that, only the first question was delayed.
    #[test]
    fn a_round_trip_delays_the_way_to_each_server_also_after_a_restart() {
        let round_trip = Duration::from_millis(5);
        // Nothing fails over because the machine is busy.
        let mut cluster = match PrivateCluster::start_with(Some(round_trip), 15_000) {
            Ok(cluster) => cluster,
            Err(StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
                return println!("skipped: redis-server is not installed");
            }
            Err(error) => panic!("{error}"),
        };
        let check = |cluster: &PrivateCluster| {
            let hosts = cluster.hosts.split(',').map(|host| format!("redis://{host}/"));
            let client = redis::cluster::ClusterClient::new(hosts).unwrap();
            let mut connection = client.get_connection().unwrap();
            for number in 0..30 {
                let start = std::time::Instant::now();
                let name = format!("name{number}");
                redis::cmd("GET").arg(name).exec(&mut connection).unwrap();
                assert!(start.elapsed() >= round_trip, "{number}: {:?}", start.elapsed());
            }
        };
        check(&cluster);
        // The replica of the first server, so that nothing fails over.
        cluster.servers.hosts[3].server.restart().unwrap();
        cluster.wait_until_whole().unwrap();
        check(&cluster);
    }

    #[test]
    fn who_waits_for_replicas_promises_everything_and_all_titles_differ() {
        let titles: Vec<String> = choices().map(|choice| choice.title()).collect();
        assert_eq!(
            titles,
            [
                "redis#cluster",
                "redis#cluster-confirmed",
                "redis-four-trips#cluster",
                "redis-setex#cluster"
            ]
        );
        let promises = CONTENDERS.each_ref().map(ClusterContender::promise);
        assert_eq!(promises[1], DurabilityPromise::Everything);
        assert!([0, 2, 3].iter().all(|at| promises[*at] == DurabilityPromise::AllButTheLastSecond));
        assert_eq!(CONTENDERS[1].url("h"), "redis+cluster://h/?min_replicas=1");
        assert_eq!(CONTENDERS[2].url("h"), "redis+cluster:h");
    }
}
