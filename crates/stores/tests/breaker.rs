//! A server that is dead or silent costs the first requests their time-out and the later ones next
//! to nothing, and is used again soon after it is back. On every store with a server.

#![cfg(all(feature = "redis", feature = "mysql", feature = "postgres", feature = "memcached"))]

#[cfg(test)]
#[path = "support/mod.rs"]
mod support;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use sessile_core::{ErrorKind, Sessions};
    use sessile_fixtures::{Instance, Proxy, ServerOptions, StartError, Tamper};
    use sessile_stores::with_option;
    use sessile_stores::{Context, registry};

    use crate::support::{key, ttl};

    /// As in `connections/breaker.rs`.
    const PROBE_FOR: Duration = Duration::from_millis(40);
    const RESPONSE: Duration = Duration::from_secs(1);
    const BEGINS: usize = 150;
    const RECOVERY: Duration = Duration::from_secs(2);
    /// A bound on time may be missed on a busy machine; what is slow by itself is so each time.
    const TRIALS: usize = 3;

    fn cycle(store: &Sessions) -> Result<(), sessile_core::Error> {
        store.begin(&key("a"), Duration::ZERO)?.lease.commit(b"x", ttl())
    }

    /// How long each begin takes until it fails, and what the last one says.
    fn failures(store: &Sessions) -> (Vec<Duration>, String) {
        let mut said = String::new();
        let mut times: Vec<Duration> = (0..BEGINS)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(5));
                let start = Instant::now();
                let error = store.begin(&key("a"), Duration::ZERO).unwrap_err();
                assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error}");
                said = format!("{error:#}");
                start.elapsed()
            })
            .collect();
        times.sort();
        (times, said)
    }

    /// The bar, and on a busy machine what a probe is allowed (`breaker.rs`): no longer than eight
    /// times the time until the first byte of a new connection.
    fn p99_max(url: &str) -> Duration {
        let open = |_| {
            let start = Instant::now();
            sessile_stores::open(url, &Context::default()).unwrap();
            start.elapsed()
        };
        let fastest = (0..5).map(open).min().unwrap();
        Duration::from_millis(60).max(fastest * 8)
    }

    fn trial(name: &str, instance: &mut Instance, freezes: bool) -> Result<(), String> {
        let url = with_option(instance.url(), "response_timeout_ms", "1000");
        let url = with_option(&url, "connect_timeout_ms", "500");
        let p99_max = p99_max(&url);
        let store = sessile_stores::open(&url, &Context::default()).unwrap();
        cycle(&store).unwrap();
        let server = instance.server().unwrap();
        if freezes {
            server.freeze()
        } else {
            server.kill()
        }
        let start = Instant::now();
        store.begin(&key("a"), Duration::ZERO).unwrap_err();
        let first = start.elapsed();
        let second = failures(&store);
        if freezes {
            server.thaw()
        } else {
            server.restart().unwrap()
        }
        let back = Instant::now();
        while cycle(&store).is_err() {
            assert!(back.elapsed() < Duration::from_secs(60), "{name}: not found again");
            std::thread::sleep(Duration::from_millis(5));
        }
        let recovery = back.elapsed();
        for _ in 0..50 {
            cycle(&store).expect("a server that is back keeps nobody out");
        }
        let (times, said) = second;
        let p99 = times[BEGINS * 99 / 100 - 1];
        let figures = format!(
            "{name}, {}: first {first:?}, then p50 {:?}, p99 {p99:?}, longest {:?}; back after \
             {recovery:?}",
            if freezes { "silent" } else { "dead" },
            times[BEGINS / 2],
            times[BEGINS - 1]
        );
        println!("{figures}");
        assert!(said.contains("no answer for"), "{name}: {said}");
        let good =
            first < RESPONSE + Duration::from_millis(900) && p99 < p99_max && recovery < RECOVERY;
        if good { Ok(()) } else { Err(figures) }
    }

    /// Each part of an answer comes later than a probe is allowed.
    struct Slow;

    impl Tamper for Slow {
        fn change(&self, _connection: u64, _answer: &mut Vec<u8>) {
            std::thread::sleep(PROBE_FOR * 3 / 2);
        }
    }

    /// What is no death keeps no request out.
    fn accidents(name: &str, instance: &mut Instance) {
        let store = sessile_stores::open(instance.url(), &Context::default()).unwrap();
        cycle(&store).unwrap();
        let held = store.begin(&key("held"), Duration::ZERO).unwrap();
        for _ in 0..5 {
            let taken = store.begin(&key("held"), Duration::from_millis(50)).unwrap_err();
            assert!(matches!(taken.kind(), ErrorKind::LockTimeout { .. }), "{name}: {taken:#}");
        }
        cycle(&store).unwrap_or_else(|error| panic!("{name}, after waits for a lock: {error:#}"));
        drop(held);
        if matches!(name, "mysql" | "postgres") {
            let stranger = with_option(instance.url(), "user", "stranger");
            for _ in 0..5 {
                let opened = sessile_stores::open(&stranger, &Context::default());
                let refused = opened.and_then(|store| cycle(&store));
                assert!(refused.is_err(), "{name}: a stranger was let in");
            }
            let after = sessile_stores::open(instance.url(), &Context::default()).unwrap();
            cycle(&after).unwrap_or_else(|error| panic!("{name}, after bad logins: {error:#}"));
        }
        for restart in 0..3 {
            let server = instance.server().unwrap();
            server.kill();
            server.restart().unwrap();
            cycle(&store).unwrap_or_else(|error| panic!("{name}, restart {restart}: {error:#}"));
        }
        let url = instance.url().to_owned();
        let proxy = Proxy::tampering(instance.server().unwrap().socket(), Slow).unwrap();
        for _ in 0..5 {
            let slow = sessile_stores::open(&proxy.url(&url), &Context::default()).unwrap();
            cycle(&slow).unwrap_or_else(|error| panic!("{name}, a slow server: {error:#}"));
        }
    }

    fn hold(name: &str) {
        let entry = registry::by_name(name).unwrap();
        let fixture = entry.fixtures.iter().find(|fixture| fixture.variant == "default").unwrap();
        let mut instance = match Instance::start(entry, fixture, &ServerOptions::default()) {
            Ok(instance) => instance,
            Err(error @ StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
                return eprintln!("SKIPPED: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        accidents(name, &mut instance);
        for freezes in [false, true] {
            let mut missed = Vec::new();
            while let Err(why) = trial(name, &mut instance, freezes) {
                missed.push(why);
                assert!(missed.len() < TRIALS, "{missed:#?}");
            }
        }
    }

    #[test]
    fn a_dead_redis_costs_no_request_more_than_a_moment() {
        hold("redis");
    }

    #[test]
    fn a_dead_mysql_costs_no_request_more_than_a_moment() {
        hold("mysql");
    }

    #[test]
    fn a_dead_postgres_costs_no_request_more_than_a_moment() {
        hold("postgres");
    }

    #[test]
    fn a_dead_memcached_costs_no_request_more_than_a_moment() {
        hold("memcached");
    }
}
