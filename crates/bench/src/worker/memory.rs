//! Memory of worker processes, from `/proc`.

use serde::{Deserialize, Serialize};

/// Sums over the workers of a row, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerMemory {
    /// Page tables (`VmPTE`): each worker that maps a store has its own.
    pub page_tables: u64,
    /// Resident memory (`VmRSS`); shared memory counts in each worker.
    pub resident: u64,
    /// Proportional resident memory (`Pss`); shared memory is divided among the workers.
    pub proportional: u64,
    /// Resident memory with prepared ids and an empty store: the part of the harness.
    pub prepared: u64,
}

impl WorkerMemory {
    pub(crate) fn measure(pids: impl Iterator<Item = u32>) -> WorkerMemory {
        let mut total = WorkerMemory::default();
        for pid in pids {
            let status = read(pid, "status");
            total.page_tables += field(&status, "VmPTE:");
            total.resident += field(&status, "VmRSS:");
            total.proportional += field(&read(pid, "smaps_rollup"), "Pss:");
        }
        total
    }
}

fn read(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0)
        * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_page_tables_and_shares_some_of_its_memory() {
        let memory = WorkerMemory::measure(std::iter::once(std::process::id()));
        assert!(memory.page_tables > 0 && memory.proportional > 0, "{memory:?}");
        assert!(memory.resident >= memory.proportional, "{memory:?}");
    }
}
