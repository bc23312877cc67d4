//! The description of a site, and example kinds of sites.

use serde::Serialize;
use sessile_core::Durability;

use crate::practices::Practice;
use crate::thresholds::REQUESTS_OF_A_VISITOR;

/// Random characters in a session, as in the published `ops`.
const PAYLOAD_BYTES: u64 = 1_500;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Site {
    /// Hosts that run the application.
    pub web_servers: u32,
    /// Whether a visitor always reaches the same host.
    pub affinity: bool,
    /// Simultaneous sessions if every visitor gets one.
    pub sessions: u64,
    /// Requests with a session, a second, at the busiest time.
    pub requests_per_second: f64,
    /// Locked requests to the store for each of them.
    pub cycles_per_request: f64,
    /// Percentage of visitors without anything to remember.
    pub anonymous_percent: f64,
    /// Percentage of sessions with one request, by robots.
    pub bots_percent: f64,
    /// Whether a restart may log everybody out.
    pub restart_may_log_out: bool,
    /// Mean session size in bytes.
    pub payload_bytes: u64,
    #[serde(serialize_with = "by_name")]
    pub durability: Durability,
    /// Installed servers, named as in capabilities.
    pub installed: Vec<String>,
    /// Servers that the application can have; stores on others are not named. Empty: any.
    pub servers: Vec<String>,
    /// Session handlers that the application has, by title. Empty: all that no product has for
    /// itself.
    pub handlers: Vec<String>,
}

fn by_name<S: serde::Serializer>(
    durability: &Durability,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(durability.name())
}

#[derive(Clone, Debug)]
pub struct SiteKind {
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    pub site: Site,
}

impl Default for Site {
    fn default() -> Site {
        Site {
            web_servers: 1,
            affinity: false,
            sessions: 10_000,
            requests_per_second: 50.0,
            cycles_per_request: 1.0,
            anonymous_percent: 0.0,
            bots_percent: 0.0,
            restart_may_log_out: false,
            payload_bytes: PAYLOAD_BYTES,
            durability: Durability::None,
            installed: Vec::new(),
            servers: Vec::new(),
            handlers: Vec::new(),
        }
    }
}

/// Those that Shopware and Magento come with.
const SERVERS_OF_SHOPS: [&str; 3] = ["mariadbd", "redis-server", "memcached"];
/// Those that Drupal's core and TYPO3 both have.
const HANDLERS_OF_CMS: [&str; 2] = ["pdo-mysql#nolock", "pdo-postgres#nolock"];
const HANDLERS_OF_MAGENTO: [&str; 4] =
    ["php-files", "php-memcached", "pdo-mysql#nolock", "magento-redis"];

impl Site {
    pub(crate) fn can_have(&self, server: Option<&str>) -> bool {
        let is_known = |server: &str| self.servers.iter().any(|it| it == server);
        self.servers.is_empty() || server.is_none_or(is_known)
    }

    pub(crate) fn has_handler(&self, practice: &Practice) -> bool {
        match self.handlers.as_slice() {
            [] => !practice.of_one_product,
            _ => self.comes_with(&practice.title()),
        }
    }

    /// Whether the product was written for this handler.
    pub(crate) fn comes_with(&self, handler: &str) -> bool {
        self.handlers.iter().any(|it| it == handler)
    }

    /// Locked requests to the store, a second, at the busiest time.
    pub(crate) fn cycles_per_second(&self) -> f64 {
        self.requests_per_second * self.cycles_per_request
    }

    /// The part of the requests that each begin a session, if robots' sessions have one request and
    /// all others [`REQUESTS_OF_A_VISITOR`].
    pub(crate) fn new_sessions_part(&self) -> f64 {
        let robots = self.bots_percent / 100.0;
        1.0 / (robots + (1.0 - robots) * REQUESTS_OF_A_VISITOR.value as f64)
    }

    pub(crate) fn needs_shared_store(&self) -> bool {
        self.web_servers > 1 && !self.affinity
    }

    /// At least the tier that the site needs: no verdict from rows that nobody would run it by.
    pub(crate) fn in_its_tier(&self) -> Site {
        let needed = if self.restart_may_log_out { Durability::None } else { Durability::Second };
        Site { durability: self.durability.max(needed), ..self.clone() }
    }

    pub fn sessions_with_lazy_start(&self) -> u64 {
        (self.sessions as f64 * (100.0 - self.anonymous_percent) / 100.0).ceil() as u64
    }
}

/// Example sites; their figures are printed with the table.
pub fn site_kinds(installed: &[String], durability: Durability) -> Vec<SiteKind> {
    let base = Site { installed: installed.to_vec(), durability, ..Site::default() };
    let may_lose = Site { restart_may_log_out: true, ..base.clone() };
    let shop = Site { servers: SERVERS_OF_SHOPS.map(str::to_owned).to_vec(), ..base };
    let cms = Site { handlers: HANDLERS_OF_CMS.map(str::to_owned).to_vec(), ..may_lose.clone() };
    let magento =
        Site { handlers: HANDLERS_OF_MAGENTO.map(str::to_owned).to_vec(), ..shop.clone() };
    let kind = |name, description, site| SiteKind { name, description, site };
    let busy = |base: &Site, sessions, requests_per_second, cycles_per_request| Site {
        sessions,
        requests_per_second,
        cycles_per_request,
        ..base.clone()
    };
    vec![
        kind(
            "blog",
            "one web server, a few authors, who may have to log in again after a restart",
            Site { anonymous_percent: 95.0, ..busy(&may_lose, 500, 5.0, 1.0) },
        ),
        kind(
            "Drupal or TYPO3",
            "nine of ten visitors have no session; editors may have to log in again after a \
             restart",
            busy(&cms, 5_000, 10.0, 1.0),
        ),
        kind(
            "Shopware",
            "one web server; a page asks for parts of itself; neither a restart nor a power cut \
             may empty carts",
            busy(&shop, 20_000, 50.0, 2.0),
        ),
        kind(
            "Magento on one host",
            "a page asks for the parts of its visitor; neither a restart nor a power cut may empty \
             carts",
            busy(&magento, 100_000, 100.0, 3.0),
        ),
        kind(
            "Magento on three hosts",
            "the same, and any of three web servers may get the next request",
            Site { web_servers: 3, ..busy(&magento, 300_000, 300.0, 3.0) },
        ),
        kind(
            "API",
            "many short requests of programs that log in again by themselves",
            busy(&may_lose, 200_000, 1_000.0, 1.0),
        ),
        kind(
            "many bots",
            "most sessions are one request of a robot that never comes back",
            Site { bots_percent: 60.0, ..busy(&may_lose, 200_000, 300.0, 1.0) },
        ),
    ]
}
