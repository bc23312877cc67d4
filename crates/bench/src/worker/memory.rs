//! Memory of worker processes, from `/proc`.

use sessile_results::WorkerMemory;
pub(crate) fn measure_memory(pids: impl Iterator<Item = u32>) -> WorkerMemory {
    let mut total = WorkerMemory::default();
    for pid in pids {
        let status = read(pid, "status");
        total.page_tables += field(&status, "VmPTE:");
        total.resident += field(&status, "VmRSS:");
        total.proportional += field(&read(pid, "smaps_rollup"), "Pss:");
    }
    total
}

fn read(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// A figure in kB of a text of `/proc`, in bytes; 0 if it is not there.
pub(crate) fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_page_tables_and_shares_some_of_its_memory() {
        let memory = measure_memory(std::iter::once(std::process::id()));
        assert!(memory.page_tables > 0 && memory.proportional > 0, "{memory:?}");
        assert!(memory.resident >= memory.proportional, "{memory:?}");
    }
}
