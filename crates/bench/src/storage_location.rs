//! Where the sessions of a contender lie, and so whose space they take.
//!
//! Invariant: a path is named only if it is known.

use std::path::PathBuf;

use sessile_core::Durability;
use sessile_stores::{StoreUrl, registry};

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
        match choice.target {
            ContenderSource::Url(_, url) => {
                StoreUrl::parse(url).map_or(StorageLocation::Unknown, |url| of_url(&url))
            }
            ContenderSource::Fixture(_, fixture) if fixture.url.contains("{disk}") => disk(),
            ContenderSource::Fixture(_, fixture) if fixture.url.contains("{shm}") => {
                shared_memory()
            }
            // A private server that can do more than tier `none` has its directory on disk.
            ContenderSource::Fixture(entry, ..)
                if entry.capabilities.server.is_some()
                    && outlives_memory(entry.capabilities.durability) =>
            {
                disk()
            }
            ContenderSource::Reference(reference)
                if reference.on_disk
                    || reference.server.is_some() && outlives_memory(reference.durability) =>
            {
                disk()
            }
            ContenderSource::Reference(reference)
                if reference.shared_by_processes && reference.server.is_none() =>
            {
                shared_memory()
            }
            _ => StorageLocation::Memory,
        }
    }
}

/// The user's server is not asked.
fn of_url(url: &StoreUrl) -> StorageLocation {
    match registry::entry_for(url) {
        Ok(entry) if entry.capabilities.server.is_none() && !entry.decorates => {
            url.path().map_or(StorageLocation::Memory, StorageLocation::FileSystem)
        }
        _ => StorageLocation::Unknown,
    }
}

fn outlives_memory(tiers: &[Durability]) -> bool {
    tiers.iter().any(|tier| *tier != Durability::None)
}

fn shared_memory() -> StorageLocation {
    StorageLocation::FileSystem("/dev/shm".into())
}

fn disk() -> StorageLocation {
    StorageLocation::FileSystem(
        std::env::var_os("SESSILE_DISK").map_or_else(|| "/var/tmp".into(), PathBuf::from),
    )
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
