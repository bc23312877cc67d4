//! The keys of phpredis and of php-memcached on private servers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use sessile_core::Timestamp;
use sessile_stores::foreign::Sizes;

use crate::setup::{Private, refused, walked};

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn seconds(moment: Option<Timestamp>) -> u64 {
    moment.unwrap().as_ms() / 1_000
}

#[test]
fn sessions_of_phpredis_are_seen_and_not_touched() {
    let Some(private) = Private::start("redis-server", &[]) else { return };
    let mut raw = redis::Client::open(format!("unix:{}", private.server.socket().display()))
        .and_then(|client| client.get_connection())
        .unwrap();
    for number in 0..2_500_usize {
        let key = format!("PHPREDIS_SESSION:secret{number}");
        redis::cmd("SET").arg(key).arg(vec![b'x'; number]).arg("EX").arg(1_440).exec(&mut raw).unwrap();
    }
    redis::cmd("SET").arg("PHPREDIS_SESSION:secret1_LOCK").arg("x").exec(&mut raw).unwrap();
    redis::cmd("RPUSH").arg("PHPREDIS_SESSION:secret_list").arg("x").exec(&mut raw).unwrap();
    redis::cmd("SET").arg("shop:secret").arg("xyz").exec(&mut raw).unwrap();
    // The clock of the server's idle times has seconds: one that was not reset is at least one second old by then.
    let mut idle =
        || -> u64 { redis::cmd("OBJECT").arg("IDLETIME").arg("PHPREDIS_SESSION:secret7").query(&mut raw).unwrap() };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while idle() < 2 {
        assert!(std::time::Instant::now() < deadline, "the server's clock stands");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let url = format!("php+redis+unix:{}", private.server.socket().display());
    for page in [10, 1_000, 10_000] {
        let (seen, sizes) = walked(&url, page);
        let mut bytes: Vec<u64> = seen.iter().map(|entry| entry.bytes).collect();
        bytes.sort_unstable();
        assert_eq!(bytes.len(), 2_500, "in pages of {page}");
        match sizes {
            Sizes::Payload => assert_eq!(bytes, (0..2_500).collect::<Vec<u64>>()),
            Sizes::Memory => assert!((2_500..4_000).contains(&bytes[2_499]), "{:?}", bytes.last()),
        }
        assert!(seen.iter().all(|entry| (1_300..=1_441).contains(&(seconds(entry.expires) - now_s()))), "{page}");
        assert!(seen.iter().all(|entry| now_s() - seconds(entry.used) >= 1), "a look is counted as a use");
    }
    assert!(idle() >= 2, "the scan has touched a session");
    assert_eq!(walked(&format!("{url}?prefix=shop:"), 10).0.len(), 1);
    assert!(refused(&format!("{url}?lock_ttl_ms=5")).contains("unknown option"));
}

#[test]
fn a_redis_that_evicts_by_frequency_tells_no_idle_times_and_all_else() {
    let Some(private) = Private::start("redis-server", &["--maxmemory-policy", "allkeys-lfu"]) else { return };
    let client = redis::Client::open(format!("unix:{}", private.server.socket().display())).unwrap();
    let mut raw = client.get_connection().unwrap();
    redis::cmd("SET").arg("PHPREDIS_SESSION:secret").arg("xyz").exec(&mut raw).unwrap();
    let (seen, _) = walked(&format!("php+redis+unix:{}", private.server.socket().display()), 10);
    assert_eq!((seen.len(), seen[0].used, seen[0].expires), (1, None, None));
}

#[test]
fn sessions_of_php_memcached_are_seen() {
    let servers: Vec<Private> = (0..2).filter_map(|_| Private::start("memcached", &[])).collect();
    let [first, second] = servers.as_slice() else { return };
    for (server, from) in [(first, 0), (second, 1_000)] {
        let mut stream = BufReader::new(UnixStream::connect(server.server.socket()).unwrap());
        let mut set = |key: &str, bytes: usize, ttl: u32| {
            let line = format!("set {key} 0 {ttl} {bytes}\r\n{}\r\n", "x".repeat(bytes));
            stream.get_mut().write_all(line.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_line(&mut answer).unwrap();
            assert_eq!(answer, "STORED\r\n");
        };
        for number in 0..1_000 {
            set(&format!("memc.sess.key.secret{}", from + number), number, 1_440);
        }
        set("memc.sess.key.lock.secret1", 1, 60);
        set("page:index", 1, 0);
    }
    for page in [7, 5_000] {
        for server in [first, second] {
            let url = format!("php+memcached+unix:{}", server.server.socket().display());
            let (seen, sizes) = walked(&url, page);
            assert_eq!((seen.len(), sizes), (1_000, Sizes::Memory), "in pages of {page}");
            let largest = seen.iter().map(|entry| entry.bytes).max().unwrap();
            assert!((1_040..1_200).contains(&largest), "{largest}");
            assert!(seen.iter().all(|entry| (1_300..=1_445).contains(&(seconds(entry.expires) - now_s()))));
            assert!(seen.iter().all(|entry| now_s() + 5 - seconds(entry.used) < 600));
        }
    }
}
