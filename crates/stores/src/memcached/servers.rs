//! The servers of one opened store: asking the right one, and what each says of itself.
//!
//! Consistent hashing decides which server has a session: each server has many points on a circle
//! of 64-bit numbers, and a session belongs to the next point after the number of its bin and id.
//! So data and lock are together, a server that is added or removed takes or leaves only its share,
//! and the order of the URL does not matter.
//!
//! Invariant: every request may be sent twice with the effect of once (owners know their locks by
//! tokens, writers their records by marks), so it is sent again if its connection broke, for a
//! bounded time.

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Key, Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::connection::Connection;
use super::data::HEADER_BYTES;
use super::failure::unexpected;
use super::options::Endpoint;
use super::reply::{Reply, Statistics};
use super::request::Commands;
use crate::connections::deadline::Deadline;
use crate::connections::pool::Pool;
use crate::locks::orphans::Orphans;

/// What an item needs besides header and payload: the server's own header with CAS number and flags
/// (64), the longest key (251), the end of the line, the header of a chunk (48), and the old id of
/// a pending record (258).
const OVERHEAD_BYTES: u64 = 64 + 251 + 2 + 48 + 258;

pub struct Servers {
    servers: Vec<Server>,
    ring: Ring,
    response: Duration,
}

struct Server {
    pool: Pool<Connection>,
    /// For each server its own: one that is down must not stop requests to the others.
    orphans: Orphans,
}

impl Servers {
    pub fn new(servers: Vec<Endpoint>) -> Servers {
        let ring = Ring::new(servers.iter().map(|server| server.name.as_str()));
        let response = servers.first().map_or(Duration::ZERO, |server| server.timeouts.response);
        let server = |endpoint| Server { pool: Pool::new(endpoint), orphans: Orphans::default() };
        Servers { servers: servers.into_iter().map(server).collect(), ring, response }
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Sends commands to the server of a session. A refusal by the server is an answer.
    pub fn send<const ANSWERS: usize>(
        &self,
        deadline: Deadline,
        key: &Key,
        commands: &Commands,
    ) -> Result<[Reply; ANSWERS]> {
        answers(self.server_of(key).pool.with(deadline, |server| server.run(commands))?)
    }

    /// As [`Servers::send`], for commands that depend on the server's time. `ours` is our own.
    pub fn send_timed<const ANSWERS: usize>(
        &self,
        deadline: Deadline,
        key: &Key,
        ours: Timestamp,
        commands: impl Fn(Timestamp) -> Commands,
    ) -> Result<[Reply; ANSWERS]> {
        let run = |server: &mut Connection| server.run(&commands(server.time(ours)));
        answers(self.server_of(key).pool.with(deadline, run)?)
    }

    /// The sums of numbers that all servers tell about themselves, as far as they tell them.
    pub fn sums<const NAMES: usize>(
        &self,
        deadline: Deadline,
        names: [&str; NAMES],
    ) -> Result<[u64; NAMES]> {
        let mut sums = [0; NAMES];
        for server in &self.servers {
            let statistics = server.pool.with(deadline, |server| server.stats("stats"))?;
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum += number(&statistics, name).unwrap_or(0);
            }
        }
        Ok(sums)
    }

    /// The largest payload that each server takes.
    pub fn payload_bytes_max(&self, deadline: Deadline) -> Result<u64> {
        let limits = self.servers.iter().map(|server| payload_bytes_max(&server.pool, deadline));
        Ok(limits.collect::<Result<Vec<u64>>>()?.into_iter().min().unwrap_or(0))
    }

    pub fn payload_bytes_max_of(&self, deadline: Deadline, key: &Key) -> Result<u64> {
        payload_bytes_max(&self.server_of(key).pool, deadline)
    }

    /// For an operation that begins now, and may wait this long for a lock. All servers have the
    /// same times.
    pub fn deadline(&self, wait: Duration) -> Deadline {
        Deadline::new(wait, self.response)
    }

    /// The locks of dead requests on the server of a session.
    pub fn orphans_of(&self, key: &Key) -> &Orphans {
        &self.server_of(key).orphans
    }

    fn server_of(&self, key: &Key) -> &Server {
        #[expect(clippy::indexing_slicing, reason = "the ring has the numbers of this list")]
        &self.servers[self.ring.server_of(key)]
    }
}

fn answers<const ANSWERS: usize>(replies: Vec<Reply>) -> Result<[Reply; ANSWERS]> {
    <[Reply; ANSWERS]>::try_from(replies).map_err(|_| unexpected())
}

fn payload_bytes_max(pool: &Pool<Connection>, deadline: Deadline) -> Result<u64> {
    let settings = pool.with(deadline, |server| server.stats("stats settings"))?;
    let name = &pool.settings.name;
    if settings.get("cas_enabled").is_some_and(|enabled| enabled == "no") {
        let why =
            format!("the server {name} runs without CAS, and nothing else prevents lost updates");
        return Err(Error::new(ErrorKind::Incompatible, why).advice("start it without -C"));
    }
    let least = OVERHEAD_BYTES + HEADER_BYTES as u64;
    let bytes = number(&settings, "item_size_max").and_then(|bytes| bytes.checked_sub(least));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        let why = format!("the server {name} does not say how large an item may be, or takes none");
        Error::new(ErrorKind::Incompatible, why)
            .advice("it must be memcached 1.6 or later, with -I 2k or more")
    })
}

fn number(statistics: &Statistics, name: &str) -> Option<u64> {
    statistics.get(name)?.parse().ok()
}

/// Enough that the shares of servers differ by a few per cent.
const POINTS_PER_SERVER: u32 = 160;

/// The points in order, each with the number of its server.
struct Ring(Vec<(u64, usize)>);

impl Ring {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Ring {
        let point = |name: &str, n: u32| {
            xxh3_64([name.as_bytes(), b"#", &n.to_le_bytes()].concat().as_slice())
        };
        let of_server =
            |(server, name)| (0..POINTS_PER_SERVER).map(move |n| (point(name, n), server));
        let mut points: Vec<(u64, usize)> = names.enumerate().flat_map(of_server).collect();
        points.sort_unstable();
        Ring(points)
    }

    fn server_of(&self, key: &Key) -> usize {
        let number =
            xxh3_64([key.bin().name().as_bytes(), b"/", key.id().as_bytes()].concat().as_slice());
        let next = self.0.partition_point(|(point, _)| *point < number);
        self.0.get(next).or(self.0.first()).map_or(0, |(_, server)| *server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = Key> {
        (0..10_000).map(|n| Key::session(&format!("{n:032x}")).unwrap())
    }

    fn names_of(servers: &[&'static str]) -> Vec<&'static str> {
        let ring = Ring::new(servers.iter().copied());
        keys().map(|key| servers[ring.server_of(&key)]).collect()
    }

    #[test]
    fn a_server_that_goes_leaves_its_sessions_to_others_and_nothing_else_moves() {
        let (three, two) = (names_of(&["a:1", "b:1", "c:1"]), names_of(&["a:1", "c:1"]));
        for (before, after) in three.iter().zip(&two) {
            assert!(before == after || *before == "b:1");
        }
        let share = three.iter().filter(|name| **name == "b:1").count();
        assert!((2_300..4_400).contains(&share), "{share} of 10,000");
    }

    #[test]
    fn the_order_in_the_url_does_not_matter() {
        assert_eq!(names_of(&["a:1", "b:1", "c:1"]), names_of(&["c:1", "a:1", "b:1"]));
    }
}
