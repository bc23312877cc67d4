//! A site that changes its mind: from phpredis to a store of ours, back, and there again, within
//! the hour for which a store remembers what was destroyed.

use sessile_core::{Absence, Budget, Sessions};
use sessile_fixtures::PrivateDir;
use sessile_stores::Context;

use crate::php_redis_back::Site;
use crate::setup::{WAIT, key, payload_of, ttl};

fn open(url: &str) -> Sessions {
    sessile_stores::open(url, &Context::default()).unwrap()
}

fn leaving(site: &Site) -> Sessions {
    let socket = &site.socket;
    open(&format!("migrate:?from=php+redis+unix:{socket}&to=redis+unix:{socket}"))
}

/// A request that finds one content and saves another.
fn uses(store: &Sessions, id: &str, finds: &str, saves: &str) {
    let begun = store.begin(&key(id), WAIT).unwrap();
    assert_eq!(begun.record.unwrap().payload, finds.as_bytes());
    begun.lease.commit(saves.as_bytes(), ttl()).unwrap();
}

/// The story: the move back left tombstones. The second move away took them for log-outs, and the
/// sessions of phpredis for what a late worker had saved: all visitors were logged out.
#[test]
fn a_site_that_turns_round_twice_within_an_hour_logs_nobody_out() {
    let Some(mut site) = Site::start() else { return };
    let leaving = leaving(&site);
    site.php.saves("a", "cart|i:1;");
    uses(&leaving, "a", "cart|i:1;", "cart|i:2;");
    uses(&site.both, "a", "cart|i:2;", "cart|i:3;");
    assert_eq!(payload_of(&site.old, "a"), None, "it is in one store");
    assert_eq!(payload_of(&leaving, "a").unwrap(), b"cart|i:3;");
    assert_eq!(site.php.reads("a").unwrap(), "cart|i:3;", "a look ends nothing");
    uses(&leaving, "a", "cart|i:3;", "cart|i:4;");
    assert_eq!(site.php.names(), [""; 0]);
    uses(&site.both, "a", "cart|i:4;", "cart|i:5;");
    assert_eq!(site.php.reads("a").unwrap(), "cart|i:5;");
}

#[test]
fn a_log_out_between_two_turns_stays_one() {
    let Some(mut site) = Site::start() else { return };
    let leaving = leaving(&site);
    for id in ["over_migrate", "by_phpredis"] {
        site.php.saves(id, "user|i:17;");
        uses(&leaving, id, "user|i:17;", "user|i:17;");
        uses(&site.both, id, "user|i:17;", "user|i:17;");
    }
    site.both.destroy(&key("over_migrate")).unwrap();
    site.php.logs_out("by_phpredis");
    // A worker whose request lasted beyond the log-out.
    site.php.saves("over_migrate", "user|i:17;");
    for id in ["over_migrate", "by_phpredis"] {
        assert_eq!(payload_of(&leaving, id), None, "{id}");
        assert!(leaving.begin(&key(id), WAIT).unwrap().record.is_none(), "{id}");
    }
    assert_eq!(site.php.names(), [""; 0]);
}

#[test]
fn a_move_to_phpredis_leaves_no_tombstone() {
    let Some(mut site) = Site::start() else { return };
    let dir = PrivateDir::in_shared_memory().unwrap();
    let at = dir.path().display();
    for url in [
        format!("redis+unix:{}", site.socket),
        format!("sqlite:{at}/sessions.sqlite"),
        format!("files:{at}/sessions"),
    ] {
        let (old, to) = (open(&url), format!("php+redis+unix:{}", site.socket));
        let both = open(&format!("migrate:?from={url}&to={to}"));
        old.create(&key("a"), b"cart|i:1;", ttl()).unwrap();
        uses(&both, "a", "cart|i:1;", "cart|i:2;");
        let left = old.find(&key("a")).unwrap();
        assert!(left.record.is_none() && left.absence == Absence::Unknown, "{url}");
        both.destroy(&key("a")).unwrap();
        assert_eq!(old.find(&key("a")).unwrap().absence, Absence::Destroyed, "{url}");
        assert_eq!(site.php.names(), [""; 0], "{url}");
    }
}

/// The story: after a reboot the engine had a tombstone for each session that had moved away. When
/// the site turned round again, the sessions of phpredis were destroyed.
#[test]
fn an_engine_made_anew_after_a_reboot_takes_no_move_for_a_log_out() {
    let Some(site) = Site::start() else { return };
    let (disk, memory) = (PrivateDir::on_disk().unwrap(), PrivateDir::in_shared_memory().unwrap());
    let (disk, control) = (disk.path().display(), memory.path().join("control"));
    std::fs::create_dir(&control).unwrap();
    let url = format!("sessile:{disk}/engine?control={}", control.display());
    let both = format!("migrate:?from={url}&to=php+redis+unix:{}", site.socket);
    for id in ["a", "stays"] {
        open(&url).create(&key(id), b"cart|i:1;", ttl()).unwrap();
    }
    uses(&open(&both), "a", "cart|i:1;", "cart|i:2;");
    std::fs::remove_dir_all(&control).unwrap();
    std::fs::create_dir(&control).unwrap();
    let old = open(&url);
    old.sweep(Budget::default()).unwrap();
    assert_eq!(payload_of(&old, "stays").unwrap(), b"cart|i:1;", "the log was read");
    let left = old.find(&key("a")).unwrap();
    assert!(left.record.is_none());
    assert_eq!(left.absence, Absence::Unknown);
    let leaving = open(&format!("migrate:?from=php+redis+unix:{}&to={url}", site.socket));
    uses(&leaving, "a", "cart|i:2;", "cart|i:3;");
}
