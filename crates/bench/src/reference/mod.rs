//! Reference rows, which the stores' figures are compared with.
//!
//! They have no registry entry and no contract. Each is as fast as its definition in
//! bench/EXPERIMENTS.md allows; a way to make one faster is a bug report.

mod files_flock;
mod handlers;
mod limit;
mod lmdb;
mod memcached_trips;
mod mysql_transaction;
mod null;
mod postgres_connection;
mod postgres_transaction;
mod redis_magento;
mod redis_trips;
mod sqlite_plain;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use sessile_core::{Error, ErrorKind, Result};
pub use sessile_results::reference::{AfterDeath, REFERENCES, Reference, by_name};

use self::handlers::Locking;
use crate::contender::Contender;
use crate::worker::protocol::OpenRequest;

type OpenReference = fn(&Path, &OpenRequest) -> Result<Box<dyn Contender>>;

/// Opens the reference row of this name. The path is a directory, or the server's socket.
pub(crate) fn open_by_name(
    name: &str,
    place: &Path,
    opening: &OpenRequest,
) -> Result<Box<dyn Contender>> {
    let open: OpenReference = match name {
        "limit" => limit::open,
        "null" => null::open,
        "lmdb" => lmdb::open,
        "files-flock" => files_flock::open,
        "sqlite-plain" => sqlite_plain::open,
        "redis-four-trips" => {
            |place, opening| redis_trips::open(place, opening, Locking::FourTrips)
        }
        "redis-two-trips" => |place, opening| redis_trips::open(place, opening, Locking::TwoTrips),
        "redis-setex" => |place, opening| redis_trips::open(place, opening, Locking::Without),
        "redis-magento" => redis_magento::open,
        "memcached-four-trips" => {
            |place, opening| memcached_trips::open(place, opening, Locking::FourTrips, false)
        }
        "memcached-two-trips" => {
            |place, opening| memcached_trips::open(place, opening, Locking::TwoTrips, false)
        }
        "memcached-unlocked" => {
            |place, opening| memcached_trips::open(place, opening, Locking::Without, false)
        }
        "memcached-ignored" => {
            |place, opening| memcached_trips::open(place, opening, Locking::Without, true)
        }
        "mysql-transaction" => {
            |place, opening| mysql_transaction::open(place, opening, Locking::FourTrips)
        }
        "mysql-two-trips" => {
            |place, opening| mysql_transaction::open(place, opening, Locking::TwoTrips)
        }
        "mysql-unlocked" => {
            |place, opening| mysql_transaction::open(place, opening, Locking::Without)
        }
        "postgres-transaction" => {
            |place, opening| postgres_transaction::open(place, opening, Locking::FourTrips)
        }
        "postgres-two-trips" => {
            |place, opening| postgres_transaction::open(place, opening, Locking::TwoTrips)
        }
        "postgres-unlocked" => {
            |place, opening| postgres_transaction::open(place, opening, Locking::Without)
        }
        _ => return Err(Error::new(ErrorKind::InvalidArgument, "no such reference row")),
    };
    open(place, opening)
}

/// Error for a session outside the ids of the opening.
fn unprepared() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no id was prepared for this session")
}
