//! A running site with one handler, and the server of the handler.
//!
//! Invariant: dropping a [`LifecycleSite`] leaves no process and no file. Its texts contain no path
//! and no session id.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::{Durability, ErrorKind};
use sessile_fixtures::WebOptions;
use sessile_results::ServerWork;
use sessile_results::php_handlers::SESSILE;
use sessile_stores::Context;

use crate::experiments::ab::AbReport;
use crate::experiments::lifecycle::drupal;
use crate::experiments::redis_info::{figure, info};
use crate::experiments::web::{Site, of_page, pair, settings};
use crate::footprint::occupied;
use crate::php::{Handler, MAGENTO_VARIABLE, PhpInstallation};
use crate::private_places::PrivatePlaces;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

/// The page, and its answer.
const PAGE: &str = include_str!("../../../../../bench/contenders/php/lifecycle/page.php");
pub(super) const ANSWER: &str = "kept 1 session of 100 values, 4505 bytes\n";
/// The size of the page's session in PHP's own format.
pub(super) const PAYLOAD_BYTES: usize = 4_505;
const COUNT: &str = include_str!("../../../../../bench/contenders/php/lifecycle/count.php");
const VISITOR: &str = include_str!("../../../../../bench/contenders/php/lifecycle/visitor.php");
const SEEN: &str = "seen\n";
/// The size of a visitor's session with content, in PHP's own format.
pub(super) const CART_BYTES: usize = 1_039;

pub(super) struct LifecycleSite {
    pub site: Site,
    /// URL through which sessions of our handler are counted.
    store: Option<String>,
    on_redis: bool,
    page: VisitedPage,
}

/// The page that is measured, and how its answer is known.
pub(super) struct VisitedPage {
    pub contains: &'static str,
    /// Whether there is nothing else in the answer.
    pub is_all: bool,
}

pub(super) struct SiteOptions {
    pub durability: Durability,
    /// To hold.
    pub sessions: u64,
    /// Of shared memory, where its size is fixed.
    pub memory_megabytes: u64,
    pub ttl: Duration,
    /// Of PHP.
    pub processes: usize,
    /// The user's copy of Drupal, whose pages are measured then.
    pub drupal: Option<PathBuf>,
}

impl LifecycleSite {
    pub(super) fn open(
        handler: &Handler,
        php: &PhpInstallation,
        purpose: &SiteOptions,
    ) -> WorkerResult<LifecycleSite> {
        if let Some(copy) = &purpose.drupal {
            return drupal::open(handler, php, purpose, copy);
        }
        let durability = purpose.durability;
        let mut places =
            PrivatePlaces::open(&[handler.save_path], handler.server, durability, &[])?;
        let copy = std::env::var(MAGENTO_VARIABLE).unwrap_or_default();
        let mut save_path = places.fill(handler.save_path).replace("{magento}", &copy);
        places.hidden.extend(handler.needs_copy().then_some((copy, "<magento>")));
        if handler.save_handler == SESSILE && handler.server.is_none() {
            // The durability tier of an embedded store is part of its URL.
            let joint = if save_path.contains('?') { '&' } else { '?' };
            save_path.push_str(&format!("{joint}durability={}", durability.name()));
        }
        if handler.save_handler == "files" {
            std::fs::create_dir(&save_path).map_err(|error| {
                ContenderFailure::not_started(format!("no fresh directory: {error}"))
            })?;
        }
        let options = web_options(handler, php, purpose, &save_path, places.scratch());
        let site = LifecycleSite {
            site: Site::start(places, &options)?,
            store: (handler.save_handler == SESSILE).then_some(save_path),
            on_redis: handler.server == Some("redis-server"),
            page: VisitedPage { contains: ANSWER, is_all: true },
        };
        if site.store.is_none() {
            // Before the first request: a handler on a database creates its table now.
            site.count_sessions()
                .map_err(|why| of_page(format!("{why} {}", site.site.last_php_message())))?;
        }
        Ok(site)
    }

    /// A site whose sessions nobody counts.
    pub(super) fn of_pages(site: Site, page: VisitedPage) -> LifecycleSite {
        LifecycleSite { site, store: None, on_redis: false, page }
    }

    /// Sends requests for the page with `ab`.
    pub(super) fn load(
        &self,
        ab: &Path,
        requests: usize,
        parallel: usize,
    ) -> Result<AbReport, String> {
        self.site.load(ab, "page", self.page.is_all, requests, parallel)
    }

    /// The bytes of an answer, if each is the same.
    pub(super) fn answer_bytes(&self) -> Option<u64> {
        self.page.is_all.then_some(self.page.contains.len() as u64)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let VisitedPage { contains, is_all } = &self.page;
        let answer = self.site.get("page")?;
        let is_right =
            if *is_all { answer.body == *contains } else { answer.body.contains(contains) };
        if answer.status == 200 && is_right {
            return Ok(());
        }
        let body: String = self.site.places.redact(answer.body.trim()).chars().take(200).collect();
        Err(format!(
            "the page answers with status {} and a wrong check value: {body}",
            answer.status
        ))
    }

    /// Makes the only request of a visitor, and returns the number of cookies in its answer.
    pub(super) fn visit(&self, stores: bool, eager: bool) -> Result<usize, String> {
        let page = format!("visitor?stores={}&eager={}", u8::from(stores), u8::from(eager));
        let answer = self.site.get(&page)?;
        if answer.status == 200 && answer.body == SEEN {
            return Ok(answer.cookies.len());
        }
        Err(format!(
            "a visitor is answered with status {}: {}",
            answer.status,
            self.site.places.redact(answer.body.trim())
        ))
    }

    /// What the server has done so far, and its memory; `None` if it is not Redis.
    pub(super) fn redis_work(&self) -> Result<Option<ServerWork>, String> {
        let socket = self.site.places.server_socket().filter(|_| self.on_redis);
        let Some(socket) = socket else { return Ok(None) };
        let told = info(socket, "default").map_err(|error| {
            format!("the Redis server does not report its counters: {:?}", error.kind())
        })?;
        let work = || {
            Some(ServerWork {
                // The private server never saves a snapshot, so this counts since its start.
                changes: figure(&told, "rdb_changes_since_last_save")?,
                received_bytes: figure(&told, "total_net_input_bytes")?,
                grown_bytes: i64::try_from(figure(&told, "used_memory")?).ok()?,
            })
        };
        let unknown = || "the Redis server reports no known counters".to_owned();
        work().map(Some).ok_or_else(unknown)
    }

    pub(super) fn session_bytes(&self) -> Option<u64> {
        let mut homes = self.site.places.homes();
        (homes.len() > 0).then(|| homes.by_ref().map(occupied).sum())
    }

    /// `None` if they cannot be counted.
    pub(super) fn count_sessions(&self) -> Result<Option<u64>, String> {
        let uncounted = |why: String| {
            self.site.places.redact(&format!("the sessions cannot be counted: {why}"))
        };
        if let Some(store) = &self.store {
            let counted = sessile_stores::open(store, &Context::default())
                .and_then(|sessions| sessions.stat());
            return match counted {
                Ok(stat) => Ok(stat.complete.then_some(stat.sessions)),
                Err(error) if *error.kind() == ErrorKind::Unsupported => Ok(None),
                Err(error) => Err(uncounted(error.to_string())),
            };
        }
        if !self.page.is_all {
            return Ok(None);
        }
        let answer = self.site.web.get("count").map_err(|error| uncounted(error.to_string()))?;
        let count = answer.body.trim().parse().ok().filter(|_| answer.status == 200);
        count.map(Some).ok_or_else(|| uncounted(answer.body.trim().to_owned()))
    }

    /// Of nginx and PHP.
    pub(super) fn web_cpu(&self) -> Duration {
        self.site.web.cpu_time()
    }

    /// Of the handler's server.
    pub(super) fn server_cpu(&self) -> Duration {
        self.site.places.server_cpu()
    }
}

fn web_options(
    handler: &Handler,
    php: &PhpInstallation,
    purpose: &SiteOptions,
    save_path: &str,
    dir: &Path,
) -> WebOptions {
    let (megabytes, sessions) =
        (purpose.memory_megabytes.to_string(), purpose.sessions.to_string());
    let mut at_start = php.loading(handler);
    at_start.extend(handler.at_start.iter().map(|(name, value)| {
        pair(name, value.replace("{megabytes}", &megabytes).replace("{sessions}", &sessions))
    }));
    let mut pages =
        vec![pair("page.php", PAGE), pair("count.php", COUNT), pair("visitor.php", VISITOR)];
    let mut settings = settings(purpose.ttl, save_path);
    match handler.source {
        Some(source) => {
            pages.push(pair("handler.php", source));
            let prepended = dir.join("web/handler.php").display().to_string();
            settings.push(pair("auto_prepend_file", prepended));
        }
        None => settings.push(pair("session.save_handler", handler.save_handler)),
    }
    settings.extend(handler.settings.iter().map(|(name, value)| pair(name, *value)));
    WebOptions { pages, at_start, settings, processes: purpose.processes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_the_experiment_expects() {
        assert!(ANSWER.contains(&format!("{PAYLOAD_BYTES} bytes")));
        assert!(PAGE.contains("'kept 1 session of '"));
        assert!(VISITOR.contains("\"seen\\n\"") && VISITOR.contains("CART_BYTES = 1024;"));
        assert_eq!(CART_BYTES, "cart|s:1024:\"\";".len() + 1_024);
    }
}
