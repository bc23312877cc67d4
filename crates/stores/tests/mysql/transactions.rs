//! A transaction that the server refuses half way leaves nothing open: what is done next on its
//! connection is kept.

use std::time::Duration;

use sessile_core::{Error, Sessions};

use crate::setup::{Private, key, payload_of, ttl};

/// The server refuses each new row that matches.
fn refusing(private: &Private, condition: &str) {
    private.run(&format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON sessile_session FOR EACH ROW
         IF {condition} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused'; END IF"
    ));
}

fn change(store: &Sessions, id: &str, payload: &[u8]) -> Result<(), Error> {
    store.begin(&key(id), Duration::ZERO)?.lease.commit(payload, ttl())
}

#[test]
fn a_commit_after_a_regeneration_that_was_refused_is_kept() {
    let Some(private) = Private::start() else { return };
    let (store, other) = (private.open(""), private.open(""));
    store.create(&key("old"), b"first", ttl()).unwrap();
    refusing(&private, "NEW.kind = 2");
    let mut lease = store.begin(&key("old"), Duration::ZERO).unwrap().lease;
    assert!(lease.regenerate(&key("new"), Duration::from_secs(60)).is_err());
    assert_eq!(payload_of(&other, "new"), None);
    lease.commit(b"second", ttl()).unwrap();
    assert_eq!(payload_of(&other, "old").unwrap(), b"second");
}

#[test]
fn what_follows_a_creation_or_a_log_out_that_was_refused_is_kept() {
    let Some(private) = Private::start() else { return };
    let (store, other) = (private.open(""), private.open(""));
    store.create(&key("kept"), b"first", ttl()).unwrap();
    refusing(&private, "NEW.id = 'large'");
    assert!(store.create(&key("large"), &[7; 100_000], ttl()).is_err());
    change(&store, "kept", b"second").unwrap();
    assert_eq!(payload_of(&other, "kept").unwrap(), b"second");
}

/// With CHAIN each COMMIT begins another transaction, which the next change on the connection would
/// be part of and end with.
#[test]
fn a_server_whose_transactions_go_on_after_their_commit_or_read_only_keeps_what_is_acknowledged() {
    let Some(private) = Private::start() else { return };
    private.run("SET GLOBAL completion_type = 'CHAIN'");
    private.run("SET GLOBAL tx_read_only = 1");
    let (store, other) = (private.open(""), private.open(""));
    store.create(&key("old"), b"first", ttl()).unwrap();
    let mut lease = store.begin(&key("old"), Duration::ZERO).unwrap().lease;
    lease.regenerate(&key("new"), Duration::from_secs(60)).unwrap();
    lease.commit(b"second", ttl()).unwrap();
    assert_eq!(payload_of(&other, "new").unwrap(), b"second");
}
