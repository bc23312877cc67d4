//! The keys of phpredis and of php-memcached on private servers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

use sessile_core::{Clock, Timestamp};
use sessile_stores::layouts::{self, Sizes};
use tempfile::TempDir;

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
        redis::cmd("SET")
            .arg(key)
            .arg(vec![b'x'; number])
            .arg("EX")
            .arg(1_440)
            .exec(&mut raw)
            .unwrap();
    }
    redis::cmd("SET").arg("PHPREDIS_SESSION:secret1_LOCK").arg("x").exec(&mut raw).unwrap();
    redis::cmd("RPUSH").arg("PHPREDIS_SESSION:secret_list").arg("x").exec(&mut raw).unwrap();
    redis::cmd("SET").arg("shop:secret").arg("xyz").exec(&mut raw).unwrap();
    // The clock of the server's idle times has seconds: one that was not reset is at least one
    // second old by then.
    let mut idle = || -> u64 {
        redis::cmd("OBJECT")
            .arg("IDLETIME")
            .arg("PHPREDIS_SESSION:secret7")
            .query(&mut raw)
            .unwrap()
    };
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
        assert!(
            seen.iter().all(|entry| (1_300..=1_441).contains(&(seconds(entry.expires) - now_s()))),
            "{page}"
        );
        assert!(
            seen.iter().all(|entry| now_s() - seconds(entry.used) >= 1),
            "a look is counted as a use"
        );
    }
    assert!(idle() >= 2, "the scan has touched a session");
    assert_eq!(walked(&format!("{url}?prefix=shop:"), 10).0.len(), 1);
    // A prefix of phpredis may be anything: here what has a meaning in a pattern, and keys that
    // only the pattern would find.
    for key in ["{shop}/[ab]*?\\:secret", "{shop}/a-secret", "{shop}/[ab]-secret"] {
        redis::cmd("SET").arg(key).arg("xyz").exec(&mut raw).unwrap();
    }
    for (prefix, found) in
        [("{shop}/[ab]*?%5C:", 1), ("{shop}/[ab]", 2), ("{shop}/", 3), ("", 2_504)]
    {
        assert_eq!(walked(&format!("{url}?prefix={prefix}"), 1_000).0.len(), found, "{prefix}");
    }
    assert!(refused(&format!("{url}?lock_ttl_ms=5")).contains("unknown option"));
}

#[test]
fn a_redis_that_evicts_by_frequency_tells_no_idle_times_and_all_else() {
    let Some(private) = Private::start("redis-server", &["--maxmemory-policy", "allkeys-lfu"])
    else {
        return;
    };
    let client =
        redis::Client::open(format!("unix:{}", private.server.socket().display())).unwrap();
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
        set("shop/sess|secret", 1, 0);
    }
    let url = format!("php+memcached+unix:{}", first.server.socket().display());
    assert_eq!(walked(&format!("{url}?prefix=shop/sess%7C"), 10).0.len(), 1);
    assert!(refused(&format!("{url}?prefix={}", "x".repeat(251))).contains("at most 250 bytes"));
    for page in [7, 5_000] {
        for server in [first, second] {
            let url = format!("php+memcached+unix:{}", server.server.socket().display());
            let (seen, sizes) = walked(&url, page);
            assert_eq!((seen.len(), sizes), (1_000, Sizes::Memory), "in pages of {page}");
            let largest = seen.iter().map(|entry| entry.bytes).max().unwrap();
            assert!((1_040..1_200).contains(&largest), "{largest}");
            assert!(
                seen.iter()
                    .all(|entry| (1_300..=1_445).contains(&(seconds(entry.expires) - now_s())))
            );
            assert!(seen.iter().all(|entry| now_s() + 5 - seconds(entry.used) < 600));
        }
    }
}

/// In the place of a memcached: to each request the answer for the number of lists that were asked
/// for by then, until there is none. In the end it knows that number.
fn impostor(
    answer: impl Fn(u32) -> Option<&'static str> + Send + 'static,
) -> (TempDir, String, JoinHandle<u32>) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = 0;
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            asked += u32::from(line.contains("metadump"));
            let Some(answer) = answer(asked) else { break };
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (dir, format!("php+memcached+unix:{}", socket.display()), server)
}

const STATS: &str = "STAT pid 1\r\nSTAT uptime 1\r\nSTAT time 1700000000\r\nEND\r\n";

/// A server looks for expired items by itself, too, and refuses lists meanwhile. That failed the
/// scan.
#[test]
fn a_crawler_that_is_at_work_is_asked_again() {
    let (_dir, url, server) = impostor(|asked| {
        Some(match asked {
            0 => STATS,
            1 | 2 => "BUSY currently processing crawler request\r\n",
            _ => {
                "key=memc.sess.key.secret exp=1700000000 la=1699990000 cas=1 fetch=yes cls=7 \
                 size=1024\r\nEND\r\n"
            }
        })
    });
    let (seen, _) = walked(&url, 10);
    assert_eq!((seen.len(), server.join().unwrap()), (1, 3));
}

#[test]
fn a_failure_in_the_middle_of_a_walk_says_where_it_was() {
    let (_dir, url, server) = impostor(|asked| (asked == 0).then_some(STATS));
    let (_, mut walk) = layouts::open(&url, &Clock::system()).unwrap();
    let error = walk.page(10, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains(&url), "{error:#}");
    server.join().unwrap();
}
