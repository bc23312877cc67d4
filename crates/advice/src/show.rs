//! The recommendation as text: a ranking with its rules, and the table of site kinds.

use std::fmt;

use crate::shown_url::placeholders;
use crate::{
    FiredRule, RankedStore, Recommendation, RuleEffect, Site, SiteKind, SpaceBasis, StorageMedium,
    answers, shared_notes,
};
use sessile_results::Report;
use sessile_results::number::{count, figure};
use sessile_results::table::{ResultTable, right, right_or_empty, text};
use sessile_stores::StoreEntry;

const MIB: f64 = (1 << 20) as f64;

impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.site)?;
        if let Some(question) = &self.question {
            let (workers, sessions, payload) =
                (question.workers, question.sessions, question.payload_bytes);
            let (experiment, tier) = (&question.experiment, &question.durability);
            let sizes = match question.payload_spread.as_str() {
                "fixed" => String::new(),
                spread => format!(" ({spread})"),
            };
            let way = match question.round_trip_us {
                0.0 => String::new(),
                us => format!(", servers {} us away", figure(us)),
            };
            writeln!(
                f,
                "by the measured rows of {experiment}: {workers} workers, {} sessions of {payload} \
                 bytes{sizes}, tier {tier}{way}",
                count(sessions as f64)
            )?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        let (usable, excluded): (Vec<&RankedStore>, Vec<&RankedStore>) =
            self.ranking.iter().partition(|it| !it.excluded);
        match self.best() {
            Some(best) => {
                let ties = self.recommended.as_deref().unwrap_or_default();
                writeln!(f, "\nRecommended: {ties}, {}", best.url)?;
                for place in placeholders(best) {
                    writeln!(f, "  {place}")?;
                }
                writeln!(f)?;
            }
            None if usable.is_empty() => {
                writeln!(f, "\nNothing can be recommended: every store is excluded\n")?;
            }
            None => writeln!(f, "\nNothing is recommended: the results do not answer this\n")?,
        }
        if !usable.is_empty() {
            writeln!(f, "{}\n", ranking(&usable))?;
        }
        for ranked in &usable {
            let rules = ranked
                .rules
                .iter()
                .map(|fired| format!("  {} {}", sign(fired.effect), rule_text(fired)));
            let rules: Vec<String> = rules.collect();
            writeln!(f, "{}\n{}", ranked.title(), rules.join("\n"))?;
        }
        for ranked in excluded {
            let why: Vec<String> = ranked.fired(RuleEffect::Excludes).map(rule_text).collect();
            writeln!(f, "excluded: {}: {}", ranked.title(), why.join("; "))?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = match (self.web_servers, self.affinity) {
            (1, _) => "1 web server".to_owned(),
            (count, true) => format!("{count} web servers with affinity"),
            (count, false) => format!("{count} web servers"),
        };
        let (sessions, payload) = (count(self.sessions as f64), self.payload_bytes);
        let (rate, tier) = (self.requests_per_second, self.durability.name());
        write!(f, "{servers}, {sessions} sessions of {payload} bytes, {rate} requests/s, ")?;
        if self.cycles_per_request != 1.0 {
            write!(f, "{} locked requests to the store for each, ", self.cycles_per_request)?;
        }
        write!(f, "{} % anonymous, {} % bots, ", self.anonymous_percent, self.bots_percent)?;
        let may = if self.restart_may_log_out { "may" } else { "must not" };
        let installed =
            if self.installed.is_empty() { "none".to_owned() } else { self.installed.join(", ") };
        write!(f, "a restart {may} log out, tier {tier}; servers installed: {installed}")?;
        if self.handlers.is_empty() {
            return Ok(());
        }
        write!(f, "; its handlers: {}", self.handlers.join(", "))
    }
}

fn ranking(usable: &[&RankedStore]) -> ResultTable {
    let columns = ["", "store", "tier", "requests/s", "p99 us", "space", "where", "space is"];
    let is_measured = usable.iter().any(|it| it.ops_per_second.is_some());
    let mut table = ResultTable::new("", columns);
    for (place, ranked) in usable.iter().enumerate() {
        let figure_of = |shown: Option<String>| match shown {
            None if is_measured => right("?"),
            shown => right_or_empty(shown),
        };
        table.row([
            right(place + 1),
            text(ranked.title()),
            text(ranked.tier.unwrap_or_default()),
            figure_of(ranked.ops_per_second.map(count)),
            figure_of(ranked.p99()),
            right(format!("{} MiB", figure(ranked.bytes as f64 / MIB))),
            text(place_of(ranked)),
            text(match ranked.bytes_are {
                SpaceBasis::Measured => "measured",
                SpaceBasis::Derived => "derived",
                SpaceBasis::Formula => "a formula",
            }),
        ]);
    }
    table.without_empty_columns()
}

fn place_of(ranked: &RankedStore) -> &'static str {
    match (ranked.bytes_in, ranked.medium) {
        (StorageMedium::Memory, StorageMedium::ServerDisk) => "the server's memory",
        (StorageMedium::Memory, _) => "memory",
        (StorageMedium::SharedMemory, _) => "shared memory",
        (StorageMedium::Disk, _) => "disk",
        (StorageMedium::ServerDisk, _) => "the server's disk",
    }
}

fn sign(effect: RuleEffect) -> char {
    match effect {
        RuleEffect::Excludes => 'x',
        RuleEffect::Against => '-',
        RuleEffect::For => '+',
        RuleEffect::Note => ' ',
    }
}

fn rule_text(fired: &FiredRule) -> String {
    format!("{}: {}", fired.rule, fired.why)
}

/// The table of site kinds: the best stores. Below it each site, and which rules excluded stores.
pub fn table(site_kinds: &[SiteKind], results: &[Report], known: &'static [StoreEntry]) -> String {
    let answers = answers(site_kinds, results, known);
    let mut table = ResultTable::new("", ["kind of site", "recommended", "then"]);
    let mut words = String::new();
    for (kind, answer) in &answers {
        table.row([
            text(kind.name),
            text(answer.recommended.as_deref().unwrap_or("-")),
            text(answer.next().as_deref().unwrap_or("-")),
        ]);
        words.push_str(&format!("\n{}: {}\n  {}\n", kind.name, kind.description, answer.site));
        for (rule, stores) in answer.excluded() {
            words.push_str(&format!("  excluded by {rule}: {stores}\n"));
        }
    }
    words.push('\n');
    for (note, of) in shared_notes(&answers) {
        let (sign, note) = note.split_once(": ").unwrap_or_default();
        let of = if of.is_empty() { String::new() } else { format!("{}: ", of.join(", ")) };
        words.push_str(&format!("{sign}: {of}{note}\n"));
    }
    format!("{table}{words}")
}
