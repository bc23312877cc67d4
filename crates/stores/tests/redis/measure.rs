//! A measurement, not a test: one locked request against the four commands that today's handlers
//! send.

use std::time::{Duration, Instant};

use sessile_core::Sessions;

use crate::setup::{Private, WAIT, key, ttl};

/// Short rounds, interleaved: a busy machine then disturbs both alike, and medians mean something.
const CYCLES: u32 = 250;
const ROUNDS: usize = 61;
const PAYLOAD: [u8; 1_500] = [7; 1_500];
const UNLOCK: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

fn ours(store: &Sessions) -> Duration {
    let start = Instant::now();
    for _ in 0..CYCLES {
        let begun = store.begin(&key("a"), WAIT).unwrap();
        assert_eq!(begun.record.unwrap().payload.len(), PAYLOAD.len());
        begun.lease.commit(&PAYLOAD, ttl()).unwrap();
    }
    start.elapsed() / CYCLES
}

fn four_trips(raw: &mut redis::Connection, unlock: &str) -> Duration {
    let start = Instant::now();
    for number in 0..CYCLES {
        let token = format!("{number:032}");
        let locked: Option<String> = redis::cmd("SET")
            .arg("lock")
            .arg(&token)
            .arg(&["NX", "PX", "60000"])
            .query(raw)
            .unwrap();
        let read: Vec<u8> = redis::cmd("GET").arg("data").query(raw).unwrap();
        assert!(locked.is_some() && read.len() == PAYLOAD.len());
        let _: () = redis::cmd("SETEX").arg("data").arg(1_440).arg(&PAYLOAD).query(raw).unwrap();
        let freed: u8 =
            redis::cmd("EVALSHA").arg(unlock).arg(1).arg("lock").arg(&token).query(raw).unwrap();
        assert_eq!(freed, 1);
    }
    start.elapsed() / CYCLES
}

#[test]
#[ignore = "a measurement: cargo test --release -p sessile-stores --test redis -- --ignored \
            --nocapture"]
fn cost_of_a_cycle() {
    let Some(private) = Private::start() else { return };
    let (store, mut raw) = (private.open(""), private.raw());
    store.create(&key("a"), &PAYLOAD, ttl()).unwrap();
    let _: () = redis::cmd("SET").arg("data").arg(&PAYLOAD).query(&mut raw).unwrap();
    let unlock: String = redis::cmd("SCRIPT").arg("LOAD").arg(UNLOCK).query(&mut raw).unwrap();
    let _warm = (ours(&store), four_trips(&mut raw, &unlock));
    let (mut own, mut other): (Vec<_>, Vec<_>) =
        (0..ROUNDS).map(|_| (ours(&store), four_trips(&mut raw, &unlock))).unzip();
    own.sort_unstable();
    other.sort_unstable();
    for (name, at) in [("fastest", 0), ("median", ROUNDS / 2)] {
        let times = other[at].as_secs_f64() / own[at].as_secs_f64();
        eprintln!(
            "{name} round: two trips {:?}, four trips {:?}: {times:.2} times",
            own[at], other[at]
        );
    }
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut raw).unwrap();
    ours(&store);
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut raw).unwrap();
    stats.lines().filter(|line| line.contains("cmdstat")).for_each(|line| eprintln!("{line}"));
}
