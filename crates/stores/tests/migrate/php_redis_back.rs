//! Sessions move back to phpredis, where its own workers find them: decision 46.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue, ToRedisArgs};
use sessile_core::{ErrorKind, Key, Sessions, Ttl};
use sessile_fixtures::{PrivateDir, Server, ServerOptions};
use sessile_stores::Context;

use crate::setup::support::server;
use crate::setup::{WAIT, key, payload_of, ttl};

/// A site that goes back to phpredis.
pub struct Site {
    pub php: Worker,
    pub old: Sessions,
    pub both: Sessions,
    pub socket: String,
    _server: Server,
    _dir: PrivateDir,
}

impl Site {
    pub fn start() -> Option<Site> {
        let dir = PrivateDir::in_shared_memory().unwrap();
        let server = server::start("redis-server", &dir, &ServerOptions::default())?;
        let socket = server.socket().display().to_string();
        let (old, new) = (format!("redis+unix:{socket}"), format!("php+redis+unix:{socket}"));
        let open = |url: &str| sessile_stores::open(url, &Context::default()).unwrap();
        let both = open(&format!("migrate:?from={old}&to={new}"));
        let php = Worker::connect(&socket);
        Some(Site { php, old: open(&old), both, socket, _server: server, _dir: dir })
    }

    pub fn save_in_old(&self, id: &str, payload: &str) {
        self.old.begin(&key(id), WAIT).unwrap().lease.commit(payload.as_bytes(), ttl()).unwrap();
    }
}

/// A worker of phpredis, with the commands of its redis_session.c.
pub struct Worker(Connection);

impl Worker {
    fn connect(socket: &str) -> Worker {
        let client = redis::Client::open(format!("unix:{socket}")).unwrap();
        Worker(client.get_connection().unwrap())
    }

    pub fn ask<T: FromRedisValue>(&mut self, command: &str, args: impl ToRedisArgs) -> T {
        redis::cmd(command).arg(args).query(&mut self.0).unwrap()
    }

    pub fn locks(&mut self, id: &str) -> bool {
        let lock = format!("PHPREDIS_SESSION:{id}_LOCK");
        self.ask::<Option<String>>("SET", &[&lock, "secret", "NX", "PX", "60000"]).is_some()
    }

    pub fn unlocks(&mut self, id: &str) {
        self.ask::<()>("DEL", format!("PHPREDIS_SESSION:{id}_LOCK"));
    }

    pub fn reads(&mut self, id: &str) -> Option<String> {
        self.ask("GET", format!("PHPREDIS_SESSION:{id}"))
    }

    pub fn saves(&mut self, id: &str, payload: &str) {
        self.ask::<()>("SETEX", &[&format!("PHPREDIS_SESSION:{id}"), "1440", payload]);
    }

    /// As phpredis does it: the lock first, then the session.
    pub fn logs_out(&mut self, id: &str) {
        self.unlocks(id);
        self.ask::<()>("DEL", format!("PHPREDIS_SESSION:{id}"));
    }

    pub fn names(&mut self) -> Vec<String> {
        let mut names: Vec<String> = self.ask("KEYS", "PHPREDIS_SESSION:*");
        names.sort();
        names
    }

    pub fn left(&mut self, id: &str) -> i64 {
        self.ask("PTTL", format!("PHPREDIS_SESSION:{id}"))
    }
}

#[test]
fn a_session_moves_into_the_layout_of_phpredis_under_both_locks() {
    let Some(mut site) = Site::start() else { return };
    site.save_in_old("a", "cart|i:1;");
    assert_eq!(payload_of(&site.both, "a").unwrap(), b"cart|i:1;");
    assert_eq!(site.php.names(), [""; 0], "a look moves nothing");
    let begun = site.both.begin(&key("a"), WAIT).unwrap();
    assert_eq!(begun.record.unwrap().payload, b"cart|i:1;");
    assert_eq!(site.php.reads("a").unwrap(), "cart|i:1;");
    assert!(!site.php.locks("a"), "the request has the lock of phpredis");
    assert!(site.old.peek(&key("a")).unwrap().is_none());
    begun.lease.commit(b"cart|i:2;", ttl()).unwrap();
    assert_eq!(site.php.names(), ["PHPREDIS_SESSION:a"]);
    assert_eq!(site.php.reads("a").unwrap(), "cart|i:2;");
    assert!((1_300_000..=1_440_000).contains(&site.php.left("a")));
}

#[test]
fn a_lease_may_end_a_session_of_phpredis_and_keeps_its_lock() {
    let Some(mut site) = Site::start() else { return };
    site.php.saves("a", "cart|i:1;");
    let mut begun = site.both.begin(&key("a"), WAIT).unwrap();
    begun.lease.end().unwrap();
    assert_eq!(site.php.names(), ["PHPREDIS_SESSION:a_LOCK"]);
    begun.lease.release().unwrap();
    assert_eq!(site.php.names(), [""; 0]);
}

/// Its lock is there before its session is: a look must not take that for an empty session.
#[test]
fn a_look_beside_a_new_session_or_a_move_sees_no_empty_session() {
    let Some(mut site) = Site::start() else { return };
    site.save_in_old("a", "cart|i:1;");
    assert!(site.php.locks("a") && site.php.locks("b"));
    assert_eq!(payload_of(&site.both, "a").unwrap(), b"cart|i:1;");
    assert_eq!(payload_of(&site.both, "b"), None);
}

#[test]
fn a_request_waits_for_a_worker_of_phpredis_and_sees_what_it_has_saved() {
    let Some(mut site) = Site::start() else { return };
    site.php.saves("a", "cart|i:1;");
    assert!(site.php.locks("a"));
    let refused = site.both.begin(&key("a"), Duration::from_millis(50)).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::LockTimeout { .. }), "{refused}");
    let both = site.both.clone();
    let waiting = std::thread::spawn(move || both.begin(&key("a"), WAIT).unwrap().record);
    site.php.saves("a", "cart|i:2;");
    site.php.unlocks("a");
    assert_eq!(waiting.join().unwrap().unwrap().payload, b"cart|i:2;");
}

#[test]
fn a_save_under_a_lost_lock_overwrites_nothing_of_phpredis() {
    let Some(mut site) = Site::start() else { return };
    for is_taken in [false, true] {
        site.php.saves("a", "cart|i:1;");
        let mut begun = site.both.begin(&key("a"), WAIT).unwrap();
        site.php.unlocks("a");
        site.php.saves("a", "cart|i:2;");
        assert!(!is_taken || site.php.locks("a"));
        assert_eq!(begun.lease.touch(ttl()).unwrap_err().kind(), &ErrorKind::Stale);
        let refused = begun.lease.regenerate(&key("b"), Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Stale);
        let refused = begun.lease.commit(b"cart|i:9;", ttl()).unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Stale);
        assert_eq!(site.php.reads("a").unwrap(), "cart|i:2;");
        assert_eq!(site.php.locks("a"), !is_taken, "the lock of another stays");
        site.php.logs_out("a");
    }
}

/// phpredis gives its lock back before it removes the session: a request that waited had read it,
/// and its save brought the session back.
#[test]
fn a_log_out_by_phpredis_ends_the_session_of_a_request_that_waited() {
    let Some(mut site) = Site::start() else { return };
    for change in ["commit", "touch", "regenerate"] {
        site.php.saves("a", "user|i:17;");
        let mut begun = site.both.begin(&key("a"), WAIT).unwrap();
        site.php.ask::<()>("DEL", "PHPREDIS_SESSION:a");
        let refused = match change {
            "commit" => begun.lease.commit(b"user|i:17;", ttl()),
            "touch" => {
                assert_eq!(begun.lease.touch(ttl()).unwrap_err().kind(), &ErrorKind::Gone);
                begun.lease.commit(b"user|i:17;", ttl())
            }
            _ => begun.lease.regenerate(&key("b"), Duration::from_secs(9)),
        };
        assert_eq!(refused.unwrap_err().kind(), &ErrorKind::Destroyed, "{change}");
        assert_eq!(site.php.names(), [""; 0], "{change}");
    }
}

#[test]
fn a_log_out_voids_the_save_of_a_request_and_reaches_both_stores() {
    let Some(mut site) = Site::start() else { return };
    site.save_in_old("a", "user|i:17;");
    let mut begun = site.both.begin(&key("a"), WAIT).unwrap();
    site.both.destroy(&key("a")).unwrap();
    assert_eq!(begun.lease.touch(ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
    let refused = begun.lease.commit(b"user|i:17;", ttl()).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Destroyed);
    assert!(site.both.begin(&key("a"), WAIT).unwrap().record.is_none());
    assert_eq!(site.php.names(), [""; 0]);
    assert!(site.old.peek(&key("a")).unwrap().is_none());
}

#[test]
fn a_session_that_ends_during_its_request_is_saved_anew() {
    let Some(mut site) = Site::start() else { return };
    site.php.ask::<()>("SET", &["PHPREDIS_SESSION:a", "cart|i:1;", "PX", "900"]);
    let begun = site.both.begin(&key("a"), WAIT).unwrap();
    assert!(begun.record.is_some());
    site.php.ask::<()>("DEL", "PHPREDIS_SESSION:a"); // as the server does at its end
    begun.lease.commit(b"cart|i:2;", ttl()).unwrap();
    assert_eq!(site.php.reads("a").unwrap(), "cart|i:2;");
}

#[test]
fn a_new_id_takes_the_session_along_and_the_old_one_keeps_it_for_the_grace() {
    let Some(mut site) = Site::start() else { return };
    for (grace, left) in [(Duration::from_secs(30), 1..=30_000), (Duration::ZERO, -2..=-2)] {
        site.save_in_old("a", "cart|i:1;");
        site.php.saves("taken", "cart|i:5;");
        let mut begun = site.both.begin(&key("a"), WAIT).unwrap();
        let refused = begun.lease.regenerate(&key("taken"), grace).unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Exists);
        begun.lease.regenerate(&key("b"), grace).unwrap();
        assert!(site.php.locks("a") && !site.php.locks("b"), "the lock moves along");
        site.php.unlocks("a");
        assert_eq!(site.php.reads("b").unwrap(), "cart|i:1;");
        assert!((1_300_000..=1_440_000).contains(&site.php.left("b")));
        begun.lease.commit(b"user|i:17;", ttl()).unwrap();
        assert!(left.contains(&site.php.left("a")), "{}", site.php.left("a"));
        assert_eq!(site.php.reads("b").unwrap(), "user|i:17;");
        assert_eq!(site.php.reads("taken").unwrap(), "cart|i:5;");
        for id in ["a", "b", "taken"] {
            site.both.destroy(&key(id)).unwrap();
        }
        assert_eq!(site.php.names(), [""; 0]);
    }
}

#[test]
fn what_belongs_to_another_bin_is_no_session_of_phpredis() {
    let Some(mut site) = Site::start() else { return };
    let other = Key::in_bin(sessile_core::Bin::new("notes").unwrap(), "a").unwrap();
    site.php.saves("a", "cart|i:1;");
    assert!(site.both.peek(&other).unwrap().is_none());
    site.both.create(&other, b"note|i:1;", ttl()).unwrap();
    let taken = site.both.create(&key("a"), b"cart|i:2;", ttl()).unwrap_err();
    assert_eq!(taken.kind(), &ErrorKind::Exists);
    site.both.create(&key("b"), b"cart|i:3;", ttl()).unwrap();
    assert_eq!(site.php.reads("a").unwrap(), "cart|i:1;");
    assert_eq!(site.php.reads("b").unwrap(), "cart|i:3;");
    assert!(site.both.peek(&other).unwrap().is_some());
    // Its name would be that of the lock of another session.
    for refused in [
        site.both.create(&key("a_LOCK"), b"x|i:1;", ttl()),
        site.both.begin(&key("a_LOCK"), WAIT).map(drop),
        site.both.begin(&key("c"), WAIT).unwrap().lease.regenerate(&key("a_LOCK"), WAIT),
    ] {
        assert_eq!(refused.unwrap_err().kind(), &ErrorKind::InvalidId);
    }
}

#[test]
fn an_absolute_end_that_is_near_bounds_the_life_in_phpredis() {
    let Some(mut site) = Site::start() else { return };
    let near = ttl().within(Duration::from_secs(60)).unwrap();
    site.old.create(&key("a"), b"cart|i:1;", near).unwrap();
    site.both.begin(&key("a"), WAIT).unwrap().lease.release().unwrap();
    assert!((1..=60_000).contains(&site.php.left("a")));
}

#[test]
fn phpredis_on_both_sides_is_refused() {
    let Some(site) = Site::start() else { return };
    let url = format!("migrate:?from=php+redis+unix:{0}&to=php+redis+unix:{0}/1", site.socket);
    let refused = sessile_stores::open(&url, &Context::default()).err().unwrap();
    assert_eq!(refused.kind().code(), "invalid-url");
}

/// Adds one to the number in a session. False when there is no session, or it ended meanwhile.
fn increment(store: &Sessions, key: &Key) -> bool {
    let begun = store.begin(key, WAIT).unwrap();
    let Some(record) = begun.record else { return false };
    match begun.lease.commit(next(str::from_utf8(&record.payload).unwrap()).as_bytes(), ttl()) {
        Ok(()) => true,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Destroyed | ErrorKind::Stale), "{error:#}");
            false
        }
    }
}

fn number(payload: &str) -> u64 {
    payload.trim_start_matches("n|i:").trim_end_matches(';').parse().unwrap()
}

fn next(payload: &str) -> String {
    format!("n|i:{};", number(payload) + 1)
}

/// Old workers end their requests, those with `migrate:` move the sessions, and those of phpredis
/// use what has moved.
#[test]
fn no_increment_is_lost_between_three_kinds_of_workers() {
    const SESSIONS: usize = 20;
    let Some(mut site) = Site::start() else { return };
    let ids: Vec<String> = (0..SESSIONS).map(|number| format!("visitor{number}")).collect();
    let counts: Vec<AtomicU64> = ids.iter().map(|_| AtomicU64::new(0)).collect();
    ids.iter().for_each(|id| site.save_in_old(id, "n|i:0;"));
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let (ids, counts, site) = (&ids, &counts, &site);
            scope.spawn(move || {
                let (start, mut random) = (Instant::now(), fastrand::Rng::with_seed(worker));
                let mut php = Worker::connect(&site.socket);
                while start.elapsed() < Duration::from_millis(700) {
                    let chosen = random.usize(0..SESSIONS);
                    let id = &ids[chosen];
                    let counted = match worker {
                        0 => increment(&site.old, &key(id)),
                        1..4 => increment(&site.both, &key(id)),
                        _ if php.locks(id) => {
                            let payload = php.reads(id);
                            payload.iter().for_each(|payload| php.saves(id, &next(payload)));
                            php.unlocks(id);
                            payload.is_some()
                        }
                        _ => false,
                    };
                    counts[chosen].fetch_add(counted.into(), Ordering::SeqCst);
                    assert!(counted || !(1..4).contains(&worker), "a visitor was logged out");
                }
            });
        }
    });
    for (id, count) in ids.iter().zip(&counts) {
        assert_eq!(number(&site.php.reads(id).unwrap()), count.load(Ordering::SeqCst));
        assert!(site.old.peek(&key(id)).unwrap().is_none(), "it is in one store");
    }
    assert_eq!(site.php.names().len(), SESSIONS, "no lock is left");
}

/// Each session is logged out once while others change and move it.
#[test]
fn no_session_comes_back_after_its_log_out_on_the_way_back() {
    let Some(site) = Site::start() else { return };
    let ttl = Ttl::sliding(Duration::from_secs(60)).unwrap();
    for round in 0..300 {
        let key = key(&format!("visitor{round}"));
        site.old.create(&key, b"n|i:0;", ttl).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let was_over = is_over.load(Ordering::SeqCst);
                        let is_there = increment(&site.both, &key);
                        assert!(!(was_over && is_there), "it came back");
                    }
                });
            }
            let (start, wait) = (Instant::now(), Duration::from_micros(fastrand::u64(0..1_500)));
            while start.elapsed() < wait {
                std::hint::spin_loop();
            }
            site.both.destroy(&key).unwrap();
            is_over.store(true, Ordering::SeqCst);
        });
        assert!(site.both.peek(&key).unwrap().is_none(), "it came back");
    }
}
