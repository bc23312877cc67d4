//! Fuzz targets. Each takes any bytes and panics if a promise is broken. `make fuzz` runs them
//! under libFuzzer, `make test` with the seeds under `corpus/` and some changes of them.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a broken promise is a panic here")]

mod engine_log;
mod memcached_reply;
mod operations;
mod php_session;
mod session_file;
mod session_id;
mod store_url;

pub use engine_log::engine_log;
pub use memcached_reply::memcached_reply;
pub use operations::operations;
pub use php_session::php_session;
pub use session_file::session_file;
pub use session_id::session_id;
pub use store_url::store_url;

use arbitrary::{Arbitrary, Unstructured};

/// As many as the bytes make. (A `Vec` of `arbitrary` ends after two of random bytes.)
fn all_of<'a, T: Arbitrary<'a>>(data: &'a [u8], count_max: usize) -> Vec<T> {
    let mut bytes = Unstructured::new(data);
    let mut found = Vec::new();
    while found.len() < count_max && !bytes.is_empty() {
        found.extend(T::arbitrary(&mut bytes));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Runs a target with its seeds and with changes of them.
    fn run(name: &str, target: fn(&[u8]), changes: usize) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let seeds: Vec<Vec<u8>> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect();
        assert!(!seeds.is_empty());
        seeds.iter().for_each(|bytes| target(bytes));
        for round in 0..changes {
            let mut bytes = seeds.get(round % seeds.len()).unwrap().clone();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(0..=bytes.len());
                match random.u8(0..3) {
                    0 => bytes.insert(at, random.u8(..)),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.u8(..)),
                }
            }
            target(&bytes);
        }
    }

    macro_rules! targets {
        ($($target:ident, $name:literal, $changes:literal;)+) => {
            $(#[test]
            fn $target() {
                run($name, super::$target, $changes);
            })+
        };
    }

    targets! {
        engine_log, "engine-log", 60;
        memcached_reply, "memcached-reply", 5_000;
        operations, "operations", 300;
        php_session, "php-session", 5_000;
        session_file, "session-file", 200;
        session_id, "session-id", 5_000;
        store_url, "store-url", 1_000;
    }
}
