//! What an operator sees of several servers: the locks of all, and the facts of each.

use std::collections::BTreeSet;
use std::time::Duration;

use sessile_core::Key;
use sessile_stores::ask_server::ask;

use crate::setup::{cluster, key, open, sentinels};

const LOCKS: usize = 24;

#[test]
fn the_locks_of_all_servers_of_a_cluster_are_listed_and_each_server_is_asked() {
    let Some(cluster) = cluster() else { return };
    let store = open(&cluster.url());
    let keys: Vec<Key> = (0..LOCKS).map(|number| key(&format!("held{number}"))).collect();
    let held: Vec<_> =
        keys.iter().map(|key| store.begin(key, Duration::ZERO).unwrap().lease).collect();
    let listed = store.locks(10 * LOCKS).unwrap();
    let listed: BTreeSet<String> =
        listed.iter().map(|lock| lock.key.as_ref().unwrap().id().to_owned()).collect();
    assert_eq!(listed, keys.iter().map(|key| key.id().to_owned()).collect());
    assert_eq!(store.locks(5).unwrap().len(), 5);
    drop(held);
    assert_eq!(store.locks(10 * LOCKS).unwrap(), []);
    let facts = ask(&cluster.url()).unwrap();
    let roles: Vec<_> = facts.iter().map(|facts| facts.text("role")).collect();
    assert_eq!(roles, [Some("master"); 3]);
}

#[test]
fn the_primary_behind_sentinels_is_asked() {
    let Some(sentinels) = sentinels() else { return };
    let facts = ask(&sentinels.url()).unwrap();
    let roles: Vec<_> = facts.iter().map(|facts| facts.text("role")).collect();
    assert_eq!(roles, [Some("master")]);
    assert!(facts[0].number("hz").is_some());
}
