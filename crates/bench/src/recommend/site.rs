//! What is asked of the person whose sessions they are, and the kinds of sites that the table shows.

use serde::Serialize;
use sessile_core::Durability;

/// A site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Site {
    /// Hosts that run the application.
    pub web_servers: u32,
    /// Whether a visitor always gets to the same one of them.
    pub affinity: bool,
    /// Sessions that live at the same time, if everybody gets one.
    pub sessions: u64,
    /// Requests a second with a session, at the busiest time.
    pub requests_per_second: f64,
    /// Percent of visitors for whom nothing has to be remembered.
    pub anonymous_percent: f64,
    /// Percent of sessions that are one request of a robot.
    pub bots_percent: f64,
    /// Whether a restart of a host or of a server may log everybody out.
    pub restart_may_log_out: bool,
    /// Mean size of a session in bytes.
    pub payload_bytes: u64,
    /// What must survive a power cut.
    #[serde(serialize_with = "by_name")]
    pub durability: Durability,
    /// Servers that are there: the names that capabilities use.
    pub installed: Vec<String>,
}

fn by_name<S: serde::Serializer>(durability: &Durability, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(durability.name())
}

/// A kind of site, as the table shows it.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What is meant, in one sentence.
    pub sentence: &'static str,
    /// Its figures.
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
            payload_bytes: crate::workload::PAYLOAD_BYTES as u64,
            durability: Durability::None,
            installed: Vec::new(),
        }
    }
}

impl Site {
    /// Whether requests of one visitor may come to different hosts.
    pub(super) fn is_spread(&self) -> bool {
        self.web_servers > 1 && !self.affinity
    }

    /// Sessions that remain if none is started before there is something to keep.
    pub fn sessions_of_others(&self) -> u64 {
        (self.sessions as f64 * (1.0 - self.anonymous_percent / 100.0)).ceil() as u64
    }
}

/// The kinds of sites of the table. Their figures are examples, printed with the table.
pub fn kinds(installed: &[String], durability: Durability) -> Vec<Kind> {
    let base = Site { installed: installed.to_vec(), durability, ..Site::default() };
    vec![
        Kind {
            name: "small shop",
            sentence: "one web server, few visitors at a time; a restart must not empty carts",
            site: Site { sessions: 5_000, requests_per_second: 20.0, ..base.clone() },
        },
        Kind {
            name: "large shop",
            sentence: "one large web server, half a million sessions; a restart must not empty carts",
            site: Site { sessions: 550_000, requests_per_second: 1_000.0, ..base.clone() },
        },
        Kind {
            name: "CMS, anonymous visitors",
            sentence: "nine of ten visitors are never logged in; editors may have to log in again after a restart",
            site: Site {
                sessions: 50_000,
                requests_per_second: 200.0,
                anonymous_percent: 90.0,
                restart_may_log_out: true,
                ..base.clone()
            },
        },
        Kind {
            name: "many bots",
            sentence: "most sessions are one request of a robot that never comes back",
            site: Site {
                sessions: 200_000,
                requests_per_second: 300.0,
                bots_percent: 60.0,
                restart_may_log_out: true,
                ..base.clone()
            },
        },
        Kind {
            name: "several web servers",
            sentence: "four web servers, and any of them may get the next request",
            site: Site { web_servers: 4, sessions: 100_000, requests_per_second: 500.0, ..base },
        },
    ]
}
