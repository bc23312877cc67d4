//! Sessions move from phpredis at their first request, under its lock.

use std::time::Duration;

use redis::Connection;
use sessile_core::{Clock, Detail, ErrorKind, Sessions};
use sessile_fixtures::{PrivateDir, Server, ServerOptions};
use sessile_stores::Context;
use sessile_stores::layouts::{self, Side};

use crate::setup::support::server;
use crate::setup::{WAIT, key, payload_of, ttl};

/// A site that leaves phpredis.
struct Site {
    raw: Connection,
    old: String,
    new: Sessions,
    both: Sessions,
    _server: Server,
    _dir: PrivateDir,
}

impl Site {
    fn start() -> Option<Site> {
        let dir = PrivateDir::in_shared_memory().unwrap();
        let server = server::start("redis-server", &dir, &ServerOptions::default())?;
        let socket = server.socket().display().to_string();
        let raw = redis::Client::open(format!("unix:{socket}")).unwrap();
        let (old, new) = (format!("php+redis+unix:{socket}"), format!("redis+unix:{socket}"));
        let open = |url: &str| sessile_stores::open(url, &Context::default()).unwrap();
        let both = open(&format!("migrate:?from={old}&to={new}"));
        Some(Site {
            raw: raw.get_connection().unwrap(),
            old,
            new: open(&new),
            both,
            _server: server,
            _dir: dir,
        })
    }

    /// As phpredis saves a session.
    fn save(&mut self, id: &str, payload: &str) {
        let name = format!("PHPREDIS_SESSION:{id}");
        redis::cmd("SETEX").arg(name).arg(1_440).arg(payload).exec(&mut self.raw).unwrap();
    }

    fn names(&mut self) -> Vec<String> {
        redis::cmd("KEYS").arg("PHPREDIS_SESSION:*").query(&mut self.raw).unwrap()
    }
}

#[test]
fn a_session_of_phpredis_moves_at_its_first_request_and_leaves_nothing() {
    let Some(mut site) = Site::start() else { return };
    site.save("a", "cart|i:1;");
    site.save("b", "cart|i:2;");
    assert_eq!(payload_of(&site.both, "a").unwrap(), b"cart|i:1;");
    assert!(site.new.peek(&key("a")).unwrap().is_none(), "a look moves nothing");
    assert!(site.both.details().unwrap().contains(&("left_in_old_store", Detail::Count(2))));
    let begun = site.both.begin(&key("a"), WAIT).unwrap();
    let record = begun.record.unwrap();
    assert_eq!(record.payload, b"cart|i:1;");
    let left = record.head.expires.since(Clock::system().now()).as_secs();
    assert!((1_300..=1_440).contains(&left), "{left}");
    assert_eq!(site.names(), ["PHPREDIS_SESSION:b"]);
    begun.lease.commit(b"cart|i:3;", ttl()).unwrap();
    assert_eq!(payload_of(&site.new, "a").unwrap(), b"cart|i:3;");
    assert!(site.both.details().unwrap().contains(&("left_in_old_store", Detail::Count(1))));
}

#[test]
fn a_move_waits_for_a_worker_of_phpredis_and_takes_what_it_has_saved() {
    let Some(mut site) = Site::start() else { return };
    site.save("a", "cart|i:1;");
    let lock = "PHPREDIS_SESSION:a_LOCK";
    redis::cmd("SET").arg(lock).arg("secret").arg("NX").exec(&mut site.raw).unwrap();
    let refused = site.both.begin(&key("a"), Duration::from_millis(50)).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::LockTimeout { .. }), "{refused}");
    let kept: String = redis::cmd("GET").arg(lock).query(&mut site.raw).unwrap();
    assert_eq!(kept, "secret");
    let both = site.both.clone();
    let waiting = std::thread::spawn(move || both.begin(&key("a"), WAIT).unwrap().record);
    site.save("a", "cart|i:2;");
    redis::cmd("DEL").arg(lock).exec(&mut site.raw).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap().payload, b"cart|i:2;");
    assert_eq!(site.names(), [""; 0]);
}

#[test]
fn a_log_out_and_a_touch_reach_a_session_that_has_not_moved() {
    let Some(mut site) = Site::start() else { return };
    site.save("a", "cart|i:1;");
    site.both.touch(&key("a"), ttl().within(Duration::from_secs(9_000)).unwrap()).unwrap();
    site.both.destroy(&key("a")).unwrap();
    assert_eq!(site.names(), [""; 0]);
    assert!(site.both.begin(&key("a"), WAIT).unwrap().record.is_none());
    let gone = site.both.touch(&key("b"), ttl()).unwrap_err();
    assert_eq!(gone.kind(), &ErrorKind::Gone);
}

/// Without its lock a worker of phpredis saved after the log-out, and the visitor was in again.
#[test]
fn what_a_late_worker_saves_after_a_log_out_is_no_session() {
    let Some(mut site) = Site::start() else { return };
    site.save("a", "user|i:17;");
    site.both.begin(&key("a"), WAIT).unwrap().lease.release().unwrap();
    site.both.destroy(&key("a")).unwrap();
    site.save("a", "user|i:17;");
    assert!(site.both.peek(&key("a")).unwrap().is_none());
    assert_eq!(site.names(), [""; 0]);
    site.save("a", "user|i:17;");
    assert!(site.both.begin(&key("a"), WAIT).unwrap().record.is_none());
    assert_eq!(site.names(), [""; 0]);
}

/// A worker of phpredis has sent a new id to its visitor and saves the session at its end.
#[test]
fn an_id_whose_first_request_is_under_way_is_waited_for() {
    let Some(mut site) = Site::start() else { return };
    let lock = "PHPREDIS_SESSION:a_LOCK";
    redis::cmd("SET").arg(lock).arg("secret").exec(&mut site.raw).unwrap();
    let refused = site.both.begin(&key("a"), Duration::from_millis(50)).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::LockTimeout { .. }), "{refused}");
    site.save("a", "cart|i:1;");
    redis::cmd("DEL").arg(lock).exec(&mut site.raw).unwrap();
    assert_eq!(site.both.begin(&key("a"), WAIT).unwrap().record.unwrap().payload, b"cart|i:1;");
}

/// They were not counted, and the old store was told to be empty.
#[test]
fn sessions_with_ids_that_no_key_can_have_are_counted() {
    let Some(mut site) = Site::start() else { return };
    let refused = |site: &Site| {
        let mut details = site.both.details().unwrap().into_iter();
        details.find(|(name, _)| *name == "refused_ids").map(|(_, count)| count)
    };
    site.save("a", "cart|i:1;");
    assert_eq!(refused(&site), None);
    site.save("b.c", "cart|i:2;");
    assert_eq!(refused(&site), Some(Detail::Count(1)));
}

#[test]
fn nothing_new_is_written_where_phpredis_has_its_sessions() {
    let Some(mut site) = Site::start() else { return };
    let lock_ttl = Duration::from_secs(60);
    let old = layouts::open_to_move(&site.old, Side::Old, lock_ttl, &Clock::system()).unwrap();
    assert_eq!(old.create(&key("a"), b"x", ttl()).unwrap_err().kind(), &ErrorKind::Unsupported);
    let lease = old.begin(&key("a"), WAIT).unwrap().lease;
    assert_eq!(site.names(), ["PHPREDIS_SESSION:a_LOCK"]);
    assert_eq!(lease.commit(b"x", ttl()).unwrap_err().kind(), &ErrorKind::Unsupported);
    assert_eq!(site.names(), [""; 0], "its lock stays");
    let mut lease = old.begin(&key("a"), WAIT).unwrap().lease;
    redis::cmd("DEL").arg("PHPREDIS_SESSION:a_LOCK").exec(&mut site.raw).unwrap();
    assert_eq!(lease.touch(ttl()).unwrap_err().kind(), &ErrorKind::Stale);
}
