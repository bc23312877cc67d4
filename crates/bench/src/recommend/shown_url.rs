//! How the URL of a candidate looks to whom it is recommended, and which words in it stand for places.
//!
//! It owns one invariant: with its places put in, the URL opens the store as it was judged, in the tier of the site, and has
//! nothing that only a private instance needs. It knows no store: places come from fixtures, options from the registry.

use sessile_fixtures::with_option;
use sessile_stores::{Fixture, StoreEntry};

use super::Ranked;
use super::candidate::Medium;
use super::site::Site;

/// The words of fixtures that a reader has to replace, too.
const DISK: &str = "disk";
const SHARED_MEMORY: &str = "shm";
/// One more directory of a private instance, for an option that has a default.
const CONTROL: &str = "{control}";
const TIER: &str = "durability";
const HOST: &str = "<host>";

/// The URL of a store in this way to run it. A server is asked at its host; the fixture's socket is that of a private one, and
/// its tier is in its own settings.
pub(super) fn shown_url(entry: &StoreEntry, fixture: &Fixture, medium: Medium, site: &Site) -> String {
    if let (Some(_), Some(scheme)) = (entry.capabilities.server, entry.schemes.first()) {
        return format!("{scheme}://{HOST}");
    }
    let places = [DISK, SHARED_MEMORY].into_iter();
    let url = places.fold(usual(fixture.url), |url, place| url.replace(&format!("{{{place}}}"), &word(place)));
    let takes_tier = entry.options.iter().any(|option| option.name == TIER);
    if takes_tier && medium == Medium::Disk && entry.capabilities.durability.contains(&site.durability) {
        return with_option(&url, TIER, site.durability.name());
    }
    url
}

/// What the places in a URL are, a sentence each.
pub(super) fn places(ranked: &Ranked) -> Vec<String> {
    let docs = format!("docs/stores/{}.md", ranked.store);
    let all = [
        (word(DISK), "a directory on a disk of the host: it exists and belongs to the user of the workers".to_owned()),
        (word(SHARED_MEMORY), "a directory in shared memory, as /dev/shm".to_owned()),
        (HOST.to_owned(), format!("where its server is, with the login and the database that it needs ({docs})")),
    ];
    let there = all.into_iter().filter(|(word, _)| ranked.url.contains(word));
    there.map(|(word, meaning)| format!("{word}: {meaning}")).collect()
}

/// As a reader sees a place: what is in braces is put in by a program.
fn word(place: &str) -> String {
    format!("<{place}>")
}

/// Without the options that are there to keep a private instance apart from all others.
fn usual(url: &str) -> String {
    let (base, label) = url.split_at(url.find('#').unwrap_or(url.len()));
    let (path, options) = base.split_once('?').unwrap_or((base, ""));
    let kept: Vec<&str> = options.split('&').filter(|option| !option.is_empty() && !option.contains(CONTROL)).collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    format!("{path}{mark}{}{label}", kept.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_options_of_private_instances_are_taken_out() {
        assert_eq!(usual("a:{disk}/x?control={control}"), "a:{disk}/x");
        assert_eq!(usual("a:{disk}/x?b=1&control={control}&c=2#label"), "a:{disk}/x?b=1&c=2#label");
        assert_eq!(usual("a:{disk}/x?control={control}#label"), "a:{disk}/x#label");
        assert_eq!(usual("a:"), "a:");
    }
}
