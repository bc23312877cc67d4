//! Where the sessions of a contender lie, and so whose room they take.
//!
//! Invariant: a place is named only if it is known. A server of the user's on this machine keeps its data where nobody told us, so it
//! is held against memory; of one on another machine nothing is known. How much room a place has is not told here.

use std::net::UdpSocket;
use std::path::PathBuf;

use sessile_core::Durability;
use sessile_stores::{StoreUrl, registry};

use crate::selection::{Choice, Target};

/// Where sessions take room besides memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Nowhere, or nobody knows.
    Memory,
    /// In the file system of this path, which may not be there yet. The file system may itself be one in memory.
    FileSystem(PathBuf),
    /// On another machine: there not even memory is ours.
    Elsewhere,
}

impl Medium {
    /// That of a contender. Looks up the host of a server that is given by URL.
    pub(crate) fn of(choice: &Choice) -> Medium {
        match choice.target {
            Target::Url(_, url) => StoreUrl::parse(url).map_or(Medium::Memory, |url| of_url(&url)),
            Target::Fixture(_, fixture) if fixture.url.contains("{disk}") => disk(),
            Target::Fixture(_, fixture) if fixture.url.contains("{shm}") => shared_memory(),
            // A server that promises more than memory can has its private directory on a disk.
            Target::Fixture(entry, _) | Target::FixtureOn(entry, ..)
                if entry.capabilities.server.is_some() && outlives_memory(entry.capabilities.durability) =>
            {
                disk()
            }
            Target::Reference(reference) if reference.server.is_some() && outlives_memory(reference.durability) => {
                disk()
            }
            Target::Reference(reference) if reference.shared_by_processes && reference.server.is_none() => {
                shared_memory()
            }
            Target::Fixture(..)
            | Target::FixtureOn(..)
            | Target::Reference(_)
            | Target::Handler(_)
            | Target::Keeper(_)
            | Target::Test(..) => Medium::Memory,
        }
    }
}

fn of_url(url: &StoreUrl) -> Medium {
    match registry::entry_for(url) {
        // Few payloads are so large that they live in another of its stores.
        Ok(entry) if entry.decorates => {
            let home = url.text("home").and_then(|home| StoreUrl::parse(home).ok());
            home.map_or(Medium::Memory, |home| of_url(&home))
        }
        Ok(entry) if entry.capabilities.server.is_some() => {
            let mut hosts = std::iter::once(url).chain(url.further_hosts()).map(|url| url.parts().host_str());
            if hosts.any(is_here) { Medium::Memory } else { Medium::Elsewhere }
        }
        _ => url.path().map_or(Medium::Memory, Medium::FileSystem),
    }
}

/// Whether a host is this machine: no other address can be bound. Without one it is a unix socket.
fn is_here(host: Option<&str>) -> bool {
    let host = host.unwrap_or_default().trim_matches(['[', ']']);
    host.is_empty() || UdpSocket::bind((host, 0)).is_ok()
}

fn outlives_memory(tiers: &[Durability]) -> bool {
    tiers.iter().any(|tier| *tier != Durability::None)
}

fn shared_memory() -> Medium {
    Medium::FileSystem("/dev/shm".into())
}

fn disk() -> Medium {
    Medium::FileSystem(std::env::var_os("SESSILE_DISK").map_or_else(|| "/var/tmp".into(), PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::selection::select;

    fn medium(url: &str) -> Medium {
        let choice = select(&[url.to_owned()], Experiment::Scale, Durability::None).unwrap().choices.remove(0);
        Medium::of(&choice)
    }

    /// Whatever was given by URL was held against the memory of this machine: a store of files on a small disk was filled until
    /// the disk was full, and a server on a large machine was refused on a small one.
    #[test]
    fn a_store_of_the_users_lies_where_its_url_says() {
        for (url, path) in [
            ("files:/dev/shm/none/sessions", "/dev/shm/none/sessions"),
            ("sqlite:/proc/x.db#small", "/proc/x.db"),
            ("sessile:/var/tmp/none", "/var/tmp/none"),
            ("route:?home=files:/proc/home&large=memory:", "/proc/home"),
        ] {
            assert_eq!(medium(url), Medium::FileSystem(path.into()), "{url}");
        }
        for url in [
            "memory:",
            "redis+unix:/run/redis.sock",
            "postgres+unix:/run/postgresql/s?user=a&database=b",
            "redis://127.0.0.1:6379/1",
            "mysql://a:b@127.0.0.2/c",
            "memcached://240.0.0.1,127.0.0.1:11212",
        ] {
            assert_eq!(medium(url), Medium::Memory, "{url}");
        }
        // Addresses of a range that was never given to anybody.
        for url in [
            "redis://240.0.0.1:6379/1",
            "mysql://a:b@240.0.0.3/c",
            "memcached://240.0.0.1,240.0.0.2",
            "redis://[2001:db8::1]/",
            "route:?home=redis:%2F%2F240.0.0.1&large=memory:",
        ] {
            assert_eq!(medium(url), Medium::Elsewhere, "{url}");
        }
    }
}
