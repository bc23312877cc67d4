//! Where the sessions of a contender lie, and so whose space they take.
//!
//! Invariant: a path is named only if it is known.

use std::path::PathBuf;

use sessile_core::Durability;
use sessile_stores::{StoreEntry, StoreUrl};

use crate::selection::{Choice, ContenderSource};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StorageLocation {
    /// In memory only.
    Memory,
    /// In the file system of this path, which may not exist yet and may itself be in memory.
    FileSystem(PathBuf),
    /// In a server that the user has given.
    Unknown,
}

impl StorageLocation {
    pub(crate) fn of(choice: &Choice) -> StorageLocation {
        let (on_disk, is_shared_reference) = match choice.target {
            ContenderSource::Url(entry, url) => return of_url(entry, url),
            ContenderSource::Reference(reference) => {
                (reference.on_disk, reference.shared_by_processes && reference.server.is_none())
            }
            _ => (false, false),
        };
        let is_in = |place: &str| choice.shown_url.contains(place);
        // A private server that can do more than tier `none` has its directory on disk.
        let outlives_memory = |tiers: &[Durability]| tiers.iter().any(|it| *it != Durability::None);
        let by_server = choice.server.is_some() && choice.tiers.is_some_and(outlives_memory);
        if on_disk || is_in("<disk>") || by_server {
            let disk = std::env::var_os("SESSILE_DISK");
            StorageLocation::FileSystem(disk.map_or_else(|| "/var/tmp".into(), PathBuf::from))
        } else if is_shared_reference || is_in("<shm>") {
            StorageLocation::FileSystem("/dev/shm".into())
        } else {
            StorageLocation::Memory
        }
    }
}

/// The user's server is not asked.
fn of_url(entry: &StoreEntry, url: &str) -> StorageLocation {
    if entry.capabilities.server.is_some() || entry.decorates {
        return StorageLocation::Unknown;
    }
    let path = StoreUrl::parse(url).and_then(|url| url.path());
    path.map_or(StorageLocation::Memory, StorageLocation::FileSystem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::select;
    use sessile_results::experiment::Experiment;

    fn medium(url: &str) -> StorageLocation {
        let choice = select(&[url.to_owned()], Experiment::Scale, Durability::None)
            .unwrap()
            .choices
            .remove(0);
        StorageLocation::of(&choice)
    }

    /// The memory of this machine was taken for the space of every store given by URL: a store of
    /// files on a small disk was filled until the disk was full, and a server on a large machine
    /// was refused on a small one.
    #[test]
    fn a_store_of_the_users_lies_where_its_url_says() {
        for (url, path) in [
            ("files:/dev/shm/none/sessions", "/dev/shm/none/sessions"),
            ("sqlite:/proc/x.db#small", "/proc/x.db"),
            ("sessile:/var/tmp/none", "/var/tmp/none"),
        ] {
            assert_eq!(medium(url), StorageLocation::FileSystem(path.into()), "{url}");
        }
        assert_eq!(medium("memory:"), StorageLocation::Memory);
        for url in [
            "redis+unix:/run/redis.sock",
            "mysql://a:b@127.0.0.2/c",
            "memcached://240.0.0.1,127.0.0.1:11212",
            "route:?home=redis:%2F%2F240.0.0.1&large=memory:",
        ] {
            assert_eq!(medium(url), StorageLocation::Unknown, "{url}");
        }
    }
}
