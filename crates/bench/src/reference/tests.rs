//! Tests that hold for every reference row that processes share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::Durability;
use sessile_fixtures::{PrivateDir, Proxy, Server, ServerKind, ServerOptions};
use sessile_results::{Outcome, Row, Subject};

use super::{REFERENCES, Reference, by_name, open_by_name};
use crate::contender::Contender;
use crate::payload_spread::PayloadSpread;
use crate::worker::protocol::{ContenderSpec, OpenRequest};

/// A row with its directory and server.
pub(crate) struct Place {
    pub reference: &'static Reference,
    pub server: Option<Server>,
    dir: PrivateDir,
}

impl Place {
    /// Without the server the test is skipped, and fails in CI.
    pub(crate) fn start(name: &str) -> Option<Place> {
        // An unknown name is a mistake in the test, which would otherwise always be skipped.
        let reference = by_name(name).unwrap();
        let dir = PrivateDir::on_disk().unwrap();
        let Some(server) = reference.server else {
            return Some(Place { reference, server: None, dir });
        };
        let kind = ServerKind::by_name(server).unwrap();
        if kind.find().is_none() {
            assert!(std::env::var_os("CI").is_none(), "{} is not installed", kind.name);
            println!("skipped: {} is not installed", kind.name);
            return None;
        }
        let server = Server::start(kind, dir.path(), &ServerOptions::default()).unwrap();
        Some(Place { reference, server: Some(server), dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.server.as_ref().map_or(self.dir.path(), Server::socket)
    }

    pub(crate) fn open(&self) -> Box<dyn Contender> {
        open_by_name(self.reference.name, self.path(), &opening(self)).unwrap()
    }
}

/// Two sessions of a minute.
pub(crate) fn opening(place: &Place) -> OpenRequest {
    let contender = ContenderSpec::Reference {
        name: place.reference.name.to_owned(),
        place: PathBuf::new(),
        durability: Durability::None.name().to_owned(),
    };
    OpenRequest {
        contender,
        worker: 0,
        seed: 7,
        ids: 2,
        payload_bytes: 64,
        spread: PayloadSpread::Fixed,
        ttl: Duration::from_secs(60),
        lock_ttl: None,
    }
}

/// Without `lmdb`, which a process opens once.
fn shared() -> impl Iterator<Item = Place> {
    let shared = REFERENCES.iter().filter(|it| it.shared_by_processes && !it.loses_large);
    let shared = shared.filter(|it| it.name != "lmdb");
    shared.filter_map(|reference| Place::start(reference.name))
}

/// Adds one, in a payload that becomes shorter and longer and has every byte in it.
fn add_one(contender: &mut dyn Contender) {
    let payload = contender.begin(0).unwrap().expect("the session is there");
    let count = u64::from_le_bytes(payload[..8].try_into().unwrap()) + 1;
    let rest = (0..=255).cycle().take(300 + 200 * (count as usize % 2));
    let payload: Vec<u8> = count.to_le_bytes().into_iter().chain(rest).collect();
    contender.commit(&payload).unwrap();
    assert_eq!(contender.read(0).unwrap().map(|read| read.len() >= 308), Some(true));
}

/// An unlocked row is measured for what it costs, and keeps all changes of one worker.
#[test]
fn every_change_of_two_workers_is_there() {
    for place in shared() {
        let name = place.reference.name;
        let workers = if place.reference.unlocked { 1 } else { 2 };
        let mut first = place.open();
        first.create(0, &[0; 64], Duration::from_secs(60)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let mut contender = place.open();
                    (0..20).for_each(|_| add_one(&mut *contender));
                });
            }
        });
        let read = first.read(0).unwrap().expect("the session is there");
        let count = u64::from_le_bytes(read[..8].try_into().unwrap());
        assert_eq!(count, 20 * workers, "{name}");
        let rest: Vec<u8> = (0..=255).cycle().take(300).collect();
        assert_eq!(read[8..], rest, "{name}");
        // A session that a request makes.
        assert_eq!(first.begin(1).unwrap(), None, "{name}");
        first.commit(b"a cart").unwrap();
        assert_eq!(first.begin(1).unwrap(), Some(&b"a cart"[..]), "{name}");
        first.release().unwrap();
    }
}

/// A row that is said to take two trips and takes four would flatter our stores.
#[test]
fn a_row_takes_as_many_round_trips_as_it_says() {
    for (name, trips) in [
        ("redis-four-trips", 4),
        ("redis-two-trips", 2),
        ("redis-setex", 2),
        ("redis-magento", 6),
        ("memcached-four-trips", 4),
        ("memcached-two-trips", 2),
        ("memcached-unlocked", 2),
        ("mysql-transaction", 4),
        ("mysql-two-trips", 2),
        ("mysql-unlocked", 2),
        ("postgres-transaction", 4),
        ("postgres-two-trips", 2),
        ("postgres-unlocked", 2),
    ] {
        let Some(place) = Place::start(name) else { continue };
        let proxy = Proxy::before(place.path()).unwrap();
        let mut contender = open_by_name(name, proxy.socket(), &opening(&place)).unwrap();
        contender.create(0, b"a cart", Duration::from_secs(60)).unwrap();
        // The first cycle may load a script.
        for warm_up in [true, false] {
            let (taken, ()) = proxy.trips(|| {
                assert_eq!(contender.begin(0).unwrap(), Some(&b"a cart"[..]), "{name}");
                contender.commit(b"a cart").unwrap();
            });
            assert!(warm_up || taken == trips, "{name}: {taken}");
            let (taken, ()) = proxy.trips(|| {
                contender.begin(0).unwrap();
                contender.touch().unwrap();
            });
            assert!(warm_up || taken == trips, "{name}: {taken} with a touch");
        }
    }
}

/// What an unlocked row loses is shown; the exit code of a run would always be 1 for it.
#[test]
fn lost_updates_are_a_fault_of_rows_that_lock() {
    let row = |store: &str| Row {
        subject: Subject { store: store.to_owned(), ..Subject::default() },
        outcome: Outcome { lost: 3, ..Outcome::default() },
        ..Row::default()
    };
    assert!(row("redis-two-trips").is_bad() && row("redis").is_bad());
    assert!(!row("redis-setex").is_bad());
    let mut missing = row("redis-setex");
    missing.outcome.misses = 1;
    assert!(missing.is_bad());
}

#[test]
fn limit_stays_as_short_as_its_definition_says() {
    let lines = include_str!("limit.rs").lines().count();
    assert!(lines <= 80, "limit.rs has {lines} lines; what needs more is no limit any more");
}
