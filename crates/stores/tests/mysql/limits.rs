//! Payloads: what the server's packets allow comes back as it was, whatever its bytes; what they do
//! not is refused loudly.

use sessile_core::{Counter, ErrorKind};

use crate::setup::{Private, WAIT, key, open, payload_of, ttl};

const MIB: usize = 1 << 20;
const OVERHEAD: u64 = 1_024;

#[test]
fn a_payload_over_the_packet_limit_is_refused_in_100_of_100_trials_and_the_old_one_stays() {
    let Some(private) = Private::start_with(&["--max-allowed-packet=1M"]) else { return };
    let store = private.open("");
    let limit = MIB as u64 - OVERHEAD;
    assert_eq!(store.limits().payload_bytes_max, limit);
    store.create(&key("a"), b"old", ttl()).unwrap();
    for trial in 0..100_usize {
        let size = limit as usize + 1 + trial * 40_000;
        let begun = store.begin(&key("a"), WAIT).unwrap();
        assert_eq!(begun.record.unwrap().payload, b"old", "trial {trial}");
        let error = begun.lease.commit(&vec![b'x'; size], ttl()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::TooLarge { size: size as u64, limit });
        assert!(store.create(&key("b"), &vec![b'x'; size], ttl()).is_err());
    }
    assert_eq!(store.count(Counter::TooLarge), 200);
    assert_eq!(
        (payload_of(&store, "a").unwrap(), payload_of(&store, "b")),
        (b"old".to_vec(), None)
    );
    // And at the limit it is taken, by way of text and of a prepared statement.
    for size in [65_536, 65_537, limit as usize] {
        let payload: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        store.begin(&key("a"), WAIT).unwrap().lease.commit(&payload, ttl()).unwrap();
        assert!(payload_of(&store, "a").unwrap() == payload, "{size} bytes");
    }
}

/// Each connection looks at its own limit: the operator may have lowered it since the store was
/// opened.
#[test]
fn a_limit_that_was_lowered_meanwhile_is_told_as_it_is_now() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    store.create(&key("a"), b"old", ttl()).unwrap();
    private.run("SET GLOBAL max_allowed_packet = 1048576");
    private.cut();
    for _ in 0..10 {
        let begun = store.begin(&key("a"), WAIT).unwrap();
        let error = begun.lease.commit(&vec![0; 2 * MIB], ttl()).unwrap_err();
        let limit = MIB as u64 - OVERHEAD;
        assert_eq!(error.kind(), &ErrorKind::TooLarge { size: 2 * MIB as u64, limit });
    }
    assert_eq!(payload_of(&store, "a").unwrap(), b"old");
}

#[test]
fn sixty_four_mebibytes_come_back_where_the_server_takes_them() {
    let Some(private) = Private::start_with(&["--max-allowed-packet=128M"]) else { return };
    let store = private.open("&response_timeout_ms=60000");
    let payload: Vec<u8> = (0..64 * MIB).map(|n| (n / 3 % 256) as u8).collect();
    store.create(&key("a"), b"old", ttl()).unwrap();
    store.begin(&key("a"), WAIT).unwrap().lease.commit(&payload, ttl()).unwrap();
    let read = || store.begin(&key("a"), WAIT).unwrap().record.unwrap().payload;
    assert!(read() == payload);
    // By the statement that the server keeps, once the connection is used again and again; then by
    // the prepared ones.
    (0..10).for_each(|n| drop(store.begin(&key(&format!("new{n}")), WAIT).unwrap()));
    assert!(read() == payload);
    store.begin(&key("small"), WAIT).unwrap().lease.commit(b"x", ttl()).unwrap();
    (0..10).for_each(|_| drop(store.begin(&key("small"), WAIT).unwrap()));
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert!(begun.record.unwrap().payload == payload);
    begun.lease.commit(&payload[1..], ttl()).unwrap();
    assert!(read() == payload[1..]);
    store.begin(&key("a"), WAIT).unwrap().lease.commit(&payload, ttl()).unwrap();
    store.destroy(&key("small")).unwrap();
    assert_eq!(store.stat().unwrap().payload_bytes, 64 * MIB as u64);
    assert_eq!(
        store.create(&key("b"), &payload, ttl()).map_err(|error| error.kind().clone()),
        Ok(())
    );
}

#[test]
fn every_byte_comes_back_whatever_the_server_takes_for_a_quote() {
    let modes = [
        "",
        "ANSI_QUOTES",
        "NO_BACKSLASH_ESCAPES",
        "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
    ];
    let Some(private) = Private::start_with(&["--character-set-server=utf8mb4"]) else { return };
    for mode in modes {
        private.run(&format!("SET GLOBAL sql_mode = '{mode}'"));
        let store = open(&private.url("")).unwrap();
        let all: Vec<u8> = (0..=255).collect();
        let quotes = br#"'; DROP TABLE sessile_session; -- \' \\' " ` \"#.to_vec();
        for payload in [all.clone(), quotes, Vec::new(), all.repeat(300)] {
            store.begin(&key("a"), WAIT).unwrap().lease.commit(&payload, ttl()).unwrap();
            assert!(payload_of(&store, "a").unwrap() == payload, "{mode}: {} bytes", payload.len());
        }
    }
}
