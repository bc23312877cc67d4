//! Which contenders words, tiers and experiments choose.

use sessile_core::SessionsBound;

use super::*;

fn names(stores: &[&str], durability: Durability) -> Result<Vec<String>, String> {
    let stores: Vec<String> = stores.iter().map(|store| (*store).to_owned()).collect();
    let selection = select(&stores, Experiment::Cycle, durability).map_err(|error| error.0)?;
    Ok(selection.choices.iter().map(Choice::title).collect())
}

/// What reads results knows no store, and must know all the same which of them keep their sessions
/// on the disk of a server: only the growth of its memory is weighed.
#[test]
fn the_stores_on_the_disk_of_a_server_are_those_of_the_registry() {
    let on_disk = STORES.iter().filter(|entry| {
        !entry.decorates
            && matches!(entry.capabilities.sessions_bounded_by, SessionsBound::ServerDisk)
    });
    let known: Vec<(&str, &str)> =
        on_disk.map(|entry| (entry.name, entry.capabilities.server.unwrap())).collect();
    assert_eq!(known, sessile_results::ON_SERVER_DISK);
}

#[test]
fn names_variants_references_and_urls_are_understood() {
    let chosen = names(&["memory", "null", "memory:#mine"], Durability::None).unwrap();
    assert_eq!(chosen, ["memory", "null", "memory#mine"]);
    // Whether its server is installed or not, the variant is known; nobody connects to what has
    // no server.
    let known = names(&["memory", "redis#reconnect"], Durability::None).unwrap();
    assert!(known == ["memory", "redis#reconnect"] || known == ["memory"], "{known:?}");
    assert!(names(&["memory#reconnect"], Durability::None).unwrap_err().contains("no variant"));
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = names(&["mongo"], Durability::None).unwrap_err();
    assert!(
        error.contains("mongo") && error.contains("memory") && error.contains("redis-four-trips"),
        "{error}"
    );
    assert!(names(&["memory#nonsense"], Durability::None).unwrap_err().contains("default"));
    assert!(names(&["mongo://host/"], Durability::None).unwrap_err().contains("known schemes"));
}

#[test]
fn stores_without_the_tier_are_left_out_and_only_those_is_an_error() {
    let error = names(&["memory", "null"], Durability::Commit).unwrap_err();
    assert!(error.contains("tier commit"), "{error}");
}

/// memcached and PHP's files have no tier `1s`: they had no row of kills and of fixed rates,
/// and could not be judged.
#[test]
fn a_contender_without_the_tier_is_measured_in_its_nearest_one_where_that_is_asked_for() {
    let stores = ["files#shm", "files-flock", "sqlite", "files#default"].map(str::to_owned);
    let selected = |nearest_tier| {
        let stores = stores.to_vec();
        let durability = Durability::Second;
        let options = Options { stores, durability, nearest_tier, ..Options::default() };
        let selection = select_in(Experiment::Faults, &options);
        let choices = selection.unwrap().choices.into_iter();
        choices.map(|it| (it.title(), it.durability)).collect::<Vec<_>>()
    };
    // The second sentence of the manual was not true: files on a disk were left out here.
    let stronger = [("sqlite".to_owned(), "1s"), ("files".to_owned(), "commit")];
    assert_eq!(selected(false), stronger);
    let tiers: Vec<&str> = selected(true).into_iter().map(|(_, tier)| tier).collect();
    assert_eq!(tiers, ["none", "none", "1s", "commit"]);
}

/// Every server, every store on a disk and `null` were dropped from `scale`, and nothing said
/// so.
#[test]
fn scale_is_about_whatever_the_cycle_is_about() {
    let of = |experiment| {
        let selection = select(&[], experiment, Durability::None).unwrap();
        let choices = selection.choices.iter().map(Choice::title);
        let left_out =
            selection.left_out.iter().map(|left| format!("not {}#{}", left.store, left.variant));
        choices.chain(left_out).collect::<Vec<String>>()
    };
    let mut of_cycle = of(Experiment::Cycle);
    of_cycle.retain(|title| !reference::by_name(title).is_some_and(|it| it.only_throughput));
    assert_eq!(of(Experiment::Scale), of_cycle);
    assert!(of(Experiment::Scale).iter().any(|title| title == "sqlite"));
}

/// What happens to the large session of a handler was said of our store on the same system.
/// Samples of two seconds and rows that few read do not both fit into seven minutes.
#[test]
fn a_quick_run_leaves_out_the_rows_that_no_recommendation_needs() {
    let references = |options: &Options| {
        let selection = select_in(Experiment::Cycle, options).unwrap();
        let left_out = selection.left_out.iter().map(|it| it.store.clone());
        let chosen = selection.choices.iter().map(|it| it.store.to_owned());
        let titles: Vec<String> = chosen.chain(left_out).collect();
        let is_there = |name: &&str| titles.iter().any(|it| it == name);
        ["null", "files-flock", "redis-four-trips", "redis-two-trips", "sqlite-plain"]
            .into_iter()
            .filter(is_there)
            .count()
    };
    assert_eq!(references(&Options::default()), 5);
    assert_eq!(references(&Options { quick: true, ..Options::default() }), 3);
}

#[test]
fn large_payloads_are_saved_by_the_rows_of_handlers_too() {
    let selection = select(&[], Experiment::Oversize, Durability::None).unwrap();
    let left_out = selection.left_out.iter().map(LeftOut::title);
    let mut titles: Vec<String> = selection.choices.iter().map(Choice::title).collect();
    titles.extend(left_out);
    let rows: Vec<&str> = REFERENCES
        .iter()
        .map(|it| it.name)
        .filter(|name| titles.iter().any(|it| it == name))
        .collect();
    assert_eq!(
        rows,
        [
            "files-flock",
            "redis-four-trips",
            "redis-magento",
            "memcached-four-trips",
            "memcached-ignored",
            "mysql-transaction",
            "postgres-transaction"
        ]
    );
}

#[test]
fn the_same_contender_twice_is_an_error() {
    assert!(names(&["memory", "memory:"], Durability::None).unwrap_err().contains("twice"));
}

/// The engine in shared memory was measured in the tier `1s`, which it cannot keep there.
#[test]
fn what_lies_in_shared_memory_is_in_no_tier_but_none() {
    let second = Durability::Second;
    assert_eq!(names(&["sessile", "files#shm"], second).unwrap(), ["sessile#disk"]);
    let named = ["sessile", "files#shm"].map(String::from).to_vec();
    let nearest =
        Options { stores: named, durability: second, nearest_tier: true, ..Options::default() };
    let chosen = select_in(Experiment::Cycle, &nearest).unwrap();
    let tiers: Vec<&str> = chosen.choices.iter().map(|choice| choice.durability).collect();
    assert_eq!(tiers, ["none", "1s", "none"]);
}
