//! A locked cycle on a cluster beside one of four plain round trips, as today's handlers do it.

use std::time::{Duration, Instant};

use sessile_fixtures::RedisCluster;

use crate::setup::{WAIT, cluster, key, open, ttl};

const CYCLES: usize = 1_500;
const ROUNDS: usize = 7;
const PAYLOAD: &[u8] = &[7; 1_024];

/// A raw connection to the primary of each session.
fn raw(cluster: &RedisCluster, ids: &[String]) -> Vec<(redis::Connection, usize)> {
    let primaries = cluster.primaries();
    let connections = ids.iter().enumerate().map(|(number, id)| {
        let at = primaries.iter().find(|at| {
            let name = format!("x{{session/{id}}}");
            cluster.hosts[**at].command(&["GET", &name]).is_ok()
        });
        let address = cluster.hosts[*at.unwrap()].address();
        let client = redis::Client::open(format!("redis://{address}/")).unwrap();
        (client.get_connection().unwrap(), number)
    });
    connections.collect()
}

fn four_trips(connections: &mut [(redis::Connection, usize)], ids: &[String]) {
    let unlock = redis::Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end",
    );
    for cycle in 0..CYCLES {
        let (connection, number) = &mut connections[cycle % ids.len()];
        let id = &ids[*number];
        let (lock, data) = (format!("lock:{{session/{id}}}"), format!("data:{{session/{id}}}"));
        let mut set = redis::cmd("SET");
        let _: String =
            set.arg(&lock).arg("token").arg("NX").arg("PX").arg(60_000).query(connection).unwrap();
        let _: Option<Vec<u8>> = redis::cmd("GET").arg(&data).query(connection).unwrap();
        let mut set = redis::cmd("SETEX");
        let _: () = set.arg(&data).arg(1_440).arg(PAYLOAD).query(connection).unwrap();
        let _: u64 = unlock.key(&lock).arg("token").invoke(connection).unwrap();
    }
}

#[test]
#[ignore = "a measurement: cargo test --release -p sessile-stores --test redis_hosts -- --ignored \
            --nocapture measure"]
fn a_locked_cycle_on_a_cluster_beside_four_round_trips() {
    let Some(cluster) = cluster() else { return };
    let ids: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
    let store = open(&cluster.url());
    let mut connections = raw(&cluster, &ids);
    let ours = || {
        for cycle in 0..CYCLES {
            let begun = store.begin(&key(&ids[cycle % ids.len()]), WAIT).unwrap();
            begun.lease.commit(PAYLOAD, ttl()).unwrap();
        }
    };
    let timed = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let mut ratios = Vec::new();
    let mut best = [Duration::MAX; 2];
    ours();
    for _ in 0..ROUNDS {
        let [own, reference] =
            [timed(&mut || ours()), timed(&mut || four_trips(&mut connections, &ids))];
        best = [best[0].min(own), best[1].min(reference)];
        ratios.push(reference.as_secs_f64() / own.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let us = |time: Duration| time.as_secs_f64() * 1e6 / CYCLES as f64;
    let [own, reference] = best.map(us);
    println!(
        "cycle {own:.0} us, four trips {reference:.0} us at best; ratios {ratios:.2?}, median \
         {:.2}",
        ratios[ROUNDS / 2]
    );
    assert!(ratios[ROUNDS / 2] >= 1.4, "{ratios:?}");
}
