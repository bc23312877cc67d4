//! The lock of phpredis ends with time, and it does so between the read of a move and its last look
//! at the old store.

use std::time::Instant;

use redis::Connection;
use sessile_core::Record;
use sessile_fixtures::{PrivateDir, Server, ServerKind, ServerOptions, StartError};

use super::*;

const LOCK_TTL: Duration = Duration::from_millis(20);
const SESSION: &str = "PHPREDIS_SESSION:moves";
const LOCK: &str = "PHPREDIS_SESSION:moves_LOCK";

fn start(dir: &PrivateDir) -> Option<Server> {
    let kind = ServerKind::by_name("redis-server").unwrap();
    match Server::start(kind, dir.path(), &ServerOptions::default()) {
        Ok(server) => Some(server),
        Err(error) => {
            let is_missing = matches!(error, StartError::Missing { .. });
            assert!(is_missing && std::env::var_os("CI").is_none(), "{error}");
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// A session moves from phpredis, and `meanwhile` happens after the lock of the move has ended.
/// Returns what the request got, what is left in the new store, and the number of old keys.
fn moved(
    server: &Server,
    meanwhile: fn(&mut Connection),
) -> (Option<Vec<u8>>, Option<Vec<u8>>, usize) {
    let socket = server.socket().display().to_string();
    let client = redis::Client::open(format!("unix:{socket}")).unwrap();
    let mut raw = client.get_connection().unwrap();
    redis::cmd("FLUSHALL").exec(&mut raw).unwrap();
    redis::cmd("SETEX").arg(SESSION).arg(60).arg("cart|i:1;").exec(&mut raw).unwrap();
    let (clock, key) = (Clock::system(), Key::session("moves").unwrap());
    let url = format!("php+redis+unix:{socket}");
    let from = layouts::open_to_move(&url, Side::Old, LOCK_TTL, &clock).unwrap();
    let inner = crate::open("memory:", &Context { clock: clock.clone() }).unwrap();
    let (hook, has_committed) = (Hook::default(), AtomicBool::new(false));
    let mut worker = client.get_connection().unwrap();
    *hook.lock().unwrap() = Some(Box::new(move || {
        let deadline = Instant::now() + WAIT;
        while redis::cmd("EXISTS").arg(LOCK).query::<bool>(&mut worker).unwrap() {
            assert!(Instant::now() < deadline, "the lock does not end");
            std::thread::yield_now();
        }
        meanwhile(&mut worker);
    }));
    let faulty = Faulty { inner: inner.clone(), fault: Fault::None, hook, has_committed };
    let to = Sessions::new("faulty:", faulty, Limits::default());
    let (old_forgets, swept_to) = (true, ProcessLocal::default());
    let store = Migrate { from, to, old_forgets, new_forgets: false, clock, swept_to };
    let both = Sessions::new("migrate:", store, Limits::default());
    let payload = |record: Option<Record>| record.map(|record| record.payload);
    let got = payload(both.begin(&key, WAIT).unwrap().record);
    let names: Vec<String> = redis::cmd("KEYS").arg("PHPREDIS*").query(&mut raw).unwrap();
    (got, payload(inner.peek(&key).unwrap()), names.len())
}

fn worker_saves(worker: &mut Connection) {
    redis::cmd("SETEX").arg(SESSION).arg(60).arg("cart|i:2;").exec(worker).unwrap();
}

/// The story: the move took a lost lock for a log-out, and its visitor was logged out.
#[test]
fn a_lock_of_phpredis_that_ends_during_a_move_logs_nobody_out() {
    let dir = PrivateDir::in_shared_memory().unwrap();
    let Some(server) = start(&dir) else { return };
    let cart = Some(b"cart|i:1;".to_vec());
    let kept = (cart.clone(), cart, 0);
    assert_eq!(moved(&server, |_| {}), kept);
    assert_eq!(moved(&server, worker_saves), kept, "the new store counts");
    let under_its_lock = |worker: &mut Connection| {
        redis::cmd("SET").arg(LOCK).arg("other").exec(worker).unwrap();
        worker_saves(worker);
    };
    assert_eq!(moved(&server, under_its_lock), kept);
}

#[test]
fn a_log_out_after_the_lock_of_a_move_has_ended_is_one() {
    let dir = PrivateDir::in_shared_memory().unwrap();
    let Some(server) = start(&dir) else { return };
    let log_out = |worker: &mut Connection| redis::cmd("DEL").arg(SESSION).exec(worker).unwrap();
    assert_eq!(moved(&server, log_out), (None, None, 0));
}
