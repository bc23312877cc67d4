//! The URL of what is recommended: what a reader can do with it.

use crate::rows::recommend;
use sessile_advice::{RankedStore, Recommendation, Site, StorageMedium};
use sessile_core::Durability;
use sessile_fixtures::PrivateDir;
use sessile_stores::with_option;
use sessile_stores::{Context, registry};

use crate::rows::{all_installed_at, at_tier, best, named, results, row, usual};

const TIERS: [Durability; 3] = [Durability::None, Durability::Second, Durability::Commit];

fn at(tier: Durability) -> Recommendation {
    recommend(&Site { restart_may_log_out: true, ..all_installed_at(tier) }, &[])
}

/// The line of the recommendation, and those below it that say what stands in its URL.
fn head(recommendation: &Recommendation) -> Vec<String> {
    let text = recommendation.to_string();
    let lines = text.lines().skip_while(|line| !line.starts_with("Recommended: "));
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// For the engine on a disk it was `sessile:<disk>/sessile?control=<control>`: the last word is a
/// directory that only a benchmark needs, and nobody could know what to write.
#[test]
fn whatever_stands_for_a_place_in_the_recommended_url_is_explained_below_it() {
    let none = [results(at_tier(Durability::Second, usual()))];
    let engine = recommend(&all_installed_at(Durability::Second), &none);
    assert_eq!(best(&engine), "sessile#disk", "{engine}");
    let said = head(&engine);
    assert_eq!(said[0], "Recommended: sessile#disk, sessile:<disk>/sessile?durability=1s");
    assert!(said[1].starts_with("  <disk>: a directory on a disk") && said.len() == 2, "{said:?}");
    let server = recommend(&Site { web_servers: 2, ..all_installed_at(Durability::Second) }, &none);
    let said = head(&server);
    assert_eq!(said[0], "Recommended: redis, redis://<host>");
    assert!(said[1].starts_with("  <host>: where its server is") && said.len() == 2, "{said:?}");
    assert!(said[1].contains("(docs/servers.md)"), "{said:?}");
    let shared = [results(at_tier(Durability::None, vec![row("files", "shm", 1e6)]))];
    let said = head(&recommend(&Site { restart_may_log_out: true, ..Site::default() }, &shared));
    assert_eq!(said[0], "Recommended: files#shm, files:<shm>/files#shm");
    assert!(
        said[1].starts_with("  <shm>: a directory in shared memory") && said.len() == 2,
        "{said:?}"
    );
    for ranked in TIERS.iter().flat_map(|tier| at(*tier).ranking) {
        let rest = ["<disk>", "<shm>", "<host>"]
            .iter()
            .fold(ranked.url.clone(), |url, place| url.replace(place, ""));
        assert!(
            !rest.contains(['<', '{', '>', '}']) && !rest.contains("control"),
            "{}",
            ranked.url
        );
    }
}

#[test]
fn what_a_server_needs_in_its_url_stands_where_the_explanation_says() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers.md");
    let text = std::fs::read_to_string(manual).unwrap();
    for ranked in at(Durability::None).ranking.iter().filter(|ranked| ranked.url.contains("<host>"))
    {
        let scheme = ranked.url.split(':').next().unwrap();
        assert!(text.contains(&format!("{scheme}://")), "{}", ranked.title());
    }
}

/// Without its tier in the URL SQLite did not sync at each commit where that was asked for.
#[test]
fn on_a_disk_a_url_has_the_tier_that_was_judged_unless_the_store_has_it_not() {
    for tier in TIERS {
        let recommendation = at(tier);
        let tier_of = |title: &str| {
            let url = &named(&recommendation, title).url;
            url.split_once("durability=")
                .map(|(_, tier)| tier.split(['&', '#']).next().unwrap().to_owned())
        };
        // Nobody runs a database without syncs.
        let name = Some(tier.max(Durability::Second).name().to_owned());
        assert_eq!(tier_of("sqlite"), name);
        assert_eq!(tier_of("sessile#disk"), name);
        // It has none between, so it is judged in the next stronger one.
        let next = if tier == Durability::None { "none" } else { "commit" };
        assert_eq!(tier_of("files#php").as_deref(), Some(next));
        for elsewhere in ["sessile", "files#shm", "redis", "mysql", "memory"] {
            assert_eq!(tier_of(elsewhere), None, "{elsewhere}");
        }
    }
}

#[test]
fn with_its_places_put_in_a_url_opens_its_store() {
    let opens = |ranked: &RankedStore| {
        let place = match ranked.medium {
            StorageMedium::SharedMemory => PrivateDir::in_shared_memory(),
            _ => PrivateDir::on_disk(),
        };
        let (place, control) = (place.unwrap(), PrivateDir::in_shared_memory().unwrap());
        let dir = place.path().display().to_string();
        let mut url = ranked.url.replace("<disk>", &dir).replace("<shm>", &dir);
        // Its default would leave something behind.
        let has_control =
            registry::by_name(ranked.store).unwrap().options.iter().any(|it| it.name == "control");
        if has_control && ranked.medium == StorageMedium::Disk {
            url = with_option(&url, "control", &control.path().display().to_string());
        }
        assert!(sessile_stores::open(&url, &Context::default()).is_ok(), "{url}");
    };
    let mut opened = 0;
    for tier in TIERS {
        let recommendation = at(tier);
        let here = |ranked: &&RankedStore| {
            registry::by_name(ranked.store).is_some() && !ranked.url.contains("<host>")
        };
        opened +=
            recommendation.ranking.iter().filter(here).inspect(|ranked| opens(ranked)).count();
    }
    assert!(opened > 10, "{opened}");
}
