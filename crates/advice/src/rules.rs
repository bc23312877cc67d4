//! All rules, in one table. Limits come from measured rows, else from `thresholds`.
//!
//! A rule says why it fires for a site and a candidate, or nothing. Candidates that are fast enough
//! and lose nothing that the site must keep remain; then objections count, an installation among
//! them; then speed. Advantages are told; they decide only where no speed was measured.

use serde::Serialize;
use sessile_core::{Durability, Expiry, Limits, SessionsBound, Waiting};
use sessile_results::reference::AfterDeath;
use sessile_results::server_limits::default_memory_mib;

use crate::candidate::{Candidate, StorageMedium};
use crate::measured::{Restarts, SlowSweep};
use crate::paced::MissedRate;
use crate::practices::{PRACTICES, Practice};
use crate::site::Site;
use crate::size;
use crate::thresholds::{BOTS_MANY, FELT, LOAD_MAX, MEMORY_PART, MEMORY_UNKNOWN, SESSIONS_ALIKE};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    /// The site cannot use it.
    Excludes,
    /// It comes after all without an objection.
    Against,
    /// It comes before others of which no speed was measured, either.
    For,
    /// Worth knowing.
    Note,
}

impl RuleEffect {
    pub const fn name(self) -> &'static str {
        match self {
            RuleEffect::Excludes => "excluded",
            RuleEffect::Against => "against",
            RuleEffect::For => "for",
            RuleEffect::Note => "note",
        }
    }
}

#[derive(Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    pub effect: RuleEffect,
    /// Returns the reason if it fires.
    pub fires: fn(&Site, &Candidate) -> Option<String>,
}

pub const RULES: &[Rule] = &[
    rule("one-process", RuleEffect::Excludes, |_, it| {
        let why = "each worker process would have sessions of its own";
        (!it.capabilities.shared_by_processes).then(|| why.to_owned())
    }),
    rule("not-shared-by-hosts", RuleEffect::Excludes, |site, it| {
        let why = format!(
            "a visitor's requests come to {} web servers, and it serves one host",
            site.web_servers
        );
        (!it.serves_all_hosts(site)).then_some(why)
    }),
    rule("lost-at-restart", RuleEffect::Excludes, |site, it| {
        let (tier, from) = (it.tier.unwrap_or(site.durability), it.capabilities.persistent_from);
        let why = "a restart of what keeps it logs everybody out";
        (!site.restart_may_log_out && from.is_none_or(|from| from > tier)).then(|| why.to_owned())
    }),
    rule("lost-at-reboot", RuleEffect::Excludes, |site, it| {
        let why = "it lies in shared memory, which a restart of the host empties";
        (!site.restart_may_log_out && it.medium == StorageMedium::SharedMemory)
            .then(|| why.to_owned())
    }),
    rule("lost-at-power-cut", RuleEffect::Excludes, |_, it| {
        let seen = it.measured.restarts.map_or(String::new(), |it| {
            let (kills, lost) = (it.kills, whole((it.updates_lost + it.sessions_lost) as f64));
            format!(" (faults: killed {kills} times, it had lost {lost} updates and sessions)")
        });
        let why = "it never syncs: a power cut costs it what was written last; no restart does";
        (it.tier.is_none() && survives_restarts(it)).then(|| format!("{why}{seen}"))
    }),
    rule("promises-too-little", RuleEffect::Excludes, |site, it| {
        let why = format!("it does not offer the durability tier {}", site.durability.name());
        (it.tier.is_none() && !survives_restarts(it)).then_some(why)
    }),
    rule("session-too-large", RuleEffect::Excludes, size::too_large),
    rule("measured-faults", RuleEffect::Excludes, |_, it| it.measured.fault.clone()),
    rule("too-slow", RuleEffect::Excludes, too_slow),
    rule("creates-too-slowly", RuleEffect::Excludes, |site, it| {
        let most = it.measured.creates?;
        let wanted = site.requests_per_second * site.new_sessions_part();
        (wanted > LOAD_MAX.part() * most).then(|| {
            format!(
                "{} new sessions a second are wanted, which are {:.0} % of the {} that were \
                 created at most",
                whole(wanted),
                wanted / most * 100.0,
                whole(most)
            )
        })
    }),
    rule("falls-behind", RuleEffect::Excludes, |site, it| {
        let MissedRate { due, done } = it.measured.fell_behind?;
        let (due_shown, done_shown, wanted) = (whole(due), whole(done), site.cycles_per_second());
        let why = || {
            format!(
                "of {due_shown} requests a second at a fixed rate {done_shown} were done, {wanted} \
                 are wanted"
            )
        };
        (due <= wanted).then(why)
    }),
    rule("sweeps-are-felt", RuleEffect::Note, |_, it| {
        let SlowSweep { p90_us, sessions } = it.measured.sweep.filter(is_felt)?;
        let (ms, sessions) = (p90_us / 1_000.0, whole(sessions as f64));
        Some(format!(
            "with {sessions} sessions requests that sweep were a second mode: a tenth of them took \
             more than {ms:.0} ms; swept from cron, no request waits"
        ))
    }),
    rule("takes-no-lock", RuleEffect::Against, |site, it| {
        let why = "parallel requests of a visitor overwrite each other's changes";
        (is_unlocked(it) && !lives_without_lock(site, it)).then(|| why.to_owned())
    }),
    rule("host-is-lost", RuleEffect::Against, |site, it| {
        let why = "a web server that fails takes its visitors' sessions along";
        (site.web_servers > 1 && site.affinity && !it.capabilities.shared_by_hosts)
            .then(|| why.to_owned())
    }),
    rule("server-to-install", RuleEffect::Against, |site, it| {
        let server = it.capabilities.server?;
        let why =
            format!("{server} is not installed: one more program to run, to watch and to secure");
        (!is_installed(site, server)).then_some(why)
    }),
    rule("handler-to-install", RuleEffect::Against, |_, it| {
        let why = "the application has no handler for it: one to install and to keep up to date";
        (!it.in_use).then(|| why.to_owned())
    }),
    rule("reads-php-files", RuleEffect::Against, |_, it| {
        let why = "it is for files that PHP's own handler shares, and has fewer guarantees";
        (it.variant == "php").then(|| why.to_owned())
    }),
    rule("much-memory", RuleEffect::Against, |site, it| {
        let (bytes, _) = it.space(site.sessions, site.payload_bytes);
        let in_memory = matches!(it.medium, StorageMedium::Memory | StorageMedium::SharedMemory);
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let part = MEMORY_PART.value;
        let large = it
            .measured
            .memory_bytes
            .map_or(MEMORY_UNKNOWN.value << 30, |memory| memory / 100 * part);
        let of = it.measured.memory_bytes.map_or(String::new(), |memory| {
            format!(
                ", more than {part} % of the {:.1} GiB of the machine that was measured",
                gib(memory)
            )
        });
        (in_memory && bytes > large)
            .then(|| format!("the sessions take {:.1} GiB of memory{of}", gib(bytes)))
    }),
    rule("in-use", RuleEffect::For, |site, it| {
        let why = match it.capabilities.server {
            Some(server) if !is_installed(site, server) => return None,
            Some(server) => format!("the application has a handler for it, and {server} is there"),
            None => "the application has a handler for it, and it needs no server".to_owned(),
        };
        it.in_use.then_some(why)
    }),
    rule("no-server", RuleEffect::For, |site, it| {
        let why = "no server besides the application";
        (it.capabilities.server.is_none() && !site.needs_shared_store()).then(|| why.to_owned())
    }),
    rule("woken", RuleEffect::For, |_, it| {
        let why = "a waiting request is woken when the lock is free";
        (it.capabilities.waiting == Waiting::Event).then(|| why.to_owned())
    }),
    rule("lock-ends-with-process", RuleEffect::For, |_, it| {
        let why = "the lock of a killed worker is free at once";
        (it.after_death == AfterDeath::Freed).then(|| why.to_owned())
    }),
    rule("in-memory", RuleEffect::For, |_, it| {
        let why = "no disk is in the way";
        // In a stronger tier a server in memory writes a log.
        let writes_nothing = it.tier == Some(Durability::None)
            && matches!(it.medium, StorageMedium::SharedMemory | StorageMedium::Memory);
        writes_nothing.then(|| why.to_owned())
    }),
    rule("stronger-tier", RuleEffect::Note, |site, it| {
        let tier = it.tier.filter(|tier| *tier > site.durability)?.name();
        let of_database = match it.medium {
            StorageMedium::ServerDisk => {
                "the weakest in which a database is run; as installed it \
                                          is in commit"
            }
            _ => "in which it is run",
        };
        Some(format!("judged in tier {tier}, {of_database}"))
    }),
    rule("lost-within-tier", RuleEffect::Note, |site, it| {
        let Restarts { sessions_lost, updates_lost, kills } =
            it.measured.restarts.filter(|it| it.sessions_lost + it.updates_lost > 0)?;
        let (updates, sessions) = (whole(updates_lost as f64), whole(sessions_lost as f64));
        let tier = it.tier?.name();
        let why = format!(
            "killed and started again ({kills} times), it had lost {updates} acknowledged updates \
             and {sessions} sessions that tier {tier} does not promise; what others had given to \
             the kernel by then, a power cut loses as well"
        );
        (!site.restart_may_log_out).then_some(why)
    }),
    rule("comes-without-lock", RuleEffect::Note, |site, it| {
        let why = "no handler of the application takes a lock, and it lives with that: parallel \
                   requests of a visitor overwrite each other's changes";
        (is_unlocked(it) && lives_without_lock(site, it)).then(|| why.to_owned())
    }),
    rule("sweep-needed", RuleEffect::Note, |_, it| {
        let why = if it.is_ours {
            "run `sessile gc URL` from cron"
        } else {
            "remove expired sessions from cron and not within requests"
        };
        (it.capabilities.expiry == Expiry::Sweep).then(|| why.to_owned())
    }),
    rule("sweeps-are-short", RuleEffect::Note, |site, it| {
        // A sweep among few sessions does not say how long one among many takes.
        let is_alike = |sweep: &SlowSweep| {
            sweep.sessions.saturating_mul(SESSIONS_ALIKE.value) >= site.sessions
        };
        let is_short = |sweep: &SlowSweep| !is_felt(sweep) && is_alike(sweep);
        let SlowSweep { p90_us, sessions } = it.measured.sweep.filter(is_short)?;
        let (ms, sessions) = (p90_us / 1_000.0, whole(sessions as f64));
        Some(format!(
            "with {sessions} sessions requests that sweep were a second mode that nobody feels: a \
             tenth of them took more than {ms:.1} ms"
        ))
    }),
    rule("server-limit-to-raise", RuleEffect::Note, size::to_raise),
    rule("pushes-out", RuleEffect::Note, pushes_out),
    rule("payload-limit-to-raise", RuleEffect::Note, |site, it| {
        let (wanted, default) = (site.payload_bytes, Limits::PAYLOAD_BYTES_MAX_DEFAULT);
        let why = || {
            format!(
                "give its URL payload_bytes_max={wanted} or more: without it sessions above \
                 {default} bytes are refused"
            )
        };
        (it.is_ours && default < wanted && wanted <= it.capabilities.value_bytes_max).then(why)
    }),
    rule("bots-short", RuleEffect::Note, |site, _| {
        let why =
            "give a new session a short life until its second request: robots never come back";
        are_bots_many(site).then(|| why.to_owned())
    }),
];

const fn rule(
    name: &'static str,
    effect: RuleEffect,
    fires: fn(&Site, &Candidate) -> Option<String>,
) -> Rule {
    Rule { name, effect, fires }
}

fn is_felt(sweep: &SlowSweep) -> bool {
    sweep.p90_us >= FELT.value as f64 * 1_000.0
}

fn are_bots_many(site: &Site) -> bool {
    site.bots_percent >= BOTS_MANY.value as f64
}

fn is_installed(site: &Site, server: &str) -> bool {
    site.installed.iter().any(|name| name == server)
}

fn is_unlocked(it: &Candidate) -> bool {
    it.after_death == AfterDeath::NoLock && it.capabilities.shared_by_processes
}

/// Whether it is a handler of a product that has none with a lock.
fn lives_without_lock(site: &Site, it: &Candidate) -> bool {
    let takes_lock = |practice: &Practice| practice.after_death() != AfterDeath::NoLock;
    let has_lock = PRACTICES.iter().any(|it| site.comes_with(&it.title()) && takes_lock(it));
    site.comes_with(&it.title()) && !has_lock
}

/// Fast enough is a part of the closed loop, or a rate that it kept up with.
fn too_slow(site: &Site, it: &Candidate) -> Option<String> {
    let wanted = site.cycles_per_second();
    let most = it.measured.cycles?.median;
    let kept_up = it.measured.kept_up;
    if wanted <= (LOAD_MAX.part() * most).max(kept_up.unwrap_or(0.0)) {
        return None;
    }
    let at_rate = kept_up.map_or(String::new(), |kept_up| {
        format!("; the highest fixed rate that it kept up with was {}", whole(kept_up))
    });
    Some(format!(
        "{} locked requests a second are wanted, which are {:.0} % of the {} that were \
         measured{at_rate}",
        whole(wanted),
        wanted / most * 100.0,
        whole(most)
    ))
}

/// A server that evicts has no room for all sessions by default.
fn pushes_out(site: &Site, it: &Candidate) -> Option<String> {
    let SessionsBound::ServerMemory { setting, evicts: true } = it.capabilities.sessions_bounded_by
    else {
        return None;
    };
    let default = default_memory_mib(setting)?;
    let (bytes, _) = it.space(site.sessions, site.payload_bytes);
    let needed = bytes.div_ceil(1 << 20);
    let (needed_shown, default_shown) = (whole(needed as f64), whole(default as f64));
    (needed > default).then(|| {
        format!(
            "raise {setting} to {needed_shown} MiB or more: the sessions take as much, it is \
             {default_shown} MiB by default, and when that is full live sessions are thrown out"
        )
    })
}

/// Whether it keeps sessions over a restart, of the host included, even where it promises nothing.
fn survives_restarts(it: &Candidate) -> bool {
    it.capabilities.persistent_from == Some(Durability::None)
        && it.medium != StorageMedium::SharedMemory
}

pub(crate) fn whole(value: f64) -> String {
    sessile_results::number::count(value)
}
