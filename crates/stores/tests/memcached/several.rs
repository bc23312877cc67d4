//! Several servers: where sessions are, and a regeneration that crosses from one to another.

use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Sessions};
use sessile_fixtures::Proxy;

use crate::setup::{Private, WAIT, key, open_url, payload_of, ttl};

/// Servers behind one proxy, a port for each.
struct Several {
    servers: Vec<Private>,
    proxy: Proxy,
    hosts: Vec<String>,
    url: String,
}

impl Several {
    fn start(count: usize) -> Option<Several> {
        let servers = (0..count).map(|_| Private::start(&[])).collect::<Option<Vec<Private>>>()?;
        let proxy = Proxy::before(servers[0].server.socket()).unwrap();
        let port = |private: &Private| proxy.port_before(private.server.socket()).unwrap();
        let hosts: Vec<String> =
            servers.iter().map(|private| format!("127.0.0.1:{}", port(private))).collect();
        let url = format!("memcached://{}/", hosts.join(","));
        Some(Several { servers, proxy, hosts, url })
    }

    fn open_first(&self, count: usize) -> Sessions {
        open_url(&format!("memcached://{}/", self.hosts[..count].join(","))).unwrap()
    }

    fn open(&self) -> Sessions {
        open_url(&self.url).unwrap()
    }

    /// Which server has an item.
    fn server_with(&self, item: &str) -> Vec<usize> {
        let has = |server: &&Private| server.say(&format!("mg {item} s")).starts_with("HD");
        self.servers
            .iter()
            .enumerate()
            .filter(|(_, server)| has(server))
            .map(|(number, _)| number)
            .collect()
    }
}

#[test]
fn sessions_are_spread_and_lock_and_record_are_on_the_same_server() {
    let Some(two) = Several::start(2) else { return };
    let store = two.open();
    let mut shares = [0, 0];
    for number in 0..60 {
        let id = format!("session-{number}");
        store.create(&key(&id), b"x", ttl()).unwrap();
        let held = store.begin(&key(&id), WAIT).unwrap();
        let data = two.server_with(&format!("sessile:d:session/{id}"));
        assert_eq!(data.len(), 1);
        assert_eq!(two.server_with(&format!("sessile:l:session/{id}")), data);
        shares[data[0]] += 1;
        drop(held);
    }
    assert!(shares.iter().all(|share| *share > 5), "{shares:?}");
}

#[test]
fn the_sessions_of_a_server_that_is_down_are_unreachable_and_the_others_go_on() {
    let Some(mut two) = Several::start(2) else { return };
    let store = two.open();
    let ids: Vec<String> = (0..12).map(|number| format!("session-{number}")).collect();
    ids.iter().for_each(|id| store.create(&key(id), b"x", ttl()).unwrap());
    let on_first = |id: &&String| two.server_with(&format!("sessile:d:session/{id}")) == [0];
    let (first, second): (Vec<&String>, Vec<&String>) = ids.iter().partition(on_first);
    let held = store.begin(&key(first[0]), WAIT).unwrap();
    two.servers[0].server.kill();
    // Its lock may be held on, so later requests try to release it. Requests to the other server
    // did, too, and failed.
    drop(held);
    for id in second.iter().cycle().take(100) {
        let start = Instant::now();
        drop(store.begin(&key(id), WAIT).unwrap());
        assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
    }
    assert_eq!(store.peek(&key(first[0])).unwrap_err().kind(), &ErrorKind::Unreachable);
    assert!(second.iter().all(|id| payload_of(&store, id).is_some()));
    two.servers[0].server.restart().unwrap();
    store.create(&key(first[0]), b"back", ttl()).unwrap();
}

/// What docs/servers.md says of it.
#[test]
fn a_list_that_changes_loses_the_share_of_a_server_and_shows_old_sessions_when_it_is_back() {
    let Some(servers) = Several::start(4) else { return };
    let [two, three, four] = [2, 3, 4].map(|count| servers.open_first(count));
    let ids: Vec<String> = (0..1_000).map(|number| format!("session-{number}")).collect();
    ids.iter().for_each(|id| three.create(&key(id), b"logged in", ttl()).unwrap());
    let lost = |store: &Sessions| -> Vec<&String> {
        ids.iter().filter(|id| payload_of(store, id).is_none()).collect()
    };
    let (added, removed) = (lost(&four), lost(&two));
    println!("of 1,000: a server added loses {}, removed {}", added.len(), removed.len());
    assert!((150..350).contains(&added.len()), "a fourth server has {}", added.len());
    assert!((230..440).contains(&removed.len()), "the third of three had {}", removed.len());
    // The visitor logs in anew, and out; then the list is as it was.
    let visitor = key(added[0]);
    four.create(&visitor, b"logged in anew", ttl()).unwrap();
    four.destroy(&visitor).unwrap();
    assert_eq!(payload_of(&three, added[0]).unwrap(), b"logged in");
    servers.servers[..3].iter().for_each(|server| drop(server.say("flush_all")));
    assert_eq!(payload_of(&three, added[0]), None, "emptied, as by a restart");
}

/// A worker that dies in the middle of a regeneration, between any two of its requests: one of the
/// ids has the session and the other has not.
#[test]
fn a_regeneration_that_is_cut_short_anywhere_leaves_the_session_under_exactly_one_id() {
    let Some(two) = Several::start(2) else { return };
    let direct = two.open();
    let (mut under_old, mut under_new) = (0, 0);
    for requests in 0..9 {
        // Two pairs of ids, so that with near certainty one crosses servers; the other may not.
        for pair in 0..3 {
            let (old, new) = (format!("old-{requests}-{pair}"), format!("new-{requests}-{pair}"));
            direct.create(&key(&old), b"cart", ttl()).unwrap();
            let dying = two.open();
            let mut begun = dying.begin(&key(&old), WAIT).unwrap();
            let fence = begun.lease.fence();
            let regenerate = || begun.lease.regenerate(&key(&new), Duration::ZERO);
            let (_, moved) = two.proxy.losing_requests(requests, regenerate);
            std::mem::forget(begun); // it is dead: it releases nothing
            let (there, here) = (payload_of(&direct, &old), payload_of(&direct, &new));
            assert_ne!(
                there.is_some(),
                here.is_some(),
                "after {requests} requests: {there:?} and {here:?}"
            );
            assert!(moved.is_err() || here.is_some());
            let id = if there.is_some() { &old } else { &new };
            (under_old, under_new) =
                (under_old + u32::from(there.is_some()), under_new + u32::from(here.is_some()));
            // Whoever comes next, when the locks of the dead are gone, finds it and can change it.
            for server in &two.servers {
                [&old, &new]
                    .iter()
                    .for_each(|id| drop(server.say(&format!("md sessile:l:session/{id}"))));
            }
            let begun = direct.begin(&key(id), Duration::ZERO).unwrap();
            assert!(
                begun.lease.fence() > fence || there.is_some() || moved.is_err(),
                "the fence went back"
            );
            assert_eq!(begun.record.unwrap().payload, b"cart");
            begun.lease.commit(b"cart: 1 book", ttl()).unwrap();
            assert_eq!(payload_of(&direct, id).unwrap(), b"cart: 1 book");
        }
    }
    assert!(
        under_old > 3 && under_new > 3,
        "{under_old} under the old id, {under_new} under the new one"
    );
}

#[test]
fn fences_go_on_growing_when_a_session_moves_to_a_server_that_counts_lower() {
    let Some(two) = Several::start(2) else { return };
    let store = two.open();
    // As if the counters were years apart.
    two.servers.iter().zip(["9000000000000000", "5"]).for_each(|(server, first)| {
        assert_eq!(
            server.say(&format!("set sessile:fence 0 0 {}\r\n{first}", first.len())),
            "STORED"
        );
    });
    for number in 0..8 {
        let (old, new) = (key(&format!("old-{number}")), key(&format!("new-{number}")));
        let mut begun = store.begin(&old, WAIT).unwrap();
        let fence = begun.lease.fence();
        begun.lease.regenerate(&new, Duration::ZERO).unwrap();
        begun.lease.commit(b"x", ttl()).unwrap();
        let next = store.begin(&new, WAIT).unwrap().lease.fence();
        assert!(next > fence, "{next} after {fence}");
    }
}
