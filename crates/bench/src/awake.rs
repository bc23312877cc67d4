//! Processors that do not go to sleep while requests are paced.
//!
//! Between two paced requests a machine is idle. A processor that sleeps takes its time to wake up, and a virtual one
//! belongs to others until the hypervisor gives it back: milliseconds, which would be counted as the store's. So each
//! processor has something to do that stops for anything else: a thread of the idle class, which the kernel runs only when
//! nobody else wants to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Where version 2 and version 1 of control groups are mounted, and the file that limits processor time in each.
const CONTROL_GROUPS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "cpu.max"), ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us")];

/// What processors did between requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idleness {
    /// They may have slept: nothing was done about it, or nothing could be.
    #[default]
    MaySleep,
    /// They were kept awake.
    KeptAwake,
}

/// Keeps processors awake until it is dropped.
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// All processors that this process may use. None at all where processor time is limited: what is spent here would be
    /// missing there.
    pub fn keep() -> Awake {
        let mut awake = Awake { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return awake };
        if CONTROL_GROUPS.iter().any(|(root, file)| is_limited(Path::new(root), file)) {
            return awake;
        }
        for processor in (0..CpuSet::count()).filter(|processor| allowed.is_set(*processor).unwrap_or(false)) {
            let stop = awake.stop.clone();
            awake.threads.push(std::thread::spawn(move || stay_awake(processor, &stop)));
        }
        awake
    }

    /// What has become of it.
    pub fn idleness(&self) -> Idleness {
        let all = !self.threads.is_empty() && self.threads.iter().all(|thread| !thread.is_finished());
        if all { Idleness::KeptAwake } else { Idleness::MaySleep }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        // Relaxed: a flag that publishes nothing else.
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it cannot panic
        }
    }
}

/// Ends at once where it would be in the way of others.
fn stay_awake(processor: usize, stop: &AtomicBool) {
    let mut here = CpuSet::new();
    let pinned = here.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &here));
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if pinned.is_err() || set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_err() {
        return;
    }
    let mut number = u64::MAX;
    // No pause instruction: in a virtual machine it gives the processor away. Each division waits for the one before, which
    // leaves nearly all of a core to the other thread that it runs.
    while !stop.load(Ordering::Relaxed) {
        for divisor in 3..64 {
            number = std::hint::black_box(number / divisor) | 1 << 63;
        }
    }
}

/// Whether this process, or a group around it, has less than all of the processors' time.
fn is_limited(root: &Path, file: &str) -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(|path| path.trim_start_matches('/'));
    // In a container the path may be that of the host, which is not there; the mount itself is its group then.
    let places = own.chain([""]).flat_map(|path| root.join(path).ancestors().map(PathBuf::from).collect::<Vec<_>>());
    let limits = places.filter(|place| place.starts_with(root)).map(|place| std::fs::read_to_string(place.join(file)));
    limits.flatten().any(|limit| says_limited(&limit))
}

/// `max 100000` or `-1`: not limited.
fn says_limited(limit: &str) -> bool {
    limit.split_whitespace().next().is_some_and(|quota| quota.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_processor_time_is_found_in_any_group_around() {
        assert!(says_limited("150000 100000\n") && says_limited("50000\n"));
        assert!(!says_limited("max 100000\n") && !says_limited("-1\n") && !says_limited(""));
        let root = tempfile::tempdir().unwrap();
        assert!(!is_limited(root.path(), "cpu.max"));
        std::fs::write(root.path().join("cpu.max"), "max 100000\n").unwrap();
        assert!(!is_limited(root.path(), "cpu.max"));
        std::fs::write(root.path().join("cpu.max"), "200000 100000\n").unwrap();
        assert!(is_limited(root.path(), "cpu.max"));
    }

    #[test]
    fn what_is_kept_awake_is_let_go() {
        let awake = Awake::keep();
        let threads = awake.threads.len();
        assert_eq!(awake.idleness() == Idleness::KeptAwake, threads > 0);
        drop(awake); // would not return otherwise
    }
}
