//! Which server has a session: consistent hashing.
//!
//! Each server has many points on a circle of 64-bit numbers; a session belongs to the next point after its own number.
//! So a server that is added or removed takes or leaves only its share, and the order of the servers in the URL does not
//! matter. The number of a session is that of bin and id, so data and lock of a session are always together. Not
//! compatible with the circles of other clients, which nobody needs: they would not understand our items either.

use sessile_core::Key;
use xxhash_rust::xxh3::xxh3_64;

/// Enough that the shares of servers differ by a few per cent.
const POINTS_PER_SERVER: u32 = 160;

/// The points in order, each with the number of its server.
pub(super) struct Ring(Vec<(u64, usize)>);

impl Ring {
    /// The circle of servers with these names.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Ring {
        let point = |name: &str, n: u32| xxh3_64([name.as_bytes(), b"#", &n.to_le_bytes()].concat().as_slice());
        let of_server = |(server, name)| (0..POINTS_PER_SERVER).map(move |n| (point(name, n), server));
        let mut points: Vec<(u64, usize)> = names.enumerate().flat_map(of_server).collect();
        points.sort_unstable();
        Ring(points)
    }

    /// The number of the server that has this session.
    pub(super) fn server_of(&self, key: &Key) -> usize {
        let number = xxh3_64([key.bin().name().as_bytes(), b"/", key.id().as_bytes()].concat().as_slice());
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
