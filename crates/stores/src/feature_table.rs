//! The feature table for the README, the command and reports: what each store declares, in words.
//!
//! Every cell is derived from a registry entry.

use sessile_core::{Expiry, Locking, Ownership, Waiting};

use crate::registry::StoreEntry;

/// The evidence for the answers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The conformance suite fails a store that does less than its answer.
    Tested,
    /// Untested: it follows from the storage, and the store's manual says so.
    Documented,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The question.
    pub name: &'static str,
    /// The evidence for the answers.
    pub evidence: Evidence,
    of: fn(&StoreEntry) -> String,
}

impl Feature {
    const fn tested(name: &'static str, of: fn(&StoreEntry) -> String) -> Feature {
        Feature { name, evidence: Evidence::Tested, of }
    }

    const fn documented(name: &'static str, of: fn(&StoreEntry) -> String) -> Feature {
        Feature { name, evidence: Evidence::Documented, of }
    }

    /// The answer of a store. One that is made of others refers to them.
    pub fn cell(&self, entry: &StoreEntry) -> String {
        let own = self.name == URL || self.name == HTTPS || !entry.decorates;
        if own { (self.of)(entry) } else { "as its stores".to_owned() }
    }

    /// The name, with the mark of [`LEGEND`] if untested.
    pub fn title(&self) -> String {
        match self.evidence {
            Evidence::Tested => self.name.to_owned(),
            Evidence::Documented => format!("{} *", self.name),
        }
    }
}

/// The meaning of the table's marks.
pub const LEGEND: &str = "Rows with * are from documentation. The others are tested on each \
                          store (restart: in its strongest tier).";

const URL: &str = "URL";
const HTTPS: &str = "works behind HTTPS (the cookie's business)";

/// All rows, in display order.
pub const FEATURES: &[Feature] = &[
    Feature::documented(URL, schemes),
    // In a server's strongest tier; `sessile bench faults` measures the weaker ones.
    Feature::tested("survives a restart", restart),
    Feature::tested("shared by the processes of a host", |entry| {
        yes(entry.capabilities.shared_by_processes)
    }),
    // The suite has one host.
    Feature::documented("shared by several hosts", |entry| yes(entry.capabilities.shared_by_hosts)),
    // The suite starts a private server only of the declared kind.
    Feature::tested("needs a server", |entry| entry.capabilities.server.unwrap_or("no").to_owned()),
    Feature::tested("locks sessions", locking),
    // The suite tests that a waiter begins soon, not why.
    Feature::documented("a waiting request", waiting),
    Feature::tested("lock of a killed worker", ownership),
    // The suite tests sweeps, and that the other stores need none, but not what each change
    // removes.
    Feature::documented("expired sessions are removed", expiry),
    // The suite tests the limit in force, which is lower.
    Feature::documented("largest session", |entry| size(entry.capabilities.value_bytes_max)),
    Feature::documented("sessions are bounded by", |entry| {
        entry.capabilities.sessions_bounded_by.to_string()
    }),
    Feature::tested("can list sessions", |entry| yes(entry.capabilities.listing)),
    // Processes and servers are killed; the power is never cut.
    Feature::documented("durability tiers", durability),
    // The same for all stores, but a frequent question.
    Feature::documented(HTTPS, |_| "yes".to_owned()),
];

/// The table in Markdown: a column for each store, a row for each feature.
pub fn markdown(stores: &[StoreEntry]) -> String {
    let header = row("", stores.iter().map(|entry| format!("`{}`", entry.name)));
    let rule = row("---", stores.iter().map(|_| "---".to_owned()));
    let row_of =
        |feature: &Feature| row(&feature.title(), stores.iter().map(|entry| feature.cell(entry)));
    header + &rule + &FEATURES.iter().map(row_of).collect::<String>()
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    // A bar would end the cell.
    let cells = cells.map(|cell| format!(" {} |", cell.replace('|', "\\|")));
    format!("| {name} |{}\n", cells.collect::<String>())
}

fn yes(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

fn restart(entry: &StoreEntry) -> String {
    let weakest = entry.capabilities.durability.iter().min();
    match entry.capabilities.persistent_from {
        Some(from) if weakest.is_some_and(|weakest| from > *weakest) => {
            format!("from tier `{}` on", from.name())
        }
        from => yes(from.is_some()),
    }
}

fn schemes(entry: &StoreEntry) -> String {
    let schemes: Vec<String> = entry.schemes.iter().map(|scheme| format!("`{scheme}:`")).collect();
    schemes.join(" ")
}

fn locking(entry: &StoreEntry) -> String {
    match entry.capabilities.locking {
        Locking::Native => "yes",
        Locking::Emulated => "yes, beside the store",
    }
    .to_owned()
}

fn waiting(entry: &StoreEntry) -> String {
    match entry.capabilities.waiting {
        Waiting::Event => "is woken",
        Waiting::Retry => "tries again after 0.2 to 5 ms",
    }
    .to_owned()
}

fn ownership(entry: &StoreEntry) -> String {
    match entry.capabilities.ownership {
        Ownership::Process => "is free at once",
        Ownership::Time => "is free after `lock_ttl`",
    }
    .to_owned()
}

fn expiry(entry: &StoreEntry) -> String {
    match entry.capabilities.expiry {
        Expiry::Native => "by the store",
        Expiry::Changes => "by each change",
        Expiry::Sweep => "by a sweep",
    }
    .to_owned()
}

/// A size in the largest unit that divides it, binary or decimal, as limits are set. Any other size
/// in binary units, rounded down, so that the shown size fits.
fn size(bytes: u64) -> String {
    const BINARY: [(&str, u64); 4] =
        [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    const DECIMAL: [(&str, u64); 3] =
        [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    let mut units = BINARY.iter().chain(&DECIMAL);
    if let Some((name, unit)) =
        units.find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
    {
        return format!("{} {name}", bytes / unit);
    }
    match BINARY.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} bytes"),
    }
}

fn durability(entry: &StoreEntry) -> String {
    let tiers: Vec<&str> = entry.capabilities.durability.iter().map(|tier| tier.name()).collect();
    tiers.join(", ")
}

#[cfg(test)]
mod tests {
    use sessile_core::{Capabilities, Durability};

    use super::*;
    use crate::registry::STORES;

    #[test]
    fn every_row_has_a_cell_for_every_store() {
        let table = markdown(STORES);
        assert_eq!(table.lines().count(), FEATURES.len() + 2);
        for line in table.lines() {
            assert_eq!(line.replace("\\|", "").matches('|').count(), STORES.len() + 2, "{line}");
        }
    }

    /// The page said of each row that the suite holds stores to it, of HTTPS too.
    #[test]
    fn what_nothing_tries_is_marked_and_the_legend_says_what_the_mark_means() {
        let table = markdown(STORES);
        let marked =
            |name: &str| table.lines().any(|line| line.starts_with(&format!("| {name} * |")));
        for name in ["shared by several hosts", "largest session", "sessions are bounded by", HTTPS]
        {
            assert!(marked(name), "{name}: {table}");
        }
        assert!(!marked("locks sessions") && !marked("can list sessions"), "{table}");
        assert!(LEGEND.contains("with * are from documentation"));
    }

    #[test]
    fn a_changed_declaration_changes_the_table() {
        let Some(entry) = STORES.first() else { return };
        let persistent_from = entry.capabilities.persistent_from.xor(Some(Durability::None));
        let turned = Capabilities { persistent_from, ..entry.capabilities };
        let changed = StoreEntry { capabilities: turned, ..*entry };
        assert_ne!(markdown(&[changed]), markdown(&[*entry]));
    }

    /// Redis was said to survive a restart, and in tier `none` it keeps nothing.
    #[test]
    fn a_store_that_survives_a_restart_in_some_tiers_only_says_from_which_on() {
        let Some(entry) = STORES.first() else { return };
        let cell = |persistent_from: Option<Durability>, durability: &'static [Durability]| {
            let capabilities = Capabilities { persistent_from, durability, ..entry.capabilities };
            restart(&StoreEntry { capabilities, ..*entry })
        };
        let all: &'static [Durability] = &[Durability::None, Durability::Second];
        let strong: &'static [Durability] = &[Durability::Second];
        assert_eq!(cell(Some(Durability::Second), all), "from tier `1s` on");
        assert_eq!(cell(Some(Durability::Second), strong), "yes");
        assert_eq!(cell(Some(Durability::None), all), "yes");
        assert_eq!(cell(None, all), "no");
    }

    #[test]
    fn a_store_that_is_made_of_others_declares_nothing_of_its_own() {
        let Some(entry) = STORES.first() else { return };
        let made = StoreEntry { decorates: true, ..*entry };
        let own = FEATURES.iter().filter(|feature| feature.cell(&made) == feature.cell(entry));
        assert_eq!(own.map(|feature| feature.name).collect::<Vec<_>>(), [URL, HTTPS]);
    }

    #[test]
    fn sizes_use_the_unit_that_they_were_set_in() {
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(1 << 40), "1 TiB");
        assert_eq!(size(1_000_000_000), "1 GB");
        assert_eq!(size((512 << 20) - 58), "511.9 MiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
        assert_eq!(size(1_000), "1000 bytes");
    }
}
