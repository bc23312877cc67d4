//! The order of an examination: from the host over the place and the server to the store and PHP.

#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

use nix::unistd::User;
use sessile_core::{Clock, Durability, Operation, Result};
use sessile_stores::StoreUrl;
use sessile_stores::ask_server::{ServerFacts, ask};
use sessile_stores::layouts::Layout;
use sessile_stores::registry::{StoreEntry, entry_for};

use crate::finding::{Finding, Severity};
use crate::php_settings::PhpSource;
use crate::{clock, host, memcached, mysql, php, place, postgres, redis, store, tier};

/// The store that the doctor examines, and the needs of its site.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The URL of the store.
    pub url: String,
    /// The failures that commits must survive; `None`: not asked.
    pub keep: Option<Durability>,
    /// The user of the workers; `None`: not known.
    pub user: Option<String>,
    /// The number of workers; `None`: not known.
    pub workers: Option<u64>,
    /// Where PHP's settings come from.
    pub php: PhpSource,
    /// The directory below which `/etc` and `/proc` are read.
    pub root: PathBuf,
    /// The clock of this host.
    pub clock: Clock,
}

impl Examination {
    /// Examines a store on this host, without demands.
    pub fn new(url: impl Into<String>) -> Examination {
        Examination {
            url: url.into(),
            keep: None,
            user: None,
            workers: None,
            php: PhpSource::IfItUsesSessile,
            root: PathBuf::from("/"),
            clock: Clock::system(),
        }
    }
}

/// The result of an examination.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The URL without a password.
    pub label: String,
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The worst severity; `None`: sound.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// What the rules of one store look at.
pub(crate) struct Subject<'a> {
    pub examination: &'a Examination,
    pub url: &'a StoreUrl,
    pub entry: &'static StoreEntry,
    /// Of each server; empty without one.
    pub facts: &'a [ServerFacts],
}

impl Subject<'_> {
    /// The user of the workers; `None` if it is not known, or does not exist.
    pub fn workers_user(&self) -> Option<(&str, u32)> {
        let name = self.examination.user.as_deref()?;
        let user = User::from_name(name).ok().flatten()?;
        Some((name, user.uid.as_raw()))
    }

    /// Whether PHP's own handler has its files in the directory of the store, too.
    pub fn shared_with_php(&self) -> bool {
        self.url.text("php").is_some_and(|word| word != "0")
    }
}

/// Examines a store, and the stores of which it is made.
///
/// # Errors
///
/// `InvalidUrl`. A store that cannot be reached or opened is a finding.
pub fn examine(examination: &Examination) -> Result<Report> {
    let label = StoreUrl::redact(&examination.url);
    let invalid = |error: sessile_core::Error| error.during(Operation::Open, &label, None);
    let url = StoreUrl::parse(&examination.url)?;
    let entry = entry_for(&url).map_err(invalid)?;
    let mut findings = Vec::new();
    if entry.decorates {
        for (option, inner) in url.inner_urls() {
            if Layout::of(inner).is_some() {
                // Nothing is lost where sessions only leave it.
                if option == "to" {
                    examine_foreign(examination, inner, &mut findings)?;
                }
                continue;
            }
            // PHP has the outer URL.
            let (url, php) = (inner.to_owned(), PhpSource::Nowhere);
            let inner = Examination { url, php, ..examination.clone() };
            findings.extend(examine(&inner)?.findings);
        }
        php::check(&Subject { examination, url: &url, entry, facts: &[] }, &mut findings);
    } else {
        host::check(examination, &mut findings);
        let facts = match ask(&examination.url) {
            Ok(facts) => facts,
            Err(error) => {
                findings.push(store::unreachable(&error));
                Vec::new()
            }
        };
        let subject = Subject { examination, url: &url, entry, facts: &facts };
        examine_one(&subject, &mut findings)?;
    }
    // Several servers, or the stores of which this one is made, have some findings in common.
    let mut known: Vec<Finding> = Vec::new();
    findings.retain(|finding| {
        let is_new = !known.contains(finding);
        known.extend(is_new.then(|| finding.clone()));
        is_new
    });
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(Report { label, findings })
}

/// The server of another program's sessions, to which a site goes back. Of its settings, those that
/// Redis has; the store is not Sessile's.
fn examine_foreign(
    examination: &Examination,
    url: &str,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let Some((_, server)) = url.split_once('+') else { return Ok(()) };
    let (url, label) = (StoreUrl::parse(server)?, StoreUrl::redact(server));
    let entry = entry_for(&url).map_err(|error| error.during(Operation::Open, &label, None))?;
    if entry.name != "redis" {
        return Ok(());
    }
    let facts = ask(server).unwrap_or_else(|error| {
        findings.push(store::unreachable(&error));
        Vec::new()
    });
    let subject = Subject { examination, url: &url, entry, facts: &facts };
    subject.facts.iter().for_each(|facts| redis::check(&subject, facts, findings));
    Ok(())
}

fn examine_one(subject: &Subject<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    let place = place::check(subject, findings)?;
    place::check_counters(subject, findings);
    for facts in subject.facts {
        match subject.entry.name {
            "redis" => redis::check(subject, facts, findings),
            "mysql" => mysql::check(subject, facts, findings),
            "postgres" => postgres::check(subject, facts, findings),
            _ => memcached::check(subject, facts, findings),
        }
        clock::check(subject, facts, findings);
    }
    tier::check(subject, place.as_ref(), findings);
    if findings.iter().all(|finding| finding.code != store::UNREACHABLE) {
        store::check(subject, place.as_ref(), findings);
    }
    php::check(subject, findings);
    Ok(())
}

/// The codes that rules find, with planted facts in place of a server.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(crate) fn with_subject(
    url: &str,
    rules: impl FnOnce(&Subject<'_>, &mut Vec<Finding>),
) -> Vec<&'static str> {
    with_subject_below(Path::new("/"), url, rules)
}

/// The codes that rules find, with planted files below a root.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(crate) fn with_subject_below(
    root: &Path,
    url: &str,
    rules: impl FnOnce(&Subject<'_>, &mut Vec<Finding>),
) -> Vec<&'static str> {
    let examination = Examination { root: root.to_owned(), ..Examination::new(url) };
    let url = StoreUrl::parse(url).unwrap();
    let entry = entry_for(&url).unwrap();
    let mut findings = Vec::new();
    rules(&Subject { examination: &examination, url: &url, entry, facts: &[] }, &mut findings);
    findings.iter().map(|finding| finding.code).collect()
}
