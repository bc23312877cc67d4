//! A running site with the page and the cache that it uses.
//!
//! Invariant: dropping a [`RebuildSite`] leaves no process and no file. Its texts contain no path.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sessile_core::{Clock, Durability, Key};
use sessile_fixtures::WebOptions;
use sessile_results::LargestEntry;
use sessile_results::php_handlers::SESSILE;
use sessile_scan::{Pause, ScanPace, ScanSummary};
use sessile_stores::Context;

use super::cache::RegistryCache;
use crate::experiments::ab::AbReport;
use crate::experiments::web::{Site, pair, settings};
use crate::php::PhpInstallation;
use crate::private_places::PrivatePlaces;
use crate::worker::protocol::WorkerResult;

const PAGE: &str = include_str!("../../../../../bench/contenders/php/rebuild/page.php");
/// The registry's id in `session.php`.
const ENTRY: &str = "registry";
/// One hundred lines with a value of 64 bytes.
pub(super) const ANSWER_BYTES: u64 = 6_500;
/// The registry must not expire during the measurement.
const TTL: Duration = Duration::from_secs(86_400);
/// For memcached's counters.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const SCAN: ScanPace =
    ScanPace { page: 500, pause: Pause::NONE, time_max: Some(Duration::from_secs(10)) };

pub(super) struct RebuildSite {
    site: Site,
    /// The page opens it.
    store: String,
    large: Option<String>,
    bytes: usize,
    query: &'static str,
}

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageView {
    pub load_ns: u64,
    pub rebuilt: bool,
    pub rebuild_ns: u64,
    /// The page saw no error from its save.
    pub saved: bool,
    pub save_ns: u64,
}

impl RebuildSite {
    pub(super) fn open(
        cache: &RegistryCache,
        php: &PhpInstallation,
        bytes: usize,
        processes: usize,
    ) -> WorkerResult<RebuildSite> {
        let (handler, large) = (&cache.handler, cache.large.unwrap_or_default());
        let (server, arguments) = (handler.server, cache.arguments);
        let places = PrivatePlaces::open(&[large], server, Durability::None, arguments)?;
        let large = places.fill(large);
        let path = places.fill(handler.save_path).replace("{large}", &large);
        let mut settings = settings(TTL, &path);
        settings.push(pair("memory_limit", "512M"));
        settings.extend(
            (handler.save_handler == SESSILE).then(|| pair("session.save_handler", SESSILE)),
        );
        let pages =
            vec![pair("page.php", PAGE), pair("cache.php", handler.source.unwrap_or_default())];
        let options = WebOptions { pages, at_start: php.loading(handler), settings, processes };
        let site = Site::start(places, &options)?;
        let (large, query) = (cache.large.map(|_| large), cache.query);
        Ok(RebuildSite { site, store: path, large, bytes, query })
    }

    fn page(&self) -> String {
        format!("page?bytes={}{}", self.bytes, self.query)
    }

    /// Sends requests for the page with `ab`.
    pub(super) fn load(
        &self,
        ab: &Path,
        requests: usize,
        parallel: usize,
    ) -> Result<AbReport, String> {
        self.site.load(ab, &self.page(), true, requests, parallel)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let answer = self.site.get(&self.page())?;
        if answer.status == 200 && answer.body.len() as u64 == ANSWER_BYTES {
            return Ok(());
        }
        let words = self.log().pop().unwrap_or_default();
        Err(format!(
            "the page answers with status {} and {} bytes; its log: {words}",
            answer.status,
            answer.body.len()
        ))
    }

    /// The views since the last call.
    pub(super) fn views(&self) -> Result<Vec<PageView>, String> {
        let steps = self.site.places.scratch().join("web").join("steps");
        let text = std::fs::read_to_string(&steps).unwrap_or_default();
        let _ = std::fs::remove_file(steps); // the next view creates it
        text.lines()
            .map(|line| {
                PageView::read(line)
                    .ok_or_else(|| "the page's report of its views is incomplete".to_owned())
            })
            .collect()
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.site.web.log().lines().map(|line| self.site.places.redact(line)).collect()
    }

    /// Bytes of memcached's entries.
    pub(super) fn stored(&self) -> Option<u64> {
        let mut asking = UnixStream::connect(self.site.places.server_socket()?).ok()?;
        asking.set_read_timeout(Some(ANSWER_WITHIN)).ok()?;
        asking.write_all(b"stats\r\nquit\r\n").ok()?;
        let mut answer = String::new();
        asking.read_to_string(&mut answer).ok()?;
        stored(&answer)
    }

    /// The largest entry that `sessile analyze` finds in the store for large entries.
    pub(super) fn largest(&self) -> Option<LargestEntry> {
        let clock = Clock::system();
        let mut opened = sessile_scan::open(self.large.as_ref()?, &clock).ok()?;
        let mut summary = ScanSummary::new(clock.now(), 1, 0);
        SCAN.scan(opened.walk.as_mut(), &mut summary, &mut |_| true).ok()?;
        let seen = summary.largest.entries().first()?;
        let name = seen.name.tag().unwrap_or_default();
        let entry = self.entry().filter(|(_, bytes)| *bytes == seen.bytes).map(|(tag, _)| tag);
        Some(LargestEntry { bytes: seen.bytes, bin: seen.bin.to_string(), name, entry })
    }

    /// The tag of the page's entry in logs, and its size.
    fn entry(&self) -> Option<(String, u64)> {
        let key = Key::session(ENTRY).ok()?;
        let store = sessile_stores::open(&self.store, &Context::default()).ok()?;
        let record = store.peek(&key).ok()??;
        Some((key.tag(), record.payload.len() as u64))
    }
}

fn stored(stats: &str) -> Option<u64> {
    stats.lines().find_map(|line| line.strip_prefix("STAT bytes "))?.trim().parse().ok()
}

impl PageView {
    fn read(line: &str) -> Option<PageView> {
        let numbers: Vec<u64> =
            line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let [load_ns, rebuilt, rebuild_ns, saved, save_ns] = numbers.try_into().ok()?;
        Some(PageView { load_ns, rebuilt: rebuilt == 1, rebuild_ns, saved: saved == 1, save_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_of_its_entries_is_read_and_nothing_is_guessed() {
        assert_eq!(stored("STAT bytes_read 9\r\nSTAT bytes 2097\r\nEND\r\n"), Some(2_097));
        assert_eq!(stored("STAT bytes_read 9\r\nEND\r\n"), None);
    }

    #[test]
    fn the_account_of_a_view_is_read_and_a_torn_line_is_none() {
        let view =
            PageView { load_ns: 120, rebuilt: true, rebuild_ns: 9_000, saved: false, save_ns: 77 };
        assert_eq!(PageView::read("120 1 9000 0 77"), Some(view));
        assert_eq!(PageView::read("120 1 9000 0"), None);
        assert_eq!(PageView::read("120 1 9000 0 x"), None);
    }
}
