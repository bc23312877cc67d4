//! Contenders on a private PostgreSQL with a standby, which can take its place.
//!
//! Chosen by name (`postgres#standby`), in any experiment. Both servers are on this host;
//! `--round-trip` delays what goes to them, and what the standby gets of the primary.

use std::time::{Duration, Instant};

use sessile_core::Durability;
use sessile_fixtures::{
    PrivateDir, Server, ServerKind, ServerOptions, StartError, psql, server_flags, start_standby,
};
use sessile_results::DurabilityPromise;

use crate::network::DelayedPort;
use crate::reference::AfterDeath;
use crate::selection::{Choice, ContenderSource};
use crate::worker::protocol::ContenderSpec;

pub(crate) const SERVER: &str = "postgres";
const IN_STEP_WITHIN: Duration = Duration::from_secs(60);

/// The store, on a primary and its standby.
#[derive(Debug)]
pub struct StandbyContender {
    variant: &'static str,
    /// A change is acknowledged when the standby has it, too (`synchronous_standby_names`).
    synchronous: bool,
}

static CONTENDERS: [StandbyContender; 2] = [
    StandbyContender { variant: "standby", synchronous: false },
    StandbyContender { variant: "standby-confirmed", synchronous: true },
];

pub(crate) fn choices(durability: Durability) -> impl Iterator<Item = Choice> {
    CONTENDERS.iter().map(move |contender| {
        let (target, url) = (ContenderSource::Standby(contender), url("<hosts>"));
        Choice {
            server: Some(SERVER),
            over_socket: true,
            after_death: AfterDeath::Freed,
            // In between, commits wait for no standby either.
            tiers: Some(&[Durability::None, Durability::Commit]),
            ..Choice::new(SERVER, contender.variant, url, target, durability.name())
        }
    })
}

fn url(hosts: &str) -> String {
    format!("postgres://postgres@{hosts}/postgres")
}

impl StandbyContender {
    /// What of the acknowledged updates survives the death of the primary. The standby is far less
    /// than a second behind.
    pub(crate) fn promise(&self) -> DurabilityPromise {
        if self.synchronous {
            DurabilityPromise::Everything
        } else {
            DurabilityPromise::AllButTheLastSecond
        }
    }

    /// Of each server.
    pub(crate) fn flags(&self, durability: Durability) -> Option<String> {
        let flags = server_flags(ServerKind::by_name(SERVER)?, &options(durability));
        let names = if self.synchronous { ", synchronous_standby_names = '*'" } else { "" };
        Some(format!("{flags} (a primary and its standby, each behind a relay{names})"))
    }
}

fn options(durability: Durability) -> ServerOptions {
    ServerOptions { durability, measured: true, ..ServerOptions::default() }
}

/// A server and the way to it.
struct Host {
    server: Server,
    way: DelayedPort,
    // After the server.
    dir: PrivateDir,
}

impl Host {
    fn start(
        round_trip: Duration,
        start: impl FnOnce(&PrivateDir) -> Result<Server, StartError>,
    ) -> Result<Host, StartError> {
        let failed = |error: std::io::Error| StartError::Failed(format!("no server: {error}"));
        let dir = PrivateDir::on_disk().map_err(failed)?;
        let server = start(&dir)?;
        let way = DelayedPort::before(server.socket(), round_trip).map_err(failed)?;
        Ok(Host { server, way, dir })
    }

    /// As libpq has it.
    fn place(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres", self.way.port())
    }
}

/// The primary and its standby.
pub(crate) struct PrivatePair {
    primary: Host,
    standby: Host,
    contender: &'static StandbyContender,
    options: ServerOptions,
}

impl PrivatePair {
    pub(crate) fn start(
        contender: &'static StandbyContender,
        durability: Durability,
        round_trip: Option<Duration>,
    ) -> Result<PrivatePair, StartError> {
        let missing = || StartError::Failed("this build has no postgres".to_owned());
        let kind = ServerKind::by_name(SERVER).ok_or_else(missing)?;
        let (options, round_trip) = (options(durability), round_trip.unwrap_or_default());
        let start = |dir: &PrivateDir| Server::start(kind, dir.path(), &options);
        let primary = Host::start(round_trip, start)?;
        let copy = |dir: &PrivateDir| start_standby(&primary.place(), dir.path(), &options);
        let standby = Host::start(round_trip, copy)?;
        let pair = PrivatePair { primary, standby, contender, options };
        pair.wait_until_in_step()?;
        Ok(pair)
    }

    /// From here on, if the contender is synchronous, nothing is acknowledged that the standby does
    /// not have.
    fn wait_until_in_step(&self) -> Result<(), StartError> {
        let mut state = "state = 'streaming'";
        if self.contender.synchronous {
            psql(&self.primary.server, "ALTER SYSTEM SET synchronous_standby_names = '*'")?;
            psql(&self.primary.server, "SELECT pg_reload_conf()")?;
            state = "sync_state = 'sync'";
        }
        let count = format!("SELECT count(*) FROM pg_stat_replication WHERE {state}");
        let start = Instant::now();
        while psql(&self.primary.server, &count)? != ["1"] {
            if start.elapsed() > IN_STEP_WITHIN {
                return Err(StartError::Failed("the standby is not in step".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the primary and promotes its standby, which serves when this returns.
    pub(crate) fn fail_over(&mut self) -> Result<(), StartError> {
        self.primary.server.kill();
        // It gives up after a minute, without an error.
        if psql(&self.standby.server, "SELECT pg_promote()")? != ["t"] {
            return Err(StartError::Failed("the standby is not promoted".to_owned()));
        }
        std::mem::swap(&mut self.primary, &mut self.standby);
        Ok(())
    }

    /// Makes a standby of the server that was the primary before.
    pub(crate) fn renew_standby(&mut self) -> Result<(), StartError> {
        let place = self.primary.place();
        self.standby.server = start_standby(&place, self.standby.dir.path(), &self.options)?;
        self.wait_until_in_step()
    }

    pub(crate) fn opened(&self) -> ContenderSpec {
        // The standby comes first: the order does not help.
        let [first, second] = [&self.standby, &self.primary].map(|host| host.way.port());
        let url = url(&format!("127.0.0.1:{first},127.0.0.1:{second}"));
        ContenderSpec::Store { url, reconnects: false }
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        [&self.primary, &self.standby].into_iter().map(|host| host.server.pid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary_says(pair: &PrivatePair, sql: &str) -> Vec<String> {
        psql(&pair.primary.server, sql).unwrap()
    }

    #[test]
    fn a_standby_takes_over_and_gets_a_standby_again() {
        for contender in &CONTENDERS {
            let mut pair = match PrivatePair::start(contender, Durability::None, None) {
                Ok(pair) => pair,
                Err(StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
                    return eprintln!("SKIPPED: PostgreSQL is not installed");
                }
                Err(error) => panic!("{error}"),
            };
            primary_says(&pair, "CREATE TABLE a (b integer)");
            for round in 1..3 {
                primary_says(&pair, &format!("INSERT INTO a VALUES ({round})"));
                // Without confirmation the row may not have reached the standby.
                pair.fail_over().unwrap();
                let count = primary_says(&pair, "SELECT count(*) FROM a");
                assert!(!contender.synchronous || count == [round.to_string()], "{count:?}");
                pair.renew_standby().unwrap();
                let kept = primary_says(&pair, "SELECT sync_state FROM pg_stat_replication");
                assert_eq!(kept, [if contender.synchronous { "sync" } else { "async" }]);
            }
        }
    }

    #[test]
    fn a_standby_that_confirms_promises_everything() {
        assert_eq!(
            CONTENDERS.each_ref().map(StandbyContender::promise),
            [DurabilityPromise::AllButTheLastSecond, DurabilityPromise::Everything]
        );
        let titles: Vec<String> = choices(Durability::None).map(|choice| choice.title()).collect();
        assert_eq!(titles, ["postgres#standby", "postgres#standby-confirmed"]);
    }
}
