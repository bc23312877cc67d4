//! Which of the servers of a URL takes the changes of sessions: not one that only reads, not a
//! replica, not a node without its cluster.
//!
//! Source: MariaDB's documentation, "Replication and Binary Log Status Variables" and "Galera
//! Cluster Status Variables". MySQL has no status of a replica that every user may read: there
//! `read_only` alone decides.
//!
//! Invariant: nothing is written to a replica whose administrator forgot `read_only`: it would be
//! lost, or end the replication. Not here: the order of the servers (`connections/hosts.rs`).

use std::collections::BTreeMap;

use super::connection::Connection;
use super::failure::{Attempt, LOCK_WAIT, MysqlFailure};
use super::row::Row;
use super::statement::Message;
use crate::sql::row::Columns;

const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'innodb_read_only',
    'group_replication_single_primary_mode')";
/// `Slaves_running` counts the threads that apply changes. They run on while the primary is dead;
/// those that `Slave_running` tells of do not.
const STATES: &str = "SHOW STATUS WHERE Variable_name IN ('Slaves_running', 'wsrep_ready',
    'wsrep_cluster_status')";
/// Waits until the node has applied what the cluster has acknowledged.
const CATCH_UP: &str = "SET SESSION wsrep_sync_wait = 1; SELECT 1; SET SESSION wsrep_sync_wait = \
                        DEFAULT";
/// A statement that another node's change has rolled back is repeated by this store: the server
/// would take a named lock twice, and one release would leave it.
const REPEAT_NOTHING: &str = "SET SESSION wsrep_retry_autocommit = 0";
const NOT_IN_STEP: &str = "it is a node of a cluster that is not in step with it";

/// A server that takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// Others of its cluster take changes, too, and none knows the named locks of another.
    Peer,
}

type Known = BTreeMap<String, String>;

/// Of a new connection. One round trip, and another one to a node of Galera, which has then
/// whatever another node has acknowledged before. Fails with a demotion if the server takes no
/// changes.
pub(super) fn of(connection: &mut Connection) -> Attempt<Role> {
    if connection.facts.read_only {
        return Err(MysqlFailure::demoted());
    }
    let mut results = connection.run(&Message::of(VARIABLES, &[]).then(STATES, &[]))?;
    let rows = results.rows().into_iter().chain(results.rows());
    let word = |row: &Row, column| row.text(column).ok().flatten().map(str::to_owned);
    let pair = |row: Row| Some((word(&row, 0)?.to_ascii_lowercase(), word(&row, 1)?));
    let known: Known = rows.filter_map(pair).collect();
    let role = decide(&known).map_err(|why| match why {
        NOT_IN_STEP => MysqlFailure::outside_cluster(why),
        _ => MysqlFailure::standby(why),
    })?;
    connection.is_of_galera = is(&known, "wsrep_on", "ON");
    if connection.is_of_galera {
        connection.run(&Message::of(REPEAT_NOTHING, &[]))?;
        catch_up(connection)?;
    }
    Ok(role)
}

/// At a node of Galera: waits for what the cluster has acknowledged. Elsewhere nothing.
pub(super) fn catch_up(connection: &mut Connection) -> Attempt<()> {
    if !connection.is_of_galera {
        return Ok(());
    }
    match connection.run(&Message::of(CATCH_UP, &[])) {
        Err(failure) if failure.is(&[LOCK_WAIT]) => Err(MysqlFailure::outside_cluster(NOT_IN_STEP)),
        done => done.map(drop),
    }
}

/// The error says why it takes no changes.
fn decide(known: &Known) -> Result<Role, &'static str> {
    let is = |name, value| is(known, name, value);
    if known.get("slaves_running").is_some_and(|count| count != "0") {
        return Err("it is a replica (STOP SLAVE and RESET SLAVE ALL make it a primary)");
    }
    if is("innodb_read_only", "ON") {
        return Err("it only reads (innodb_read_only)");
    }
    if is("wsrep_on", "ON") {
        if !is("wsrep_ready", "ON") || !is("wsrep_cluster_status", "Primary") {
            return Err(NOT_IN_STEP);
        }
        return Ok(Role::Peer);
    }
    let has_peers = is("group_replication_single_primary_mode", "OFF");
    Ok(if has_peers { Role::Peer } else { Role::Primary })
}

fn is(known: &Known, name: &str, value: &str) -> bool {
    known.get(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(known: &[(&str, &str)]) -> Result<Role, &'static str> {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        decide(&known.iter().map(owned).collect())
    }

    #[test]
    fn a_server_that_is_a_replica_takes_no_changes_and_others_do() {
        assert_eq!(decided(&[]), Ok(Role::Primary), "MySQL tells nothing");
        // A MariaDB without a cluster says that it is not ready for one.
        let alone = [("wsrep_on", "OFF"), ("wsrep_ready", "OFF"), ("slaves_running", "0")];
        assert_eq!(decided(&alone), Ok(Role::Primary));
        assert!(decided(&[("slaves_running", "1")]).unwrap_err().contains("replica"));
        assert!(decided(&[("innodb_read_only", "ON")]).is_err());
        for (mode, role) in [("ON", Role::Primary), ("OFF", Role::Peer)] {
            assert_eq!(decided(&[("group_replication_single_primary_mode", mode)]), Ok(role));
        }
    }

    #[test]
    fn a_node_takes_changes_only_in_step_with_its_cluster() {
        let node = |ready, status| {
            decided(&[("wsrep_on", "ON"), ("wsrep_ready", ready), ("wsrep_cluster_status", status)])
        };
        assert_eq!(node("ON", "Primary"), Ok(Role::Peer));
        for (ready, status) in [("OFF", "Primary"), ("ON", "non-Primary"), ("ON", "Disconnected")] {
            assert_eq!(node(ready, status), Err(NOT_IN_STEP), "{ready} {status}");
        }
        assert!(decided(&[("wsrep_on", "ON")]).is_err(), "without a word it is not known");
    }
}
