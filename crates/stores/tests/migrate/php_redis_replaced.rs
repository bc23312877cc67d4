//! An id that was replaced in the layout of phpredis: for the grace it shows its session, and it
//! never becomes a session of its own.

use std::time::{Duration, Instant};

use sessile_core::{Absence, Clock, ErrorKind};
use sessile_stores::layouts::{self, Side};

use crate::php_redis_back::Site;
use crate::setup::{WAIT, key, payload_of, ttl};

const LONG: Duration = Duration::from_secs(30);

/// A session under `a` has got the id `b`.
fn start(grace: Duration) -> Option<Site> {
    let mut site = Site::start()?;
    site.php.saves("a", "user|i:17;");
    let mut lease = site.both.begin(&key("a"), WAIT).unwrap().lease;
    lease.regenerate(&key("b"), grace).unwrap();
    lease.commit(b"user|i:17;new|i:1;", ttl()).unwrap();
    Some(site)
}

/// The story: one parallel request under the old id saved it for the whole lifetime, logged in, and
/// a log-out under the new id did not end it.
#[test]
fn a_replaced_id_shows_its_session_for_the_grace_and_is_not_saved() {
    let Some(mut site) = start(LONG) else { return };
    let mut late = site.both.begin(&key("a"), WAIT).unwrap();
    assert_eq!(late.record.unwrap().payload, b"user|i:17;", "as it was before");
    late.lease.touch(ttl()).unwrap();
    site.both.touch(&key("a"), ttl()).unwrap();
    let refused = late.lease.regenerate(&key("c"), LONG).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Destroyed);
    let refused = late.lease.commit(b"user|i:18;", ttl()).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Destroyed);
    let refused = site.both.create(&key("a"), b"user|i:18;", ttl()).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Exists);
    assert!((1..=30_000).contains(&site.php.left("a")), "{}", site.php.left("a"));
    assert_eq!(site.php.reads("a").unwrap(), "user|i:17;");
    assert_eq!(site.php.names(), ["PHPREDIS_SESSION:a", "PHPREDIS_SESSION:b"], "and no lock");
    site.both.touch(&key("b"), ttl()).unwrap();
    assert!(site.php.left("b") > 1_300_000);
}

#[test]
fn a_request_that_outlasts_the_grace_saves_nothing_under_the_replaced_id() {
    let Some(mut site) = start(Duration::from_millis(900)) else { return };
    let late = site.both.begin(&key("a"), WAIT).unwrap();
    let deadline = Instant::now() + WAIT;
    while site.php.reads("a").is_some() {
        assert!(Instant::now() < deadline, "the old id lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = late.lease.commit(b"user|i:18;", ttl()).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Destroyed);
    assert!(site.both.begin(&key("a"), WAIT).unwrap().record.is_none());
    assert_eq!(site.php.names(), ["PHPREDIS_SESSION:b"]);
}

#[test]
fn a_log_out_under_the_new_id_ends_the_replaced_one_for_us() {
    for by_phpredis in [false, true] {
        let Some(mut site) = start(LONG) else { return };
        if by_phpredis {
            site.php.logs_out("b");
        } else {
            site.both.destroy(&key("b")).unwrap();
        }
        assert_eq!(payload_of(&site.both, "a"), None);
        let begun = site.both.begin(&key("a"), WAIT).unwrap();
        assert!(begun.record.is_none() && begun.absence == Absence::Regenerated);
        let refused = begun.lease.commit(b"user|i:17;", ttl()).unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Destroyed);
    }
}

/// Saved in another store it would be a session of its own.
#[test]
fn a_replaced_id_does_not_move_away_from_phpredis() {
    let Some(site) = start(LONG) else { return };
    let url = format!("php+redis+unix:{}", site.socket);
    let old = layouts::open_to_move(&url, Side::Old, WAIT, &Clock::system()).unwrap();
    let found = old.find(&key("a")).unwrap();
    assert!(found.record.is_none() && found.absence == Absence::Regenerated);
    assert!(old.begin(&key("a"), WAIT).unwrap().record.is_none());
    assert!(old.find(&key("b")).unwrap().record.is_some());
}

#[test]
fn a_log_out_under_a_replaced_id_frees_it() {
    let Some(site) = start(LONG) else { return };
    site.both.destroy(&key("a")).unwrap();
    site.both.begin(&key("a"), WAIT).unwrap().lease.commit(b"cart|i:1;", ttl()).unwrap();
    assert_eq!(payload_of(&site.both, "a").unwrap(), b"cart|i:1;");
    assert_eq!(payload_of(&site.both, "b").unwrap(), b"user|i:17;new|i:1;");
}
