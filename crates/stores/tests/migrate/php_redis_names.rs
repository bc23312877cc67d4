//! The names of sessions, of locks and of what is beside them. PHP takes any cookie as an id, so no
//! cookie must lead to what is beside the sessions of phpredis.

use std::time::Duration;

use sessile_core::{Bin, Clock, ErrorKind, Key};
use sessile_fixtures::{PrivateDir, ServerOptions};
use sessile_stores::Context;
use sessile_stores::layouts::{self, Side};

use crate::php_redis_back::Site;
use crate::setup::support::server;
use crate::setup::{key, ttl};

/// The story: `PHPSESSID=before_regeneration:ID` led a worker of phpredis to the session that was
/// logged in under ID.
#[test]
fn no_cookie_leads_phpredis_to_what_belongs_to_another_bin() {
    let Some(mut site) = Site::start() else { return };
    let bin = Bin::new("before_regeneration").unwrap();
    let other = Key::in_bin(bin, "a").unwrap();
    site.both.create(&other, b"user|i:17;", ttl()).unwrap();
    assert_eq!(site.php.names(), [""; 0]);
    assert_eq!(site.php.reads("before_regeneration:a"), None);
    site.php.saves("before_regeneration:a", "user|i:18;");
    assert_eq!(site.both.peek(&other).unwrap().unwrap().payload, b"user|i:17;");
    site.both.destroy(&other).unwrap();
    assert!(site.both.peek(&other).unwrap().is_none());
}

#[test]
fn a_prefix_that_our_names_begin_with_is_refused() {
    let Some(site) = Site::start() else { return };
    for prefix in ["", "sess", "sessile:", "sessile:cache:"] {
        let to = format!("php+redis+unix:{}?prefix={prefix}", site.socket);
        let url = format!("migrate:?from=redis+unix:{}&to={to}", site.socket);
        let refused = sessile_stores::open(&url, &Context::default()).err().unwrap();
        assert_eq!(refused.kind().code(), "invalid-url", "{prefix}");
    }
}

#[test]
fn the_new_store_does_not_look_for_ids_that_do_not_move() {
    let Some(mut site) = Site::start() else { return };
    let (url, lock_ttl) = (format!("php+redis+unix:{}", site.socket), Duration::from_secs(60));
    let new = layouts::open_to_move(&url, Side::New, lock_ttl, &Clock::system()).unwrap();
    site.php.saves("b.c", "cart|i:1;");
    assert_eq!(new.details().unwrap(), []);
    assert!(!site.php.ask::<String>("INFO", "commandstats").contains("cmdstat_scan"));
    new.create(&key("b"), b"cart|i:2;", ttl()).unwrap();
    assert_eq!(new.stat().unwrap().sessions, 1);
}

/// Its lock stayed, and a worker of phpredis waited for it.
#[test]
fn a_key_of_another_type_is_left_without_a_lock() {
    let Some(mut site) = Site::start() else { return };
    site.php.ask::<()>("RPUSH", &["PHPREDIS_SESSION:a", "x"]);
    let refused = site.both.begin(&key("a"), Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Corrupt);
    assert_eq!(site.php.names(), ["PHPREDIS_SESSION:a"]);
}

/// The story: the server answered PING, and the first request of each visitor failed.
#[test]
fn a_node_of_a_cluster_is_refused_when_the_stores_are_opened() {
    let dir = PrivateDir::in_shared_memory().unwrap();
    let extra = vec!["--cluster-enabled".into(), "yes".into()];
    let options = ServerOptions { extra, ..ServerOptions::default() };
    let Some(server) = server::start("redis-server", &dir, &options) else { return };
    let client = redis::Client::open(format!("unix:{}", server.socket().display())).unwrap();
    let mut slots = redis::cmd("CLUSTER");
    // Redis 6 has no ADDSLOTSRANGE.
    slots.arg("ADDSLOTS").arg((0..16_384).collect::<Vec<u32>>());
    slots.exec(&mut client.get_connection().unwrap()).unwrap();
    let php = format!("php+redis+unix:{}", server.socket().display());
    for (side, advice) in [(Side::Old, "without --move"), (Side::New, "not part of a cluster")] {
        let opened = layouts::open_to_move(&php, side, Duration::from_secs(9), &Clock::system());
        let refused = opened.err().unwrap();
        assert_eq!(refused.kind(), &ErrorKind::Unsupported);
        assert!(refused.to_string().contains(advice), "{refused}");
    }
}
