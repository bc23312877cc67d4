//! The feature table: what each store declares, in words.
//!
//! It owns the wording and the order of the rows, once, for the README, the command and reports, and which of them the
//! conformance suite tries. It decides nothing else: every cell is derived from a registry entry.

use sessile_core::{Capabilities, Expiry, Locking, Ownership, Waiting};

use crate::registry::StoreEntry;

/// How we know that the answers of a row are true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The conformance suite fails a store that does less than its answer says.
    Tested,
    /// Nothing tries it: it follows from what the store is built on, and its manual says so.
    Documented,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The question that it answers.
    pub name: &'static str,
    /// Whether somebody tries the answers.
    pub known: Known,
    /// The answer of one store.
    of: fn(&StoreEntry) -> String,
}

impl Feature {
    const fn tested(name: &'static str, of: fn(&StoreEntry) -> String) -> Feature {
        Feature { name, known: Known::Tested, of }
    }

    const fn documented(name: &'static str, of: fn(&StoreEntry) -> String) -> Feature {
        Feature { name, known: Known::Documented, of }
    }

    /// The answer of a store. One that is made of others answers as they do.
    pub fn cell(&self, entry: &StoreEntry) -> String {
        let own = self.name == URL || self.name == HTTPS || !entry.decorates;
        if own { (self.of)(entry) } else { "as its stores".to_owned() }
    }

    /// The name, with the mark that [`LEGEND`] explains where nothing tries the answers.
    pub fn title(&self) -> String {
        match self.known {
            Known::Tested => self.name.to_owned(),
            Known::Documented => format!("{} *", self.name),
        }
    }
}

/// What the marks of the table mean.
pub const LEGEND: &str = "Rows with * are documented, the others tested: the conformance suite fails a store that does \
                          less (a restart: strongest tier).";

const URL: &str = "URL";
const HTTPS: &str = "works behind HTTPS";

/// All rows, in display order.
pub const FEATURES: &[Feature] = &[
    Feature::documented(URL, schemes),
    // In the strongest tier of a server; what the weaker ones keep is measured by `sessile bench faults`.
    Feature::tested("survives a restart", |entry| restart(&entry.capabilities)),
    Feature::tested("shared by the processes of a host", |entry| yes(entry.capabilities.shared_by_processes)),
    // The suite has one host.
    Feature::documented("shared by several hosts", |entry| yes(entry.capabilities.shared_by_hosts)),
    // Of the declared server alone a private one is started.
    Feature::tested("needs a server", |entry| entry.capabilities.server.unwrap_or("no").to_owned()),
    Feature::tested("locks sessions", |entry| locking(&entry.capabilities).to_owned()),
    // That a waiter begins soon is tested; not, why.
    Feature::documented("a waiting request", |entry| waiting(&entry.capabilities).to_owned()),
    Feature::tested("lock of a killed worker", |entry| ownership(&entry.capabilities).to_owned()),
    Feature::tested("late writes are refused", |entry| yes(entry.capabilities.compare_and_set)),
    // Sweeps are tested, and that the others need none; not, what each change removes.
    Feature::documented("expired sessions are removed", |entry| expiry(&entry.capabilities).to_owned()),
    // That the limit in force is kept is tested, but it is lower than this.
    Feature::documented("largest session", |entry| size(entry.capabilities.value_bytes_max)),
    Feature::documented("sessions are bounded by", |entry| entry.capabilities.sessions_bounded_by.words()),
    Feature::tested("can list sessions", |entry| yes(entry.capabilities.listing)),
    // Processes and servers are killed; nobody cuts the power.
    Feature::documented("durability tiers", durability),
    // The same for all, and asked so often that it belongs into the table.
    Feature::documented(HTTPS, |_| "yes (the cookie's business)".to_owned()),
];

/// The table in Markdown: a column for each store, a row for each feature.
pub fn markdown(stores: &[StoreEntry]) -> String {
    let header = stores.iter().map(|entry| format!("`{}`", entry.name));
    let mut text = row("", header);
    text.push_str(&row("---", stores.iter().map(|_| "---".to_owned())));
    for feature in FEATURES {
        text.push_str(&row(&feature.title(), stores.iter().map(|entry| feature.cell(entry))));
    }
    text
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let mut line = format!("| {name} |");
    for cell in cells {
        // A bar would end the cell.
        line.push_str(&format!(" {} |", cell.replace('|', "\\|")));
    }
    line.push('\n');
    line
}

fn yes(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

/// From its weakest tier on, or from another one.
fn restart(capabilities: &Capabilities) -> String {
    let weakest = capabilities.durability.iter().min();
    match capabilities.persistent_from {
        Some(from) if weakest.is_some_and(|weakest| from > *weakest) => format!("from tier `{}` on", from.name()),
        from => yes(from.is_some()),
    }
}

fn schemes(entry: &StoreEntry) -> String {
    let schemes: Vec<String> = entry.schemes.iter().map(|scheme| format!("`{scheme}:`")).collect();
    schemes.join(" ")
}

fn locking(capabilities: &Capabilities) -> &'static str {
    match capabilities.locking {
        Locking::Native => "yes",
        Locking::Emulated => "yes, beside the store",
        Locking::None => "no",
    }
}

fn waiting(capabilities: &Capabilities) -> &'static str {
    match capabilities.waiting {
        Waiting::Event => "is woken",
        Waiting::Retry => "tries again after 0.2 to 5 ms",
        Waiting::None => "does not exist",
    }
}

fn ownership(capabilities: &Capabilities) -> &'static str {
    match (capabilities.locking, capabilities.ownership) {
        (Locking::None, _) => "does not exist",
        (_, Ownership::Process) => "is free at once",
        (_, Ownership::Time) => "is free after `lock_ttl`",
    }
}

fn expiry(capabilities: &Capabilities) -> &'static str {
    match capabilities.expiry {
        Expiry::Native => "by the store",
        Expiry::Changes => "by each change",
        Expiry::Sweep => "by a sweep",
    }
}

/// A size in the largest unit that divides it, binary or decimal, because limits are set in such units; any
/// other size in binary units, rounded down, so that what the table says does fit.
fn size(bytes: u64) -> String {
    const BINARY: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    const DECIMAL: [(&str, u64); 3] = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    let mut units = BINARY.iter().chain(&DECIMAL);
    if let Some((name, unit)) = units.find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
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
    use sessile_core::Durability;

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
        let marked = |name: &str| table.lines().any(|line| line.starts_with(&format!("| {name} * |")));
        for name in ["shared by several hosts", "largest session", "sessions are bounded by", HTTPS] {
            assert!(marked(name), "{name}: {table}");
        }
        assert!(!marked("locks sessions") && !marked("can list sessions"), "{table}");
        assert!(LEGEND.contains("with * are documented"));
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
            restart(&Capabilities { persistent_from, durability, ..entry.capabilities })
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
