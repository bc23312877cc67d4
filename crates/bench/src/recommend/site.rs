//! The description of a site, and example kinds of sites.

use serde::Serialize;
use sessile_core::Durability;

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
            anonymous_percent: 0.0,
            bots_percent: 0.0,
            restart_may_log_out: false,
            payload_bytes: crate::defaults::PAYLOAD_BYTES as u64,
            durability: Durability::None,
            installed: Vec::new(),
        }
    }
}

impl Site {
    pub(super) fn needs_shared_store(&self) -> bool {
        self.web_servers > 1 && !self.affinity
    }

    pub fn sessions_with_lazy_start(&self) -> u64 {
        (self.sessions as f64 * (1.0 - self.anonymous_percent / 100.0)).ceil() as u64
    }
}

/// Example sites; their figures are printed with the table.
pub fn site_kinds(installed: &[String], durability: Durability) -> Vec<SiteKind> {
    let base = Site { installed: installed.to_vec(), durability, ..Site::default() };
    vec![
        SiteKind {
            name: "small shop",
            description: "one web server, few visitors at a time; a restart must not empty carts",
            site: Site { sessions: 5_000, requests_per_second: 20.0, ..base.clone() },
        },
        SiteKind {
            name: "large shop",
            description: "one large web server, half a million sessions; a restart must not empty \
                       carts",
            site: Site { sessions: 550_000, requests_per_second: 1_000.0, ..base.clone() },
        },
        SiteKind {
            name: "CMS, anonymous visitors",
            description: "nine of ten visitors are never logged in; editors may have to log in \
                          again after a restart",
            site: Site {
                sessions: 50_000,
                requests_per_second: 200.0,
                anonymous_percent: 90.0,
                restart_may_log_out: true,
                ..base.clone()
            },
        },
        SiteKind {
            name: "many bots",
            description: "most sessions are one request of a robot that never comes back",
            site: Site {
                sessions: 200_000,
                requests_per_second: 300.0,
                bots_percent: 60.0,
                restart_may_log_out: true,
                ..base.clone()
            },
        },
        SiteKind {
            name: "several web servers",
            description: "four web servers, and any of them may get the next request",
            site: Site { web_servers: 4, sessions: 100_000, requests_per_second: 500.0, ..base },
        },
    ]
}
