//! What sites have already: judged by its own reference row, and by nothing of our stores.

use crate::rows::recommend;
use serde_json::Value;
use sessile_advice::{
    Recommendation, RuleEffect, Site, handler_of_row, handlers_without_row, site_kinds,
};
use sessile_core::Durability;
use sessile_results::Report;

use crate::large::{MIB, RULE, saved, site};
use crate::rows::{
    all_installed, all_installed_at, at_tier, best, named, results, row, rules, usual, why,
};

/// A handler over Redis was said to wake its waiters, because our store on Redis does; it polls.
/// One over a row lock was said to poll, which wakes.
/// Users of any handler were told to set a limit in the URL of a store that they do not have.
#[test]
fn nothing_that_our_client_decides_is_said_of_the_handler_of_another() {
    let site = Site { payload_bytes: 65 * MIB, ..site(0) };
    let recommendation = recommend(&site, &[]);
    let said = |title: &str, rule: &str| why(&recommendation, title, rule).is_some();
    assert!(said("redis", "woken") && said("redis", "payload-limit-to-raise"));
    for (practice, is_woken) in [
        ("phpredis#lock", false),
        ("php-memcached", false),
        ("pdo-mysql#nolock", false),
        ("pdo-mysql", true),
        ("pdo-postgres", true),
        ("php-files", true),
    ] {
        assert_eq!(said(practice, "woken"), is_woken, "{practice}");
        assert!(!said(practice, "payload-limit-to-raise"), "{practice}");
    }
    // The end of a lock is that of the reference row: flock and a transaction end with the process.
    let ends = |title: &str| said(title, "lock-ends-with-process");
    assert!(ends("php-files") && ends("pdo-mysql") && !ends("phpredis#lock"), "{recommendation}");
    assert!(!ends("apcu"), "{recommendation}");
}

/// No row of a large payload counted for a handler: its name is in no result.
#[test]
fn a_large_payload_that_a_reference_row_lost_counts_for_the_handler_that_it_stands_for() {
    let lost = saved("memcached-four-trips", 2 * MIB, "lost", false, None);
    let told =
        |title: &str| why(&recommend(&site(2 * MIB), &[results(vec![lost.clone()])]), title, RULE);
    let said = told("php-memcached").unwrap();
    assert!(said.contains("was lost, which is worse than refused alone"), "{said}");
    assert!(told("memcached").unwrap().contains("with its defaults"), "ours was not measured");
}

/// APCu was no candidate at all, and PHP sites on one host have it.
#[test]
fn apcu_is_a_candidate_of_one_host_that_may_lose_sessions_and_has_no_lock() {
    let loose = Site { restart_may_log_out: true, ..all_installed_at(Durability::None) };
    let apcu = |site: &Site, results: &[Report]| {
        let recommendation = recommend(site, results);
        let apcu = named(&recommendation, "apcu");
        (rules(apcu, RuleEffect::Excludes).len(), rules(apcu, RuleEffect::Against).join(" "))
    };
    assert_eq!(apcu(&loose, &[]), (0, "takes-no-lock".to_owned()));
    let several = Site { web_servers: 3, ..loose.clone() };
    assert!(apcu(&several, &[]).0 > 0 && apcu(&all_installed(), &[]).0 > 0);
}

fn of_kind(name: &str, results: &[Report]) -> Recommendation {
    let kinds = site_kinds(&all_installed().installed, Durability::None);
    recommend(&kinds.iter().find(|kind| kind.name == name).unwrap().site, results)
}

/// Drupal was recommended PHP's files, and Magento phpredis: neither application can use them
/// without something to install.
#[test]
fn a_handler_that_the_product_does_not_have_is_to_be_installed_as_ours_is() {
    let cms = ["pdo-mysql#nolock", "pdo-postgres#nolock"];
    let magento = ["php-files", "magento-redis", "php-memcached", "pdo-mysql#nolock"];
    let any = ["php-files", "apcu", "phpredis#lock", "phpredis", "php-memcached"];
    for (kind, its, others) in [
        ("Drupal or TYPO3", &cms[..], &["php-files", "apcu", "phpredis#lock", "pdo-mysql"][..]),
        ("Magento on one host", &magento, &["phpredis#lock", "phpredis", "pdo-mysql", "apcu"]),
        ("Magento on three hosts", &magento, &["phpredis#lock", "php-memcached#nolock"]),
        ("Shopware", &any, &["files#php"]),
        ("blog", &any, &["files#php"]),
    ] {
        let recommendation = of_kind(kind, &[]);
        let is_to_install = |title: &str| {
            let [objection, advantage] = ["handler-to-install", "in-use"]
                .map(|rule| why(&recommendation, title, rule).is_some());
            assert!(objection != advantage, "{kind}: {title}");
            objection
        };
        assert!(!its.iter().any(|title| is_to_install(title)), "{kind}: {recommendation}");
        assert!(others.iter().all(|title| is_to_install(title)), "{kind}: {recommendation}");
        assert!(is_to_install("files"), "{kind}: ours");
    }
}

/// It would have been told of `sessile gc`, which knows no handler of others.
#[test]
fn a_handler_that_the_product_does_not_have_is_not_taken_for_a_store_of_ours() {
    let recommendation = of_kind("Drupal or TYPO3", &[]);
    let said = why(&recommendation, "pdo-mysql", "sweep-needed").unwrap();
    assert!(said.contains("from cron") && !said.contains("sessile"), "{said}");
}

/// Magento's own handler was no candidate at all.
#[test]
fn the_own_handler_of_magento_is_judged_by_its_row_and_is_a_candidate_there_only() {
    let rows = || {
        let own = row("redis-magento", "default", 9_000.0);
        let unlocked = row("mysql-unlocked", "default", 40_000.0);
        let redis = [("redis-four-trips", 20_000.0), ("redis", 30_000.0)];
        let redis = redis.map(|(store, rate)| row(store, "default", rate));
        [own, unlocked].into_iter().chain(redis).collect::<Vec<_>>()
    };
    let recommendation = of_kind("Magento on three hosts", &[results(rows())]);
    assert_eq!(best(&recommendation), "magento-redis", "{recommendation}");
    let said = |rule: &str| why(&recommendation, "magento-redis", rule).is_some();
    assert!(!said("lock-ends-with-process") && !said("woken"), "{recommendation}");
    // Magento has handlers with a lock.
    let against = rules(named(&recommendation, "pdo-mysql#nolock"), RuleEffect::Against);
    assert_eq!(against, ["takes-no-lock"], "{recommendation}");
    let shopware = of_kind("Shopware", &[results(rows())]);
    assert!(!shopware.ranking.iter().any(|it| it.store == "magento-redis"), "{shopware}");
    assert_eq!(handlers_without_row().collect::<Vec<_>>(), ["apcu"]);
    assert_eq!(handler_of_row("postgres-unlocked").as_deref(), Some("pdo-postgres#nolock"));
    assert_eq!(handler_of_row(""), None);
}

/// Drupal's own handler counted for as little as one that is to be installed, so that speed decided
/// for what Drupal does not have.
#[test]
fn a_product_lives_with_its_own_handler_without_a_lock_and_others_are_warned_of_it() {
    let rows = || {
        let unlocked = row("mysql-unlocked", "default", 5_000.0);
        vec![unlocked, row("files-flock", "default", 90_000.0), row("sessile", "disk", 80_000.0)]
    };
    let both = [results(rows()), results(at_tier(Durability::None, rows()))];
    let cms = of_kind("Drupal or TYPO3", &both);
    assert_eq!(best(&cms), "pdo-mysql#nolock", "{cms}");
    // Speed does not choose the database of a site.
    let with_faster = || {
        let faster = row("postgres-unlocked", "default", 9_000.0);
        rows().into_iter().chain([faster]).collect::<Vec<_>>()
    };
    let faster = [results(with_faster()), results(at_tier(Durability::None, with_faster()))];
    let either = of_kind("Drupal or TYPO3", &faster);
    let recommended = either.recommended.as_deref();
    assert_eq!(recommended, Some("pdo-postgres#nolock or pdo-mysql#nolock"), "{either}");
    assert!(either.notes.iter().any(|note| note.contains("which the site has")), "{either}");
    let said = why(&cms, "pdo-mysql#nolock", "comes-without-lock").unwrap();
    assert!(said.contains("overwrite each other"), "{said}");
    for results in [&[][..], &both] {
        let unmeasured = of_kind("Drupal or TYPO3", results).recommended.unwrap();
        assert_eq!(unmeasured, "pdo-mysql#nolock or pdo-postgres#nolock");
    }
    let shopware = of_kind("Shopware", &both);
    let against = rules(named(&shopware, "pdo-mysql#nolock"), RuleEffect::Against);
    assert_eq!(against, ["takes-no-lock"], "{shopware}");
}

/// phpredis takes no lock by default: most sites have that, and it was not ranked.
#[test]
fn phpredis_as_it_is_by_default_is_ranked_by_the_row_without_a_lock() {
    let rows = vec![
        row("redis-four-trips", "default", 40_000.0),
        row("redis-setex", "default", 70_000.0),
        row("files-flock", "default", 20_000.0),
    ];
    let recommendation = recommend(&all_installed(), &[results(rows)]);
    let [locked, unlocked] =
        ["phpredis#lock", "phpredis"].map(|title| named(&recommendation, title));
    assert_eq!(unlocked.ops_per_second, Some(70_000.0), "{recommendation}");
    assert_eq!(rules(unlocked, RuleEffect::Against), ["takes-no-lock"]);
    assert!(!unlocked.excluded && rules(locked, RuleEffect::Against).is_empty());
    assert_eq!(best(&recommendation), "phpredis#lock", "faster, and it loses updates");
}

/// A rate that Redis sustained while it synced was no room for a site that needs no sync.
#[test]
fn a_rate_that_was_kept_up_with_in_a_stronger_tier_is_room_in_a_weaker_one() {
    let site = Site {
        requests_per_second: 6_000.0,
        restart_may_log_out: true,
        ..all_installed_at(Durability::None)
    };
    let paced = |done: f64| {
        let mut report = results(vec![row("redis-four-trips", "default", done)]);
        report.settings.rate = Some(1_000.0);
        report
    };
    let closed: Vec<Value> = vec![row("redis-four-trips", "default", 20_000.0)];
    let told = |done: f64| {
        let all = [results(at_tier(Durability::None, closed.clone())), paced(done)];
        rules(named(&recommend(&site, &all), "phpredis#lock"), RuleEffect::Excludes).join(" ")
    };
    assert_eq!(told(8_000.0), "");
    assert_eq!(told(4_000.0), "too-slow", "a stronger tier that fell behind says nothing");
}

/// `fsync=off` stood in no line next to a verdict.
#[test]
fn what_the_measured_servers_sync_and_cache_stands_beside_the_verdict() {
    let mut report = results(usual());
    let postgres = "-D <disk>/data -k <disk> -c fsync=on -c synchronous_commit=off -c \
                    listen_addresses= -c shared_buffers=4GB";
    let redis = "--port 0 --hz 100 --save  --appendonly yes --appendfsync everysec";
    report.environment.servers.insert("postgres".to_owned(), postgres.to_owned());
    report.environment.servers.insert("redis-server".to_owned(), redis.to_owned());
    let mut other = results(at_tier(Durability::None, usual()));
    other.environment.servers.insert("postgres".to_owned(), "-c fsync=off".to_owned());
    let recommendation = recommend(&all_installed(), &[report, other]);
    let told = "servers were measured with postgres: fsync=on synchronous_commit=off \
                shared_buffers=4GB; redis-server: --appendonly yes --appendfsync everysec";
    assert!(recommendation.notes.iter().any(|note| note == told), "{:?}", recommendation.notes);
    assert_eq!(best(&recommendation), "sessile#disk");
}

/// PostgreSQL was named for Magento, which does not run on it.
#[test]
fn a_store_on_a_server_that_the_application_cannot_have_is_not_named() {
    let kinds = site_kinds(&all_installed().installed, Durability::None);
    let named = |kind: &str, server: &str| {
        let kind = kinds.iter().find(|it| it.name == kind).unwrap();
        let ranking = recommend(&kind.site, &[results(usual())]).ranking;
        ranking.iter().any(|ranked| ranked.title().contains(server))
    };
    for shop in ["Shopware", "Magento on one host", "Magento on three hosts"] {
        assert!(!named(shop, "postgres") && named(shop, "mysql") && named(shop, "files"), "{shop}");
    }
    assert!(named("Drupal or TYPO3", "postgres"));
}
