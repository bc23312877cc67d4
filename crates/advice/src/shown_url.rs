//! The URL of a recommended candidate, with placeholders.
//!
//! Invariant: with its placeholders filled in, the URL opens the store as it was judged, in the
//! site's tier, without options that only private instances need. It knows no store: URLs come from
//! fixtures, options from the registry.

use sessile_core::Durability;
use sessile_stores::{Fixture, StoreEntry, with_option};

use crate::RankedStore;
use crate::candidate::StorageMedium;

/// Placeholders of fixtures that the reader fills in.
const DISK: &str = "disk";
const SHARED_MEMORY: &str = "shm";
/// A directory of private instances, for an option that has a default.
const CONTROL: &str = "{control}";
const TIER: &str = "durability";
const HOST: &str = "<host>";

/// The URL of a variant. For a server it is only scheme and host: the fixture's socket is private,
/// and the tier is a setting of the server.
pub(crate) fn shown_url(
    entry: &StoreEntry,
    fixture: &Fixture,
    medium: StorageMedium,
    tier: Option<Durability>,
) -> String {
    if let (Some(_), Some(scheme)) = (entry.capabilities.server, entry.schemes.first()) {
        return format!("{scheme}://{HOST}");
    }
    let places = [DISK, SHARED_MEMORY].into_iter();
    let url = places.fold(without_private_options(fixture.url), |url, place| {
        url.replace(&format!("{{{place}}}"), &placeholder(place))
    });
    let takes_tier = entry.options.iter().any(|option| option.name == TIER);
    match tier.filter(|_| takes_tier && medium == StorageMedium::Disk) {
        Some(tier) => with_option(&url, TIER, tier.name()),
        None => url,
    }
}

pub(crate) fn placeholders(ranked: &RankedStore) -> Vec<String> {
    let all = [
        (
            placeholder(DISK),
            "a directory on a disk of the host: it exists and belongs to the user of the workers"
                .to_owned(),
        ),
        (placeholder(SHARED_MEMORY), "a directory in shared memory, as /dev/shm".to_owned()),
        (
            HOST.to_owned(),
            "where its server is, with the login and the database that it needs (docs/servers.md)"
                .to_owned(),
        ),
    ];
    let there = all.into_iter().filter(|(word, _)| ranked.url.contains(word));
    there.map(|(word, meaning)| format!("{word}: {meaning}")).collect()
}

/// A placeholder as the reader sees it; programs fill in braces.
fn placeholder(place: &str) -> String {
    format!("<{place}>")
}

/// Drops options that only keep private instances apart.
fn without_private_options(url: &str) -> String {
    let (base, label) = url.split_at(url.find('#').unwrap_or(url.len()));
    let (path, options) = base.split_once('?').unwrap_or((base, ""));
    let kept: Vec<&str> = options
        .split('&')
        .filter(|option| !option.is_empty() && !option.contains(CONTROL))
        .collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    format!("{path}{mark}{}{label}", kept.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_options_of_private_instances_are_taken_out() {
        assert_eq!(without_private_options("a:{disk}/x?control={control}"), "a:{disk}/x");
        assert_eq!(
            without_private_options("a:{disk}/x?b=1&control={control}&c=2#label"),
            "a:{disk}/x?b=1&c=2#label"
        );
        assert_eq!(
            without_private_options("a:{disk}/x?control={control}#label"),
            "a:{disk}/x#label"
        );
        assert_eq!(without_private_options("a:"), "a:");
    }
}
