//! The servers of a cluster: finding the one of a slot, and going on when slots or roles move.
//!
//! What a server answers, and what follows, until the deadline of the operation:
//!
//! | answer | what follows |
//! | --- | --- |
//! | MOVED | the request goes to the server that it names; the map is read after many of them |
//! | ASK, TRYAGAIN | the request waits until the slot has moved |
//! | CLUSTERDOWN, LOADING, READONLY, no answer, ... | the map is read again, and it is sent again |
//!
//! ASK is never followed: while a slot moves, the lock could come into being on the server where
//! the slot goes to, while the record is still on the other one (docs/decisions/0032).
//!
//! Invariants: a request goes to one slot; a connection belongs to the server of its address; a
//! forked child has neither the connections nor the map of its parent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value};
use sessile_core::{Error, ErrorKind, Result};

use super::connection::{Connection, Settings};
use super::failure::{Redirection, redirection, translate};
use super::slots::{SlotMap, redirected};
use super::target::Target;
use crate::connections::breaker;
use crate::connections::deadline::Deadline;
use crate::connections::options::Address;
use crate::connections::pool::{AttemptFailure, FAILOVER_MAX, Pool};
use crate::locks::process_local::ProcessLocal;

pub type Node = Arc<Pool<Connection>>;

const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// While a slot moves: its requests are served as soon as it has arrived.
const PAUSE_MAX_OF_SLOT: Duration = Duration::from_millis(64);
/// While a failover goes on, which takes seconds, and each try reads the map.
const PAUSE_MAX_OF_SERVER: Duration = Duration::from_millis(400);
/// Reading the map takes a round trip; all requests of a process that are redirected at the same
/// time share one.
const MAP_IS_FRESH: Duration = Duration::from_millis(20);
/// Beyond, the servers that the map does not have are forgotten.
const NODES_MAX: usize = 1_024;

pub struct Cluster {
    pub settings: Settings,
    seeds: Vec<Address>,
    known: ProcessLocal<Known>,
    turn: AtomicUsize,
}

#[derive(Default)]
struct Known {
    map: Option<(Instant, Arc<SlotMap>)>,
    /// Redirections since the map was read.
    moved: Vec<(u16, Address)>,
    nodes: Vec<(Address, Node)>,
}

impl Cluster {
    pub fn new(settings: Settings, seeds: Vec<Address>) -> Cluster {
        Cluster { settings, seeds, known: ProcessLocal::default(), turn: AtomicUsize::new(0) }
    }

    /// Runs an attempt on a connection to the primary of a slot, again while that may help.
    pub fn retry<T>(
        &self,
        deadline: Deadline,
        slot: u16,
        mut attempt: impl FnMut(&Node, Connection) -> RedisResult<T>,
    ) -> Result<T> {
        let mut pause = PAUSE_FIRST;
        let mut redirections = 0;
        loop {
            let node = match self.node_of(deadline, slot) {
                Ok(node) => node,
                // No server knows the map, or none has the slot: for as long as a failover goes on.
                Err(error)
                    if *error.kind() == ErrorKind::Unreachable
                        && !is_out_for_long()
                        && pause < deadline.left() =>
                {
                    pause = rest(pause, PAUSE_MAX_OF_SERVER);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let attempted = node.take(deadline).and_then(|connection| attempt(&node, connection));
            let failure = match attempted {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            node.note(&failure);
            if !may_pass(&failure) {
                return Err(translate(failure));
            }
            let asked = &node.settings.settings.address;
            let at_once = self.learn(deadline, slot, asked, &failure) && redirections < 5;
            redirections += 1;
            if !at_once && pause >= deadline.left() {
                return Err(translate_redirection(failure));
            }
            if !at_once {
                let moves = redirection(&failure).is_some();
                pause = rest(pause, if moves { PAUSE_MAX_OF_SLOT } else { PAUSE_MAX_OF_SERVER });
            }
        }
    }

    /// What a failure that may pass says about the map. Whether the request is to be sent again at
    /// once.
    fn learn(&self, deadline: Deadline, slot: u16, asked: &Address, failure: &RedisError) -> bool {
        match redirection(failure) {
            Some(Redirection::Moved(to)) => {
                let Some(to) = redirected(&to, asked) else { return false };
                self.known.with(|known| {
                    known.moved.retain(|(moved, _)| *moved != slot);
                    known.moved.push((slot, to));
                });
                true
            }
            Some(Redirection::Unstable) => false,
            None => {
                // Without it the request would only wait for the same server.
                let _ = self.read_map(deadline, Some(asked));
                false
            }
        }
    }

    pub fn node_of(&self, deadline: Deadline, slot: u16) -> Result<Node> {
        let found = self.known.with(|known| {
            let moved = known.moved.iter().find(|(moved, _)| *moved == slot);
            let moved = moved.map(|(_, to)| to.clone());
            // A few redirections are one slot that moves; many are another map.
            let outdated = known.moved.len() > 16;
            let mapped = || known.map.as_ref()?.1.primary_of(slot).cloned();
            if outdated { None } else { moved.or_else(mapped) }
        });
        let address = match found.flatten() {
            Some(address) => address,
            None => {
                let map = self.read_map(deadline, None)?;
                map.primary_of(slot).cloned().ok_or_else(not_served)?
            }
        };
        self.node(&address)
    }

    /// The server of an address, with its connections.
    pub fn node(&self, address: &Address) -> Result<Node> {
        let found = self.known.with(|known| {
            known.nodes.iter().find(|(known, _)| known == address).map(|(_, node)| Arc::clone(node))
        });
        if let Some(node) = found.flatten() {
            return Ok(node);
        }
        let node = Arc::new(Pool::new(Target::server(self.settings.at(address)?)));
        self.known.with(|known| {
            if known.nodes.len() >= NODES_MAX {
                known.nodes.clear();
            }
            known.nodes.push((address.clone(), Arc::clone(&node)));
        });
        Ok(node)
    }

    pub fn primaries(&self, deadline: Deadline) -> Result<Vec<Address>> {
        Ok(self.read_map(deadline, None)?.primaries())
    }

    /// Reads the map, unless another request has just done so. It asks the servers that it knows,
    /// `last` at the end, and then those of the URL.
    pub fn read_map(&self, deadline: Deadline, last: Option<&Address>) -> Result<Arc<SlotMap>> {
        let before = self.known.with(|known| known.map.clone()).flatten();
        if let Some((read, map)) = &before
            && read.elapsed() < MAP_IS_FRESH
        {
            return Ok(Arc::clone(map));
        }
        let mut servers = before.map(|(_, map)| map.primaries()).unwrap_or_default();
        // Not always the same one: it may be cut off from the others, and behind them.
        // Relaxed: any number will do.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) + std::process::id() as usize;
        let turn = turn % servers.len().max(1);
        servers.rotate_left(turn);
        servers.extend(self.seeds.iter().cloned());
        servers.sort_by_key(|server| Some(server) == last);
        let (mut failure, mut outages) = (None, Vec::new());
        for (asked, address) in servers.iter().enumerate() {
            let others = u32::try_from(servers.len() - asked).unwrap_or(u32::MAX);
            let time = Deadline::new(Duration::ZERO, deadline.left() / others.min(4));
            match self.ask_for_map(time, address) {
                Ok(map) => {
                    let map = Arc::new(map);
                    self.known.with(|known| {
                        known.moved.clear();
                        known.map = Some((Instant::now(), Arc::clone(&map)));
                    });
                    return Ok(map);
                }
                Err(error) => {
                    outages.push(breaker::outage());
                    failure = Some(error);
                }
            }
        }
        breaker::set_outage_of_all(outages);
        Err(failure.unwrap_or_else(not_served))
    }

    fn ask_for_map(&self, deadline: Deadline, address: &Address) -> Result<SlotMap> {
        let ask = |connection: &mut Connection| -> RedisResult<Value> {
            redis::cmd("CLUSTER").arg("SLOTS").query(connection)
        };
        let answer = self.node(address)?.once(deadline, ask).map_err(translate)?;
        SlotMap::parse(&answer, address).ok_or_else(not_served)
    }
}

/// Sleeps, and answers the next pause. Requests that failed together do not come back together.
fn rest(pause: Duration, most: Duration) -> Duration {
    std::thread::sleep(pause.mul_f32(breaker::jitter()));
    (pause * 2).min(most)
}

/// Whether a request may succeed later, perhaps on another server.
fn may_pass(failure: &RedisError) -> bool {
    let passes = redirection(failure).is_some() || failure.is_transient() || failure.is_demotion();
    passes && !is_out_for_long()
}

/// Whether the server of the last connect, or all that were asked for the map, have been away for
/// longer than a failover takes.
fn is_out_for_long() -> bool {
    breaker::outage().is_some_and(|outage| outage > FAILOVER_MAX)
}

/// Of a request that was redirected until its end.
fn translate_redirection(failure: RedisError) -> Error {
    if redirection(&failure).is_none() {
        return translate(failure);
    }
    let why = "the session's slot was on the way to another server of the cluster for all the time";
    Error::new(ErrorKind::Unreachable, why)
        .advice("end the migration of the slot (redis-cli --cluster check and fix)")
}

fn not_served() -> Error {
    let why = "the cluster has no server for the session";
    Error::new(ErrorKind::Unreachable, why)
        .advice("look at CLUSTER INFO: each of the 16384 slots needs a primary")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::store_url::StoreUrl;

    /// Answers requests for the map, on one connection after the other: it has all slots itself.
    fn serve(listener: &TcpListener) -> std::io::Result<()> {
        let port = listener.local_addr()?.port();
        while !serve_one(listener, port)? {}
        Ok(())
    }

    /// Whether the map was sent.
    fn serve_one(listener: &TcpListener, port: u16) -> std::io::Result<bool> {
        let (mut client, _) = listener.accept()?;
        for line in BufReader::new(client.try_clone()?).lines() {
            match line?.as_str() {
                "PING" => client.write_all(b"+PONG\r\n")?,
                "SLOTS" => {
                    let map = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:";
                    client.write_all(format!("{map}{port}\r\n").as_bytes())?;
                    return Ok(true);
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// A process that knew no map, as a forked child, failed at once.
    #[test]
    fn a_request_waits_for_a_map() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = StoreUrl::parse(&format!("redis+cluster://127.0.0.1:{port}/")).unwrap();
        let seed = Address::parse(&url, port).unwrap();
        let cluster = Cluster::new(Settings::parse(&url).unwrap(), vec![seed]);
        let deadline = Deadline::new(Duration::ZERO, Duration::from_secs(20));
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            serve(&TcpListener::bind(("127.0.0.1", port)).unwrap()).unwrap();
        });
        assert_eq!(cluster.retry(deadline, 7, |_, _| Ok(7)).unwrap(), 7);
    }
}
