//! What the store keeps over a power cut, against what the site needs.

use sessile_core::Durability;
use sessile_stores::ask_server::ServerFacts;

use crate::examination::Subject;
use crate::finding::Finding;
use crate::place::Place;

pub fn check(subject: &Subject<'_>, place: Option<&Place>, findings: &mut Vec<Finding>) {
    let Some(wanted) = subject.examination.keep else { return };
    let Some((tier, fix)) = tier(subject, place) else { return };
    if tier < wanted {
        findings.push(Finding::critical(
            "weaker-tier",
            format!("the store has the tier {}, the site needs {}", tier.name(), wanted.name()),
            match wanted {
                Durability::Commit => "a power cut takes sessions that were saved",
                _ => "a power cut takes more than the last second of sessions",
            },
            fix,
        ));
    }
}

/// The tier in force, and how to get a stronger one; `None` where it cannot be told.
fn tier(subject: &Subject<'_>, place: Option<&Place>) -> Option<(Durability, &'static str)> {
    const URL: &str = "put it on a disk, and durability=1s or durability=commit into the URL";
    let in_memory = place.is_some_and(|place| place.in_memory);
    let of_url = |default: Durability| match subject.url.text("durability") {
        _ if in_memory => Durability::None,
        None => default,
        // An interval in ms or s: all but the end survives.
        Some(word) => Durability::from_name(word).unwrap_or(Durability::Second),
    };
    Some(match subject.entry.name {
        "sessile" | "sqlite" => (of_url(Durability::Second), URL),
        "files" => (of_url(Durability::None), URL),
        "memory" => (Durability::None, "use a store that keeps its sessions elsewhere"),
        "memcached" => (Durability::None, "memcached keeps nothing: use another store"),
        name => of_server(name, subject.facts.first()?)?,
    })
}

fn of_server(name: &str, facts: &ServerFacts) -> Option<(Durability, &'static str)> {
    let (words, fix) = match name {
        "redis" => {
            let log = facts.text("appendonly")? == "yes";
            let sync = if log { facts.text("appendfsync")? } else { "no" };
            (sync, "set appendonly yes, and appendfsync everysec (1s) or always (commit)")
        }
        "mysql" => (
            facts.text("innodb_flush_log_at_trx_commit")?,
            "set innodb_flush_log_at_trx_commit to 2 (1s) or 1 (commit)",
        ),
        "postgres" => {
            let off = facts.text("fsync")? == "off";
            let word = if off { "no" } else { facts.text("synchronous_commit")? };
            (word, "set fsync on, and synchronous_commit off (1s) or on (commit)")
        }
        _ => return None,
    };
    let tier = match (name, words) {
        ("redis", "everysec") | ("mysql", "2") | ("postgres", "off") => Durability::Second,
        ("redis" | "postgres", "no") | ("mysql", "0") => Durability::None,
        _ => Durability::Commit,
    };
    Some((tier, fix))
}
