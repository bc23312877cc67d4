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
use super::failure::{Attempt, MysqlFailure};
use super::row::Row;
use super::statement::Message;
use crate::sql::row::Columns;

const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on',
    'group_replication_single_primary_mode')";
/// `Slaves_running` counts the threads that apply changes. They run on while the primary is dead;
/// those that `Slave_running` tells of do not.
const STATES: &str = "SHOW STATUS WHERE Variable_name IN ('Slaves_running', 'wsrep_ready',
    'wsrep_cluster_status', 'wsrep_local_state')";
/// Waits until the node has applied what the cluster has acknowledged.
const CATCH_UP: &str = "SET SESSION wsrep_sync_wait = 1; SELECT 1; SET SESSION wsrep_sync_wait = \
                        DEFAULT";
/// Of `wsrep_local_state`: in step with the others. A donor is: if it were left for another node,
/// half of the workers would stay there.
const DONOR: &str = "2";
const SYNCED: &str = "4";

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
    let role = decide(&known).map_err(MysqlFailure::standby)?;
    if is(&known, "wsrep_on", "ON") {
        connection.run(&Message::of(CATCH_UP, &[]))?;
    }
    Ok(role)
}

/// The error says why it takes no changes.
fn decide(known: &Known) -> Result<Role, &'static str> {
    let is = |name, value| is(known, name, value);
    if known.get("slaves_running").is_some_and(|count| count != "0") {
        return Err("it is a replica (STOP SLAVE and RESET SLAVE ALL make it a primary)");
    }
    if is("wsrep_on", "ON") {
        let is_in_step = is("wsrep_local_state", SYNCED) || is("wsrep_local_state", DONOR);
        if !is("wsrep_ready", "ON") || !is("wsrep_cluster_status", "Primary") || !is_in_step {
            return Err("it is a node of a cluster that is not in step with it");
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
        for (mode, role) in [("ON", Role::Primary), ("OFF", Role::Peer)] {
            assert_eq!(decided(&[("group_replication_single_primary_mode", mode)]), Ok(role));
        }
    }

    #[test]
    fn a_node_takes_changes_only_in_step_with_its_cluster() {
        let node = |ready, status, state| {
            decided(&[
                ("wsrep_on", "ON"),
                ("wsrep_ready", ready),
                ("wsrep_cluster_status", status),
                ("wsrep_local_state", state),
            ])
        };
        assert_eq!(node("ON", "Primary", SYNCED), Ok(Role::Peer));
        assert_eq!(node("ON", "Primary", DONOR), Ok(Role::Peer));
        for (ready, status, state) in [
            ("OFF", "Primary", SYNCED),
            ("ON", "non-Primary", SYNCED),
            ("ON", "Disconnected", SYNCED),
            ("ON", "Primary", "1"),
            ("ON", "Primary", "3"),
            ("ON", "Primary", "0"),
        ] {
            assert!(node(ready, status, state).is_err(), "{ready} {status} {state}");
        }
        assert!(decided(&[("wsrep_on", "ON")]).is_err(), "without a word it is not known");
    }
}
