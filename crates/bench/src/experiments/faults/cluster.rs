//! Several servers under load. In a Redis cluster a primary dies, a replica dies, a primary hangs,
//! slots move; of a PostgreSQL with a standby the primary dies.
//!
//! The workers go on meanwhile. Each round begins and ends with a whole cluster.

use std::time::{Duration, Instant};

use sessile_fixtures::{RedisCluster, RedisHost, StartError};
use sessile_results::DurabilityPromise;

use super::journal::Kill;
use super::load_worker::{LoaderLog, await_updates};
use super::{FaultKind, FaultRun, kills_of_all};
use crate::cluster::PRIMARIES;
use crate::interruption::interrupted;
use crate::monotonic::now_ns;
use crate::redact;
use crate::selection::ContenderSource;
use crate::worker::faults::FoundContent;
use crate::worker::process::failure;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

/// From the death of a primary to the moment when its replica serves.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// The replica is away for so long, and the load goes on for twice that.
const A_WHILE: Duration = Duration::from_secs(1);
/// Updates that are older than a second must survive.
const LOAD_MIN: Duration = Duration::from_millis(1_500);
/// A client asks a server again that was dead.
const BELIEVED_DEAD_NS: u64 = 1_000_000_000;
/// Slots that move in a round.
const SLOTS: usize = 20;
/// A visitor notices a request that takes this long.
const NOTICED_NS: u64 = 100_000_000;

pub(super) fn measure(run: &mut FaultRun<'_>, kind: FaultKind) -> WorkerResult<()> {
    let promise = match (kind, run.contender.choice.target) {
        (
            FaultKind::PrimaryKilled | FaultKind::PrimaryHangs,
            ContenderSource::Cluster(contender),
        ) => contender.promise(),
        (_, ContenderSource::Standby(contender)) => contender.promise(),
        _ => DurabilityPromise::Everything,
    };
    run.found.faults.promise = promise;
    let load = Duration::from_secs_f64(run.bench.settings.seconds).max(LOAD_MIN);
    for _ in 0..kills_of_all(run.bench.settings.rounds) {
        if interrupted() {
            break;
        }
        let loaders = run.start_all()?;
        run.wait(load);
        let at_ns = match kind {
            FaultKind::StandbyPromoted => promote_standby(run)?,
            _ => disturb(run, kind)?,
        };
        let kill = Kill { at_ns, over_ns: now_ns(), promise };
        await_updates(&loaders, kill.over_ns, Instant::now() + SERVED_WITHIN);
        run.wait(2 * A_WHILE);
        for log in run.stop_all(loaders, run.stuck_after)? {
            record(run, &log, kill);
        }
        run.found.faults.kills += 1;
        run.check_sessions(run.layout.last.clone(), Some(kill))?;
        if !interrupted()
            && let Some(pair) = run.contender.deployment.pair()
        {
            pair.renew_standby().map_err(told)?;
        }
    }
    Ok(())
}

fn told(why: StartError) -> ContenderFailure {
    failure("servers", redact::start_error(&why))
}

/// Returns when it began. The new primary has no standby yet.
fn promote_standby(run: &mut FaultRun<'_>) -> WorkerResult<u64> {
    let at_ns = now_ns();
    let pair = run.contender.deployment.pair();
    let pair = pair.ok_or_else(|| failure("servers", "there is no standby of ours".to_owned()))?;
    pair.fail_over().map_err(told)?;
    Ok(at_ns)
}

/// Returns when it began; the cluster is whole again.
fn disturb(run: &mut FaultRun<'_>, kind: FaultKind) -> WorkerResult<u64> {
    let mut random = run.random.fork();
    let cluster = run.contender.deployment.cluster().ok_or_else(no_cluster)?;
    let servers = &mut cluster.servers;
    let primaries = servers.primaries();
    let is_primary = |at: &usize| primaries.contains(at);
    let replicas: Vec<usize> = (0..servers.hosts.len()).filter(|at| !is_primary(at)).collect();
    let is_of_replicas = kind == FaultKind::ReplicaKilled;
    let hosts = if is_of_replicas { &replicas } else { &primaries };
    let victim = *random.choice(hosts).ok_or_else(no_cluster)?;
    let host = servers.hosts.get_mut(victim).ok_or_else(no_cluster)?;
    let at_ns = now_ns();
    match kind {
        FaultKind::PrimaryKilled => {
            host.server.kill();
            await_successor(servers, victim)?;
            // A client that only finds it back would show nothing of a dead server.
            std::thread::sleep(2 * A_WHILE);
        }
        FaultKind::ReplicaKilled => {
            host.server.kill();
            std::thread::sleep(A_WHILE);
        }
        FaultKind::PrimaryHangs => {
            host.server.freeze();
            let served = await_successor(servers, victim);
            servers.hosts.iter().for_each(|host| host.server.thaw());
            served?;
        }
        _ => {
            let others: Vec<usize> = primaries.iter().copied().filter(|at| *at != victim).collect();
            let target = *random.choice(&others).ok_or_else(no_cluster)?;
            move_slots(servers, victim, target).map_err(told)?;
        }
    }
    if matches!(kind, FaultKind::PrimaryKilled | FaultKind::ReplicaKilled) {
        let host = servers.hosts.get_mut(victim).ok_or_else(no_cluster)?;
        host.server.restart().map_err(told)?;
    }
    cluster.wait_until_whole().map_err(told)?;
    Ok(at_ns)
}

fn no_cluster() -> ContenderFailure {
    failure("cluster", "there is no cluster of ours".to_owned())
}

/// Until there are as many primaries as before without this host, which does not answer.
fn await_successor(servers: &RedisCluster, victim: usize) -> WorkerResult<()> {
    let is_primary =
        |host: &RedisHost| host.command(&["ROLE"]).is_ok_and(|role| role.starts_with("master"));
    let start = Instant::now();
    loop {
        let others = servers.hosts.iter().enumerate().filter(|(at, _)| *at != victim);
        if others.filter(|(_, host)| is_primary(host)).count() >= usize::from(PRIMARIES) {
            return Ok(());
        }
        if interrupted() {
            return Ok(());
        }
        if start.elapsed() > SERVED_WITHIN {
            return Err(failure("cluster", "no replica took over".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Slots that have a session.
fn move_slots(servers: &RedisCluster, from: usize, to: usize) -> Result<(), StartError> {
    let Some(host) = servers.hosts.get(from) else { return Ok(()) };
    for _ in 0..SLOTS {
        let key = host.command(&["RANDOMKEY"])?;
        if key.is_empty() {
            return Ok(());
        }
        let slot = host.command(&["CLUSTER", "KEYSLOT", &key])?;
        servers.move_slot(&slot, from, to)?;
    }
    Ok(())
}

/// Until the end of the last request that failed or took long; 0 if there was none.
fn noticed_ns(log: &LoaderLog, at_ns: u64) -> u64 {
    let later = log.accesses.iter().filter(|access| access.ended_ns >= at_ns);
    let noticed = later.filter(|access| {
        matches!(access.found, FoundContent::Failed(_))
            || access.ended_ns - access.asked_ns >= NOTICED_NS
    });
    noticed.map(|access| access.ended_ns - at_ns).max().unwrap_or(0)
}

/// What fails until all slots are served again is an error to a visitor, and no fault of the store;
/// so is what fails in the moment after, in which a client still believes that a server is dead.
fn record(run: &mut FaultRun<'_>, log: &LoaderLog, kill: Kill) {
    run.record(log, Some(kill), kill.over_ns + BELIEVED_DEAD_NS);
    if !log.stuck && log.update_since(kill.over_ns).is_none() {
        run.found.count_failure("a worker did not work again within 30 s");
    }
    run.found.times_ns.push(if log.stuck {
        now_ns().saturating_sub(kill.at_ns)
    } else {
        noticed_ns(log, kill.at_ns)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::faults::SessionAccess;

    #[test]
    fn a_visitor_notices_what_failed_or_took_long() {
        let access = |asked_ms: u64, ended_ms: u64, found| SessionAccess {
            session: 0,
            asked_ns: asked_ms * 1_000_000,
            granted_ns: asked_ms * 1_000_000,
            ended_ns: ended_ms * 1_000_000,
            found,
            restarted: None,
        };
        let fine = || FoundContent::Counter(1);
        let failed = || FoundContent::Failed(no_cluster());
        let noticed = |accesses| {
            let log = LoaderLog { accesses, ..LoaderLog::default() };
            noticed_ns(&log, 1_000 * 1_000_000) / 1_000_000
        };
        assert_eq!(noticed(vec![access(900, 950, failed()), access(1_000, 1_050, fine())]), 0);
        assert_eq!(noticed(vec![access(900, 1_400, fine()), access(1_400, 1_401, fine())]), 400);
        assert_eq!(
            noticed(vec![access(1_400, 1_401, failed()), access(1_402, 1_404, fine())]),
            401
        );
    }
}
